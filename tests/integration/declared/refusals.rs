//! What is wrong usage or a wrong policy file: told on stderr, exit code 2, and nothing was connected to.

use anyhow::Result;
use harness::Worker;
use rstest::rstest;

use super::handbook;

/// Nobody listens there: with a database asked for anything, the exit code would be 3.
const NOWHERE: &str = "postgres://nobody@127.0.0.1:1/none";

async fn refused(worker: &Worker, arguments: &[&str]) -> Result<String> {
    let finished = worker.finish(arguments).await?;
    assert_eq!(
        (finished.code(), finished.stdout.as_str()),
        (Some(2), ""),
        "{arguments:?}: {}",
        finished.stderr
    );
    Ok(finished.stderr)
}

const COMMANDS: [&[&str]; 6] = [
    &["serve"],
    &["run"],
    &["plan"],
    &["check"],
    &["config"],
    &["cleanup", "--table", "outbox", "--older-than", "7d"],
];

#[tokio::test]
async fn every_command_refuses_a_file_that_is_missing_or_wrong() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let missing = folder.path().join("missing.toml");
    let wrong = folder.path().join("wrong.toml");
    std::fs::write(&wrong, "[[policy]]\nname = \"a\"\ntabel = \"s.t\"\nretention = \"1m\"\n")?;
    let (missing, wrong) = (missing.to_str().unwrap(), wrong.to_str().unwrap());
    let worker = Worker::on(NOWHERE);
    for command in COMMANDS {
        let says = refused(&worker.clone().set("SESSION_RETENTION_POLICY_FILE", missing), command).await?;
        assert!(says.starts_with(&format!("{missing}: the policy file cannot be read: ")), "{says}");
        // The option wins over the variable, before and after the command.
        let of_option = [command, &["--policy-file", wrong]].concat();
        let says = refused(&worker.clone().set("SESSION_RETENTION_POLICY_FILE", missing), &of_option).await?;
        let found: Vec<_> = says.lines().map(|line| line.strip_prefix(wrong).unwrap_or(line)).collect();
        assert_eq!(found.len(), 4, "{says}");
        assert!(
            found[2].starts_with(":3: policy \"a\": unknown key \"tabel\"; the nearest is \"table\""),
            "{says}"
        );
        assert!(found[3].starts_with(":4: policy \"a\": retention = \"1m\": not in days or hours"), "{says}");
    }
    Ok(())
}

#[rstest]
#[case::unknown("nothing", None, "7d", "known are review.outbox, review.sessions,")]
#[case::several("audit_log", None, "365d", "audit-log-ordinary, audit-log-security")]
#[case::below(
    "audit_log",
    Some("audit-log-security"),
    "180d",
    "below the minimum of the policy audit-log-security"
)]
#[case::never_under_three_days(
    "outbox",
    None,
    "71h",
    "below the minimum of the policy outbox-acked; allowed is 3d or more"
)]
#[case::built_in("identity.refresh_sessions", None, "90d", "use `retention-worker run`")]
#[case::zero("outbox", None, "0d", "--older-than 0d")]
#[tokio::test]
async fn cleanup_refuses_what_is_unclear_or_too_short(
    #[case] table: &str,
    #[case] policy: Option<&str>,
    #[case] older_than: &str,
    #[case] says: &str,
) -> Result<()> {
    let worker = Worker::on(NOWHERE).set("SESSION_RETENTION_POLICY_FILE", handbook().to_str().unwrap());
    let policy = policy.map_or(Vec::new(), |name| vec!["--policy", name]);
    let arguments = [&["cleanup", "--table", table, "--older-than", older_than], &policy[..]].concat();
    for dry in [&[][..], &["--dry-run"]] {
        let told = refused(&worker, &[&arguments, dry].concat()).await?;
        assert!(told.contains(says), "{told}");
    }
    Ok(())
}

#[tokio::test]
async fn cleanup_needs_a_table_a_period_and_a_file() -> Result<()> {
    let worker = Worker::on(NOWHERE);
    refused(&worker, &["cleanup", "--table", "outbox"]).await?;
    refused(&worker, &["cleanup", "--older-than", "7d"]).await?;
    let told = refused(&worker, &["cleanup", "--table", "outbox", "--older-than", "7d"]).await?;
    assert!(told.contains("set SESSION_RETENTION_POLICY_FILE or --policy-file"), "{told}");
    Ok(())
}

#[tokio::test]
async fn without_a_database_a_cleanup_that_is_clear_exits_3() -> Result<()> {
    let worker = Worker::on(NOWHERE).set("SESSION_RETENTION_POLICY_FILE", handbook().to_str().unwrap());
    let finished = worker.finish(&["cleanup", "--table", "outbox", "--older-than", "7d"]).await?;
    assert_eq!((finished.code(), finished.stdout.as_str()), (Some(3), ""), "{}", finished.stderr);
    Ok(())
}
