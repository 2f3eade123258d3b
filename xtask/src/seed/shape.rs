//! What is to be made: the [`Shape`], its ranges, and the instants it is made around. Makes no row itself.

use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context, ensure};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use retention_domain::period::{MAX_PERIOD, format_duration};
use serde::Serialize;

/// Microseconds since 2000-01-01T00:00:00Z: what a `timestamptz` holds.
pub type Micros = i64;

/// Microseconds in an hour.
pub const HOUR: Micros = 3_600_000_000;

/// Microseconds in a day.
pub const DAY: Micros = 24 * HOUR;

/// How much younger than its cutoff every row is that is not due. Smaller, and rows come of age before a slow
/// run has started; larger, and fresh rows are squeezed together.
pub const MARGIN: Micros = DAY;

/// Rows per table at most. A refresh session takes about 70 bytes of memory while it is made.
pub const MAX_ROWS: u32 = 100_000_000;

/// The retention period of confirmation requests, as the worker's default has it.
const SICR_RETENTION: Micros = 30 * DAY;

/// The retention period of terminal refresh sessions, as the worker's default has it.
const REFRESH_RETENTION: Micros = 90 * DAY;

/// What [`fill`](super::fill) makes. Equal shapes make equal rows, but for "now".
#[derive(Clone, Debug, Serialize)]
pub struct Shape {
    /// Confirmation requests that are due.
    pub sicr_due: u32,
    /// Confirmation requests that are too young.
    pub sicr_fresh: u32,
    /// Refresh sessions in chains which are wholly due, so all of them can go.
    pub refresh_due: u32,
    /// Refresh sessions in chains which are wholly young.
    pub refresh_fresh: u32,
    /// Rows per chain.
    pub depths: Depths,
    /// Share of the due and of the fresh chains that are small trees, 0 to 1.
    pub forks: f64,
    /// Share of the chains with old rows that end in a living leaf, 0 to 1 (exclusive). They come on top of
    /// `refresh_due`; all their old rows are blocked.
    pub active_share: f64,
    /// Due rows are spread over `[cutoff - age_span, cutoff)`.
    pub age_span: Duration,
    /// Users that own the rows.
    pub users: u32,
    /// Physical order of the rows.
    pub order: Order,
    /// Start of everything random.
    pub seed: u64,
    /// Add to tables that hold rows already.
    pub append: bool,
    /// Create the optional index for terminal sessions afterwards.
    pub with_index: bool,
    /// Vacuum and analyze afterwards, so that plans are those of a table in use.
    pub analyze: bool,
}

/// A source of random numbers of its own for each kind of row, so that asking for more of one kind does not
/// change another.
#[derive(Clone, Copy, Debug)]
pub enum Stream {
    /// Users.
    Users,
    /// Confirmation requests.
    Requests,
    /// Refresh sessions.
    Chains,
    /// The order of refresh sessions.
    Shuffle,
}

/// In which order rows are inserted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Order {
    /// By creation, as a table is filled in real life
    Age,
    /// Shuffled
    Random,
}

/// Which share of the rows is in chains of which depth.
///
/// # Invariant
///
/// Not empty, depths in `1..=MAX_ROWS`, shares above 0 that add up to 1.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Depths(Vec<(u32, f64)>);

/// The instants all ages are measured from.
#[derive(Clone, Copy, Debug)]
pub struct Moments {
    /// The database's clock.
    pub now: Micros,
    /// Confirmation requests created before it are due.
    pub sicr_cutoff: Micros,
    /// Terminal refresh sessions that ended before it are due.
    pub refresh_cutoff: Micros,
    /// How far back from its cutoff a due row may lie.
    pub age_span: Micros,
}

impl Default for Shape {
    /// What the command makes unless told otherwise: no rows yet, in chains of ten, over a year.
    fn default() -> Self {
        Self {
            sicr_due: 0,
            sicr_fresh: 0,
            refresh_due: 0,
            refresh_fresh: 0,
            depths: Depths(vec![(10, 1.0)]),
            forks: 0.0,
            active_share: 0.0,
            age_span: Duration::from_hours(365 * 24),
            users: 1000,
            order: Order::Age,
            seed: 1,
            append: false,
            with_index: false,
            analyze: true,
        }
    }
}

impl Shape {
    /// Checks every range.
    ///
    /// # Errors
    ///
    /// Names the option, its value and what is allowed.
    pub fn validate(&self) -> anyhow::Result<()> {
        let rows = [
            ("sicr-due", self.sicr_due, "sicr-fresh", self.sicr_fresh),
            ("refresh-due", self.refresh_due, "refresh-fresh", self.refresh_fresh),
        ];
        ensure!(
            rows.iter().any(|&(_, due, _, fresh)| due > 0 || fresh > 0),
            "nothing to make: give at least one of sicr-due, sicr-fresh, refresh-due, refresh-fresh"
        );
        for (due_name, due, fresh_name, fresh) in rows {
            ensure!(
                u64::from(due) + u64::from(fresh) <= u64::from(MAX_ROWS),
                "{due_name} {due} and {fresh_name} {fresh}: at most {MAX_ROWS} together"
            );
        }
        ensure!((0.0..=1.0).contains(&self.forks), "forks {}: 0 to 1", self.forks);
        ensure!(
            (0.0..1.0).contains(&self.active_share),
            "active-share {}: 0 to 1, without 1 itself",
            self.active_share
        );
        ensure!(
            self.active_share == 0.0 || self.refresh_due > 0,
            "active-share {}: needs refresh-due, as it is a share of the chains with old rows",
            self.active_share
        );
        ensure!((1..=MAX_ROWS).contains(&self.users), "users {}: 1 to {MAX_ROWS}", self.users);
        ensure!(
            (Duration::from_hours(1)..=MAX_PERIOD).contains(&self.age_span),
            "age-span {}: 1h to {}",
            format_duration(self.age_span),
            format_duration(MAX_PERIOD)
        );
        Ok(())
    }

    /// The random numbers for one kind of row, from their start.
    pub fn rng(&self, stream: Stream) -> ChaCha8Rng {
        let mut rng = ChaCha8Rng::seed_from_u64(self.seed);
        rng.set_stream(stream as u64);
        rng
    }
}

impl Depths {
    /// All chains equally deep.
    ///
    /// # Errors
    ///
    /// When the depth is 0 or above [`MAX_ROWS`].
    pub fn uniform(depth: u32) -> anyhow::Result<Self> {
        Self::of(vec![(depth, 1.0)])
    }

    /// The depths with their share of the rows.
    pub fn shares(&self) -> &[(u32, f64)] {
        &self.0
    }

    fn of(shares: Vec<(u32, f64)>) -> anyhow::Result<Self> {
        for &(depth, share) in &shares {
            ensure!((1..=MAX_ROWS).contains(&depth), "depth {depth}: 1 to {MAX_ROWS}");
            ensure!(share > 0.0 && share <= 1.0, "share {share} of depth {depth}: above 0, up to 1");
        }
        let sum: f64 = shares.iter().map(|(_, share)| share).sum();
        ensure!((sum - 1.0).abs() < 1e-6, "the shares of all depths add up to {sum}: they must make 1");
        Ok(Self(shares))
    }
}

impl FromStr for Depths {
    type Err = anyhow::Error;

    /// Reads `DEPTH:SHARE,DEPTH:SHARE,…`.
    fn from_str(text: &str) -> anyhow::Result<Self> {
        let pairs = text.split(',').map(|pair| {
            let (depth, share) =
                pair.split_once(':').with_context(|| format!("{pair:?} is not DEPTH:SHARE"))?;
            let depth = depth.parse().with_context(|| format!("the depth in {pair:?} is no whole number"))?;
            let share = share.parse().with_context(|| format!("the share in {pair:?} is no number"))?;
            Ok((depth, share))
        });
        Self::of(pairs.collect::<anyhow::Result<_>>()?)
    }
}

impl Moments {
    /// The instants that follow from `now`.
    pub fn at(now: Micros, age_span: Duration) -> Self {
        let age_span = Micros::try_from(age_span.as_micros()).unwrap_or(Micros::MAX);
        Self { now, sicr_cutoff: now - SICR_RETENTION, refresh_cutoff: now - REFRESH_RETENTION, age_span }
    }
}
