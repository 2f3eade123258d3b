//! The definition of slots, told once more by walking the calendar day by day, and the arithmetic of
//! [`Schedule`](super::Schedule) compared with it. Slow and plain on purpose; it exists for tests only.

use std::time::Duration;

use chrono::{DateTime, NaiveDate, TimeDelta, Utc};
use proptest::prelude::*;

use super::Schedule;

/// Every slot of the nights that open on `from` and the `days` after it.
fn slots_by_definition(
    window: Option<(u16, u16)>,
    interval: TimeDelta,
    from: NaiveDate,
    days: u16,
) -> Vec<DateTime<Utc>> {
    let mut slots = Vec::new();
    for date in from.iter_days().take(days.into()) {
        let midnight = date.and_time(chrono::NaiveTime::MIN).and_utc();
        let day_number = date.signed_duration_since(NaiveDate::default()).num_days();
        let (mut slot, end) = match window {
            Some((_, _)) if day_number % interval.num_days().max(1) != 0 => continue,
            Some((start, length)) => {
                let opening = midnight + TimeDelta::minutes(start.into());
                (opening, opening + TimeDelta::minutes(length.into()))
            }
            None => {
                let since = midnight.timestamp_millis();
                let first = (since + interval.num_milliseconds() - 1).div_euclid(interval.num_milliseconds());
                let first =
                    DateTime::UNIX_EPOCH + TimeDelta::milliseconds(first * interval.num_milliseconds());
                (first, midnight + TimeDelta::days(1))
            }
        };
        while slot < end {
            slots.push(slot);
            slot += interval;
        }
    }
    slots
}

fn intervals() -> impl Strategy<Value = Duration> {
    prop_oneof![
        (300_000_u64..86_400_000).prop_map(Duration::from_millis),
        (5_u64..1_441).prop_map(|minutes| Duration::from_secs(minutes * 60)),
        (1_u64..9).prop_map(|days| Duration::from_secs(days * 86_400)),
    ]
}

/// Opening and length in minutes; a whole day can be written from midnight only.
fn windows() -> impl Strategy<Value = Option<(u16, u16)>> {
    prop_oneof![
        8 => (0_u16..1_440, 1_u16..1_440).prop_map(Some),
        1 => Just(Some((0, 1_440))),
        2 => Just(None),
    ]
}

fn window_text(window: Option<(u16, u16)>) -> String {
    let Some((start, length)) = window else {
        return "always".to_owned();
    };
    let end = if start + length > 1_440 { start + length - 1_440 } else { start + length };
    format!("{:02}:{:02}-{:02}:{:02}", start / 60, start % 60, end / 60, end % 60)
}

proptest! {
    #[test]
    fn slots_are_those_of_the_definition(
        window in windows(), interval in intervals(), first_day in -20_000_i32..40_000, offset_ms in 0_i64..172_800_000,
        length_ms in 86_400_000_i64..1_555_200_000,
    ) {
        let schedule = Schedule::new(window_text(window).parse().unwrap(), interval).unwrap();
        let first_day = NaiveDate::default() + TimeDelta::days(first_day.into());
        let defined = slots_by_definition(window, TimeDelta::from_std(interval).unwrap(), first_day, 24);
        let start = (first_day + TimeDelta::days(2)).and_time(chrono::NaiveTime::MIN).and_utc()
            + TimeDelta::milliseconds(offset_ms);
        let end = start + TimeDelta::milliseconds(length_ms);

        let mut walked = Vec::new();
        let mut slot = schedule.next_slot(start - TimeDelta::nanoseconds(1));
        while slot < end {
            let next = schedule.next_slot(slot);
            prop_assert!(schedule.window().is_open(slot));
            prop_assert_eq!(schedule.current_slot(slot), Some(slot));
            prop_assert!(next > slot);
            prop_assert_eq!(schedule.slots_between(slot, next), 1);
            prop_assert_eq!(schedule.next_slot(next - TimeDelta::nanoseconds(1)), next);
            let latest = slot + TimeDelta::from_std(schedule.max_jitter(slot)).unwrap();
            prop_assert!(schedule.window().is_open(latest) && latest < next);
            prop_assert_eq!(schedule.current_slot(latest), Some(slot));
            walked.push(slot);
            slot = next;
        }
        let expected: Vec<_> = defined.into_iter().filter(|slot| (start..end).contains(slot)).collect();
        prop_assert_eq!(schedule.slots_between(start, end), u64::try_from(expected.len()).unwrap());
        prop_assert_eq!(walked, expected);
    }

    #[test]
    fn no_instant_panics(window in windows(), interval in intervals(), seconds in -8_334_601_228_800_i64..8_210_266_876_799) {
        let schedule = Schedule::new(window_text(window).parse().unwrap(), interval).unwrap();
        let at = DateTime::from_timestamp(seconds, 999_999_999).unwrap();
        prop_assert!(schedule.next_slot(at) > at);
        let current = schedule.current_slot(at);
        prop_assert!(current.is_none_or(|slot| slot <= at && schedule.window().is_open(at)));
    }
}
