//! A watch over a database: what was deleted, statement by statement, as the database itself counts it, and whether
//! anything else was written.

use anyhow::Result;

use crate::rows::Rows;

/// Statement-level triggers that count what deleting statements delete.
#[derive(Clone, Debug)]
pub struct Watch {
    rows: Rows,
}

impl Watch {
    /// Watches both tables. From now on every other change in the schema raises an error.
    ///
    /// # Errors
    ///
    /// When the triggers cannot be made.
    pub async fn over(rows: &Rows) -> Result<Self> {
        rows.execute(
            "CREATE SCHEMA watch; \
             CREATE TABLE watch.deletes (txid bigint NOT NULL, relation name NOT NULL, rows bigint NOT NULL); \
             CREATE FUNCTION watch.count() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN \
               INSERT INTO watch.deletes SELECT txid_current(), TG_TABLE_NAME, count(*) FROM gone; RETURN NULL; END $$; \
             CREATE FUNCTION watch.forbid() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
               RAISE EXCEPTION '% on %', TG_OP, TG_TABLE_NAME; END $$; \
             CREATE TRIGGER forbidden BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON identity.users \
               EXECUTE FUNCTION watch.forbid()",
        )
        .await?;
        for table in ["refresh_sessions", "sign_in_confirmation_requests"] {
            rows.execute(format!(
                "CREATE TRIGGER counted AFTER DELETE ON identity.{table} REFERENCING OLD TABLE AS gone \
                   EXECUTE FUNCTION watch.count(); \
                 CREATE TRIGGER forbidden BEFORE INSERT OR UPDATE OR TRUNCATE ON identity.{table} \
                   EXECUTE FUNCTION watch.forbid()"
            ))
            .await?;
        }
        Ok(Self { rows: rows.clone() })
    }

    /// Rows of the largest deleting statement.
    ///
    /// # Errors
    ///
    /// When the counts cannot be read.
    pub async fn largest_statement(&self) -> Result<u64> {
        self.rows.number("SELECT coalesce(max(rows), 0) FROM watch.deletes").await
    }

    /// Rows of the transaction that deleted most.
    ///
    /// # Errors
    ///
    /// When the counts cannot be read.
    pub async fn largest_transaction(&self) -> Result<u64> {
        let per_transaction = "SELECT sum(rows)::bigint AS rows FROM watch.deletes GROUP BY txid";
        self.rows
            .number(format!("SELECT coalesce(max(rows), 0) FROM ({per_transaction}) AS transactions"))
            .await
    }

    /// All rows deleted.
    ///
    /// # Errors
    ///
    /// When the counts cannot be read.
    pub async fn deleted(&self) -> Result<u64> {
        self.rows.number("SELECT coalesce(sum(rows), 0)::bigint FROM watch.deletes").await
    }

    /// Statements that deleted something.
    ///
    /// # Errors
    ///
    /// When the counts cannot be read.
    pub async fn statements(&self) -> Result<u64> {
        self.rows.number("SELECT count(*) FROM watch.deletes WHERE rows > 0").await
    }
}
