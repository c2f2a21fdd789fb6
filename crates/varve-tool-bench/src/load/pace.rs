//! When operations are due.
//!
//! P1. With a rate, an operation is due at a time that no answer changes. Its latency counts from then, so that what queues behind a
//! stalled target counts in full (no coordinated omission).

/// When operations of one job are due, in ns from its beginning.
#[derive(Clone, Copy, Debug)]
pub enum Pace {
    /// As soon as there is room.
    Closed,
    /// Evenly, whatever becomes of them (P1).
    Open {
        /// Time between two operations of this job.
        interval_ns: f64,
        /// When the first one is due: jobs take turns.
        first_ns: f64,
    },
}

impl Pace {
    /// The pace of job `job` of `jobs` that do `rate` operations a second together.
    #[must_use]
    pub fn of_job(rate: Option<f64>, job: u32, jobs: u32) -> Self {
        let Some(rate) = rate else { return Self::Closed };
        let apart_ns = 1e9 / rate;
        Self::Open { interval_ns: apart_ns * f64::from(jobs), first_ns: apart_ns * f64::from(job) }
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
            Self::Open { interval_ns, first_ns } => {
                Some((first_ns + interval_ns * number as f64) as u64)
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
    fn no_drift_gathers() {
        let pace = Pace::of_job(Some(3.0), 0, 1);
        assert_eq!(pace.due_ns(3 * 86_400), Some(86_400_000_000_000));
        assert_eq!(Pace::of_job(None, 0, 1).due_ns(5), None);
    }
}
