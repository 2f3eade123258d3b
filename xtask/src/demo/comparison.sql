-- Every row from before and every row there is now, side by side. `altered` are rows that stayed and differ in some
-- column, and rows that were not there before.
SELECT table_name,
  count(before.id) AS before,
  count(goes.id) AS goes,
  count(due.id) - count(goes.id) AS blocked,
  count(*) FILTER (WHERE present.id IS NULL) AS gone,
  count(*) FILTER (WHERE present.id IS NULL AND goes.id IS NULL) AS wrongly_gone,
  count(*) FILTER (WHERE present.id IS NOT NULL AND goes.id IS NOT NULL) AS left_over,
  count(*) FILTER (WHERE present.id IS NOT NULL AND present.contents IS DISTINCT FROM before.contents) AS altered
FROM demo.before
FULL JOIN demo.present USING (table_name, id)
LEFT JOIN demo.due USING (table_name, id)
LEFT JOIN demo.goes USING (table_name, id)
GROUP BY table_name
ORDER BY table_name DESC
