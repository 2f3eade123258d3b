//! What the statistics say about rows that come and go, and how autovacuum is set for them.

use retention_domain::RetentionPolicy;
use sea_orm::Statement;

use super::Sql;

/// The policy's table, or each of its partitions that holds rows. Text: `name` (quoted as SQL). Bigint, estimates: `live`,
/// `dead`, `removed` (rows deleted or superseded since the statistics begin). As they are in force, wherever they are set:
/// `vacuumed` (boolean, autovacuum looks after it), `scale_factor` (double precision), `cost_limit` (integer).
#[must_use]
pub fn preflight_churn(policy: &RetentionPolicy) -> Statement {
    let mut sql = Sql::default();
    let (schema, name) = (sql.bind(policy.table.schema.clone()), sql.bind(policy.table.name.clone()));
    let option = |name: &str| {
        format!(
            "(SELECT setting.option_value FROM pg_options_to_table(part.reloptions) AS setting
    WHERE setting.option_name = '{name}')"
        )
    };
    let enabled = option("autovacuum_enabled");
    let scale_factor = option("autovacuum_vacuum_scale_factor");
    let cost_limit = option("autovacuum_vacuum_cost_limit");
    // -1 stands for the limit that a VACUUM by hand has. The functions are those behind pg_stat_all_tables, which would be
    // worked out for every table of the database.
    sql.finish(format!(
        "SELECT format('%I.%I', home.nspname, part.relname) AS name,
  pg_stat_get_live_tuples(part.oid) AS live, pg_stat_get_dead_tuples(part.oid) AS dead,
  pg_stat_get_tuples_deleted(part.oid) + pg_stat_get_tuples_updated(part.oid) AS removed,
  coalesce({enabled}::boolean, TRUE) AND current_setting('autovacuum')::boolean AS vacuumed,
  coalesce({scale_factor}, current_setting('autovacuum_vacuum_scale_factor'))::double precision AS scale_factor,
  coalesce(nullif({cost_limit}, '-1'), nullif(current_setting('autovacuum_vacuum_cost_limit'), '-1'),
    current_setting('vacuum_cost_limit'))::integer AS cost_limit
FROM pg_catalog.pg_class AS class
JOIN pg_catalog.pg_namespace AS namespace ON namespace.oid = class.relnamespace
CROSS JOIN LATERAL (
  SELECT class.oid AS id WHERE class.relkind = 'r'
  UNION ALL SELECT tree.relid::oid FROM pg_partition_tree(class.oid) AS tree WHERE class.relkind = 'p' AND tree.isleaf
) AS leaf
JOIN pg_catalog.pg_class AS part ON part.oid = leaf.id AND part.relkind = 'r'
JOIN pg_catalog.pg_namespace AS home ON home.oid = part.relnamespace
WHERE namespace.nspname = {schema} AND class.relname = {name}
ORDER BY home.nspname, part.relname"
    ))
}
