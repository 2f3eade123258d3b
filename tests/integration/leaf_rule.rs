//! The leaf rule does not rest on a foreign key that is not there or does not look.

use anyhow::Result;
use harness::{Job, Rows, TestDatabase, shape};
use retention_domain::ports::RunEvent;
use rstest::rstest;

use crate::held::{held, insert_child};

const KEY: &str = "refresh_sessions_parent_session_id_fkey";

/// A chain of two that became somebody's parent after the window was read: the living child blocks it.
///
/// The key is what refuses in the first case; in the others nothing in the database does.
#[rstest]
#[case::the_key_forbids("SELECT")]
#[case::the_key_forbids_at_the_end_of_the_statement(
    "ALTER TABLE identity.refresh_sessions DROP CONSTRAINT {KEY}, ADD CONSTRAINT {KEY} \
     FOREIGN KEY (parent_session_id) REFERENCES identity.refresh_sessions (id) ON DELETE NO ACTION"
)]
#[case::there_is_no_key("ALTER TABLE identity.refresh_sessions DROP CONSTRAINT {KEY}")]
#[case::its_triggers_are_disabled("ALTER TABLE identity.refresh_sessions DISABLE TRIGGER ALL")]
#[case::its_triggers_fire_for_replicas_only(
    "DO $$ DECLARE name text; BEGIN FOR name IN SELECT tgname FROM pg_trigger \
     WHERE tgrelid = 'identity.refresh_sessions'::regclass LOOP \
     EXECUTE format('ALTER TABLE identity.refresh_sessions ENABLE REPLICA TRIGGER %I', name); END LOOP; END $$"
)]
#[case::sessions_replay_a_replica(
    "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET session_replication_role = replica', current_database()); END $$"
)]
#[case::it_looks_at_the_commit_only(
    "ALTER TABLE identity.refresh_sessions DROP CONSTRAINT {KEY}, ADD CONSTRAINT {KEY} \
     FOREIGN KEY (parent_session_id) REFERENCES identity.refresh_sessions (id) DEFERRABLE INITIALLY DEFERRED"
)]
#[case::it_refers_to_another_column(
    "ALTER TABLE identity.refresh_sessions DROP CONSTRAINT {KEY}; \
     ALTER TABLE identity.refresh_sessions ADD other uuid REFERENCES identity.refresh_sessions (id)"
)]
#[tokio::test(flavor = "multi_thread")]
async fn a_parent_of_a_living_session_stays(#[case] defect: &str) -> Result<()> {
    let database = TestDatabase::migrated().await?;
    let rows = Rows::of(&database).await?;
    rows.sessions(shape::chains(1, 1, 2)).await?;
    rows.sessions(shape::singles(10, 5)).await?;
    rows.execute(defect.replace("{KEY}", KEY)).await?;
    let pool = rows.pool().clone();
    let job = Job::new(100)?.observed(move |event| {
        if matches!(event, RunEvent::BatchStarted { policy, .. } if policy.parent_column.is_some()) {
            let pool = pool.clone();
            // The loop calls this between window and batch, and waits for it.
            tokio::task::block_in_place(|| {
                tokio::runtime::Handle::current().block_on(async move {
                    let child = held(&pool, &insert_child(2, 3)).await;
                    if let Ok(child) = child {
                        let _ = child.commit().await;
                    }
                });
            });
        }
    });
    let report = job.run(database.url()).await?;
    let refresh = &report.policies[1];
    assert_eq!(rows.all_sessions().await?.into_keys().collect::<Vec<_>>(), [1, 2, 3]);
    assert_eq!((refresh.deleted, refresh.failed_rows, refresh.error.as_deref()), (5, 0, None));
    assert_eq!(refresh.backlog.map(|backlog| (backlog.pending, backlog.blocked)), Some((0, 2)));
    Ok(())
}
