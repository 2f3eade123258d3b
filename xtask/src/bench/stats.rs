//! Arithmetic on samples: medians, spreads, percentiles. Knows no units.

use serde::Serialize;

/// The middle of some samples and how far they lie apart.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// Half of the samples are at most this; the mean of the two in the middle when their number is even.
    pub median: f64,
    /// The smallest sample.
    pub min: f64,
    /// The largest sample.
    pub max: f64,
}

impl Summary {
    /// Of these samples, in any order; `None` without any.
    pub fn of(samples: &[f64]) -> Option<Self> {
        let sorted = sorted(samples);
        let (&min, &max) = (sorted.first()?, sorted.last()?);
        let half = sorted.len() / 2;
        let upper = sorted[half];
        let median =
            if sorted.len().is_multiple_of(2) { f64::midpoint(sorted[half - 1], upper) } else { upper };
        Some(Self { median, min, max })
    }
}

/// The samples in ascending order.
pub fn sorted(samples: &[f64]) -> Vec<f64> {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

/// The smallest of the ascending samples that at least `percent` of them do not exceed; `None` without any.
pub fn percentile(ascending: &[f64], percent: f64) -> Option<f64> {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a rank lies between 0 and the number of samples"
    )]
    let rank = (percent / 100.0 * float(ascending.len())).ceil() as usize;
    ascending.get(rank.clamp(1, ascending.len().max(1)) - 1).copied()
}

/// The mean; `None` without samples.
pub fn mean(samples: &[f64]) -> Option<f64> {
    (!samples.is_empty()).then(|| samples.iter().sum::<f64>() / float(samples.len()))
}

/// A number of things as a factor; exact up to 2^53.
#[expect(clippy::cast_precision_loss, reason = "nothing counted here comes near 2^53")]
pub fn float(number: impl TryInto<u64>) -> f64 {
    number.try_into().unwrap_or(u64::MAX) as f64
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(&[3.0], 3.0, 3.0, 3.0)]
    #[case(&[9.0, 1.0, 2.0], 2.0, 1.0, 9.0)]
    #[case(&[4.0, 1.0, 2.0, 9.0], 3.0, 1.0, 9.0)]
    fn the_median_is_in_the_middle(
        #[case] samples: &[f64],
        #[case] median: f64,
        #[case] min: f64,
        #[case] max: f64,
    ) {
        assert_eq!(Summary::of(samples), Some(Summary { median, min, max }));
    }

    #[test]
    fn nothing_has_no_summary() {
        assert_eq!(Summary::of(&[]), None);
        assert_eq!(percentile(&[], 50.0), None);
        assert_eq!(mean(&[]), None);
    }

    #[rstest]
    #[case(50.0, 50.0)]
    #[case(99.0, 99.0)]
    #[case(99.1, 100.0)]
    #[case(100.0, 100.0)]
    #[case(0.0, 1.0)]
    fn a_percentile_is_a_sample(#[case] percent: f64, #[case] expected: f64) {
        let samples: Vec<f64> = (1..=100).map(f64::from).collect();
        assert_eq!(percentile(&samples, percent), Some(expected));
    }
}
