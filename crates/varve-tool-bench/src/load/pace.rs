//! When operations are due.
//!
//! PACE-1. With a rate, an operation is due at a time that no answer changes. Its latency counts from then, so that
//! what queues behind a stalled target counts in full (no coordinated omission).

use crate::mix::key;

/// When operations of one job are due, in ns from its beginning.
#[derive(Clone, Copy, Debug)]
pub enum Pace {
    /// As soon as there is room.
    Closed,
    /// Evenly, whatever becomes of them (PACE-1).
    Open {
        /// Time between two operations of this job.
        interval_ns: f64,
        /// When the first one is due: jobs take turns.
        first_ns: f64,
        /// How far each lies from where it would be evenly, at most, as a share of the interval.
        spread: f64,
        /// Of those distances.
        seed: u64,
    },
}

impl Pace {
    /// The pace of job `job` of `jobs` that do `rate` operations a second together.
    #[must_use]
    pub fn of_job(rate: Option<f64>, job: u32, jobs: u32) -> Self {
        let Some(rate) = rate else { return Self::Closed };
        let apart_ns = 1e9 / rate;
        let (interval_ns, first_ns) = (apart_ns * f64::from(jobs), apart_ns * f64::from(job));
        Self::Open { interval_ns, first_ns, spread: 0.0, seed: u64::from(job) }
    }

    /// The same with operations that lie apart by chance, from `1 - 2 × by` to `1 + 2 × by` of the interval.
    ///
    /// # Panics
    /// When that would be below 0.
    #[must_use]
    pub fn spread(self, by: f64) -> Self {
        assert!((0.0..=0.5).contains(&by), "operations stay in order");
        match self {
            Self::Closed => Self::Closed,
            Self::Open { interval_ns, first_ns, seed, .. } => {
                Self::Open { interval_ns, first_ns, spread: by, seed }
            }
        }
    }

    /// When operation `number` is due; `None` when as soon as there is room.
    #[must_use]
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "ns since the beginning of a run, above 0"
    )]
    pub fn due_ns(self, number: u64) -> Option<u64> {
        match self {
            Self::Closed => None,
            Self::Open { interval_ns, first_ns, spread, seed } => {
                // From -1 to 1, of 32 bits of chance.
                let chance = (key([seed, number]) >> 32) as f64 / f64::from(u32::MAX) * 2.0 - 1.0;
                // The first one is due evenly: else at the beginning those of all jobs would come together, or none.
                let chance = if number == 0 { 0.0 } else { chance };
                Some((first_ns + interval_ns * (number as f64 + spread * chance)) as u64)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_share_the_rate_evenly() {
        let mut due: Vec<u64> = (0..4)
            .flat_map(|job| {
                let pace = Pace::of_job(Some(1000.0), job, 4);
                (0..250).map(move |number| pace.due_ns(number).unwrap())
            })
            .collect();
        due.sort_unstable();
        assert!(due.into_iter().eq((0..1000).map(|n| n * 1_000_000)));
    }

    #[test]
    fn spread_operations_keep_their_rate_and_lie_apart_by_chance() {
        let even = Pace::of_job(Some(10.0), 7, 100);
        let shift_ns = |pace: Pace, number| {
            let spread = pace.spread(0.25).due_ns(number).unwrap();
            spread as i64 - pace.due_ns(number).unwrap() as i64
        };
        assert_eq!(shift_ns(even, 0), 0, "jobs begin neither together nor late");
        let shifts: Vec<i64> = (0..1000).map(|number| shift_ns(even, number)).collect();
        // A job has an operation each 10 s.
        let bounds = (shifts.iter().min().unwrap(), shifts.iter().max().unwrap());
        assert!((-2_500_000_000..-2_400_000_000).contains(bounds.0), "{bounds:?}");
        assert!((2_400_000_000..=2_500_000_000).contains(bounds.1), "{bounds:?}");
        assert_ne!(
            shift_ns(even, 5),
            shift_ns(Pace::of_job(Some(10.0), 8, 100), 5),
            "each its own"
        );
        assert!(Pace::Closed.spread(0.25).due_ns(3).is_none());
    }

    #[test]
    fn no_drift_gathers() {
        let pace = Pace::of_job(Some(3.0), 0, 1);
        assert_eq!(pace.due_ns(3 * 86_400), Some(86_400_000_000_000));
        assert_eq!(Pace::of_job(None, 0, 1).due_ns(5), None);
    }
}
