//! TLS with a private authority, as the worker's binary is built.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::ensure;
use harness::{OwnCluster, Worker};
use tempfile::TempDir;

use super::*;

/// Certificates made for one test.
struct Authority {
    folder: TempDir,
}

impl Authority {
    /// `None`, and a line that says so, when this machine has no `openssl`.
    fn new() -> Result<Option<Self>> {
        if Command::new("openssl").arg("version").output().is_err() {
            eprintln!("SKIPPED: no openssl on this machine");
            return Ok(None);
        }
        let authority = Self { folder: TempDir::new()? };
        for name in ["ca", "other"] {
            authority.openssl(&format!(
                "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=synthetic-{name} \
                 -keyout {name}.key -out {name}.crt -addext basicConstraints=critical,CA:TRUE"
            ))?;
        }
        authority.openssl(
            "req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN=synthetic-server \
             -keyout server.key -out server.csr",
        )?;
        std::fs::write(authority.path("names"), "subjectAltName=DNS:localhost\nbasicConstraints=CA:FALSE\n")?;
        authority.openssl(
            "x509 -req -in server.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 2 -extfile names -out server.crt",
        )?;
        Ok(Some(authority))
    }

    fn openssl(&self, arguments: &str) -> Result<()> {
        let output =
            Command::new("openssl").args(arguments.split(' ')).current_dir(self.folder.path()).output()?;
        ensure!(output.status.success(), "openssl {arguments}: {}", String::from_utf8_lossy(&output.stderr));
        Ok(())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn read(&self, name: &str) -> Result<String> {
        Ok(std::fs::read_to_string(self.path(name))?)
    }
}

fn with_tls(url: &str, mode: &str, root: Option<&Path>) -> String {
    let root = root.map(|root| format!("&sslrootcert={}", root.display())).unwrap_or_default();
    format!("{url}?sslmode={mode}{root}")
}

async fn assert_runs(rows: &Rows, url: &str) -> Result<()> {
    due_requests(rows, 10).await?;
    let (finished, report) = Worker::on(url).run().await?;
    assert_eq!(
        (finished.code(), &report["sicr_deleted"]),
        (Some(0), &10.into()),
        "{url}: {}",
        finished.stderr
    );
    Ok(())
}

async fn assert_refused(url: &str, reason: &str) -> Result<()> {
    let finished = timeout(SOON, Worker::on(url).finish(&["run"])).await??;
    assert_eq!((finished.code(), finished.stdout.as_str()), (Some(3), ""), "{url}: {}", finished.stderr);
    assert!(finished.stderr.contains(reason), "{url}: {}", finished.stderr);
    Ok(())
}

#[tokio::test]
async fn tls_is_used_and_verified_as_the_address_says() -> Result<()> {
    let Some(authority) = Authority::new()? else { return Ok(()) };
    let Some(cluster) = OwnCluster::start().await? else { return Ok(()) };
    let database = TestDatabase::migrated_on(cluster.server()).await?;
    let rows = Rows::of(&database).await?;
    let plain = database.url().to_owned();
    assert_runs(&rows, &with_tls(&plain, "prefer", None)).await?;
    assert_refused(&with_tls(&plain, "require", None), "TLS").await?;

    let files = [
        ("server.crt", authority.read("server.crt")?),
        ("server.key", authority.read("server.key")?),
        // Plain text is refused from here on.
        ("pg_hba.conf", "hostssl all all 127.0.0.1/32 trust\n".to_owned()),
    ];
    let files: Vec<(&str, &str)> = files.iter().map(|(name, text)| (*name, text.as_str())).collect();
    cluster.configure(&files, &["ssl = on"]).await?;
    let (ca, other) = (authority.path("ca.crt"), authority.path("other.crt"));
    let by_name = plain.replace("127.0.0.1", "localhost");

    assert_refused(&with_tls(&plain, "disable", None), "28000").await?;
    assert_runs(&rows, &with_tls(&plain, "require", None)).await?;
    assert_runs(&rows, &with_tls(&plain, "verify-ca", Some(&ca))).await?;
    assert_runs(&rows, &with_tls(&by_name, "verify-full", Some(&ca))).await?;
    // The certificate names the host, not its number; the other authority has not signed it; nor has the system's.
    assert_refused(&with_tls(&plain, "verify-full", Some(&ca)), "certificate").await?;
    assert_refused(&with_tls(&by_name, "verify-full", Some(&other)), "certificate").await?;
    assert_refused(&with_tls(&by_name, "verify-full", None), "certificate").await?;
    nobody_in_a_transaction(&rows).await
}
