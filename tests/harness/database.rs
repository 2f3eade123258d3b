//! Databases made for one test and dropped after it.
//!
//! Whatever the harness makes on a server has a name of its own prefix, and it drops nothing else.

use std::process;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use anyhow::{Context, Result};
use nix::errno::Errno;
use nix::sys::signal::kill;
use nix::unistd::Pid;
use sqlx::postgres::PgPoolOptions;
use sqlx::{AssertSqlSafe, Connection, PgConnection, PgPool};

use crate::{Server, server};

/// Followed by the process id and a number.
const PREFIX: &str = "retention_test_";
/// Followed by the fingerprint of the migrations it was made with.
const TEMPLATE_PREFIX: &str = "retention_template_";
/// "harness" in ASCII: the advisory lock under which templates are made, cloned and swept.
const LOCK: i64 = 0x68_6172_6e65_7373;
/// Connections of one test. Its share of a server that many tests use at the same time.
const POOL: u32 = 8;

/// A database of its own for one test.
///
/// # Invariant
///
/// It is dropped with everybody still connected to it when this goes, also by a panic. If the process is killed,
/// the next one that uses the server drops it.
#[derive(Debug)]
pub struct TestDatabase {
    name: String,
    url: String,
    maintenance_url: String,
    dropped: bool,
}

impl TestDatabase {
    /// A database without any table, on the server of this process.
    ///
    /// # Errors
    ///
    /// When there is no server or it refuses to create a database.
    pub async fn empty() -> Result<Self> {
        Self::empty_on(server().await?).await
    }

    /// A database with the schema of the identity service, on the server of this process.
    ///
    /// # Errors
    ///
    /// As for [`TestDatabase::empty`], or when the migrations fail.
    pub async fn migrated() -> Result<Self> {
        Self::migrated_on(server().await?).await
    }

    /// Like [`TestDatabase::empty`], on another server.
    ///
    /// # Errors
    ///
    /// When the server refuses to create a database.
    pub async fn empty_on(server: &Server) -> Result<Self> {
        let mut admin = connect(server).await?;
        // Nobody can be connected to template0, which is what makes copying it safe at any time.
        let database = Self::clone(server, &mut admin, "template0").await?;
        admin.close().await?;
        Ok(database)
    }

    /// Like [`TestDatabase::migrated`], on another server.
    ///
    /// # Errors
    ///
    /// When the server refuses to create a database, or the migrations fail.
    pub async fn migrated_on(server: &Server) -> Result<Self> {
        let mut admin = connect_alone(server).await?;
        let template = ensure_template(server, &mut admin).await?;
        let database = Self::clone(server, &mut admin, &template).await?;
        admin.close().await?;
        Ok(database)
    }

    /// A copy of this one, file by file, on the same server: equal down to the place of every row.
    ///
    /// # Errors
    ///
    /// When somebody is connected to this one, or the server refuses.
    pub async fn copy(&self, server: &Server) -> Result<Self> {
        let mut admin = connect(server).await?;
        // The other strategy writes all pages to the WAL, which is slow for large databases.
        let template = format!("{} STRATEGY file_copy", self.name);
        let database = Self::clone(server, &mut admin, &template).await?;
        admin.close().await?;
        Ok(database)
    }

    async fn clone(server: &Server, admin: &mut PgConnection, template: &str) -> Result<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(1);
        loop {
            let name = format!("{PREFIX}{}_{}", process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
            match execute(admin, format!("CREATE DATABASE {name} TEMPLATE {template}")).await {
                Ok(()) => {
                    let (url, maintenance_url) = (server.url(&name), server.maintenance_url().to_owned());
                    return Ok(Self { name, url, maintenance_url, dropped: false });
                }
                // An earlier process of the same id left it, as in a container where ids repeat, or one on another
                // machine is using it.
                Err(error) if is_taken(&error) => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Its name, plain enough to need no quotes.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its address, for a user who may do everything in it.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// A small pool of connections to it, which belongs to the runtime of the caller.
    ///
    /// # Errors
    ///
    /// When the server does not let us in.
    pub async fn connect(&self) -> Result<PgPool> {
        let pool = PgPoolOptions::new().max_connections(POOL).connect(&self.url).await;
        pool.with_context(|| format!("connecting to {}", self.name))
    }

    /// Drops it now. Going out of scope does the same, without telling of errors.
    ///
    /// # Errors
    ///
    /// When the server refuses.
    pub async fn drop(mut self) -> Result<()> {
        self.dropped = true;
        drop_database(&self.maintenance_url, &self.name).await
    }
}

impl Drop for TestDatabase {
    fn drop(&mut self) {
        if self.dropped {
            return;
        }
        // A destructor cannot wait inside the runtime it may be running in, so a thread brings its own.
        thread::scope(|scope| {
            scope.spawn(|| {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
                if let Err(error) = runtime
                    .map_err(Into::into)
                    .and_then(|runtime| runtime.block_on(drop_database(&self.maintenance_url, &self.name)))
                {
                    eprintln!("the database {} is left behind: {error:#}", self.name);
                }
            });
        });
    }
}

/// Drops what dead processes left on a server that outlives them.
///
/// A database goes only if its name is one of ours, no process of that id runs here and nobody is connected to
/// it: the server may serve tests on other machines too.
pub(crate) async fn sweep(server: &Server) -> Result<()> {
    let mut admin = connect_alone(server).await?;
    let idle: Vec<String> = sqlx::query_scalar(
        "SELECT datname::text FROM pg_database WHERE starts_with(datname, $1) \
         AND NOT EXISTS (SELECT FROM pg_stat_activity a WHERE a.datname = pg_database.datname)",
    )
    .bind(PREFIX)
    .fetch_all(&mut admin)
    .await?;
    for name in idle.iter().filter(|name| owner(name).is_some_and(is_gone)) {
        if let Err(error) = execute(&mut admin, format!("DROP DATABASE IF EXISTS {name}")).await {
            eprintln!("the database {name} stays: {error:#}");
        }
    }
    admin.close().await?;
    Ok(())
}

fn is_taken(error: &anyhow::Error) -> bool {
    let code = error.downcast_ref::<sqlx::Error>().and_then(|error| error.as_database_error()?.code());
    // The second code tells of somebody who creates it at this very moment.
    matches!(code.as_deref(), Some("42P04" | "23505"))
}

/// The process id in a name of ours. Anything else, and so any name that would need quotes, is not ours.
fn owner(name: &str) -> Option<Pid> {
    let (pid, number) = name.strip_prefix(PREFIX)?.split_once('_')?;
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    (digits(pid) && digits(number)).then(|| pid.parse().ok().map(Pid::from_raw)).flatten()
}

fn is_gone(pid: Pid) -> bool {
    kill(pid, None) == Err(Errno::ESRCH)
}

/// Makes the template with the current schema unless it is there, and returns its name.
///
/// It gets its name when it is complete, and nobody can connect to it, so it can be copied at any time. Outdated
/// ones make room for it. The caller holds the lock.
async fn ensure_template(server: &Server, admin: &mut PgConnection) -> Result<String> {
    let name = format!("{TEMPLATE_PREFIX}{:016x}", migrations::fingerprint());
    let present: Vec<String> =
        sqlx::query_scalar("SELECT datname::text FROM pg_database WHERE starts_with(datname, $1)")
            .bind(TEMPLATE_PREFIX)
            .fetch_all(&mut *admin)
            .await?;
    if present.contains(&name) {
        return Ok(name);
    }
    for outdated in present {
        execute(admin, format!("DROP DATABASE \"{outdated}\" WITH (FORCE)")).await?;
    }
    let unfinished = format!("{TEMPLATE_PREFIX}unfinished");
    execute(admin, format!("CREATE DATABASE {unfinished} TEMPLATE template0")).await?;
    migrations::up(&server.url(&unfinished)).await.context("migrating the template")?;
    execute(admin, format!("ALTER DATABASE {unfinished} ALLOW_CONNECTIONS false")).await?;
    execute(admin, format!("ALTER DATABASE {unfinished} RENAME TO {name}")).await?;
    Ok(name)
}

async fn connect(server: &Server) -> Result<PgConnection> {
    PgConnection::connect(server.maintenance_url()).await.context("connecting to the maintenance database")
}

/// A connection that holds the lock of the harness until it is closed.
async fn connect_alone(server: &Server) -> Result<PgConnection> {
    let mut admin = connect(server).await?;
    sqlx::query("SELECT pg_advisory_lock($1)").bind(LOCK).execute(&mut admin).await?;
    Ok(admin)
}

async fn drop_database(maintenance_url: &str, name: &str) -> Result<()> {
    let mut admin = PgConnection::connect(maintenance_url).await?;
    execute(&mut admin, format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)")).await?;
    admin.close().await?;
    Ok(())
}

/// Runs one of the statements above: their names are made here, of letters, digits and underscores.
async fn execute(admin: &mut PgConnection, statement: String) -> Result<()> {
    sqlx::raw_sql(AssertSqlSafe(statement.clone())).execute(admin).await.context(statement)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_ours_have_an_owner() {
        assert_eq!(owner("retention_test_12_3"), Some(Pid::from_raw(12)));
        for foreign in [
            "retention_test_12",
            "retention_test_12_",
            "retention_test__1",
            "retention_test_-1_1",
            "retention_test_1_x",
            "retention_test_1_1; --",
            "retention_test_99999999999_1",
            "xretention_test_1_1",
            "postgres",
        ] {
            assert_eq!(owner(foreign), None, "{foreign}");
        }
        assert!(!is_gone(Pid::this()));
    }
}
