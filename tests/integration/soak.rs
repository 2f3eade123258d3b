//! A minute of everything at once. Longer: `cargo xtask soak`.

use std::time::Duration;

use anyhow::Result;
use harness::{Soak, TestDatabase};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_minute_of_storm_and_calm_deletes_exactly_what_is_due() -> Result<()> {
    let soak = Soak { seed: 1, duration: Duration::from_secs(50), clients: 6, workers: 4 };
    let database = TestDatabase::migrated().await?;
    let figures = soak.run(&database, |_, _| {}).await?;
    let (errors, violations) = (figures.client_errors.join("\n"), figures.violations.join("\n"));
    assert!(figures.is_clean(), "{errors}\n{violations}\nonce more, for longer: {soak}\n{figures:?}");

    // A soak in which nothing happens proves nothing.
    assert_eq!(figures.operations.len(), 14, "{figures:?}");
    for fault in ["kill -9", "pg_terminate_backend", "SIGTERM", "SIGSTOP and SIGCONT"] {
        assert!(figures.faults.contains_key(fault), "no {fault}: {figures:?}");
    }
    let [storm, calm, quiet] = &figures.stages[..] else { panic!("three stages: {figures:?}") };
    assert!(storm.gone > 1000 && calm.gone > 1000 && figures.survivors > 100, "{figures:?}");
    assert_eq!((calm.gone, quiet.gone), (calm.reported, quiet.reported));
    assert_eq!(figures.attempts.0, figures.attempts.1);
    Ok(())
}
