//! Finding a PostgreSQL, in four ways and in this order: one that is given, the binaries of this machine, a
//! container, a download. A server that merely happens to run on this machine is none of them and is never
//! touched: this project deletes rows.

use std::fmt::{self, Write};
use std::path::Path;

use anyhow::{Context, Result, anyhow, bail};
use sqlx::postgres::PgConnectOptions;
use sqlx::{Connection, PgConnection};
use tokio::sync::OnceCell;

use crate::cluster::Cluster;
use crate::lifeline::Lifeline;
use crate::server_url::ServerUrl;
use crate::{Environment, container, database, installation};

/// How much a throw-away server cares for a crash. A given server keeps its own settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// Not at all: for tests.
    Fast,
    /// As PostgreSQL does by default: for measurements.
    Durable {
        /// Memory for pages; much less than the data makes a measurement one of the disk.
        shared_buffers_mb: u32,
        /// WAL between two checkpoints; too little makes a measurement one of checkpoints.
        max_wal_size_mb: u32,
    },
}

impl Durability {
    /// For measurements with up to some ten million rows.
    pub const BENCHMARK: Self = Self::Durable { shared_buffers_mb: 1024, max_wal_size_mb: 4096 };

    /// The command line of the server; all other settings are its defaults.
    pub(crate) fn options(self) -> Vec<String> {
        let settings = match self {
            Self::Fast => {
                "shared_buffers=256MB fsync=off full_page_writes=off synchronous_commit=off".to_owned()
            }
            Self::Durable { shared_buffers_mb, max_wal_size_mb } => {
                format!("shared_buffers={shared_buffers_mb}MB max_wal_size={max_wal_size_mb}MB")
            }
        };
        ["max_connections=200", "max_prepared_transactions=10"]
            .into_iter()
            .chain(settings.split(' '))
            .flat_map(|setting| ["-c".to_owned(), setting.to_owned()])
            .collect()
    }
}

/// A PostgreSQL to make databases in, as a superuser or at least with the right to create databases.
///
/// # Invariant
///
/// A throw-away one is gone, with all its files, soon after this is dropped or this process has ended, whether
/// it returned, panicked or was killed.
pub struct Server {
    url: String,
    databases: ServerUrl,
    version: String,
    found: Found,
}

/// What was found, holding what keeps it running.
enum Found {
    Given,
    Cluster { cluster: Cluster, origin: String },
    Container { _lifeline: Lifeline },
}

impl Server {
    /// Finds or starts a server as the environment of this process says.
    ///
    /// # Errors
    ///
    /// When no way works: one error that names all four and why each failed. A way somebody asked for by a
    /// variable must work; then no other is tried.
    pub async fn find(durability: Durability) -> Result<Self> {
        Self::find_in(Environment::of_process(), durability).await
    }

    /// Like [`Server::find`], in another environment.
    ///
    /// # Errors
    ///
    /// As for [`Server::find`].
    pub async fn find_in(environment: Environment, durability: Durability) -> Result<Self> {
        let mut report = String::from("no PostgreSQL to work with; the ways to find one, in order:");
        let mut demanded = None;
        for (number, way) in (1..).zip(Way::ORDER) {
            let reason = match demanded {
                Some(variable) => format!("not tried, because {variable} is set and has to work"),
                None => match way.open(&environment, durability).await {
                    Ok(server) => return Ok(server),
                    Err(error) => {
                        demanded = way.demanded_by(&environment);
                        format!("{error:#}")
                    }
                },
            };
            let _ = write!(report, "\n  {number}. {way}: {reason}");
        }
        Err(anyhow!(report))
    }

    /// The address of a database of this server. The name needs no escaping in a URL.
    #[must_use]
    pub fn url(&self, database: &str) -> String {
        self.databases.database(database)
    }

    /// The database from which others are made and dropped. Nothing is ever written into it.
    #[must_use]
    pub fn maintenance_url(&self) -> &str {
        &self.url
    }

    /// Version and origin, in a few words.
    #[must_use]
    pub fn describe(&self) -> String {
        let origin = match &self.found {
            Found::Given => "given by TEST_DATABASE_URL".to_owned(),
            Found::Cluster { origin, .. } => format!("throw-away cluster, {origin}"),
            Found::Container { .. } => "throw-away container".to_owned(),
        };
        format!("PostgreSQL {}, {origin}", self.version)
    }

    /// Whether it was started for us and ends with us.
    #[must_use]
    pub fn is_throwaway(&self) -> bool {
        !matches!(self.found, Found::Given)
    }

    /// The folder that goes when a cluster from local binaries goes.
    #[must_use]
    pub fn folder(&self) -> Option<&Path> {
        match &self.found {
            Found::Cluster { cluster, .. } => Some(cluster.folder()),
            Found::Given | Found::Container { .. } => None,
        }
    }

    async fn connect(url: String, found: Found) -> Result<Self> {
        let options: PgConnectOptions = url.parse()?;
        // Not the address itself: it may hold a password.
        let place = format!("connecting to {}:{}", options.get_host(), options.get_port());
        let mut connection = PgConnection::connect_with(&options).await.context(place)?;
        let version: String = sqlx::query_scalar("SHOW server_version").fetch_one(&mut connection).await?;
        connection.close().await?;
        Ok(Self { databases: ServerUrl::parse(&url)?, url, version, found })
    }
}

/// The server of this test process, found at the first call.
///
/// # Errors
///
/// As for [`Server::find`], and the same at every call.
pub async fn server() -> Result<&'static Server> {
    static SERVER: OnceCell<Result<Server, String>> = OnceCell::const_new();
    let find = async || Server::find(Durability::Fast).await.map_err(|error| format!("{error:#}"));
    SERVER.get_or_init(find).await.as_ref().map_err(|error| anyhow!(error.clone()))
}

/// A way to a server.
#[derive(Debug, Clone, Copy)]
enum Way {
    Given,
    Binaries,
    Container,
    Download,
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Given => "the server of TEST_DATABASE_URL",
            Self::Binaries => "server binaries on this machine",
            Self::Container => "a container",
            Self::Download => "a download",
        })
    }
}

impl Way {
    const ORDER: [Self; 4] = [Self::Given, Self::Binaries, Self::Container, Self::Download];

    /// The variable by which somebody asked for this way and no other.
    fn demanded_by(self, environment: &Environment) -> Option<&'static str> {
        match self {
            Self::Given => environment.database_url.as_ref().map(|_| "TEST_DATABASE_URL"),
            Self::Binaries => environment.postgres_bin.as_ref().map(|_| "TEST_POSTGRES_BIN"),
            Self::Container | Self::Download => None,
        }
    }

    async fn open(self, environment: &Environment, durability: Durability) -> Result<Server> {
        match self {
            Self::Given => {
                let url = environment.database_url.clone().context("not set")?;
                let server = Server::connect(url, Found::Given).await?;
                database::sweep(&server).await.context("sweeping what earlier tests left")?;
                Ok(server)
            }
            Self::Binaries => {
                let mut failures = Vec::new();
                for folder in installation::folders(environment)? {
                    match start_cluster(&folder, durability).await {
                        Ok(server) => return Ok(server),
                        Err(error) => failures.push(format!("{error:#}")),
                    }
                }
                bail!(failures.join("; "))
            }
            Self::Container => {
                let (url, lifeline) = container::start(environment, durability).await?;
                Server::connect(url, Found::Container { _lifeline: lifeline }).await
            }
            #[cfg(feature = "embedded")]
            Self::Download => start_cluster(&crate::download::folder().await?, durability).await,
            #[cfg(not(feature = "embedded"))]
            Self::Download => bail!(
                "not built in; the feature `embedded` of the package retention-tests adds it \
                 (cargo test --workspace --features retention-tests/embedded)"
            ),
        }
    }
}

async fn start_cluster(binaries: &Path, durability: Durability) -> Result<Server> {
    let origin = format!("binaries {}", binaries.display());
    let folder = binaries.to_path_buf();
    let cluster = tokio::task::spawn_blocking(move || Cluster::start(&folder, durability)).await??;
    Server::connect(cluster.url(), Found::Cluster { cluster, origin }).await
}
