//! Passwords, right and wrong, and that none is ever shown.

use harness::{OwnCluster, Worker};

use super::*;

const SECRET: &str = "s3cr3t-sesame";
/// The same with characters that need escaping in a URL.
const ODD_SECRET: &str = "s3cr3t@se/s:am?e#%";
const ODD_SECRET_ESCAPED: &str = "s3cr3t%40se%2Fs%3Aam%3Fe%23%25";
/// Begins every secret above and appears in nothing else.
const SHOWN: &str = "s3cr3t";

/// Runs all commands that end by themselves and returns how they exited.
async fn exits(url: &str, log: &str) -> Result<Vec<Option<i32>>> {
    let mut codes = Vec::new();
    for command in ["run", "plan", "config"] {
        for format in ["text", "json"] {
            let worker = Worker::on(url).set("RUST_LOG", log).set("LOG_FORMAT", format);
            let finished = timeout(SOON, worker.finish(&[command, "--format", format])).await??;
            for output in [&finished.stdout, &finished.stderr] {
                assert!(!output.contains(SHOWN), "{command} shows the password: {output}");
            }
            assert!(finished.code() != Some(3) || finished.stdout.is_empty(), "{}", finished.stdout);
            assert!(finished.code() != Some(3) || finished.stderr.contains("28P01"), "{}", finished.stderr);
            codes.push(finished.code());
        }
    }
    Ok(codes)
}

#[tokio::test]
async fn a_scram_password_opens_or_does_not_and_is_never_shown() -> Result<()> {
    let Some(cluster) = OwnCluster::start().await? else { return Ok(()) };
    let database = TestDatabase::migrated_on(cluster.server()).await?;
    let rows = Rows::of(&database).await?;
    for (role, secret) in [("plain_worker", SECRET), ("odd_worker", ODD_SECRET)] {
        rows.execute(format!(
            "SET password_encryption = 'scram-sha-256'; CREATE ROLE {role} LOGIN PASSWORD '{secret}'; \
             GRANT USAGE ON SCHEMA identity TO {role}; GRANT SELECT, DELETE, UPDATE (id) \
             ON identity.sign_in_confirmation_requests, identity.refresh_sessions TO {role}"
        ))
        .await?;
    }
    let rules = "host all postgres 127.0.0.1/32 trust\nhost all all 127.0.0.1/32 scram-sha-256\n";
    cluster.configure(&[("pg_hba.conf", rules)], &[]).await?;
    let with =
        |user: &str, secret: &str| database.url().replacen("postgres@", &format!("{user}:{secret}@"), 1);
    // At the finest level of the log too, where the drivers talk.
    for log in ["info", "trace"] {
        for url in [with("plain_worker", SECRET), with("odd_worker", ODD_SECRET_ESCAPED)] {
            assert_eq!(exits(&url, log).await?, [Some(0); 6], "{log}");
        }
        let refused = [Some(3), Some(3), Some(3), Some(3), Some(0), Some(0)];
        for url in [with("plain_worker", "s3cr3t-wrong"), with("odd_worker", SECRET), with("nobody", SECRET)]
        {
            assert_eq!(exits(&url, log).await?, refused, "{log}");
        }
    }
    nobody_in_a_transaction(&rows).await
}

#[tokio::test]
async fn an_address_that_cannot_be_read_is_refused_without_being_shown() -> Result<()> {
    for url in [
        "postgres://worker:s3cr3t@host:notaport/db",
        "postgres://worker:s3cr3t@[::1/db",
        "postgres:/worker:s3cr3t@host/db",
        "postgres//worker:s3cr3t@host/db",
        "mysql://worker:s3cr3t@host/db",
        "worker:s3cr3t@host/db",
        "host=host user=worker password=s3cr3t",
        "postgres://worker:s3cr3t@host/db?sslmode=s3cr3t",
        "postgres://worker:s3cr3t@host:99999/db",
        " postgres://worker:s3cr3t@host/db",
    ] {
        assert_eq!(exits(url, "trace").await?, [Some(2); 6], "{url}");
    }
    // Readable, with a parameter the driver does not know and would log with its value.
    let odd = "postgres://worker@127.0.0.1:1/db?pasword=s3cr3t&options=-c%20odd.name%3Ds3cr3t";
    let finished = Worker::on(odd).set("RUST_LOG", "trace").finish(&["config"]).await?;
    assert_eq!(finished.code(), Some(0), "{}", finished.stderr);
    assert!(!finished.stdout.contains(SHOWN) && !finished.stderr.contains(SHOWN), "{}", finished.stderr);
    Ok(())
}
