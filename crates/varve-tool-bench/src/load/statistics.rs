//! Means of repeated runs with confidence intervals.

/// Quantiles of Student's t distribution at 97.5 %, for 1 to 30 degrees of freedom.
const STUDENT_T: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
    2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
    2.052, 2.048, 2.045, 2.042,
];

/// The same where the degrees of freedom are more: the normal distribution's, with a term for how many there are.
pub(crate) fn student_t(freedom: usize) -> f64 {
    match freedom.checked_sub(1).and_then(|place| STUDENT_T.get(place)) {
        Some(quantile) => *quantile,
        None => 1.96 + 2.46 / freedom as f64,
    }
}

/// A mean of repeated measurements.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Estimate {
    /// The mean.
    pub mean: f64,
    /// Half of the interval that holds the true mean with a probability of 95 %, if measurements are independent and
    /// spread normally; none of a single one.
    pub half_width: Option<f64>,
}

impl Estimate {
    /// The estimate from `samples`.
    ///
    /// # Panics
    /// When there are none.
    #[must_use]
    pub fn of(samples: &[f64]) -> Self {
        assert!(!samples.is_empty(), "a mean of nothing");
        let count = samples.len() as f64;
        let mean = samples.iter().sum::<f64>() / count;
        let squares: f64 = samples.iter().map(|sample| (sample - mean).powi(2)).sum();
        let half_width = (samples.len() > 1).then(|| {
            let error = (squares / (count - 1.0) / count).sqrt();
            student_t(samples.len() - 1) * error
        });
        Self { mean, half_width }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use varve_stdx::Rng;

    #[test]
    fn the_interval_is_that_of_the_textbook() {
        let estimate = Estimate::of(&[9.0, 10.0, 11.0, 10.0]);
        assert_eq!(estimate.mean, 10.0);
        // Deviation 0.8165, error 0.40825, t of 3 degrees 3.182.
        assert!((estimate.half_width.unwrap() - 1.299).abs() < 1e-3);
        assert_eq!(Estimate::of(&[7.0]), Estimate { mean: 7.0, half_width: None });
    }

    #[test]
    fn intervals_hold_the_true_mean_as_often_as_they_say() {
        let mut rng = Rng::new(5);
        let mut normal =
            || (0..12).map(|_| rng.below(1 << 32) as f64 / 2f64.powi(32)).sum::<f64>() - 6.0;
        for count in [3, 5, 40] {
            let hits = (0..4000)
                .filter(|_| {
                    let samples: Vec<f64> = (0..count).map(|_| normal()).collect();
                    let Estimate { mean, half_width } = Estimate::of(&samples);
                    mean.abs() <= half_width.unwrap()
                })
                .count();
            assert!((3740..=3860).contains(&hits), "{hits} of 4000 with {count} samples");
        }
    }
}
