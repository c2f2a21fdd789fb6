//! Segments of video: how often readers ask for one, since a player needs the next one whatever became of the last.

/// How long a segment plays: between two times, as often one as the other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Segments {
    /// At least, in s.
    pub least_s: u32,
    /// At most, in s.
    pub most_s: u32,
}

impl Segments {
    /// Operations a second of so many readers, each of which reads a segment in the time that one plays, where reads
    /// are so many percent of the operations.
    ///
    /// # Panics
    /// Without reads.
    #[must_use]
    pub fn rate(self, readers: u32, read_percent: u8) -> f64 {
        assert!(read_percent > 0, "readers read");
        f64::from(readers) / self.mean_s() * 100.0 / f64::from(read_percent)
    }

    /// How far operations lie from even times, as a share of the time between them, so that these are as long as
    /// segments are ([`crate::Pace::spread`]).
    #[must_use]
    pub fn spread(self) -> f64 {
        f64::from(self.most_s - self.least_s) / 4.0 / self.mean_s()
    }

    fn mean_s(self) -> f64 {
        f64::from(self.least_s + self.most_s) / 2.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::Pace;

    #[test]
    fn readers_ask_as_often_as_segments_end() {
        let segments = Segments { least_s: 8, most_s: 14 };
        assert_eq!(segments.rate(600, 100), 600.0 / 11.0);
        let mixed = segments.rate(100, 15);
        assert!((mixed * 0.15 - 100.0 / 11.0).abs() < 1e-9, "reads alone come as often: {mixed}");
        let pace = Pace::of_job(Some(segments.rate(600, 100)), 5, 600).spread(segments.spread());
        let due: Vec<u64> = (1..1000).map(|number| pace.due_ns(number).unwrap()).collect();
        let apart = due.windows(2).map(|pair| (pair[1] - pair[0]) as f64 / 1e9);
        let (least, most) = apart.fold((f64::MAX, 0.0_f64), |(a, b), s| (a.min(s), b.max(s)));
        assert!((8.0..8.7).contains(&least) && most <= 14.0 && most > 13.3, "{least} to {most}");
    }
}
