//! Where a policy's rows, or the record of them, go: its archive and its ledger.

use std::fmt::Write as _;

use retention_domain::TableName;
use retention_domain::plan::Target;
use retention_domain::policy::Disposition;
use sqlx::Row;
use sqlx::postgres::PgRow;

use crate::error::Refused;
use crate::session::{Session, query};
use crate::sql;

/// The columns of a ledger, as the contract has them.
const LEDGER: [(&str, &str); 6] = [
    ("job_run_id", "uuid"),
    ("policy", "text"),
    ("table_name", "text"),
    ("cutoff", "timestamp with time zone"),
    ("rows", "bigint"),
    ("deleted_at", "timestamp with time zone"),
];

/// A column, as the catalogue has it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Column {
    name: String,
    type_name: String,
    generated: bool,
    may_insert: bool,
    row_security: bool,
    must_be_given: bool,
}

impl Column {
    fn read(row: &PgRow) -> Result<Self, sqlx::Error> {
        Ok(Self {
            name: row.try_get("name")?,
            type_name: row.try_get("type")?,
            generated: row.try_get("generated")?,
            may_insert: row.try_get("may_insert")?,
            row_security: row.try_get("row_security")?,
            must_be_given: row.try_get("must_be_given")?,
        })
    }
}

/// Checks the ledger, and the archive against the table; returns the columns that move, none without an archive.
///
/// # Errors
/// [`retention_domain::FailureKind::Fatal`] when a destination is missing, not ours to insert into, or of another shape.
pub(crate) async fn examine(session: &mut Session, target: &Target) -> Result<Vec<String>, sqlx::Error> {
    if let Some(ledger) = &target.policy.audit_table {
        check_ledger(ledger, &columns(session, ledger).await?).map_err(Refused::fatal)?;
    }
    archived(session, target).await
}

/// The columns that move to the archive, compared with the archive's own; none without an archive.
///
/// # Errors
/// As [`examine`].
pub(crate) async fn archived(session: &mut Session, target: &Target) -> Result<Vec<String>, sqlx::Error> {
    let Disposition::Archive(archive) = &target.policy.disposition else { return Ok(Vec::new()) };
    let from = columns(session, &target.policy.table).await?;
    let to = columns(session, archive).await?;
    let names = moved(&from, archive, &to).map_err(Refused::fatal)?;
    let one: bool = query(sql::are_one(&target.policy.table, archive))
        .fetch_one(&mut ***session)
        .await?
        .try_get("one")?;
    if one {
        let table = &target.policy.table;
        return Err(Refused::fatal(format!(
            "the archive {archive} and {table} are partitions of one another: rows would come back"
        )));
    }
    Ok(names)
}

async fn columns(session: &mut Session, table: &TableName) -> Result<Vec<Column>, sqlx::Error> {
    query(sql::columns_of(table)).fetch_all(&mut ***session).await?.iter().map(Column::read).collect()
}

/// Why nothing can be inserted into this table at all.
fn closed(what: &str, table: &TableName, columns: &[Column]) -> Option<String> {
    match columns.first() {
        None => Some(format!("the {what} {table} does not exist (SQLSTATE 42P01)")),
        Some(column) if !column.may_insert => {
            Some(format!("no right to INSERT into the {what} {table} or to use its schema (SQLSTATE 42501)"))
        }
        Some(column) if column.row_security => {
            Some(format!("row security of the {what} {table} applies to our role (SQLSTATE 42501)"))
        }
        Some(_) => None,
    }
}

fn check_ledger(ledger: &TableName, columns: &[Column]) -> Result<(), String> {
    if let Some(why) = closed("ledger", ledger, columns) {
        return Err(why);
    }
    for (name, type_name) in LEDGER {
        match columns.iter().find(|column| column.name == name) {
            Some(column) if column.type_name == type_name => {}
            Some(column) => {
                return Err(format!(
                    "column {name} of the ledger {ledger} is {}, but must be {type_name}",
                    column.type_name
                ));
            }
            None => return Err(format!("the ledger {ledger} has no column {name} ({type_name})")),
        }
    }
    let given = |column: &&Column| LEDGER.iter().any(|(name, _)| column.name == *name);
    match columns.iter().find(|column| column.must_be_given && !given(column)) {
        Some(Column { name, .. }) => {
            Err(format!("column {name} of the ledger {ledger} must have a default or allow NULL"))
        }
        None => Ok(()),
    }
}

/// The names of the columns to move, in the table's order.
///
/// Every column of one must be a column of the other, of the same type: a row must not lose anything on its way, and must
/// not meet a column nobody has decided about. Columns that both tables generate are left to the archive.
fn moved(from: &[Column], archive: &TableName, to: &[Column]) -> Result<Vec<String>, String> {
    if let Some(why) = closed("archive", archive, to) {
        return Err(why);
    }
    let mut difference = String::new();
    let mut names = Vec::new();
    let mut tell = |what: String| {
        let separator = if difference.is_empty() { "" } else { ", " };
        let _ = write!(difference, "{separator}{what}");
    };
    for column in from {
        match to.iter().find(|other| other.name == column.name) {
            None => tell(format!("{} {} is missing there", column.name, column.type_name)),
            Some(other) if other.type_name != column.type_name => {
                tell(format!("{} is {} there, {} here", column.name, other.type_name, column.type_name));
            }
            Some(other) if other.generated && !column.generated => {
                tell(format!("{} is generated there, and not here", column.name));
            }
            Some(other) if other.generated => {}
            Some(_) => names.push(column.name.clone()),
        }
    }
    for column in to.iter().filter(|column| !from.iter().any(|other| other.name == column.name)) {
        tell(format!("{} {} is there alone", column.name, column.type_name));
    }
    if difference.is_empty() {
        Ok(names)
    } else {
        Err(format!("the archive {archive} differs: {difference}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(columns: &[(&str, &str, bool)]) -> Vec<Column> {
        columns
            .iter()
            .map(|(name, type_name, generated)| Column {
                name: (*name).to_owned(),
                type_name: (*type_name).to_owned(),
                generated: *generated,
                may_insert: true,
                row_security: false,
                must_be_given: false,
            })
            .collect()
    }

    fn compared(from: &[(&str, &str, bool)], to: &[(&str, &str, bool)]) -> Result<Vec<String>, String> {
        moved(&table(from), &TableName::new("shop", "orders_archive"), &table(to))
    }

    #[test]
    fn an_archive_may_order_its_columns_differently_and_generate_what_the_table_generates() {
        let from = [("id", "bigint", false), ("net", "numeric(9,2)", false), ("gross", "numeric", true)];
        let to = [("gross", "numeric", true), ("net", "numeric(9,2)", false), ("id", "bigint", false)];
        assert_eq!(compared(&from, &to).unwrap(), ["id", "net"]);
        let kept = [("id", "bigint", false), ("net", "numeric(9,2)", false), ("gross", "numeric", false)];
        assert_eq!(compared(&from, &kept).unwrap(), ["id", "net", "gross"]);
    }

    #[test]
    fn every_difference_is_told() {
        let from =
            [("id", "bigint", false), ("note", "character varying(10)", false), ("sum", "integer", false)];
        let to = [
            ("id", "integer", false),
            ("note", "character varying(9)", false),
            ("archived_at", "timestamp with time zone", false),
        ];
        assert_eq!(
            compared(&from, &to).unwrap_err(),
            "the archive shop.orders_archive differs: id is integer there, bigint here, note is character varying(9) \
             there, character varying(10) here, sum integer is missing there, archived_at timestamp with time zone is \
             there alone"
        );
        let generated = compared(&[("a", "integer", false)], &[("a", "integer", true)]).unwrap_err();
        assert!(generated.ends_with("a is generated there, and not here"), "{generated}");
        assert!(compared(&from, &[]).unwrap_err().contains("does not exist"));
    }

    #[test]
    fn a_ledger_needs_all_its_columns_and_may_have_more() {
        let name = TableName::new("retention", "ledger");
        let mut columns: Vec<_> = LEDGER.iter().map(|(name, of)| (*name, *of, false)).collect();
        columns.push(("id", "bigint", false));
        assert_eq!(check_ledger(&name, &table(&columns)), Ok(()));
        let mut demanding = table(&columns);
        demanding[6].must_be_given = true;
        assert!(check_ledger(&name, &demanding).unwrap_err().contains("column id of the ledger"));
        columns[4].1 = "integer";
        assert!(check_ledger(&name, &table(&columns)).unwrap_err().contains("rows of the ledger"));
        assert!(check_ledger(&name, &table(&columns[..3])).unwrap_err().contains("no column cutoff"));
        let mut closed = table(&columns);
        closed[0].may_insert = false;
        assert!(check_ledger(&name, &closed).unwrap_err().contains("42501"));
    }
}
