//! Rights and indexes: what is missing is found and mended by the advice; what serves as well is no defect.

use anyhow::Result;
use rstest::rstest;
use serde_json::json;

use super::{Deployed, RETENTION_INDEX};

#[rstest]
#[case::select(
    "REVOKE SELECT ON identity.refresh_sessions FROM WORKER",
    "SELECT on identity.refresh_sessions"
)]
#[case::delete(
    "REVOKE DELETE ON identity.refresh_sessions FROM WORKER",
    "DELETE on identity.refresh_sessions"
)]
#[case::update(
    "REVOKE UPDATE (id) ON identity.refresh_sessions FROM WORKER",
    "UPDATE (\"id\") on identity.refresh_sessions"
)]
#[case::all(
    "REVOKE ALL ON identity.refresh_sessions FROM WORKER",
    "SELECT, DELETE, UPDATE (\"id\") on identity.refresh_sessions"
)]
#[case::a_column(
    "REVOKE SELECT ON identity.refresh_sessions FROM WORKER;\nGRANT SELECT (id) ON identity.refresh_sessions TO WORKER",
    "SELECT on"
)]
#[tokio::test]
async fn a_missing_right_is_an_error_that_the_advised_grant_mends(
    #[case] defect: &str,
    #[case] says: &str,
) -> Result<()> {
    let deployed = Deployed::with(defect).await?;
    let finding = deployed.finds("rights", "refresh", "error", says).await?;
    assert!(finding["message"].as_str().unwrap().contains(deployed.role.name()), "{finding}");
    assert!(finding["advice"].as_str().unwrap().contains("deploy/postgres/grants.sql"), "{finding}");
    deployed.run_fails("refresh").await?;
    deployed.mend(&finding).await?;
    deployed.is_ok().await
}

#[tokio::test]
async fn a_schema_that_may_not_be_used_is_an_error_of_both_policies() -> Result<()> {
    let deployed = Deployed::with("REVOKE USAGE ON SCHEMA identity FROM WORKER").await?;
    let (bad, code) = deployed.check().await?;
    assert_eq!((bad.len(), code), (2, Some(1)), "{bad:#?}");
    for finding in &bad {
        assert!(
            finding["message"].as_str().unwrap().contains("lacks USAGE on schema identity (SQLSTATE 42501)")
        );
    }
    deployed.mend(&bad[0]).await?;
    deployed.is_ok().await
}

#[rstest]
#[case::every_column_that_is_read(
    "REVOKE SELECT ON identity.refresh_sessions FROM WORKER;\n\
    GRANT SELECT (id, parent_session_id, status, updated_at, ctid) ON identity.refresh_sessions TO WORKER"
)]
#[case::another_column_to_update(
    "REVOKE UPDATE (id) ON identity.refresh_sessions FROM WORKER;\n\
    GRANT UPDATE (user_agent) ON identity.refresh_sessions TO WORKER"
)]
#[case::varchar("ALTER TABLE identity.refresh_sessions ALTER status TYPE varchar(20)")]
#[case::bypassing_row_security(
    "ALTER TABLE identity.refresh_sessions ENABLE ROW LEVEL SECURITY;\nALTER ROLE WORKER BYPASSRLS"
)]
#[case::a_disabled_trigger(
    "CREATE TRIGGER veto BEFORE DELETE ON identity.refresh_sessions FOR EACH ROW \
    EXECUTE FUNCTION suppress_redundant_updates_trigger();\nALTER TABLE identity.refresh_sessions DISABLE TRIGGER veto"
)]
#[case::a_trigger_on_update(
    "CREATE TRIGGER quiet BEFORE UPDATE ON identity.refresh_sessions FOR EACH ROW \
    EXECUTE FUNCTION suppress_redundant_updates_trigger()"
)]
#[case::published_with_its_primary_key("CREATE PUBLICATION p FOR TABLE identity.refresh_sessions")]
#[case::published_in_full(
    "ALTER TABLE identity.refresh_sessions REPLICA IDENTITY FULL;\n\
    CREATE PUBLICATION p FOR TABLE identity.refresh_sessions"
)]
#[case::published_without_deletes(
    "ALTER TABLE identity.refresh_sessions REPLICA IDENTITY NOTHING;\n\
    CREATE PUBLICATION p FOR TABLE identity.refresh_sessions WITH (publish = 'insert, update')"
)]
#[case::a_partial_index_that_serves(
    "DROP INDEX identity.ix_refresh_sessions_parent_session_id;\n\
    CREATE INDEX ON identity.refresh_sessions (parent_session_id, id) WHERE parent_session_id IS NOT NULL"
)]
#[case::an_index_with_another_condition_that_follows(
    "DROP INDEX identity.ix_refresh_sessions_terminal_updated_at;\n\
    CREATE INDEX ON identity.refresh_sessions (updated_at DESC) WHERE status <> 'Active'"
)]
#[case::no_rows("TRUNCATE identity.refresh_sessions, identity.sign_in_confirmation_requests")]
#[case::a_namesake_in_public("CREATE VIEW public.refresh_sessions AS SELECT 1 AS id")]
#[tokio::test]
async fn what_is_no_defect_is_not_found(#[case] change: &str) -> Result<()> {
    let deployed = Deployed::with(change).await?;
    deployed.is_ok().await?;
    let (finished, report) = deployed.worker().run().await?;
    assert_eq!((finished.code(), &report["outcome"]), (Some(0), &json!("completed")), "{report:#}");
    Ok(())
}

#[rstest]
#[case::parent(
    "parent-index",
    "refresh",
    "DROP INDEX identity.ix_refresh_sessions_parent_session_id",
    "1 to 10 ms"
)]
#[case::parent_invalid(
    "parent-index",
    "refresh",
    "DROP INDEX identity.ix_refresh_sessions_parent_session_id;\n\
     CREATE UNIQUE INDEX CONCURRENTLY broken ON identity.refresh_sessions (parent_session_id) NULLS NOT DISTINCT",
    "no valid index"
)]
#[case::parent_second_column(
    "parent-index",
    "refresh",
    "DROP INDEX identity.ix_refresh_sessions_parent_session_id;\n\
     CREATE INDEX ON identity.refresh_sessions (status, parent_session_id)",
    "no index"
)]
#[case::parent_partial(
    "parent-index",
    "refresh",
    "DROP INDEX identity.ix_refresh_sessions_parent_session_id;\n\
     CREATE INDEX ON identity.refresh_sessions (parent_session_id) WHERE status = 'Active'",
    "no index"
)]
#[case::age(
    "age-index",
    "refresh",
    "DROP INDEX identity.ix_refresh_sessions_terminal_updated_at",
    "no index"
)]
#[case::age_of_requests("age-index", "sicr", "DROP INDEX identity.ix_sicr_created_at", "no index")]
#[case::age_invalid(
    "age-index",
    "refresh",
    "DROP INDEX identity.ix_refresh_sessions_terminal_updated_at;\n\
     CREATE UNIQUE INDEX CONCURRENTLY broken ON identity.refresh_sessions (updated_at)",
    "no valid index"
)]
#[case::age_for_another_condition(
    "age-index",
    "refresh",
    "DROP INDEX identity.ix_refresh_sessions_terminal_updated_at;\n\
     CREATE INDEX ON identity.refresh_sessions (updated_at) WHERE status IN ('Rotated', 'Revoked')",
    "no index"
)]
#[case::age_with_an_index_on_the_status(
    "age-index",
    "refresh",
    "DROP INDEX identity.ix_refresh_sessions_terminal_updated_at;\nCREATE INDEX ON identity.refresh_sessions (status)",
    "no index"
)]
#[tokio::test]
async fn a_missing_index_is_a_warning_that_the_advised_statement_mends(
    #[case] id: &str,
    #[case] policy: &str,
    #[case] defect: &str,
    #[case] says: &str,
) -> Result<()> {
    let deployed = Deployed::new().await?;
    // The build that fails is one way to an INVALID index.
    let made = deployed.execute(defect).await;
    assert_eq!(made.is_err(), defect.contains("broken"), "{made:?}");
    let finding = deployed.finds(id, policy, "warning", says).await?;
    assert_eq!(
        finding["advice"].as_str().unwrap().contains("identity.broken is INVALID"),
        defect.contains("broken")
    );
    deployed.mend(&finding).await?;
    deployed.is_ok().await
}

#[tokio::test]
async fn the_partial_index_does_not_serve_an_enum() -> Result<()> {
    let deployed = Deployed::with(
        "DROP INDEX identity.ix_refresh_sessions_terminal_updated_at;\n\
         CREATE TYPE status AS ENUM ('Active', 'Rotated', 'Revoked', 'Expired');\n\
         ALTER TABLE identity.refresh_sessions ALTER status TYPE status USING status::status",
    )
    .await?;
    deployed.rows.execute(RETENTION_INDEX).await?;
    let finding = deployed.finds("age-index", "refresh", "warning", "no index").await?;
    assert!(!finding["advice"].as_str().unwrap().contains("WHERE"), "{finding}");
    deployed.mend(&finding).await?;
    deployed.is_ok().await
}
