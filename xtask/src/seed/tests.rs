//! The command as a whole: what would be sent, and what a real server then holds. Chains and plans have their
//! own tests beside them. How fast it is cannot be seen here.

use std::time::Duration;

use harness::TestDatabase;
use sqlx::query_as;

use super::copy::CopyBuffer;
use super::seeded::TableCounts;
use super::shape::{DAY, MARGIN, Micros, Order};
use super::*;

const NOW: Micros = 26 * 365 * DAY;

fn shape(seed: u64) -> Shape {
    Shape {
        sicr_due: 40,
        sicr_fresh: 20,
        refresh_due: 100,
        refresh_fresh: 50,
        depths: "1:0.5,10:0.5".parse().unwrap(),
        forks: 0.2,
        active_share: 0.3,
        users: 3,
        seed,
        ..Shape::default()
    }
}

/// Confirmation requests and refresh sessions as they would be sent.
fn sent(shape: &Shape) -> (Vec<u8>, Vec<u8>) {
    let moments = Moments::at(NOW, shape.age_span);
    let users = Users::make(shape, &moments);
    let (mut requests, mut sessions) = (CopyBuffer::new(), CopyBuffer::new());
    Requests::new(shape, &moments, &users).for_each(|request| request.write(&mut requests));
    let forest = Forest::grow(shape, &moments).unwrap();
    for place in forest.insertion_order(shape) {
        forest.write(place, &users, &moments, &mut sessions);
    }
    (requests.written().to_vec(), sessions.written().to_vec())
}

#[test]
fn equal_shapes_make_equal_bytes_and_other_seeds_make_others() {
    for order in [Order::Age, Order::Random] {
        let of_seed = |seed| sent(&Shape { order, ..shape(seed) });
        assert_eq!(of_seed(1), of_seed(1));
        assert_ne!(of_seed(1).0, of_seed(2).0);
        assert_ne!(of_seed(1).1, of_seed(2).1);
    }
}

#[test]
fn more_requests_leave_the_sessions_as_they_are() {
    let more = Shape { sicr_due: 400, ..shape(1) };
    assert_eq!(sent(&shape(1)).1, sent(&more).1);
}

#[test]
fn requests_come_in_order_of_age_and_are_counted() {
    let shape = shape(1);
    let moments = Moments::at(NOW, shape.age_span);
    let users = Users::make(&shape, &moments);
    let mut requests = Requests::new(&shape, &moments, &users);
    let created: Vec<_> = requests.by_ref().map(|request| request.created_at).collect();
    let margin = moments.sicr_cutoff..moments.sicr_cutoff + MARGIN;
    assert!(created.is_sorted());
    assert!(created.iter().all(|at| !margin.contains(at)));
    assert_eq!(created.iter().filter(|&&at| at < moments.sicr_cutoff).count(), 40);
    assert_eq!(requests.counts, TableCounts { rows: 60, deletable: 40, blocked: 0 });
}

#[test]
fn a_shape_out_of_range_is_refused_by_name() {
    let refused = |shape: Shape| shape.validate().unwrap_err().to_string();
    assert!(refused(Shape::default()).starts_with("nothing to make"));
    assert!(refused(Shape { forks: 1.5, ..shape(1) }).contains("forks 1.5"));
    assert!(refused(Shape { forks: f64::NAN, ..shape(1) }).contains("forks NaN"));
    assert!(refused(Shape { active_share: 1.0, ..shape(1) }).contains("active-share 1"));
    assert!(refused(Shape { refresh_due: 0, ..shape(1) }).contains("needs refresh-due"));
    assert!(refused(Shape { users: 0, ..shape(1) }).contains("users 0"));
    assert!(refused(Shape { sicr_due: u32::MAX, ..shape(1) }).contains("sicr-due 4294967295"));
    assert!(refused(Shape { age_span: Duration::ZERO, ..shape(1) }).contains("age-span 0s"));
}

#[test]
fn depths_are_refused_with_what_is_wrong() {
    let refused = |text: &str| text.parse::<Depths>().unwrap_err().to_string();
    assert!(refused("10").contains("is not DEPTH:SHARE"));
    assert!(refused("x:1").contains("the depth in \"x:1\""));
    assert!(refused("0:1").contains("depth 0"));
    assert!(refused("1:0.5,10:0.4").contains("add up to 0.9"));
    assert!(refused("1:NaN").contains("share NaN"));
}

#[tokio::test]
async fn the_server_holds_what_was_counted() {
    let database = TestDatabase::migrated().await.unwrap();
    let mut conn = PgConnection::connect(database.url()).await.unwrap();
    let shape = Shape { with_index: true, ..shape(1) };
    let progress = ProgressBar::hidden();
    let seeded = fill(&mut conn, &shape, &progress).await.unwrap();

    let sicr: (i64, i64) = query_as(
        "SELECT count(*), count(*) FILTER (WHERE created_at < now() - interval '30 days')
           FROM identity.sign_in_confirmation_requests",
    )
    .fetch_one(&mut conn)
    .await
    .unwrap();
    assert_eq!(sicr, (60, 40));
    assert_eq!(seeded.sicr, TableCounts { rows: 60, deletable: 40, blocked: 0 });
    let refresh: (i64, i64, i64) = query_as(
        "WITH RECURSIVE session AS (
           SELECT id, parent_session_id AS parent,
                  status IN ('Rotated', 'Revoked', 'Expired') AND updated_at < now() - interval '90 days' AS due
             FROM identity.refresh_sessions),
         held AS (
           SELECT parent AS id FROM session WHERE NOT due
           UNION SELECT session.parent FROM held JOIN session USING (id))
         SELECT count(*), count(*) FILTER (WHERE due AND NOT held), count(*) FILTER (WHERE due AND held)
           FROM (SELECT due, id IN (SELECT id FROM held WHERE id IS NOT NULL) AS held FROM session) marked",
    )
    .fetch_one(&mut conn)
    .await
    .unwrap();
    let TableCounts { rows, deletable, blocked } = seeded.refresh;
    assert_eq!([refresh.0, refresh.1, refresh.2].map(i64::cast_unsigned), [rows, deletable, blocked]);
    assert!(blocked > 0 && deletable == 100);

    let refused = fill(&mut conn, &shape, &progress).await.unwrap_err();
    assert!(refused.to_string().contains("identity.refresh_sessions is not empty"), "{refused:#}");
    let again = Shape { append: true, ..shape.clone() };
    let refused = fill(&mut conn, &again, &progress).await.unwrap_err();
    assert!(refused.to_string().contains("rows of this seed already"), "{refused:#}");
    fill(&mut conn, &Shape { seed: 2, ..again }, &progress).await.unwrap();
}

#[tokio::test]
async fn a_database_without_the_schema_is_refused_with_the_command_that_makes_it() {
    let database = TestDatabase::empty().await.unwrap();
    let mut conn = PgConnection::connect(database.url()).await.unwrap();
    let refused = fill(&mut conn, &shape(1), &ProgressBar::hidden()).await.unwrap_err();
    assert!(refused.to_string().contains("cargo run -p migrations -- up"), "{refused:#}");
}
