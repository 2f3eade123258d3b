//! The migrations against a real server: the schema is the agreed one, there and back, also several at once.
//!
//! Cannot show what a production schema looks like: there the identity service owns the tables.

use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use harness::{Environment, Finished, Process, Rows, TestDatabase, Worker, binary, shape};
use sqlx::{AssertSqlSafe, Connection, PgConnection};
use tokio::task::{JoinSet, spawn_blocking};

const DEADLINE: Duration = Duration::from_mins(1);

/// The schema as it was agreed with the identity service, to the letter.
const AGREED: &str = "
CREATE SCHEMA identity;
CREATE TABLE identity.users (id uuid PRIMARY KEY, created_at timestamptz NOT NULL DEFAULT now());
CREATE TABLE identity.sign_in_confirmation_requests (
  id uuid PRIMARY KEY, user_id uuid REFERENCES identity.users (id), phone_number text NOT NULL, code_hash bytea NOT NULL,
  status text NOT NULL, attempts integer NOT NULL DEFAULT 0, ip_address inet, user_agent text,
  created_at timestamptz NOT NULL, expires_at timestamptz NOT NULL);
CREATE INDEX ix_sicr_created_at ON identity.sign_in_confirmation_requests (created_at);
CREATE TABLE identity.refresh_sessions (
  id uuid PRIMARY KEY, user_id uuid NOT NULL REFERENCES identity.users (id), token_hash bytea NOT NULL UNIQUE,
  parent_session_id uuid REFERENCES identity.refresh_sessions (id) ON DELETE RESTRICT, status text NOT NULL,
  ip_address inet, user_agent text, created_at timestamptz NOT NULL, updated_at timestamptz NOT NULL, expires_at timestamptz NOT NULL);
CREATE INDEX ix_refresh_sessions_parent_session_id ON identity.refresh_sessions (parent_session_id);
";

/// Everything the catalogues know of the schema `identity`, and the names of the relations beside it.
const CATALOGUE: &str = "
WITH ours AS (SELECT c.* FROM pg_class c WHERE c.relnamespace = 'identity'::regnamespace)
SELECT format('relation %s kind %s persistence %s security %s options %s', relname, relkind, relpersistence,
              relrowsecurity, reloptions)
FROM ours
UNION ALL
SELECT format('column %s.%s at %s: %s not null %s default %s collation %s generated %s identity %s', c.relname, a.attname,
              a.attnum, format_type(a.atttypid, a.atttypmod), a.attnotnull, pg_get_expr(d.adbin, d.adrelid),
              a.attcollation::regcollation, a.attgenerated, a.attidentity)
FROM ours c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0
LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum
WHERE c.relkind = 'r'
UNION ALL
SELECT format('constraint %s on %s: %s', n.conname, c.relname, pg_get_constraintdef(n.oid))
FROM ours c JOIN pg_constraint n ON n.conrelid = c.oid
UNION ALL
SELECT format('index %s valid %s', pg_get_indexdef(i.indexrelid), i.indisvalid)
FROM ours c JOIN pg_index i ON i.indrelid = c.oid
UNION ALL
SELECT format('trigger %s', pg_get_triggerdef(t.oid))
FROM ours c JOIN pg_trigger t ON t.tgrelid = c.oid AND NOT t.tgisinternal
UNION ALL
SELECT format('type %s', t.typname) FROM pg_type t WHERE t.typnamespace = 'identity'::regnamespace
UNION ALL
SELECT format('function %s', p.oid::regprocedure) FROM pg_proc p WHERE p.pronamespace = 'identity'::regnamespace
ORDER BY 1";

async fn catalogue(url: &str) -> Result<Vec<String>> {
    let mut connection = PgConnection::connect(url).await?;
    let lines = sqlx::query_scalar(CATALOGUE).fetch_all(&mut connection).await?;
    connection.close().await?;
    Ok(lines)
}

async fn scalar<T>(url: &str, query: &'static str) -> Result<T>
where
    T: Send + Unpin + for<'r> sqlx::Decode<'r, sqlx::Postgres> + sqlx::Type<sqlx::Postgres>,
{
    let mut connection = PgConnection::connect(url).await?;
    Ok(sqlx::query_scalar(query).fetch_one(&mut connection).await?)
}

async fn migrate(url: String, arguments: &'static [&'static str]) -> Result<Finished> {
    let path = spawn_blocking(|| binary("migrations")).await??;
    let mut process = Process::spawn(&path, arguments.iter().copied(), [("DATABASE_URL", url.as_str())])?;
    process.wait(DEADLINE).await
}

/// Runs the migrations' command line, which has to succeed.
async fn migrated(database: &TestDatabase, arguments: &'static [&'static str]) -> Result<String> {
    let finished = migrate(database.url().to_owned(), arguments).await?;
    anyhow::ensure!(finished.code() == Some(0), "{arguments:?}: {finished:?}");
    Ok(finished.stdout)
}

#[tokio::test]
async fn makes_exactly_the_agreed_schema() -> Result<()> {
    let agreed = TestDatabase::empty().await?;
    let mut connection = PgConnection::connect(agreed.url()).await?;
    sqlx::raw_sql(AGREED).execute(&mut connection).await?;
    connection.close().await?;
    let expected = catalogue(agreed.url()).await?;
    assert!(expected.iter().any(|line| line.contains("ON DELETE RESTRICT")), "the comparison sees nothing");

    let by_library = TestDatabase::migrated().await?;
    assert_eq!(catalogue(by_library.url()).await?, expected);
    let by_command = TestDatabase::empty().await?;
    migrated(&by_command, &["up"]).await?;
    assert_eq!(catalogue(by_command.url()).await?, expected);
    let beside: String = scalar(
        by_command.url(),
        "SELECT string_agg(oid::regclass::text, ' ') FROM pg_class WHERE relkind = 'r' AND relnamespace NOT IN \
         ('identity'::regnamespace, 'pg_catalog'::regnamespace, 'information_schema'::regnamespace)",
    )
    .await?;
    assert_eq!(beside, "seaql_migrations");
    Ok(())
}

#[tokio::test]
async fn goes_up_down_and_up_again_step_by_step() -> Result<()> {
    let database = TestDatabase::empty().await?;
    let schemas = "SELECT count(*) FROM pg_namespace WHERE nspname = 'identity'";
    let mut stages = Vec::new();
    for _ in 0..3 {
        migrated(&database, &["up", "-n", "1"]).await?;
        stages.push(catalogue(database.url()).await?);
    }
    assert!(stages[0].len() < stages[1].len() && stages[1].len() < stages[2].len());
    for stage in stages[..2].iter().rev() {
        migrated(&database, &["down"]).await?;
        assert_eq!(&catalogue(database.url()).await?, stage);
    }
    migrated(&database, &["down"]).await?;
    assert_eq!(scalar::<i64>(database.url(), schemas).await?, 0);
    migrated(&database, &["up"]).await?;
    assert_eq!(catalogue(database.url()).await?, stages[2]);
    let again = migrated(&database, &["up"]).await?;
    assert!(again.contains("No pending migrations"), "{again}");
    Ok(())
}

#[tokio::test]
async fn fresh_starts_over_and_spares_the_tables_of_others() -> Result<()> {
    let database = TestDatabase::migrated().await?;
    let pool = database.connect().await?;
    sqlx::raw_sql(
        "CREATE TABLE public.strangers (id int); INSERT INTO public.strangers VALUES (1); \
         INSERT INTO identity.users (id) VALUES (gen_random_uuid()); ALTER TABLE identity.users ADD spoilt int",
    )
    .execute(&pool)
    .await?;
    migrated(&database, &["fresh"]).await?;
    assert_eq!(catalogue(database.url()).await?, catalogue(TestDatabase::migrated().await?.url()).await?);
    assert_eq!(scalar::<i64>(database.url(), "SELECT count(*) FROM identity.users").await?, 0);
    assert_eq!(scalar::<i64>(database.url(), "SELECT count(*) FROM public.strangers").await?, 1);
    Ok(())
}

#[tokio::test]
async fn four_at_once_all_succeed_and_record_each_migration_once() -> Result<()> {
    for round in 0..5 {
        let database = TestDatabase::empty().await?;
        let mut runs: JoinSet<Result<Finished>> =
            (0..4).map(|_| migrate(database.url().to_owned(), &["up"])).collect();
        while let Some(finished) = runs.join_next().await {
            let finished = finished??;
            assert_eq!(finished.code(), Some(0), "round {round}: {finished:?}");
        }
        let recorded: Vec<i64> = {
            let mut connection = PgConnection::connect(database.url()).await?;
            sqlx::query_scalar("SELECT count(*) FROM seaql_migrations GROUP BY version")
                .fetch_all(&mut connection)
                .await?
        };
        assert_eq!(recorded, [1, 1, 1], "round {round}");
        database.drop().await?;
    }
    Ok(())
}

/// Who starts the service anew migrates, while the worker of before is at work.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn up_beside_a_worker_at_work_disturbs_neither() -> Result<()> {
    let database = TestDatabase::migrated().await?;
    let rows = Rows::of(&database).await?;
    rows.sessions(shape::chains(1, 200, 10)).await?;
    let worker = Worker::on(database.url())
        .set("SESSION_RETENTION_BATCH_SIZE", "10")
        .set("SESSION_RETENTION_BATCH_PAUSE", "1ms");
    let mut process = worker.spawn(&["run", "--format", "json"]).await?;
    process.wait_for_line(|line| line.contains("\"batch deleted\""), DEADLINE).await?;
    for _ in 0..5 {
        migrated(&database, &["up"]).await?;
    }
    let finished = process.wait(DEADLINE).await?;
    assert!(finished.code() == Some(0) && !finished.stderr.contains("SQLSTATE"), "{}", finished.stderr);
    assert_eq!(rows.count_sessions().await?, 0);
    Ok(())
}

#[tokio::test]
async fn says_which_database_cannot_be_used() -> Result<()> {
    let finished = migrate("postgres://postgres@127.0.0.1:1/nowhere".to_owned(), &["up"]).await?;
    assert_eq!(finished.code(), Some(1));
    assert!(finished.stderr.starts_with("the database to migrate cannot be used: "), "{finished:?}");
    Ok(())
}

#[tokio::test]
async fn the_optional_index_is_valid_and_covers_the_terminal_sessions() -> Result<()> {
    let database = TestDatabase::migrated().await?;
    let mut connection = PgConnection::connect(database.url()).await?;
    for _ in 0..2 {
        sqlx::raw_sql(include_str!("../../deploy/postgres/retention-index.sql"))
            .execute(&mut connection)
            .await?;
    }
    let definition: String = scalar(
        database.url(),
        "SELECT pg_get_indexdef(indexrelid) FROM pg_index \
         WHERE indexrelid = 'identity.ix_refresh_sessions_terminal_updated_at'::regclass AND indisvalid",
    )
    .await?;
    assert_eq!(
        definition,
        "CREATE INDEX ix_refresh_sessions_terminal_updated_at ON identity.refresh_sessions USING btree (updated_at, id) \
         WHERE (status = ANY (ARRAY['Rotated'::text, 'Revoked'::text, 'Expired'::text]))"
    );
    Ok(())
}

/// What the role may do, as the catalogues have it.
const GRANTS: &str = "
SELECT format('%s %s', a.privilege_type, n.nspname) FROM pg_namespace n, aclexplode(n.nspacl) a
WHERE a.grantee = $1::regrole
UNION ALL
SELECT format('%s %s', a.privilege_type, c.oid::regclass) FROM pg_class c, aclexplode(c.relacl) a
WHERE a.grantee = $1::regrole
UNION ALL
SELECT format('%s (%s) %s', a.privilege_type, t.attname, t.attrelid::regclass) FROM pg_attribute t, aclexplode(t.attacl) a
WHERE a.grantee = $1::regrole
ORDER BY 1";

#[tokio::test]
async fn the_grants_suffice_to_lock_and_delete_and_for_nothing_else() -> Result<()> {
    let Some(psql) = Environment::of_process().program("psql") else {
        eprintln!("skipped: no psql on this machine");
        return Ok(());
    };
    let database = TestDatabase::migrated().await?;
    let role = database.name();
    for _ in 0..2 {
        let output = Command::new(&psql)
            .args([database.url(), "--no-psqlrc", "--quiet", "--set", "ON_ERROR_STOP=1", "--set"])
            .arg(format!("worker={role}"))
            .args(["--file", concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy/postgres/grants.sql")])
            .output()?;
        anyhow::ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    let mut admin = PgConnection::connect(database.url()).await?;
    let grants: Vec<String> = sqlx::query_scalar(GRANTS).bind(role).fetch_all(&mut admin).await?;
    let lock_and_delete = "WITH due AS (SELECT id FROM identity.refresh_sessions FOR UPDATE SKIP LOCKED) \
                           DELETE FROM identity.refresh_sessions WHERE id IN (SELECT id FROM due)";
    let mut outcomes = Vec::new();
    execute(&mut admin, format!("SET ROLE {role}")).await?;
    for statement in [
        lock_and_delete,
        "DELETE FROM identity.sign_in_confirmation_requests",
        "UPDATE identity.refresh_sessions SET status = 'Revoked'",
        "INSERT INTO identity.users DEFAULT VALUES",
        "SELECT FROM identity.users",
        "TRUNCATE identity.refresh_sessions",
        "CREATE TABLE identity.extra ()",
    ] {
        outcomes.push(execute(&mut admin, statement.to_owned()).await.is_ok());
    }
    // Roles belong to the whole server: this one goes before anything can fail.
    execute(&mut admin, format!("RESET ROLE; DROP OWNED BY {role}; DROP ROLE {role}")).await?;

    assert_eq!(outcomes, [true, true, false, false, false, false, false]);
    assert_eq!(
        grants,
        [
            "DELETE identity.refresh_sessions",
            "DELETE identity.sign_in_confirmation_requests",
            "SELECT identity.refresh_sessions",
            "SELECT identity.sign_in_confirmation_requests",
            "UPDATE (id) identity.refresh_sessions",
            "UPDATE (id) identity.sign_in_confirmation_requests",
            "USAGE identity",
        ]
    );
    Ok(())
}

async fn execute(connection: &mut PgConnection, statement: String) -> Result<()> {
    sqlx::raw_sql(AssertSqlSafe(statement.clone())).execute(connection).await.context(statement)?;
    Ok(())
}
