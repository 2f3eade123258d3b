//! What else becomes of a due row than to be deleted: it moves to an archive, and is recorded in a ledger.

use std::collections::BTreeSet;

use anyhow::Result;
use harness::{Job, Role, TestDatabase};
use retention_domain::guard::{Condition, Test, Value};
use retention_domain::policy::Disposition;
use retention_domain::{PolicyReport, RetentionPeriod, RetentionPolicy, StopReason, TableName};
use rstest::rstest;
use sqlx::{AssertSqlSafe, PgPool};

/// 1,000 orders, of which the even ones are three years old and closed, and the archive they move to.
const ORDERS: &str = "CREATE SCHEMA shop; \
    CREATE TABLE shop.orders (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, note varchar(40), net numeric(9,2) NOT NULL, \
      gross numeric GENERATED ALWAYS AS (net * 2) STORED, closed_at timestamptz, created_at timestamptz NOT NULL); \
    CREATE TABLE shop.orders_archive (LIKE shop.orders INCLUDING ALL); \
    INSERT INTO shop.orders (note, net, closed_at, created_at) SELECT 'order ' || n, n, \
      CASE WHEN n % 2 = 0 THEN now() - interval '3 years' END, now() - interval '3 years' - make_interval(secs => n) \
      FROM generate_series(1, 1000) AS n";

async fn orders() -> Result<(TestDatabase, PgPool)> {
    let database = TestDatabase::migrated().await?;
    let pool = database.connect().await?;
    execute(&pool, ORDERS).await?;
    execute(&pool, include_str!("../../deploy/postgres/ledger.sql")).await?;
    Ok((database, pool))
}

pub(crate) async fn execute(pool: &PgPool, statements: &str) -> Result<()> {
    sqlx::raw_sql(AssertSqlSafe(statements.to_owned())).execute(pool).await?;
    Ok(())
}

pub(crate) async fn number(pool: &PgPool, query: &str) -> Result<i64> {
    Ok(sqlx::query_scalar(AssertSqlSafe(query.to_owned())).fetch_one(pool).await?)
}

async fn ids(pool: &PgPool, table: &str) -> Result<BTreeSet<i64>> {
    let query = AssertSqlSafe(format!("SELECT id FROM shop.{table}"));
    Ok(sqlx::query_scalar::<_, i64>(query).fetch_all(pool).await?.into_iter().collect())
}

fn policy() -> Result<RetentionPolicy> {
    Ok(RetentionPolicy {
        table: TableName::new("shop", "orders"),
        key: Vec::new(),
        conditions: vec![Condition { column: "closed_at".to_owned(), test: Test::IsNotNull }],
        disposition: Disposition::Archive(TableName::new("shop", "orders_archive")),
        audit_table: Some(TableName::new("retention", "ledger")),
        ..RetentionPolicy::sicr(RetentionPeriod::from_days(730)?)
    })
}

async fn run(url: &str, policy: RetentionPolicy) -> Result<PolicyReport> {
    let mut job = Job::new(100)?;
    job.policies = vec![policy];
    let mut report = job.run(url).await?;
    Ok(report.policies.remove(0))
}

fn even() -> BTreeSet<i64> {
    (1..=500).map(|n| n * 2).collect()
}

#[tokio::test]
async fn due_rows_move_whole_and_each_batch_is_in_the_ledger() -> Result<()> {
    let (database, pool) = orders().await?;
    let before = number(&pool, "SELECT sum(hashtext(orders::text)) FROM shop.orders").await?;
    let report = run(database.url(), policy()?).await?;
    assert_eq!((report.deleted, report.batches, report.error), (500, 5, None));
    assert_eq!(ids(&pool, "orders_archive").await?, even());
    assert_eq!(ids(&pool, "orders").await?, (0..500).map(|n| n * 2 + 1).collect());
    let after =
        "SELECT sum(hashtext(o::text)) FROM (TABLE shop.orders UNION ALL TABLE shop.orders_archive) AS o";
    assert_eq!(number(&pool, after).await?, before, "every row is what it was, in exactly one of the two");
    let ledger = "SELECT count(*) FROM retention.ledger WHERE rows = 100 AND policy = 'sicr' AND table_name = 'shop.orders' \
         AND job_run_id = '00000000-0000-7000-8000-000000000000' AND deleted_at BETWEEN now() - interval '1 hour' AND now() \
         AND cutoff BETWEEN now() - interval '731 days' AND now() - interval '729 days'";
    assert_eq!(number(&pool, ledger).await?, 5);
    let again = run(database.url(), policy()?).await?;
    assert_eq!((again.deleted, again.stop_reason), (0, StopReason::Drained));
    assert_eq!(number(&pool, "SELECT sum(rows)::bigint FROM retention.ledger").await?, 500);
    Ok(())
}

#[tokio::test]
async fn a_row_whose_key_is_in_the_archive_already_stays_and_all_others_move() -> Result<()> {
    let (database, pool) = orders().await?;
    execute(
        &pool,
        "INSERT INTO shop.orders_archive (id, note, net, created_at) OVERRIDING SYSTEM VALUE \
         VALUES (500, 'somebody else''s', 1, now())",
    )
    .await?;
    let report = run(database.url(), policy()?).await?;
    assert_eq!((report.deleted, report.failed_rows, report.stop_reason), (499, 1, StopReason::Error));
    let error = report.error.unwrap();
    assert!(error.contains("23505") && !error.contains("500)"), "{error}");
    assert!(ids(&pool, "orders").await?.contains(&500));
    assert_eq!(
        number(&pool, "SELECT count(*) FROM shop.orders_archive WHERE note = 'somebody else''s'").await?,
        1
    );
    assert_eq!(number(&pool, "SELECT sum(rows)::bigint FROM retention.ledger").await?, 499);
    Ok(())
}

#[tokio::test]
async fn a_row_that_the_archive_drops_stays() -> Result<()> {
    let (database, pool) = orders().await?;
    execute(
        &pool,
        "CREATE FUNCTION shop.dropping() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$; \
         CREATE TRIGGER dropping BEFORE INSERT ON shop.orders_archive FOR EACH ROW WHEN (NEW.id = 8) \
         EXECUTE FUNCTION shop.dropping()",
    )
    .await?;
    let report = run(database.url(), policy()?).await?;
    assert_eq!((report.deleted, report.failed_rows), (499, 1));
    assert!(report.error.unwrap().contains("does not keep every row"));
    assert!(ids(&pool, "orders").await?.contains(&8));
    assert_eq!(ids(&pool, "orders_archive").await?.len(), 499);
    Ok(())
}

#[tokio::test]
async fn without_its_entry_in_the_ledger_no_row_goes() -> Result<()> {
    let (database, pool) = orders().await?;
    execute(
        &pool,
        "CREATE FUNCTION shop.dropping() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$; \
         CREATE TRIGGER dropping BEFORE INSERT ON retention.ledger FOR EACH ROW EXECUTE FUNCTION shop.dropping()",
    )
    .await?;
    let report = run(database.url(), policy()?).await?;
    assert_eq!((report.deleted, report.stop_reason), (0, StopReason::Error));
    assert!(report.error.unwrap().contains("ledger retention.ledger does not keep its entries"));
    assert_eq!(ids(&pool, "orders").await?.len(), 1000);
    Ok(())
}

#[tokio::test]
async fn a_ledger_that_refuses_its_entry_is_to_blame_and_no_row_is() -> Result<()> {
    let (database, pool) = orders().await?;
    execute(&pool, "ALTER TABLE retention.ledger ADD CHECK (rows < 50)").await?;
    let report = run(database.url(), policy()?).await?;
    assert_eq!((report.deleted, report.failed_rows, report.stop_reason), (0, 0, StopReason::Error));
    let error = report.error.unwrap();
    assert!(error.contains("the ledger retention.ledger refuses its entry (SQLSTATE 23514)"), "{error}");
    Ok(())
}

#[tokio::test]
async fn rows_that_a_trigger_updates_instead_end_the_policy_after_two_passes() -> Result<()> {
    let (database, pool) = orders().await?;
    execute(
        &pool,
        "CREATE FUNCTION shop.softly() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
           UPDATE shop.orders SET note = 'deleted' WHERE id = OLD.id; RETURN NULL; END $$; \
         CREATE TRIGGER softly BEFORE DELETE ON shop.orders FOR EACH ROW WHEN (OLD.id % 4 = 0) EXECUTE FUNCTION shop.softly()",
    )
    .await?;
    let plain = RetentionPolicy { disposition: Disposition::Delete, audit_table: None, ..policy()? };
    let report = run(database.url(), plain).await?;
    assert_eq!((report.deleted, report.failed_rows, report.stop_reason), (250, 250, StopReason::Error));
    assert!(report.error.unwrap().contains("250 rows change instead of going"));
    assert_eq!(number(&pool, "SELECT count(*) FROM shop.orders WHERE note = 'deleted'").await?, 250);
    Ok(())
}

#[rstest]
#[case::of_itself(
    "ALTER TABLE shop.orders_archive RENAME TO loose; \
    CREATE TABLE shop.whole (LIKE shop.orders) PARTITION BY RANGE (created_at); \
    CREATE TABLE shop.orders_archive PARTITION OF shop.whole DEFAULT; \
    DROP TABLE shop.orders; ALTER TABLE shop.whole RENAME TO orders"
)]
#[tokio::test]
async fn an_archive_that_is_a_partition_of_the_table_is_refused(#[case] layout: &str) -> Result<()> {
    let (database, pool) = orders().await?;
    execute(&pool, layout).await?;
    let report = run(database.url(), policy()?).await?;
    assert_eq!((report.deleted, report.stop_reason), (0, StopReason::Error));
    let error = report.error.unwrap();
    assert!(error.contains("partitions of one another"), "{error}");
    Ok(())
}

#[rstest]
#[case::missing("DROP TABLE shop.orders_archive", "orders_archive does not exist")]
#[case::a_column_less(
    "ALTER TABLE shop.orders_archive DROP note",
    "note character varying(40) is missing there"
)]
#[case::a_column_more(
    "ALTER TABLE shop.orders_archive ADD archived_at timestamptz",
    "archived_at timestamp with time zone is there alone"
)]
#[case::another_type(
    "ALTER TABLE shop.orders_archive ALTER note TYPE varchar(10)",
    "note is character varying(10) there"
)]
#[case::no_ledger("DROP TABLE retention.ledger", "the ledger retention.ledger does not exist")]
#[case::a_ledger_that_wants_more(
    "ALTER TABLE retention.ledger ADD who text NOT NULL",
    "column who of the ledger retention.ledger must have a default"
)]
#[case::an_odd_ledger("ALTER TABLE retention.ledger DROP policy", "has no column policy")]
#[tokio::test]
async fn a_destination_of_another_shape_is_refused_before_anything_moves(
    #[case] defect: &str,
    #[case] reason: &str,
) -> Result<()> {
    let (database, pool) = orders().await?;
    execute(&pool, defect).await?;
    let report = run(database.url(), policy()?).await?;
    assert_eq!((report.deleted, report.failed_rows, report.stop_reason), (0, 0, StopReason::Error));
    let error = report.error.unwrap();
    assert!(error.contains(reason), "{error}");
    assert_eq!(ids(&pool, "orders").await?.len(), 1000);
    Ok(())
}

/// A slip of the pen in what is to be kept would delete it; the database knows which labels there are.
#[tokio::test]
async fn a_label_to_keep_that_the_column_does_not_know_is_refused() -> Result<()> {
    let (database, pool) = orders().await?;
    execute(
        &pool,
        "CREATE TYPE shop.kind AS ENUM ('keep', 'go'); ALTER TABLE shop.orders ADD kind shop.kind DEFAULT 'keep', \
         ADD padded char(6) DEFAULT 'keep'",
    )
    .await?;
    let blank = Test::NotIn(vec![Value::Text("keep  ".to_owned())]);
    let padded = RetentionPolicy {
        conditions: vec![Condition { column: "padded".to_owned(), test: blank }],
        disposition: Disposition::Delete,
        ..policy()?
    };
    let report = run(database.url(), padded).await?;
    assert_eq!(report.deleted, 0);
    assert!(report.error.unwrap().contains("must not end in a blank"));
    for (test, deleted) in [("kep", 0), ("keep", 500)] {
        let values = vec![Value::Text(test.to_owned())];
        let report = run(
            database.url(),
            RetentionPolicy {
                conditions: vec![
                    Condition { column: "kind".to_owned(), test: Test::NotIn(values) },
                    Condition { column: "closed_at".to_owned(), test: Test::IsNotNull },
                ],
                disposition: Disposition::Delete,
                ..policy()?
            },
        )
        .await?;
        assert_eq!(report.deleted, deleted, "{test}: {:?}", report.error);
        assert_eq!(report.error.is_some_and(|error| error.contains("no label kep")), test == "kep");
        execute(&pool, "UPDATE shop.orders SET kind = 'go'").await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_role_that_may_not_insert_moves_nothing() -> Result<()> {
    let (database, pool) = orders().await?;
    let role = Role::create(&database, "").await?;
    execute(
        &pool,
        &format!(
            "GRANT USAGE ON SCHEMA shop, retention TO {0}; GRANT SELECT, DELETE, UPDATE (id) ON shop.orders TO {0}; \
             GRANT INSERT ON retention.ledger TO {0}",
            role.name()
        ),
    )
    .await?;
    let report = run(role.url(), policy()?).await?;
    assert_eq!((report.deleted, report.stop_reason), (0, StopReason::Error));
    assert!(report.error.unwrap().contains("no right to INSERT into the archive shop.orders_archive"));
    execute(&pool, &format!("GRANT INSERT ON shop.orders_archive TO {}", role.name())).await?;
    let report = run(role.url(), policy()?).await?;
    assert_eq!((report.deleted, report.error), (500, None));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_that_is_restored_before_its_batch_stays() -> Result<()> {
    let (database, pool) = orders().await?;
    let restore = pool.clone();
    let mut job = Job::new(100)?.observed(move |event| {
        if matches!(event, retention_domain::ports::RunEvent::BatchStarted { .. }) {
            let restore = restore.clone();
            tokio::task::block_in_place(|| {
                let restoring =
                    execute(&restore, "UPDATE shop.orders SET closed_at = NULL WHERE id % 100 = 0");
                let _ = tokio::runtime::Handle::current().block_on(restoring);
            });
        }
    });
    job.policies = vec![policy()?];
    let report = job.run(database.url()).await?;
    assert_eq!((report.policies[0].deleted, report.policies[0].failed_rows), (490, 0));
    assert_eq!(number(&pool, "SELECT count(*) FROM shop.orders WHERE closed_at IS NULL").await?, 510);
    assert_eq!(ids(&pool, "orders_archive").await?.len(), 490);
    Ok(())
}
