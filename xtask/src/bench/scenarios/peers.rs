//! `peers`: the worker beside what others use for the same job, each on as many rows in a schema of its own.

use anyhow::Result;
use harness::TestDatabase;
use sqlx::{Connection, PgConnection, raw_sql};

use super::super::figures::{Measured, Variant};
use super::super::oauth_peer::OauthPeer;
use super::super::results::grouped;
use super::super::sql;
use super::super::stage::{Index, Stage};
use super::super::worker::Settings;
use crate::seed::{Depths, Shape};

/// The small batch, for both peers.
const SMALL_BATCH: u32 = 1000;
/// The batch of the literal loop: the worker's default.
const LOOP_BATCH: u32 = 5000;

/// The package with a filled database.
struct Oauth {
    package: OauthPeer,
    database: TestDatabase,
}

/// Three tenths of the normal size revoked, a sixth as many live.
pub async fn measure(stage: &mut Stage) -> Result<Measured> {
    let revoked = stage.rows / 10 * 3;
    let live = revoked / 6;
    let what = format!(
        "{} revoked and {} live tokens: the worker beside the cleaners of others",
        grouped(revoked.into()),
        grouped(live.into())
    );
    let mut measured = Measured::new("peers", what);
    let shape =
        Shape { refresh_due: revoked, refresh_fresh: live, depths: Depths::uniform(10)?, ..Shape::default() };
    let template = stage.template(format!("peers {revoked}"), &[shape]).await?;

    stage.progress.begin("peers: installing django-oauth-toolkit");
    let oauth = match install(stage, revoked, live).await {
        Ok(oauth) => Some(oauth),
        Err(error) => {
            let note = format!("django-oauth-toolkit: not measured: {error:#}");
            stage.progress.say(&note);
            measured.notes.push(note);
            None
        }
    };

    let rows = revoked.into();
    let mut worker = Variant::timed("worker, no pause", rows);
    let version = oauth.as_ref().map_or("not measured", |oauth| oauth.package.version.as_str());
    let mut of_oauth = [None, Some(SMALL_BATCH)].map(|batch| {
        let batch_name = batch.map_or("default batch".to_owned(), |rows| format!("batch {rows}"));
        (batch, Variant::timed(format!("django-oauth-toolkit {version}, {batch_name}"), rows).compared())
    });
    let mut of_loop = [LOOP_BATCH, SMALL_BATCH]
        .map(|batch| (batch, Variant::timed(format!("SQL procedure, batch {batch}"), rows).compared()));
    let rounds = stage.rounds(stage.rows.into());
    stage.progress.expect(rounds * (3 + 2 * usize::from(oauth.is_some())));
    for _ in 0..rounds {
        let took = stage.timed("peers: worker", async |stage| {
            Ok(stage.drain(&template, Index::Without, &Settings::full_speed()).await?.duration)
        });
        worker.push_time(took.await?);
        for (batch, variant) in &mut of_oauth {
            let Some(Oauth { package, database }) = &oauth else { continue };
            let took = stage.timed(format!("peers: {}", variant.label), async |stage| {
                let copy = database.copy(&stage.server).await?;
                stage.settle().await?;
                let took = package.clean(copy.url(), *batch, revoked, live).await?;
                copy.drop().await?;
                Ok(took)
            });
            variant.push_time(took.await?);
        }
        for (batch, variant) in &mut of_loop {
            let took = stage.timed(format!("peers: {}", variant.label), async |stage| {
                let copy = stage.copy(&template, Index::Without).await?;
                let took = sql::literal_loop(copy.url(), *batch).await?;
                copy.drop().await?;
                Ok(took)
            });
            variant.push_time(took.await?);
        }
    }
    let peers: Vec<Variant> =
        of_oauth.into_iter().map(|(_, variant)| variant).chain(of_loop.map(|(_, variant)| variant)).collect();
    let fastest = peers.iter().map(Variant::median).fold(f64::NAN, f64::min);
    measured.found("peers", fastest / worker.median());
    measured.input("revoked", revoked);
    measured.input("live", live);
    measured.input("rounds", rounds);
    measured.notes.push(
        "Each on rows of its own schema; rows per second by the time of the cleaning alone, without the start of \
         a process. The SQL procedure is what pg_cron would call."
            .to_owned(),
    );
    measured.variants = std::iter::once(worker).chain(peers).collect();
    Ok(measured)
}

async fn install(stage: &Stage, revoked: u32, live: u32) -> Result<Oauth> {
    let package = OauthPeer::install().await?;
    let database = TestDatabase::empty_on(&stage.server).await?;
    stage.progress.begin("peers: filling the schema of django-oauth-toolkit");
    package.prepare(database.url(), revoked, live).await?;
    let mut connection = PgConnection::connect(database.url()).await?;
    raw_sql("VACUUM (ANALYZE)").execute(&mut connection).await?;
    connection.close().await?;
    Ok(Oauth { package, database })
}
