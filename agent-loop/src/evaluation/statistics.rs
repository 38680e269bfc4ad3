//! The statistics of small counts: exact where that is possible, and never a rate without its interval.

use serde::{Deserialize, Serialize};

/// The quantile of the normal distribution for 95 % on both sides.
const Z: f64 = 1.959_963_984_540_054;
/// What may lie outside an interval, on each side.
const TAIL: f64 = 0.025;

/// An interval that holds the true value in 95 of 100 such samples.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[expect(clippy::exhaustive_structs, reason = "an interval has two ends")]
pub struct Interval {
    /// Its lower end.
    pub low: f64,
    /// Its upper end.
    pub high: f64,
}

/// The score interval of Wilson for `hits` of `of`; `None` of nothing.
///
/// # Examples
/// ```
/// use agent_loop::evaluation::statistics::wilson;
///
/// let interval = wilson(7, 18).ok_or("nothing was counted")?;
/// assert!((interval.low - 0.203).abs() < 0.001 && (interval.high - 0.614).abs() < 0.001);
/// assert_eq!(wilson(0, 0), None);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use]
pub fn wilson(hits: u32, of: u32) -> Option<Interval> {
    if of == 0 {
        return None;
    }
    let n = f64::from(of);
    let rate = f64::from(hits.min(of)) / n;
    let scale = 1.0 + Z * Z / n;
    let middle = (rate + Z * Z / (2.0 * n)) / scale;
    let half = Z / scale * (rate * (1.0 - rate) / n + Z * Z / (4.0 * n * n)).sqrt();
    // Rounding must not leave a hair between a rate and its own bound.
    let low = if hits == 0 { 0.0 } else { middle - half };
    let high = if hits >= of { 1.0 } else { middle + half };
    Some(Interval { low, high })
}

/// The exact interval of Clopper and Pearson for `hits` of `of`; `None` of nothing.
///
/// It never claims too much, and is wider than Wilson's for it.
#[must_use]
pub fn exact(hits: u32, of: u32) -> Option<Interval> {
    if of == 0 {
        return None;
    }
    let hits = hits.min(of);
    let binomial = Binomial::new(of);
    let low = match hits {
        0 => 0.0,
        // The rate at which so many hits or more are as rare as the tail.
        _ => solve(|rate| binomial.sum(hits..=of, rate) > TAIL),
    };
    let high = match hits == of {
        true => 1.0,
        false => solve(|rate| binomial.sum(0..=hits, rate) < TAIL),
    };
    Some(Interval { low, high })
}

/// The exact two-sided test of `McNemar`: how likely so uneven a split of the pairs that differ is,
/// where neither side is better. 1 where no pair differs.
///
/// # Examples
/// ```
/// use agent_loop::evaluation::statistics::mcnemar;
///
/// assert!((mcnemar(5, 1) - 0.21875).abs() < 1e-12);
/// assert_eq!(mcnemar(0, 0), 1.0);
/// ```
#[must_use]
pub fn mcnemar(only_one: u32, only_other: u32) -> f64 {
    let Some(of) = only_one.checked_add(only_other).filter(|of| *of > 0) else {
        return 1.0;
    };
    let fewer = only_one.min(only_other);
    (2.0 * Binomial::new(of).sum(0..=fewer, 0.5)).min(1.0)
}

/// How much higher the rate of one side is than that of the other over the same `pairs`, with the
/// interval of Bonett and Price (2012); `None` without a pair.
#[must_use]
pub fn paired_difference(only_one: u32, only_other: u32, pairs: u32) -> Option<(f64, Interval)> {
    if pairs == 0 {
        return None;
    }
    let estimate = (f64::from(only_one) - f64::from(only_other)) / f64::from(pairs);
    let n = f64::from(pairs) + 2.0;
    let one = (f64::from(only_one) + 1.0) / n;
    let other = (f64::from(only_other) + 1.0) / n;
    let middle = one - other;
    let half = Z * ((one + other - middle * middle) / n).sqrt();
    let interval = Interval {
        low: (middle - half).max(-1.0),
        high: (middle + half).min(1.0),
    };
    Some((estimate, interval))
}

/// The distribution of the hits of `n` tries.
struct Binomial {
    /// The logarithms of the factorials from 0 to n: sums of them do not overflow.
    log_factorials: Vec<f64>,
}

impl Binomial {
    fn new(n: u32) -> Self {
        let logs = (1..=n).scan(0.0, |sum, factor| {
            *sum += f64::from(factor).ln();
            Some(*sum)
        });
        Self {
            log_factorials: std::iter::once(0.0).chain(logs).collect(),
        }
    }

    /// How likely a number of hits in `range` is, at a rate between 0 and 1.
    fn sum(&self, range: std::ops::RangeInclusive<u32>, rate: f64) -> f64 {
        let n = self.log_factorials.len().saturating_sub(1);
        let log = |k: usize| self.log_factorials.get(k).copied().unwrap_or_default();
        let (hit, miss) = (rate.ln(), (-rate).ln_1p());
        range
            .map(|hits| {
                let k = hits as usize;
                let ways = log(n) - log(k) - log(n.saturating_sub(k));
                let misses = f64::from(u32::try_from(n).unwrap_or(u32::MAX) - hits);
                (ways + f64::from(hits) * hit + misses * miss).exp()
            })
            .sum()
    }
}

/// The rate at which `is_above` turns true, to the last bit that matters.
fn solve(is_above: impl Fn(f64) -> bool) -> f64 {
    let (mut low, mut high) = (0.0_f64, 1.0_f64);
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        match is_above(middle) {
            true => high = middle,
            false => low = middle,
        }
    }
    f64::midpoint(low, high)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(one: f64, other: f64) -> bool {
        (one - other).abs() < 1e-9
    }

    /// Computed by scipy 1.17: `binomtest(k, n).proportion_ci`, and `beta.ppf` for the exact ones.
    #[test]
    fn intervals_are_those_of_scipy() {
        let table = [
            (
                0,
                10,
                0.0,
                0.277_532_799_862_889_26,
                0.0,
                0.308_497_107_818_760_7,
            ),
            (
                10,
                10,
                0.722_467_200_137_111_1,
                1.0,
                0.691_502_892_181_239_2,
                1.0,
            ),
            (
                7,
                18,
                0.203_052_465_721_636_2,
                0.613_809_583_977_621,
                0.172_985_854_789_751_8,
                0.642_548_794_106_937_3,
            ),
            (
                6,
                8,
                0.409_275_430_310_168_3,
                0.928_520_787_247_890_9,
                0.349_144_205_587_175_8,
                0.968_145_973_750_055_7,
            ),
            (
                31,
                40,
                0.624_969_032_576_899_7,
                0.876_839_086_765_592_5,
                0.615_488_322_696_577_3,
                0.891_603_361_015_928,
            ),
            (
                40,
                40,
                0.912_378_398_802_713_3,
                1.0,
                0.911_902_697_121_197_6,
                1.0,
            ),
            (1, 1, 0.206_549_314_377_237_45, 1.0, 0.025, 1.0),
            (
                500,
                1000,
                0.469_069_600_368_104_2,
                0.530_930_399_631_895_8,
                0.468_549_172_971_791_94,
                0.531_450_827_028_208,
            ),
        ];
        for (hits, of, score_low, score_high, exact_low, exact_high) in table {
            let score = wilson(hits, of).unwrap();
            assert!(close(score.low, score_low), "{hits}/{of}: {score:?}");
            assert!(close(score.high, score_high), "{hits}/{of}: {score:?}");
            let exact = exact(hits, of).unwrap();
            assert!(close(exact.low, exact_low), "{hits}/{of}: {exact:?}");
            assert!(close(exact.high, exact_high), "{hits}/{of}: {exact:?}");
        }
        assert_eq!((wilson(0, 0), exact(0, 0)), (None, None));
    }

    /// Computed by scipy 1.17: `binomtest(b, b + c, 0.5).pvalue`.
    #[test]
    fn the_exact_test_is_that_of_scipy() {
        let table = [
            (1, 0, 1.0),
            (5, 1, 0.218_75),
            (10, 2, 0.038_574_218_75),
            (3, 9, 0.145_996_093_75),
            (59, 16, 6.114_156_572_521_501e-7),
            (0, 9, 0.003_906_25),
            (4, 4, 1.0),
            (6, 9, 0.607_238_769_531_249_9),
        ];
        for (one, other, p) in table {
            assert!(close(mcnemar(one, other), p), "{one} {other}");
            assert!(close(mcnemar(other, one), p), "{other} {one}");
        }
        assert!(close(mcnemar(0, 0), 1.0));
    }

    /// Computed from the published formula with Python's floats.
    #[test]
    fn a_difference_has_the_interval_of_bonett_and_price() {
        let table = [
            (
                0,
                9,
                40,
                -0.225,
                -0.354_837_589_179_958_95,
                -0.073_733_839_391_469_6,
            ),
            (
                5,
                1,
                40,
                0.1,
                -0.033_571_775_550_714_47,
                0.224_047_966_026_904_94,
            ),
            (
                59,
                16,
                1600,
                0.026_875,
                0.016_186_498_625_962_574,
                0.037_496_397_753_563_025,
            ),
            (
                0,
                0,
                8,
                0.0,
                -0.277_180_764_869_935_54,
                0.277_180_764_869_935_54,
            ),
        ];
        for (one, other, pairs, estimate, low, high) in table {
            let (found, interval) = paired_difference(one, other, pairs).unwrap();
            assert!(close(found, estimate), "{one} {other} {pairs}: {found}");
            assert!(
                close(interval.low, low),
                "{one} {other} {pairs}: {interval:?}"
            );
            assert!(
                close(interval.high, high),
                "{one} {other} {pairs}: {interval:?}"
            );
        }
        assert_eq!(paired_difference(0, 0, 0), None);
    }

    #[test]
    fn more_hits_than_tries_are_as_many() {
        assert_eq!(wilson(9, 8), wilson(8, 8));
        assert_eq!(exact(9, 8), exact(8, 8));
    }
}
