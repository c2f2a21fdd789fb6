//! Draws by a Zipf law without a table: rank k of n is drawn with a probability proportional to 1 ÷ (k + 1)^theta.
//!
//! The method is rejection-inversion: W. Hörmann and G. Derflinger, "Rejection-inversion to generate variates from
//! monotone discrete distributions", ACM Transactions on Modeling and Computer Simulation 6(3), 1996. The integral of
//! the law's density over x is inverted, and the whole number nearest to the point is taken unless the point lies
//! outside that number's bar.

use varve_stdx::Rng;

use crate::error::{Error, Result};
use crate::powers::{exp, ln, whole};
use crate::scatter::Scatter;

/// A Zipf law over `0 .. count`. A draw takes the same time whatever the count.
#[derive(Clone, Debug)]
pub struct Zipf {
    count: u64,
    theta: f64,
    /// Where draws begin on the integral: 1, the first rank's frequency, below the end of the first rank's bar at 1.5.
    integral_first: f64,
    /// Where they end: at the end of the last rank's bar.
    integral_last: f64,
    /// How far left of a rank a point is taken without looking at the rank's frequency.
    accepted: f64,
    scatter: Option<Scatter>,
}

impl Zipf {
    /// Most numbers to draw from: a float tells them apart.
    pub const COUNT_MAX: u64 = 1 << 52;
    /// Highest exponent; 99.9 % of the draws are the first eight ranks then.
    pub const THETA_MAX: f64 = 4.0;

    /// The law over `0 .. count` with exponent `theta`; 0 is the most frequent number, 1 the second.
    ///
    /// # Errors
    /// `Blocks` when `count` is 0 or above [`Self::COUNT_MAX`]; `Theta` when `theta` is not above 0 and at most
    /// [`Self::THETA_MAX`].
    pub fn new(count: u64, theta: f64) -> Result<Self> {
        Self::check(count, theta)?;
        Ok(Self {
            count,
            theta,
            integral_first: integral(theta, 1.5) - 1.0,
            integral_last: integral(theta, count as f64 + 0.5),
            accepted: 2.0 - inverse(theta, integral(theta, 2.5) - density(theta, 2.0)),
            scatter: None,
        })
    }

    /// Whether there is such a law.
    pub(crate) fn check(count: u64, theta: f64) -> Result<()> {
        if count == 0 || count > Self::COUNT_MAX {
            return Err(Error::Blocks { blocks: count, blocks_max: Self::COUNT_MAX });
        }
        if !(theta > 0.0 && theta <= Self::THETA_MAX) {
            return Err(Error::Theta { theta, theta_max: Self::THETA_MAX });
        }
        Ok(())
    }

    /// The same law with its ranks scattered over `0 .. count`, so that frequent numbers are no neighbours.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn scattered(count: u64, theta: f64, seed: u64) -> Result<Self> {
        let law = Self::new(count, theta)?;
        Ok(Self { scatter: Some(Scatter::new(count, seed)), ..law })
    }

    /// A number in `0 .. count`. Takes one or two numbers from `rng`, seldom more.
    pub fn draw(&self, rng: &mut Rng) -> u64 {
        let rank = self.rank(rng);
        self.scatter.as_ref().map_or(rank, |scatter| scatter.of(rank))
    }

    fn rank(&self, rng: &mut Rng) -> u64 {
        loop {
            let point = self.integral_last + unit(rng) * (self.integral_first - self.integral_last);
            let x = inverse(self.theta, point);
            let rank = (x + 0.5).clamp(1.0, self.count as f64).floor();
            let within_bar =
                || point >= integral(self.theta, rank + 0.5) - density(self.theta, rank);
            if rank - x <= self.accepted || within_bar() {
                return whole(rank) - 1;
            }
        }
    }
}

/// A number from 0 to below 1.
fn unit(rng: &mut Rng) -> f64 {
    const STEPS: f64 = (1u64 << 53) as f64;
    (rng.next_u64() >> 11) as f64 / STEPS
}

/// x^-theta.
fn density(theta: f64, x: f64) -> f64 {
    exp(-theta * ln(x))
}

/// Integral of the density from 1 to x: (x^(1-theta) - 1) ÷ (1 - theta), and ln x where theta is 1.
fn integral(theta: f64, x: f64) -> f64 {
    let log = ln(x);
    let t = (1.0 - theta) * log;
    // (e^t - 1) ÷ t, by its series where the difference would have no digits left.
    let quotient =
        if t.abs() > 1e-5 { (exp(t) - 1.0) / t } else { 1.0 + t / 2.0 * (1.0 + t / 3.0) };
    quotient * log
}

/// The x whose integral is `y`.
fn inverse(theta: f64, y: f64) -> f64 {
    // Rounding may put the end of a steep law's integral at infinity.
    let t = (y * (1.0 - theta)).max(f64::EPSILON - 1.0);
    // ln (1 + t) ÷ t, by its series likewise.
    let quotient = if t.abs() > 1e-5 { ln(1.0 + t) / t } else { 1.0 - t * (0.5 - t / 3.0) };
    exp(quotient * y)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DRAWS: u64 = 400_000;

    fn law(count: u64, theta: f64) -> Vec<f64> {
        let weights: Vec<f64> = (1..=count).map(|k| (k as f64).powf(-theta)).collect();
        let sum: f64 = weights.iter().sum();
        weights.into_iter().map(|weight| weight / sum).collect()
    }

    fn counts(zipf: &Zipf, count: u64) -> Vec<u64> {
        let mut rng = Rng::new(11);
        let mut counts = vec![0; usize::try_from(count).unwrap()];
        for _ in 0..DRAWS {
            counts[usize::try_from(zipf.draw(&mut rng)).unwrap()] += 1;
        }
        counts
    }

    /// Chi-square over all ranks against its mean, the degrees of freedom, by its standard deviation; ranks of less
    /// than 20 expected draws are taken together.
    fn deviations(counts: &[u64], law: &[f64]) -> f64 {
        let (mut sum, mut cells) = (0.0, 0.0);
        let (mut seen, mut expected) = (0.0, 0.0);
        for (count, share) in counts.iter().zip(law) {
            seen += *count as f64;
            expected += share * DRAWS as f64;
            if expected >= 20.0 {
                sum += (seen - expected).powi(2) / expected;
                cells += 1.0;
                (seen, expected) = (0.0, 0.0);
            }
        }
        let freedom: f64 = cells - 1.0;
        (sum - freedom) / (2.0 * freedom).sqrt()
    }

    #[test]
    fn frequencies_follow_the_law() {
        for theta in [0.1, 0.5, 0.8, 0.99, 0.999_999_9, 1.0, 1.2, 2.0] {
            for count in [2, 10, 1000, 20_000] {
                let counts = counts(&Zipf::new(count, theta).unwrap(), count);
                let off = deviations(&counts, &law(count, theta));
                assert!(off.abs() < 4.5, "theta {theta} of {count}: {off} deviations");
            }
        }
    }

    #[test]
    fn top_ranks_of_a_large_range_follow_the_law() {
        // Of 2^40 numbers: the sum of k^-0.99 is the integral, half of both ends, and the first term of Euler and
        // Maclaurin.
        let (count, theta) = (1u64 << 40, 0.99);
        let end = count as f64;
        let sum = (end.powf(1.0 - theta) - 1.0) / (1.0 - theta) + 0.5 + theta / 12.0;
        let zipf = Zipf::new(count, theta).unwrap();
        let mut rng = Rng::new(3);
        let mut counts = [0u64; 4];
        for _ in 0..DRAWS {
            let rank = zipf.draw(&mut rng);
            assert!(rank < count);
            if let Some(count) = usize::try_from(rank).ok().and_then(|rank| counts.get_mut(rank)) {
                *count += 1;
            }
        }
        for (rank, count) in counts.into_iter().enumerate() {
            let expected = DRAWS as f64 * (rank as f64 + 1.0).powf(-theta) / sum;
            let off = (count as f64 - expected) / expected;
            assert!(off.abs() < 0.04, "rank {rank}: {count} of {expected} expected");
        }
    }

    #[test]
    fn scattering_moves_ranks_and_keeps_frequencies() {
        let count = 10_000;
        let ranked = counts(&Zipf::new(count, 0.99).unwrap(), count);
        let scattered = counts(&Zipf::scattered(count, 0.99, 5).unwrap(), count);
        let scatter = Scatter::new(count, 5);
        for rank in 0..count {
            let place = usize::try_from(scatter.of(rank)).unwrap();
            assert_eq!(ranked[usize::try_from(rank).unwrap()], scattered[place]);
        }
        assert!(scattered[..10].iter().sum::<u64>() < ranked[..10].iter().sum::<u64>() / 10);
    }

    #[test]
    fn draws_are_fixed_by_the_seed() {
        let zipf = Zipf::new(1 << 30, 0.99).unwrap();
        let draws = |seed| {
            let mut rng = Rng::new(seed);
            (0..1000).map(|_| zipf.draw(&mut rng)).collect::<Vec<_>>()
        };
        assert_eq!(draws(1), draws(1));
        assert_ne!(draws(1), draws(2));
    }

    #[test]
    fn ends_of_the_range_are_accepted_and_no_more() {
        for theta in [0.001, Zipf::THETA_MAX] {
            for count in [1, 2, Zipf::COUNT_MAX] {
                let zipf = Zipf::new(count, theta).unwrap();
                let mut rng = Rng::new(1);
                assert!((0..1000).all(|_| zipf.draw(&mut rng) < count));
            }
        }
        for theta in [0.0, -1.0, f64::NAN, f64::INFINITY, 4.1] {
            assert!(matches!(Zipf::new(10, theta), Err(Error::Theta { .. })), "{theta}");
        }
        assert!(matches!(Zipf::new(0, 0.5), Err(Error::Blocks { .. })));
        assert!(Zipf::new(Zipf::COUNT_MAX + 1, 0.5).is_err());
    }
}
