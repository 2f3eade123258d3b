//! What the catalogue answered, as values.

use sqlx::Row;
use sqlx::postgres::PgRow;

/// The table and our rights on it; the columns of `sql::preflight_table`.
pub(super) struct TableFacts {
    pub(super) kind: String,
    pub(super) persistence: String,
    pub(super) role: String,
    pub(super) inherited: bool,
    pub(super) may_use_schema: bool,
    pub(super) may_select: bool,
    pub(super) may_delete: bool,
    pub(super) may_update: bool,
    pub(super) row_security: bool,
    pub(super) rows_permitted: bool,
    pub(super) delete_rules: Option<String>,
    pub(super) publications: Option<String>,
    pub(super) identified: bool,
    pub(super) parent_indexed: bool,
    pub(super) invalid_age_indexes: Option<String>,
    pub(super) invalid_parent_indexes: Option<String>,
    pub(super) conditions_are_text: bool,
}

/// A foreign key that refers to the table; the columns of `sql::preflight_foreign_keys`.
pub(super) struct ForeignKey {
    pub(super) name: String,
    pub(super) referrer: String,
    pub(super) columns: String,
    pub(super) on_delete: OnDelete,
    pub(super) own: bool,
    pub(super) by_parent: bool,
    pub(super) indexed: bool,
}

/// What a foreign key does when the row it refers to is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OnDelete {
    /// `NO ACTION` or `RESTRICT`: the delete fails.
    Forbid,
    /// `CASCADE`: the referring row is deleted.
    Cascade,
    /// `SET NULL` or `SET DEFAULT`: the referring row is changed.
    Change,
}

/// A trigger; the columns of `sql::preflight_triggers`.
pub(super) struct Trigger {
    pub(super) name: String,
    pub(super) per_row: bool,
    pub(super) before: bool,
}

impl TableFacts {
    pub(super) fn read(row: &PgRow) -> Result<Self, sqlx::Error> {
        Ok(Self {
            kind: row.try_get("kind")?,
            persistence: row.try_get("persistence")?,
            role: row.try_get("role")?,
            inherited: row.try_get("inherited")?,
            may_use_schema: row.try_get("may_use_schema")?,
            may_select: row.try_get("may_select")?,
            may_delete: row.try_get("may_delete")?,
            may_update: row.try_get("may_update")?,
            row_security: row.try_get("row_security")?,
            rows_permitted: row.try_get("rows_permitted")?,
            delete_rules: row.try_get("delete_rules")?,
            publications: row.try_get("publications")?,
            identified: row.try_get("identified")?,
            parent_indexed: row.try_get("parent_indexed")?,
            invalid_age_indexes: row.try_get("invalid_age_indexes")?,
            invalid_parent_indexes: row.try_get("invalid_parent_indexes")?,
            conditions_are_text: row.try_get("conditions_are_text")?,
        })
    }
}

impl ForeignKey {
    pub(super) fn read(row: &PgRow) -> Result<Self, sqlx::Error> {
        Ok(Self {
            name: row.try_get("name")?,
            referrer: row.try_get("referrer")?,
            columns: row.try_get("columns")?,
            on_delete: match row.try_get("on_delete")? {
                "c" => OnDelete::Cascade,
                "n" | "d" => OnDelete::Change,
                _ => OnDelete::Forbid,
            },
            own: row.try_get("own")?,
            by_parent: row.try_get("by_parent")?,
            indexed: row.try_get("indexed")?,
        })
    }
}

impl Trigger {
    pub(super) fn read(row: &PgRow) -> Result<Self, sqlx::Error> {
        Ok(Self {
            name: row.try_get("name")?,
            per_row: row.try_get("per_row")?,
            before: row.try_get("before")?,
        })
    }
}
