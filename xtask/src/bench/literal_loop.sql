-- The literal reading of the specification, as a job of pg_cron would run it: the oldest leaves that are due, a
-- batch at a time, each in a transaction of its own, until nothing is deleted any more.
CREATE PROCEDURE bench_literal_loop(batch_rows integer) LANGUAGE plpgsql AS $$
DECLARE
  cutoff timestamptz := now() - interval '90 days';
  gone bigint;
BEGIN
  LOOP
    DELETE FROM identity.refresh_sessions WHERE id IN (
      SELECT id FROM identity.refresh_sessions AS session
      WHERE status IN ('Rotated', 'Revoked', 'Expired') AND updated_at < cutoff
        AND NOT EXISTS (SELECT FROM identity.refresh_sessions AS child WHERE child.parent_session_id = session.id)
      ORDER BY updated_at LIMIT batch_rows
    );
    GET DIAGNOSTICS gone = ROW_COUNT;
    EXIT WHEN gone = 0;
    COMMIT;
  END LOOP;
END $$;
