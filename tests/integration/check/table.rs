//! The table, its columns, keys, triggers and policies: what a run would fail on or should know of.

use anyhow::Result;
use rstest::rstest;

use super::{Deployed, SELF_KEY, SESSIONS};

#[rstest]
#[case::timestamp("ALTER updated_at TYPE timestamp", "column updated_at is timestamp without time zone")]
#[case::date("ALTER updated_at TYPE date", "column updated_at is date")]
#[case::epoch("ALTER updated_at TYPE bigint USING 0", "column updated_at is bigint")]
#[case::number("ALTER status TYPE integer USING 1", "column status is integer")]
#[case::types(
    "DROP CONSTRAINT refresh_sessions_parent_session_id_fkey, ALTER parent_session_id TYPE text",
    "not of one type"
)]
#[case::missing("RENAME updated_at TO changed_at", "column updated_at does not exist")]
#[tokio::test]
async fn a_column_of_a_wrong_type_is_an_error(#[case] change: &str, #[case] says: &str) -> Result<()> {
    let deployed = Deployed::new().await?;
    deployed.execute("DROP INDEX identity.ix_refresh_sessions_terminal_updated_at").await?;
    deployed.execute(&format!("ALTER TABLE {SESSIONS} {change}")).await?;
    deployed.finds("column-types", "refresh", "error", says).await?;
    deployed.run_fails("refresh").await
}

#[rstest]
#[case::missing("SELECT 1", "table-exists", "does not exist")]
#[case::view(
    "CREATE VIEW identity.refresh_sessions AS SELECT * FROM identity.elsewhere",
    "table-kind",
    "a view"
)]
#[case::materialized(
    "CREATE MATERIALIZED VIEW identity.refresh_sessions AS SELECT * FROM identity.elsewhere",
    "table-kind",
    "a materialized view"
)]
#[case::partitioned(
    "CREATE TABLE identity.refresh_sessions (LIKE identity.elsewhere) PARTITION BY RANGE (updated_at)",
    "table-kind",
    "partitioned"
)]
#[case::foreign(
    "CREATE FOREIGN DATA WRAPPER nowhere;\nCREATE SERVER nowhere FOREIGN DATA WRAPPER nowhere;\n\
     CREATE FOREIGN TABLE identity.refresh_sessions (id uuid) SERVER nowhere",
    "table-kind",
    "a foreign table"
)]
#[case::index("CREATE INDEX refresh_sessions ON identity.elsewhere (status)", "table-kind", "no table")]
#[case::sequence("CREATE SEQUENCE identity.refresh_sessions", "table-kind", "no table")]
#[tokio::test]
async fn anything_but_a_table_is_an_error(
    #[case] instead: &str,
    #[case] id: &str,
    #[case] says: &str,
) -> Result<()> {
    let deployed = Deployed::with("ALTER TABLE identity.refresh_sessions RENAME TO elsewhere").await?;
    deployed.execute(instead).await?;
    deployed.finds(id, "refresh", "error", says).await?;
    deployed.run_fails("refresh").await
}

#[rstest]
#[case::unlogged(
    "ALTER TABLE identity.refresh_sessions DROP CONSTRAINT refresh_sessions_user_id_fkey;\n\
     ALTER TABLE identity.refresh_sessions SET UNLOGGED",
    "table-kind",
    "unlogged"
)]
#[case::inherited(
    "CREATE TABLE public.heir () INHERITS (identity.refresh_sessions)",
    "table-kind",
    "inherit"
)]
#[case::no_self_reference(
    "ALTER TABLE identity.refresh_sessions DROP CONSTRAINT refresh_sessions_parent_session_id_fkey",
    "self-reference",
    "no foreign key says what parent_session_id"
)]
#[case::another_self_reference(
    "ALTER TABLE identity.refresh_sessions ADD replaced_by uuid REFERENCES identity.refresh_sessions",
    "self-reference",
    "(replaced_by) refers to the table itself"
)]
#[case::row_security_with_a_policy(
    "ALTER TABLE identity.refresh_sessions ENABLE ROW LEVEL SECURITY;\n\
     CREATE POLICY p ON identity.refresh_sessions USING (true)",
    "row-security",
    "rows its policies hide stay"
)]
#[case::vetoing_trigger(
    "CREATE FUNCTION veto() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';\n\
     CREATE TRIGGER veto BEFORE DELETE ON identity.refresh_sessions FOR EACH ROW EXECUTE FUNCTION veto()",
    "triggers",
    "may keep it"
)]
#[case::trigger_after_rows(
    "CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';\n\
     CREATE TRIGGER note AFTER INSERT OR DELETE ON identity.refresh_sessions FOR EACH ROW EXECUTE FUNCTION note()",
    "triggers",
    "runs after each deleted row"
)]
#[case::trigger_of_statements(
    "CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';\n\
     CREATE TRIGGER note AFTER DELETE ON identity.refresh_sessions EXECUTE FUNCTION note()",
    "triggers",
    "runs with each batch"
)]
#[tokio::test]
async fn what_one_should_know_is_a_warning(
    #[case] defect: &str,
    #[case] id: &str,
    #[case] says: &str,
) -> Result<()> {
    let deployed = Deployed::with(defect).await?;
    deployed.finds(id, "refresh", "warning", says).await?;
    Ok(())
}

#[rstest]
#[case::restrict("RESTRICT", true, "become failed rows")]
#[case::no_action("NO ACTION", true, "become failed rows")]
#[case::cascade("CASCADE", true, "deleting a row deletes the rows that refer to it")]
#[case::set_null("SET NULL", true, "deleting a row changes the rows that refer to it")]
#[case::set_default("SET DEFAULT", true, "deleting a row changes the rows that refer to it")]
#[case::without_an_index("RESTRICT", false, "every deleted row costs a scan of public.\"Other\"")]
#[case::cascade_without_an_index("CASCADE", false, "every deleted row costs a scan of public.\"Other\"")]
#[tokio::test]
async fn a_foreign_key_from_another_table_is_a_warning(
    #[case] action: &str,
    #[case] indexed: bool,
    #[case] says: &str,
    #[values("", "PARTITION BY RANGE (session)")] partitioned: &str,
) -> Result<()> {
    let deployed = Deployed::new().await?;
    deployed
        .execute(&format!(
            "CREATE TABLE \"Other\" (session uuid REFERENCES {SESSIONS} ON DELETE {action}, at date) {partitioned}"
        ))
        .await?;
    if !partitioned.is_empty() {
        deployed.execute("CREATE TABLE one_part PARTITION OF \"Other\" DEFAULT").await?;
    }
    if indexed {
        deployed.execute("CREATE INDEX ON \"Other\" (session)").await?;
    }
    let finding = deployed.finds("foreign-keys-in", "refresh", "warning", says).await?;
    assert!(
        finding["message"].as_str().unwrap().contains("Other_session_fkey of public.\"Other\" (session)"),
        "{finding}"
    );
    let create = "CREATE INDEX CONCURRENTLY ON public.\"Other\" (session);";
    assert_eq!(finding["advice"].as_str().unwrap().contains(create), !indexed, "{finding}");
    Ok(())
}

#[rstest]
#[case("CASCADE", "deletes its children")]
#[case("SET NULL", "changes its children")]
#[case("SET DEFAULT", "changes its children")]
#[tokio::test]
async fn a_self_reference_that_acts_is_an_error_that_the_advice_mends(
    #[case] action: &str,
    #[case] says: &str,
) -> Result<()> {
    let deployed = Deployed::with(&format!(
        "ALTER TABLE {SESSIONS} DROP CONSTRAINT {SELF_KEY}, ADD CONSTRAINT {SELF_KEY} \
         FOREIGN KEY (parent_session_id) REFERENCES {SESSIONS} ON DELETE {action}"
    ))
    .await?;
    let finding = deployed.finds("self-reference", "refresh", "error", says).await?;
    deployed.mend(&finding).await?;
    deployed.is_ok().await
}

#[rstest]
#[case::no_policy("", "no policy lets it")]
#[case::only_for_reading("FOR SELECT TO PUBLIC USING (true)", "no policy lets it")]
#[case::for_somebody_else("TO pg_monitor USING (true)", "no policy lets it")]
#[case::restrictive("AS RESTRICTIVE USING (true)", "no policy lets it")]
#[tokio::test]
async fn row_security_that_hides_every_row_is_an_error_that_the_advice_mends(
    #[case] policy: &str,
    #[case] says: &str,
) -> Result<()> {
    let deployed = Deployed::with("ALTER TABLE identity.refresh_sessions ENABLE ROW LEVEL SECURITY").await?;
    if !policy.is_empty() {
        deployed.execute(&format!("CREATE POLICY p ON {SESSIONS} {policy}")).await?;
    }
    let finding = deployed.finds("row-security", "refresh", "error", says).await?;
    let (_, report) = deployed.worker().run().await?;
    assert_eq!(deployed.rows.count_sessions().await?, 3, "nothing goes: {report:#}");
    deployed.mend(&finding).await?;
    deployed.finds("row-security", "refresh", "warning", "applies to role").await?;
    let (_, report) = deployed.worker().run().await?;
    assert_eq!(report["refresh_deleted"], 3, "{report:#}");
    Ok(())
}

#[rstest]
#[case::rule(
    "CREATE RULE quiet AS ON DELETE TO identity.refresh_sessions DO INSTEAD NOTHING",
    "rules",
    "quiet"
)]
#[case::rule_beside(
    "CREATE RULE note AS ON DELETE TO identity.refresh_sessions DO ALSO NOTIFY gone",
    "rules",
    "note"
)]
#[case::published_without_identity(
    "ALTER TABLE identity.refresh_sessions REPLICA IDENTITY NOTHING;\n\
     CREATE PUBLICATION p FOR TABLE identity.refresh_sessions",
    "replica-identity",
    "without a replica identity"
)]
#[case::published_with_all_tables(
    "ALTER TABLE identity.refresh_sessions REPLICA IDENTITY NOTHING;\nCREATE PUBLICATION p FOR ALL TABLES",
    "replica-identity",
    "(p)"
)]
#[case::published_with_its_schema(
    "ALTER TABLE identity.refresh_sessions REPLICA IDENTITY NOTHING;\n\
     CREATE PUBLICATION p FOR TABLES IN SCHEMA identity",
    "replica-identity",
    "(p)"
)]
#[tokio::test]
async fn what_refuses_every_delete_is_an_error(
    #[case] defect: &str,
    #[case] id: &str,
    #[case] says: &str,
) -> Result<()> {
    let deployed = Deployed::with(defect).await?;
    deployed.finds(id, "refresh", "error", says).await?;
    deployed.run_fails("refresh").await
}
