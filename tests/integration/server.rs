//! The harness itself: which server is found, that databases come and go, and that nothing is left behind.
//!
//! Cannot show the container and the download at work on a machine without Docker or network.

use std::collections::HashSet;
use std::fs::{self, Permissions};
use std::io::ErrorKind;
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use harness::{Durability, Environment, Process, Server, TestDatabase, server};
use nix::sys::signal::Signal;
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use rstest::rstest;
use sqlx::{AssertSqlSafe, Connection, PgConnection};
use tempfile::TempDir;
use tokio::net::unix::pipe;
use tokio::sync::Mutex;
use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::timeout;

/// Far more than anything here takes; an event that has not come by then will not come.
const DEADLINE: Duration = Duration::from_mins(1);

/// The reasons of a search that fails, one per way.
async fn reasons(environment: Environment) -> Result<Vec<String>> {
    let found = Server::find_in(environment, Durability::Fast).await;
    let error = found.err().context("found a server where there is none")?;
    Ok(error.to_string().lines().map(|line| line.trim().to_owned()).collect())
}

#[cfg(not(feature = "embedded"))]
#[tokio::test]
async fn one_error_names_all_four_ways_and_why_each_failed() -> Result<()> {
    let nothing = Environment { versions: PathBuf::from("/nowhere"), ..Environment::default() };
    assert_eq!(
        reasons(nothing).await?,
        [
            "no PostgreSQL to work with; the ways to find one, in order:",
            "1. the server of TEST_DATABASE_URL: not set",
            "2. server binaries on this machine: no folder with initdb, pg_ctl, postgres in PATH, `pg_config --bindir` \
             or /nowhere/*/bin (TEST_POSTGRES_BIN is not set)",
            "3. a container: no `docker` command in PATH",
            "4. a download: not built in; the feature `embedded` of the package retention-tests adds it \
             (cargo test --workspace --features retention-tests/embedded)",
        ]
    );
    Ok(())
}

#[tokio::test]
async fn a_way_somebody_asked_for_has_to_work() -> Result<()> {
    let unreachable = "postgres://somebody:secret@127.0.0.1:1/postgres".to_owned();
    let given = Environment { database_url: Some(unreachable), ..Environment::of_process() };
    let said = reasons(given).await?;
    assert!(
        said[1].starts_with("1. the server of TEST_DATABASE_URL: connecting to 127.0.0.1:1: "),
        "{}",
        said[1]
    );
    assert!(!said.concat().contains("secret"));
    for way in &said[2..] {
        assert!(way.ends_with(": not tried, because TEST_DATABASE_URL is set and has to work"), "{way}");
    }

    let version = Environment {
        database_url: None,
        postgres_bin: Some(PathBuf::from("/nowhere")),
        ..Environment::of_process()
    };
    let said = reasons(version).await?;
    assert!(said[2].contains("TEST_POSTGRES_BIN is /nowhere"), "{}", said[2]);
    assert!(
        said[3].ends_with(": not tried, because TEST_POSTGRES_BIN is set and has to work"),
        "{}",
        said[3]
    );
    Ok(())
}

/// Whoever is given a server sweeps it, so a test that looks at the sweeping has it to itself.
static SWEEPING: Mutex<()> = Mutex::const_new(());

/// The server of this process, as somebody would give it to the tests.
async fn given() -> Result<Server> {
    let url = server().await?.url("postgres");
    Server::find_in(Environment { database_url: Some(url), ..Environment::of_process() }, Durability::Fast)
        .await
}

async fn databases() -> Result<HashSet<String>> {
    let mut admin = PgConnection::connect(server().await?.maintenance_url()).await?;
    let names: Vec<String> =
        sqlx::query_scalar("SELECT datname::text FROM pg_database").fetch_all(&mut admin).await?;
    Ok(names.into_iter().collect())
}

#[tokio::test]
async fn a_given_server_comes_before_the_binaries() -> Result<()> {
    let _sweeping = SWEEPING.lock().await;
    let given = given().await?;
    assert!(!given.is_throwaway());
    assert!(given.describe().ends_with(", given by TEST_DATABASE_URL"), "{}", given.describe());
    assert_eq!(given.folder(), None);

    let database = TestDatabase::migrated_on(&given).await?;
    let name = database.name().to_owned();
    assert!(databases().await?.contains(&name));
    let mut connection = PgConnection::connect(database.url()).await?;
    let current: String =
        sqlx::query_scalar("SELECT current_database()::text").fetch_one(&mut connection).await?;
    assert_eq!(current, name);
    database.drop().await?;
    assert!(!databases().await?.contains(&name));
    Ok(())
}

#[tokio::test]
async fn sweeps_only_what_dead_processes_left() -> Result<()> {
    let _sweeping = SWEEPING.lock().await;
    let mut child = Command::new("true").spawn()?;
    let dead = child.id();
    child.wait()?;
    let alive = std::process::id();
    let abandoned = format!("retention_test_{dead}_1");
    let in_use = format!("retention_test_{dead}_2");
    let owned = format!("retention_test_{alive}_999999");
    let foreign = format!("retention_testament_{dead}_1");
    let mut admin = PgConnection::connect(server().await?.maintenance_url()).await?;
    for name in [&abandoned, &in_use, &owned, &foreign] {
        sqlx::raw_sql(AssertSqlSafe(format!("CREATE DATABASE {name} TEMPLATE template0")))
            .execute(&mut admin)
            .await?;
    }
    let user = PgConnection::connect(&server().await?.url(&in_use)).await?;

    given().await?;
    let left = databases().await?;
    user.close().await?;
    for name in [&in_use, &owned, &foreign] {
        sqlx::raw_sql(AssertSqlSafe(format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)")))
            .execute(&mut admin)
            .await?;
    }
    assert!(!left.contains(&abandoned));
    assert!([in_use, owned, foreign].iter().all(|name| left.contains(name)), "{left:?}");
    Ok(())
}

#[tokio::test]
async fn steps_over_names_that_an_earlier_process_of_the_same_id_left() -> Result<()> {
    let first = TestDatabase::empty().await?;
    let (prefix, number) = first.name().rsplit_once('_').context("a name without a number")?;
    let number: u32 = number.parse()?;
    let mut admin = PgConnection::connect(server().await?.maintenance_url()).await?;
    let mut left = Vec::new();
    for name in (1..=4).map(|ahead| format!("{prefix}_{}", number + ahead)) {
        let statement = format!("CREATE DATABASE {name} TEMPLATE template0");
        // Another test may have come by that number meanwhile; then it is not one that was left.
        if sqlx::raw_sql(AssertSqlSafe(statement)).execute(&mut admin).await.is_ok() {
            left.push(name);
        }
    }
    let mut made = Vec::new();
    for _ in 0..4 {
        made.push(TestDatabase::empty().await?);
    }
    for name in &left {
        sqlx::raw_sql(AssertSqlSafe(format!("DROP DATABASE {name}"))).execute(&mut admin).await?;
    }
    assert!(!left.is_empty());
    assert!(made.iter().all(|database| !left.iter().any(|name| name == database.name())));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn many_at_once_get_a_migrated_database_each() -> Result<()> {
    let mut clones: JoinSet<Result<TestDatabase>> = (0..16).map(|_| TestDatabase::migrated()).collect();
    let mut names = HashSet::new();
    while let Some(database) = clones.join_next().await {
        let database = database??;
        let pool = database.connect().await?;
        let rows: i64 = sqlx::query_scalar("SELECT count(*) FROM identity.users").fetch_one(&pool).await?;
        assert_eq!(rows, 0);
        assert!(names.insert(database.name().to_owned()));
    }
    assert_eq!(names.len(), 16);
    assert!(databases().await?.is_disjoint(&names), "databases outlive their tests");
    Ok(())
}

#[tokio::test]
async fn a_panic_drops_the_database_although_connections_are_open() -> Result<()> {
    server().await?;
    let (sender, receiver) = std::sync::mpsc::channel();
    let test = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let database = TestDatabase::empty().await.unwrap();
            let _pool = database.connect().await.unwrap();
            sender.send(database.name().to_owned()).unwrap();
            panic!("on purpose");
        });
    });
    let name = receiver.recv()?;
    assert!(spawn_blocking(|| test.join()).await?.is_err());
    assert!(!databases().await?.contains(&name));
    Ok(())
}

/// Tests of clusters need binaries on this machine; a given server or a container is not one of ours to kill.
fn without_binaries() -> bool {
    let missing = !Environment::of_process().has_server_binaries();
    if missing {
        eprintln!("skipped: no PostgreSQL binaries on this machine");
    }
    missing
}

#[rstest]
#[case::returned("return", "holding", None)]
#[case::panicked("panic", "holding", None)]
#[case::interrupted("wait", "holding", Some(Signal::SIGINT))]
#[case::terminated("wait", "holding", Some(Signal::SIGTERM))]
#[case::killed("wait", "holding", Some(Signal::SIGKILL))]
#[case::killed_early("wait", "starting", Some(Signal::SIGKILL))]
#[tokio::test]
async fn leaves_no_server_no_folder_and_no_process(
    #[case] end: &str,
    #[case] event: &str,
    #[case] signal: Option<Signal>,
) -> Result<()> {
    if without_binaries() {
        return Ok(());
    }
    let folder = TempDir::new()?;
    let pipe = folder.path().join("alive");
    mkfifo(&pipe, Mode::S_IRWXU)?;
    let alive = pipe::OpenOptions::new().open_receiver(&pipe)?;
    // Where the holder's cluster goes, also if the holder is root and the cluster belongs to somebody else.
    let clusters = TempDir::new()?;
    fs::set_permissions(clusters.path(), Permissions::from_mode(0o777))?;
    let variables = [("TMPDIR", clusters.path().to_str().context("a path in UTF-8")?)];

    let holder = Path::new(env!("CARGO_BIN_EXE_hold-server"));
    let mut holder = Process::spawn(holder, [end, pipe.to_str().context("a path in UTF-8")?], variables)?;
    let line = holder.wait_for_line(|line| line.starts_with(event), DEADLINE).await?;
    let held: Vec<&str> = line.split(' ').skip(1).collect();
    if let Some(signal) = signal {
        if let [url, cluster] = held[..] {
            // The checks below have to look for what is there as long as the holder lives.
            PgConnection::connect(url).await?.close().await?;
            assert!(Path::new(cluster).starts_with(clusters.path()), "{cluster}");
        }
        holder.signal(signal)?;
    }

    // The shells that tidy up have inherited the holder's stderr, so this lasts until they have done so.
    let finished = holder.wait(DEADLINE).await?;
    assert_eq!(finished.status.success(), end == "return", "{finished:?}");
    assert_eq!(fs::read_dir(clusters.path())?.count(), 0, "a cluster is left behind");
    if let [url, _] = held[..] {
        let address = url.trim_start_matches("postgres://postgres@").trim_end_matches("/postgres");
        assert!(TcpStream::connect(address).is_err(), "a server still listens on {address}");
        timeout(DEADLINE, without_writer(&alive)).await.context("the holder's process is left behind")??;
    }
    Ok(())
}

/// Returns when nobody has the other end open.
async fn without_writer(pipe: &pipe::Receiver) -> Result<()> {
    loop {
        match pipe.try_read(&mut [0; 1]) {
            Ok(0) => return Ok(()),
            Err(error) if error.kind() == ErrorKind::WouldBlock => pipe.readable().await?,
            other => bail!("read {other:?} from a pipe nobody writes to"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn eight_clusters_start_at_once() -> Result<()> {
    if without_binaries() {
        return Ok(());
    }
    let environment = Environment { database_url: None, ..Environment::of_process() };
    let mut starts: JoinSet<Result<Server>> =
        (0..8).map(|_| Server::find_in(environment.clone(), Durability::Fast)).collect();
    let mut servers = Vec::new();
    while let Some(server) = starts.join_next().await {
        servers.push(server??);
    }
    let mut folders = HashSet::new();
    for server in servers {
        assert!(server.is_throwaway());
        let folder = server.folder().context("not a cluster")?.to_path_buf();
        let mut connection = PgConnection::connect(server.maintenance_url()).await?;
        let data: String = sqlx::query_scalar("SHOW data_directory").fetch_one(&mut connection).await?;
        assert_eq!(
            Path::new(&data).canonicalize()?,
            folder.join("data").canonicalize()?,
            "another one's port"
        );
        spawn_blocking(|| drop(server)).await?;
        assert!(!folder.exists());
        folders.insert(folder);
    }
    assert_eq!(folders.len(), 8);
    Ok(())
}

#[tokio::test]
async fn a_cluster_for_measurements_is_durable() -> Result<()> {
    if without_binaries() {
        return Ok(());
    }
    let environment = Environment { database_url: None, ..Environment::of_process() };
    let durability = Durability::Durable { shared_buffers_mb: 64, max_wal_size_mb: 2048 };
    for (durability, expected) in [
        (durability, ["on", "on", "on", "64MB", "2GB"]),
        (Durability::Fast, ["off", "off", "off", "256MB", "1GB"]),
    ] {
        let server = Server::find_in(environment.clone(), durability).await?;
        let mut connection = PgConnection::connect(server.maintenance_url()).await?;
        let settings: Vec<String> = sqlx::query_scalar(
            "SELECT current_setting(name) FROM unnest(ARRAY['fsync', 'full_page_writes', 'synchronous_commit', \
             'shared_buffers', 'max_wal_size']) WITH ORDINALITY AS wanted (name, place) ORDER BY place",
        )
        .fetch_all(&mut connection)
        .await?;
        assert_eq!(settings, expected);
    }
    Ok(())
}
