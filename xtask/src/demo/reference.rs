//! The independent reference: which rows must go, worked out in SQL before a run, and what is there after it.

use anyhow::{Context, Result};
use sqlx::{PgConnection, Row, raw_sql};

/// What must happen is on record in the database.
pub struct Reference(());

/// One table, as it was, as it should be and as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Comparison {
    /// The table.
    pub table: String,
    /// Rows there were.
    pub before: i64,
    /// Rows that must go.
    pub goes: i64,
    /// Rows that are due and held by a descendant that stays.
    pub blocked: i64,
    /// Rows that went.
    pub gone: i64,
    /// Rows that went and should have stayed.
    pub wrongly_gone: i64,
    /// Rows that stayed and should have gone.
    pub left_over: i64,
    /// Rows that stayed but not as they were, or are new.
    pub altered: i64,
}

/// Adds rows that the generator does not make.
pub async fn add_odd_rows(conn: &mut PgConnection) -> Result<()> {
    raw_sql(include_str!("odd_rows.sql")).execute(conn).await.context("adding odd rows")?;
    Ok(())
}

impl Reference {
    /// Puts on record what one run must do with the rows there are now.
    pub async fn work_out(conn: &mut PgConnection) -> Result<Self> {
        raw_sql(include_str!("reference.sql")).execute(conn).await.context("working out what must go")?;
        Ok(Self(()))
    }

    /// What has become of the rows, one entry a table. On the connection that worked the reference out: contents
    /// are compared as text, which depends on a session's settings.
    pub async fn compare(&self, conn: &mut PgConnection) -> Result<Vec<Comparison>> {
        compare(conn).await
    }
}

/// What has become of the rows of whatever is on record in the schema `demo`, one entry a table. On the connection that
/// put it there.
pub async fn compare(conn: &mut PgConnection) -> Result<Vec<Comparison>> {
    let rows = sqlx::query(include_str!("comparison.sql"))
        .fetch_all(conn)
        .await
        .context("comparing what is there with what should be")?;
    let read = |row: &sqlx::postgres::PgRow| {
        Ok(Comparison {
            table: row.try_get("table_name")?,
            before: row.try_get("before")?,
            goes: row.try_get("goes")?,
            blocked: row.try_get("blocked")?,
            gone: row.try_get("gone")?,
            wrongly_gone: row.try_get("wrongly_gone")?,
            left_over: row.try_get("left_over")?,
            altered: row.try_get("altered")?,
        })
    };
    rows.iter().map(read).collect()
}

#[cfg(test)]
mod tests {
    use harness::TestDatabase;
    use sqlx::Connection;

    use super::*;

    /// The odd rows alone, with their fate on record.
    async fn odd_rows() -> Result<(TestDatabase, PgConnection, Reference)> {
        let database = TestDatabase::migrated().await?;
        let mut conn = PgConnection::connect(database.url()).await?;
        add_odd_rows(&mut conn).await?;
        let reference = Reference::work_out(&mut conn).await?;
        Ok((database, conn, reference))
    }

    fn untouched(table: &str, before: i64, goes: i64, blocked: i64) -> Comparison {
        let table = table.to_owned();
        Comparison { table, before, goes, blocked, gone: 0, wrongly_gone: 0, left_over: goes, altered: 0 }
    }

    #[tokio::test]
    async fn every_odd_row_has_the_fate_its_comment_tells() -> Result<()> {
        let (_database, mut conn, reference) = odd_rows().await?;
        let expected = [
            untouched("identity.users", 1, 0, 0),
            untouched("identity.sign_in_confirmation_requests", 6, 2, 0),
            untouched("identity.refresh_sessions", 22, 8, 7),
        ];
        assert_eq!(reference.compare(&mut conn).await?, expected);
        let going: Vec<String> =
            sqlx::query_scalar("SELECT ltrim(right(id::text, 12), '0') FROM demo.goes ORDER BY id")
                .fetch_all(&mut conn)
                .await?;
        assert_eq!(going, ["1", "2", "13", "14", "20", "41", "50", "51", "52", "53"]);
        Ok(())
    }

    #[tokio::test]
    async fn one_wrong_row_and_one_altered_column_are_seen() -> Result<()> {
        let (_database, mut conn, reference) = odd_rows().await?;
        raw_sql(
            "DELETE FROM identity.refresh_sessions WHERE status = 'Compromised';
             DELETE FROM identity.sign_in_confirmation_requests WHERE status = 'Pending';
             UPDATE identity.users SET created_at = created_at + interval '1 microsecond';
             INSERT INTO identity.users (id) VALUES (gen_random_uuid())",
        )
        .execute(&mut conn)
        .await?;
        let expected = [
            Comparison { altered: 2, ..untouched("identity.users", 1, 0, 0) },
            Comparison {
                gone: 1,
                left_over: 1,
                ..untouched("identity.sign_in_confirmation_requests", 6, 2, 0)
            },
            Comparison { gone: 1, wrongly_gone: 1, ..untouched("identity.refresh_sessions", 22, 8, 7) },
        ];
        assert_eq!(reference.compare(&mut conn).await?, expected);
        Ok(())
    }
}
