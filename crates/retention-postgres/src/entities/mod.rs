//! The two identity tables as SeaORM entities: for seeding, tests and simple reads. Nothing deletes through them.
#![expect(missing_docs, reason = "the derive macros generate undocumented items")]

pub mod refresh_session;
pub mod sign_in_confirmation_request;
