//! A throw-away cluster for one test alone, which may therefore be restarted and configured.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use sqlx::{AssertSqlSafe, Connection, PgConnection};
use tokio::task::spawn_blocking;

use crate::{Durability, Environment, Server};

/// A cluster of the test's own.
pub struct OwnCluster {
    server: Server,
    binaries: PathBuf,
    data: PathBuf,
}

impl OwnCluster {
    /// Starts one. `None`, and a line that says so, when this machine has no server binaries.
    ///
    /// # Errors
    ///
    /// When it does not start.
    pub async fn start() -> Result<Option<Self>> {
        let environment = Environment { database_url: None, ..Environment::of_process() };
        if !environment.has_server_binaries() {
            eprintln!("SKIPPED: no PostgreSQL binaries on this machine");
            return Ok(None);
        }
        let server = Server::find_in(environment, Durability::Fast).await?;
        let data = server.folder().context("not a cluster")?.join("data");
        let mut admin = PgConnection::connect(server.maintenance_url()).await?;
        let binaries: String = sqlx::query_scalar("SELECT setting FROM pg_config WHERE name = 'BINDIR'")
            .fetch_one(&mut admin)
            .await?;
        admin.close().await?;
        Ok(Some(Self { server, binaries: binaries.into(), data }))
    }

    /// The server, for databases on it.
    #[must_use]
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// Stops it in a mode of `pg_ctl` (`fast`, or `immediate` as a crash does) and starts it again on the same port.
    /// Returns when it accepts connections.
    ///
    /// # Errors
    ///
    /// When it does not come back.
    pub async fn restart(&self, mode: &str) -> Result<()> {
        let owner = fs::metadata(&self.data)?;
        let mut command = Command::new(self.binaries.join("pg_ctl"));
        command.arg("-D").arg(&self.data).arg("-l").arg(self.data.join("../server.log"));
        command.args(["-m", mode, "-w", "-t", "60", "restart"]).current_dir(&self.data);
        command
            .env_clear()
            .env("LC_ALL", "C")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        if nix::unistd::geteuid().is_root() {
            command.uid(owner.uid()).gid(owner.gid());
        }
        let status = spawn_blocking(move || command.status()).await?.context("running pg_ctl")?;
        ensure!(status.success(), "pg_ctl restart ended with {status}");
        Ok(())
    }

    /// Puts files into the folder of the data, readable by the server alone; then sets and reads again settings.
    ///
    /// # Errors
    ///
    /// When they cannot be written or set.
    pub async fn configure(&self, files: &[(&str, &str)], settings: &[&str]) -> Result<()> {
        let owner = fs::metadata(&self.data)?;
        for (name, text) in files {
            let file = self.data.join(name);
            fs::write(&file, text)?;
            fs::set_permissions(&file, Permissions::from_mode(0o600))?;
            chown(&file, Some(owner.uid()), Some(owner.gid()))?;
        }
        let mut admin = PgConnection::connect(self.server.maintenance_url()).await?;
        for setting in settings {
            let statement = format!("ALTER SYSTEM SET {setting}");
            sqlx::raw_sql(AssertSqlSafe(statement))
                .execute(&mut admin)
                .await
                .with_context(|| (*setting).to_owned())?;
        }
        // Sessions to come follow the new rules as soon as the postmaster has read them, which it tells nobody.
        let before: i64 = loaded(&mut admin).await?;
        sqlx::raw_sql("SELECT pg_reload_conf()").execute(&mut admin).await?;
        while loaded(&mut PgConnection::connect(self.server.maintenance_url()).await?).await? == before {}
        Ok(())
    }
}

/// When the settings were read, in microseconds.
async fn loaded(connection: &mut PgConnection) -> Result<i64> {
    let query = "SELECT (extract(epoch FROM pg_conf_load_time()) * 1000000)::bigint";
    Ok(sqlx::query_scalar(query).fetch_one(connection).await?)
}
