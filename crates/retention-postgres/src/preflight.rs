//! The preflight: looks at a policy's table and at our rights before anything is deleted, and says what would fail,
//! cost too much or surprise, and what mends it. Reads the catalogue alone: no row, no lock on rows, no DDL.

mod churn;
mod facts;
mod indexes;
mod neighbours;
mod partitions;
mod rows;
mod table;

use std::time::Duration;

use retention_domain::plan::Target;
use retention_domain::{Failure, RetentionPolicy};
use sqlx::postgres::PgRow;
use sqlx::{Executor, Row};

use self::churn::Churn;
use self::facts::{ForeignKey, TableFacts, Trigger};
use crate::catalogue;
use crate::destination;
use crate::error::Refused;
use crate::session::{Purpose, Session, query};
use crate::sql::{self, Place};
use crate::store::PgRetentionStore;

/// What was found about one thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What was looked at, in kebab case. Stable: alerts and scripts name it.
    pub id: &'static str,
    /// The policy's name, or [`Finding::RUN`].
    pub policy: String,
    /// How bad it is.
    pub level: Level,
    /// What was found; names tables and columns, never a value of a row.
    pub message: String,
    /// What mends it; `None` where nothing needs mending.
    pub advice: Option<String>,
}

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// As it should be.
    Ok,
    /// The policy works, but slowly or with effects to know about.
    Warning,
    /// The policy fails, or deletes what it should not.
    Error,
}

impl Level {
    /// `ok`, `warning` or `error`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

impl Finding {
    /// Stands for the policy where a finding is about the whole run.
    pub const RUN: &'static str = "run";

    /// A finding of level [`Level::Ok`].
    #[must_use]
    pub fn ok(id: &'static str, policy: &str, message: impl Into<String>) -> Self {
        Self { id, policy: policy.to_owned(), level: Level::Ok, message: message.into(), advice: None }
    }

    /// A finding with something to mend.
    #[must_use]
    pub fn bad(
        id: &'static str,
        policy: &str,
        level: Level,
        message: impl Into<String>,
        advice: impl Into<String>,
    ) -> Self {
        Self { level, advice: Some(advice.into()), ..Self::ok(id, policy, message) }
    }
}

/// One policy with all that the catalogue says about it, for the rules to judge.
struct Examined<'a> {
    policy: &'a RetentionPolicy,
    table: TableFacts,
    foreign_keys: Vec<ForeignKey>,
    triggers: Vec<Trigger>,
    /// What the engine itself says about the columns: it refuses the policy when this is an error.
    columns: Result<(), String>,
    /// How many partitions hold rows, or why rows of one could not be deleted.
    partitions: Result<usize, String>,
    /// Partitions that lie before the cutoff as a whole, quoted for SQL.
    partitions_before: Vec<String>,
    /// Why the archive or the ledger would refuse; `None` where there is neither, or nothing wrong.
    destination: Option<String>,
    /// The indexes that serve the policy's predicate, none if none does; `None` where that could not be asked.
    age_indexes: Option<Vec<String>>,
    /// What the statistics say of the table, or of each of its partitions.
    churn: Vec<Churn>,
}

impl Examined<'_> {
    fn ok(&self, id: &'static str, message: impl Into<String>) -> Finding {
        Finding::ok(id, self.policy.name.as_str(), message)
    }

    fn warning(&self, id: &'static str, message: impl Into<String>, advice: impl Into<String>) -> Finding {
        Finding::bad(id, self.policy.name.as_str(), Level::Warning, message, advice)
    }

    fn error(&self, id: &'static str, message: impl Into<String>, advice: impl Into<String>) -> Finding {
        Finding::bad(id, self.policy.name.as_str(), Level::Error, message, advice)
    }

    /// The table, quoted for SQL.
    fn relation(&self) -> String {
        let table = &self.policy.table;
        format!("{}.{}", sql::ident(&table.schema), sql::ident(&table.name))
    }

    fn judge(&self) -> Vec<Finding> {
        let mut findings = vec![table::exists(self), table::kind(self)];
        if findings.iter().any(|finding| finding.level == Level::Error) {
            return findings;
        }
        findings.extend([table::columns(self), table::rights(self)]);
        findings.extend(partitions::usable(self));
        findings.extend(partitions::whole(self));
        findings.extend(table::destination(self));
        if self.columns.is_ok() {
            findings.extend(indexes::parent(self));
            findings.extend(indexes::age(self));
            findings.extend(neighbours::self_reference(self));
        }
        findings.extend(neighbours::foreign_keys_in(self));
        findings.push(rows::security(self));
        findings.extend(rows::triggers(self));
        findings.extend([rows::rules(self), rows::replica_identity(self)]);
        findings.extend(churn::autovacuum(self));
        findings
    }
}

impl PgRetentionStore {
    /// Whether the server can be written to.
    ///
    /// # Errors
    /// As classified; nothing was found out.
    pub async fn preflight_server(&self, limit: Duration) -> Result<Finding, Failure> {
        let attempt = "examining the server";
        let row = self
            .transaction(attempt, Purpose::Read, limit, async |mut session| {
                let row = query(sql::preflight_server()).fetch_one(&mut **session).await?;
                Ok((session, (row.try_get("in_recovery")?, row.try_get("read_only")?)))
            })
            .await?;
        Ok(rows::read_only(row))
    }

    /// Everything worth knowing before this policy deletes: one finding for each thing that was looked at, several
    /// where there are several foreign keys or triggers to tell of. What an earlier error makes pointless is left out.
    ///
    /// # Errors
    /// As classified; nothing was found out.
    pub async fn preflight(&self, target: &Target, limit: Duration) -> Result<Vec<Finding>, Failure> {
        let attempt = format!("examining {}", target.policy.table);
        let examined = self
            .transaction(&attempt, Purpose::Read, limit, async |mut session| {
                let examined = examine(&mut session, target).await?;
                Ok((session, examined))
            })
            .await?;
        Ok(match examined {
            Some(examined) => examined.judge(),
            None => vec![table::missing(&target.policy)],
        })
    }
}

/// Asks the catalogue; `None` when there is no such relation.
async fn examine<'a>(session: &mut Session, target: &'a Target) -> Result<Option<Examined<'a>>, sqlx::Error> {
    let policy = &target.policy;
    let Some(row) = query(sql::preflight_table(policy)).fetch_optional(&mut ***session).await? else {
        return Ok(None);
    };
    let table = TableFacts::read(&row)?;
    let columns = query(sql::columns(&policy.table)).fetch_all(&mut ***session).await?;
    let columns = columns.iter().map(catalogue::Column::read).collect::<Result<Vec<_>, _>>()?;
    let columns = catalogue::check(target, &columns);
    let rows = query(sql::preflight_foreign_keys(policy)).fetch_all(&mut ***session).await?;
    let foreign_keys = rows.iter().map(ForeignKey::read).collect::<Result<_, _>>()?;
    let rows = query(sql::preflight_triggers(policy)).fetch_all(&mut ***session).await?;
    let triggers = rows.iter().map(Trigger::read).collect::<Result<_, _>>()?;
    let parts = query(sql::partitions(&policy.table)).fetch_all(&mut ***session).await?;
    let parts = parts.iter().map(catalogue::Partition::read).collect::<Result<Vec<_>, _>>()?;
    let partitions = catalogue::check_partitions(&parts).map(|()| parts.len());
    let before = query(sql::partitions_before(target)).fetch_all(&mut ***session).await?;
    let partitions_before = before.iter().map(|row| row.try_get("name")).collect::<Result<_, _>>()?;
    let churn = query(sql::preflight_churn(policy)).fetch_all(&mut ***session).await?;
    let churn = churn.iter().map(Churn::read).collect::<Result<_, _>>()?;
    let destination = match destination::examine(session, target).await {
        Ok(_) => None,
        Err(error) => Some(Refused::sentence(error)?),
    };
    // Also EXPLAIN asks for the right to read.
    let age_indexes = if columns.is_ok() && table.may_use_schema && table.may_select {
        let costs =
            "SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off; SET LOCAL enable_sort = off";
        session.execute(sqlx::raw_sql(costs)).await?;
        let plan = {
            let place = if table.kind == "p" { Place::Partitions } else { Place::Table };
            query(sql::preflight_age_index(target, &place))
        }
        .fetch_all(&mut ***session)
        .await?;
        let lines = plan.iter().map(|line: &PgRow| line.try_get(0)).collect::<Result<Vec<_>, _>>()?;
        indexes::serving(&lines)
    } else {
        None
    };
    Ok(Some(Examined {
        policy,
        table,
        foreign_keys,
        triggers,
        columns,
        partitions,
        partitions_before,
        destination,
        age_indexes,
        churn,
    }))
}
