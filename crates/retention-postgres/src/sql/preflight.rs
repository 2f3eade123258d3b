//! What the preflight asks the catalogue. Reads only, and takes no lock but the one every reader of a table takes.

use retention_domain::guard::Value;
use retention_domain::plan::Target;
use retention_domain::{RetentionPolicy, TableName};
use sea_orm::Statement;

use super::Sql;
use super::predicate::{Guard, Names, Place};

/// Whether this server can be written to: `in_recovery`, `read_only` (boolean).
#[must_use]
pub fn preflight_server() -> Statement {
    Sql::default().finish(
        "SELECT pg_catalog.pg_is_in_recovery() AS in_recovery,\n\
         \x20 pg_catalog.current_setting('default_transaction_read_only')::boolean AS read_only"
            .to_owned(),
    )
}

/// The policy's table and what our role may do with it: one row, or none when there is no such relation.
///
/// Texts: `kind` (`relkind`), `persistence`, `role`, and lists that are NULL when empty: `delete_rules`,
/// `publications`, `invalid_age_indexes`, `invalid_parent_indexes`. Booleans: `inherited`, `may_use_schema`,
/// `may_select`, `may_delete`, `may_update`, `row_security` (it applies to us), `rows_permitted` (a permissive
/// policy speaks of us for reading, locking and deleting), `identified`, `parent_indexed`, `conditions_are_text`.
#[must_use]
pub fn preflight_table(policy: &RetentionPolicy) -> Statement {
    let mut sql = Sql::default();
    let this = this(&mut sql, &policy.table);
    let age = sql.bind(policy.age_column.clone());
    let keys: Vec<_> = policy.key.iter().map(|key| sql.bind(key.clone())).collect();
    let parent = sql.bind(policy.parent_column.clone());
    let conditions: Vec<_> = policy.conditions.iter().map(|of| sql.bind(of.column.clone())).collect();
    let needed = [&age].into_iter().chain(&keys).chain([&parent]).chain(&conditions).map(String::as_str);
    let needed = needed.collect::<Vec<_>>().join(", ");
    // What is compared with nothing, or with numbers, needs no text.
    let compared = policy.conditions.iter().zip(&conditions);
    let compared =
        compared.filter(|(of, _)| of.test.values().iter().any(|value| matches!(value, Value::Text(_))));
    let compared: Vec<_> = compared.map(|(_, column)| column.as_str()).collect();
    let conditions_are_text = if compared.is_empty() {
        "TRUE".to_owned()
    } else {
        format!(
            "NOT EXISTS (
    SELECT FROM pg_catalog.pg_attribute AS tested JOIN pg_catalog.pg_type AS type ON type.oid = tested.atttypid
    WHERE tested.attrelid = class.oid AND tested.attname IN ({}) AND type.typcategory <> 'S')",
            compared.join(", ")
        )
    };
    let invalid = |column: &str| {
        format!(
            "(
    SELECT string_agg(format('%I.%I', namespace.nspname, name.relname), ', ' ORDER BY name.relname)
    FROM pg_catalog.pg_index AS broken
    JOIN pg_catalog.pg_class AS name ON name.oid = broken.indexrelid
    JOIN pg_catalog.pg_attribute AS lead ON lead.attrelid = broken.indrelid AND lead.attnum = broken.indkey[0]
    WHERE broken.indrelid = class.oid AND lead.attname = {column} AND NOT broken.indisvalid)"
        )
    };
    let (invalid_age, invalid_parent) = (invalid(&age), invalid(&parent));
    let parent_indexed = indexed("class.oid", &format!("lead.attname = {parent}"));
    sql.finish(format!(
        "SELECT class.relkind::text AS kind, class.relpersistence::text AS persistence, current_user::text AS role,
  EXISTS (SELECT FROM pg_catalog.pg_inherits AS heir WHERE heir.inhparent = class.oid) AS inherited,
  has_schema_privilege(namespace.oid, 'USAGE') AS may_use_schema,
  (SELECT coalesce(bool_and(has_column_privilege(class.oid, needed.attnum, 'SELECT')), FALSE)
    FROM pg_catalog.pg_attribute AS needed
    WHERE needed.attrelid = class.oid AND needed.attname IN ('ctid', {needed})) AS may_select,
  has_table_privilege(class.oid, 'DELETE') AS may_delete,
  has_any_column_privilege(class.oid, 'UPDATE') AS may_update,
  row_security_active(class.oid) AS row_security,
  (SELECT count(DISTINCT command.letter)
    FROM pg_catalog.pg_policy AS policy, unnest(ARRAY['r', 'w', 'd']) AS command (letter)
    WHERE policy.polrelid = class.oid AND policy.polpermissive AND policy.polcmd::text IN ('*', command.letter)
      AND EXISTS (SELECT FROM unnest(policy.polroles) AS role (id) WHERE role.id = 0 OR pg_has_role(role.id, 'USAGE'))
  ) = 3 AS rows_permitted,
  (SELECT string_agg(rule.rulename::text, ', ' ORDER BY rule.rulename) FROM pg_catalog.pg_rewrite AS rule
    WHERE rule.ev_class = class.oid AND rule.ev_type = '4' AND rule.ev_enabled NOT IN ('D', 'R')) AS delete_rules,
  (SELECT string_agg(publication.pubname::text, ', ' ORDER BY publication.pubname)
    FROM pg_catalog.pg_publication AS publication
    JOIN pg_catalog.pg_publication_tables AS published ON published.pubname = publication.pubname
    WHERE publication.pubdelete
      AND published.schemaname = namespace.nspname AND published.tablename = class.relname) AS publications,
  class.relreplident = 'f' OR CASE WHEN class.relkind = 'r'
    THEN pg_get_replica_identity_index(class.oid::regclass) IS NOT NULL ELSE FALSE END AS identified,
  {parent_indexed} AS parent_indexed,
  {invalid_age} AS invalid_age_indexes,
  {invalid_parent} AS invalid_parent_indexes,
  {conditions_are_text} AS conditions_are_text
{FROM}
{this}"
    ))
}

/// Foreign keys that refer to the policy's table, its own among them. Texts: `name`, `referrer` and `columns` (both
/// quoted as SQL), `on_delete` (`confdeltype`). Booleans: `own` (the table refers to itself), `by_parent` (through the
/// policy's parent column alone), `indexed`.
#[must_use]
pub fn preflight_foreign_keys(policy: &RetentionPolicy) -> Statement {
    let mut sql = Sql::default();
    let this = this(&mut sql, &policy.table);
    let parent = sql.bind(policy.parent_column.clone());
    let indexed = indexed("foreign_key.conrelid", "lookup.indkey[0] = ANY (foreign_key.conkey)");
    // A partitioned referrer has one constraint for itself and one for each partition: the first says it all. One
    // that is not enforced (PostgreSQL 18) does nothing.
    sql.finish(format!(
        "SELECT foreign_key.conname::text AS name, format('%I.%I', home.nspname, referrer.relname) AS referrer,
  (SELECT string_agg(quote_ident(attribute.attname), ', ' ORDER BY array_position(foreign_key.conkey, attribute.attnum))
    FROM pg_catalog.pg_attribute AS attribute
    WHERE attribute.attrelid = referrer.oid AND attribute.attnum = ANY (foreign_key.conkey)) AS columns,
  foreign_key.confdeltype::text AS on_delete, foreign_key.conrelid = foreign_key.confrelid AS own,
  coalesce(foreign_key.conkey = (
    SELECT array_agg(attribute.attnum) FROM pg_catalog.pg_attribute AS attribute
    WHERE attribute.attrelid = class.oid AND attribute.attname = {parent}), FALSE) AS by_parent,
  {indexed} AS indexed
{FROM}
JOIN pg_catalog.pg_constraint AS foreign_key ON foreign_key.contype = 'f' AND foreign_key.confrelid = class.oid
JOIN pg_catalog.pg_class AS referrer ON referrer.oid = foreign_key.conrelid
JOIN pg_catalog.pg_namespace AS home ON home.oid = referrer.relnamespace
{this} AND coalesce((to_jsonb(foreign_key) ->> 'conenforced')::boolean, TRUE)
  AND NOT EXISTS (SELECT FROM pg_catalog.pg_constraint AS whole
    WHERE whole.oid = foreign_key.conparentid AND whole.confrelid = foreign_key.confrelid)
ORDER BY home.nspname, referrer.relname, foreign_key.conname"
    ))
}

/// Triggers of users that a delete fires. Text: `name`. Booleans: `per_row`, `before`.
#[must_use]
pub fn preflight_triggers(policy: &RetentionPolicy) -> Statement {
    let mut sql = Sql::default();
    let this = this(&mut sql, &policy.table);
    // Bits of tgtype: 1 per row, 2 before, 8 on delete. Disabled ones and those for replicas alone do not fire.
    sql.finish(format!(
        "SELECT trigger.tgname::text AS name, trigger.tgtype & 1 <> 0 AS per_row, trigger.tgtype & 2 <> 0 AS before
{FROM}
JOIN pg_catalog.pg_trigger AS trigger ON trigger.tgrelid = class.oid
{this} AND NOT trigger.tgisinternal AND trigger.tgenabled NOT IN ('D', 'R') AND trigger.tgtype & 8 <> 0
ORDER BY trigger.tgname"
    ))
}

/// The plan, as text, of reading due rows in the order of their age. Where sorting and reading the whole table are
/// switched off, it has no `Sort` if and only if an index serves the policy's predicate, whatever the statistics
/// say: only the planner knows whether a partial index does.
#[must_use]
pub fn preflight_age_index(target: &Target, place: &Place) -> Statement {
    let mut sql = Sql::default();
    let guard = Guard::new(&mut sql, target).on("due");
    let Names { table, age, .. } = Names::at(target, place);
    sql.finish(format!("EXPLAIN (COSTS OFF) SELECT FROM {table} AS due WHERE {guard} ORDER BY due.{age}"))
}

/// The catalogue's tables, as `class`, with their `namespace`.
const FROM: &str = "FROM pg_catalog.pg_class AS class
JOIN pg_catalog.pg_namespace AS namespace ON namespace.oid = class.relnamespace";

/// The policy's table alone. By name: a cast to `regclass` fails where the schema may not be used.
fn this(sql: &mut Sql, table: &TableName) -> String {
    let (schema, name) = (sql.bind(table.schema.clone()), sql.bind(table.name.clone()));
    format!("WHERE namespace.nspname = {schema} AND class.relname = {name}")
}

/// Whether an index finds the rows of `table` by a column for which `leads` holds, without reading the table.
fn indexed(table: &str, leads: &str) -> String {
    format!(
        "EXISTS (
    SELECT FROM pg_catalog.pg_index AS lookup
    JOIN pg_catalog.pg_class AS name ON name.oid = lookup.indexrelid
    JOIN pg_catalog.pg_am AS method ON method.oid = name.relam AND method.amname IN ('btree', 'hash')
    JOIN pg_catalog.pg_attribute AS lead ON lead.attrelid = lookup.indrelid AND lead.attnum = lookup.indkey[0]
    WHERE lookup.indrelid = {table} AND {leads} AND lookup.indisvalid AND (lookup.indpred IS NULL
      OR pg_get_expr(lookup.indpred, lookup.indrelid) = format('(%I IS NOT NULL)', lead.attname)))"
    )
}
