//! How many years a drive has until its rated life is used. Pure.
//!
//! A vendor rates a drive by the bytes that may be written to it, TBW: its drive writes a day x its capacity x 365 x
//! the years of warranty (JESD218 and JESD219). What of that is used the drive says itself, `Percentage Used`, by what
//! its flash has worn, so with the write amplification that its load has. So its rated life in bytes, for this load, is
//! `written x 100 / used`, and the years that are left are what is left of that by what is written in a year.
//! `Percentage Used` is a whole number: below 1 % it counts as 1, so that the forecast is too short rather than too
//! long.

/// Hours of a year.
const YEAR_HOURS: f64 = 365.25 * 24.0;
/// For how long a drive has to be watched before what is written to it says something of years.
const WATCHED_HOURS_MIN: f64 = 24.0;
/// No drive is promised more.
const YEARS_MAX: f64 = 1000.0;

/// What a forecast goes by.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct DriveWear {
    /// How much of its rated life is used, in percent.
    pub(super) wear_percent: u64,
    /// Hours for which it had power.
    pub(super) power_on_hours: u64,
    /// Bytes written to it in its life, where it tells.
    pub(super) written_bytes: Option<u64>,
}

/// Bytes that the system wrote to a drive, and in how many hours.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct WriteRate {
    pub(super) bytes: u64,
    pub(super) hours: f64,
}

impl DriveWear {
    /// Years, if it is written as it was in its life on average.
    pub(super) fn years(&self) -> Option<f64> {
        let hours = self.power_on_hours as f64;
        // What is written cancels out: `left / (written / hours)`, with `left = written x (100 - used) / used`.
        (hours >= WATCHED_HOURS_MIN).then(|| bounded(self.left_by_used() * hours / YEAR_HOURS))
    }

    /// Years, if it is written as the system does now.
    pub(super) fn years_at(&self, now: WriteRate) -> Option<f64> {
        if now.hours < WATCHED_HOURS_MIN {
            return None;
        }
        let left_bytes = self.written_bytes? as f64 * self.left_by_used();
        let bytes_a_year = now.bytes as f64 / now.hours * YEAR_HOURS;
        Some(if bytes_a_year > 0.0 { bounded(left_bytes / bytes_a_year) } else { YEARS_MAX })
    }

    /// What is left of the rated life, by what is used of it.
    fn left_by_used(&self) -> f64 {
        let used = self.wear_percent.clamp(1, 100) as f64;
        (100.0 - used) / used
    }
}

/// To a tenth of a year: more digits would promise too much.
fn bounded(years: f64) -> f64 {
    (years.clamp(0.0, YEARS_MAX) * 10.0).round() / 10.0
}

#[cfg(test)]
mod tests {
    use super::*;

    const TB: u64 = 1_000_000_000_000;

    #[test]
    fn years_follow_from_what_is_used_and_how_long_that_took() {
        let year_hours = 8766;
        let wear = |wear_percent, power_on_hours| DriveWear {
            wear_percent,
            power_on_hours,
            written_bytes: None,
        };
        assert_eq!(wear(20, year_hours).years(), Some(4.0), "20 % a year");
        assert_eq!(wear(50, 5 * year_hours).years(), Some(5.0));
        assert_eq!(wear(0, year_hours).years(), Some(99.0), "as 1 %");
        assert_eq!(wear(100, year_hours).years(), Some(0.0));
        assert_eq!(wear(130, year_hours).years(), Some(0.0));
        assert_eq!(wear(1, 50 * year_hours).years(), Some(YEARS_MAX));
        assert_eq!(wear(0, 23).years(), None, "a new drive");
    }

    /// An SSD of 1.6 TB with 3 drive writes a day for 5 years: 8.76 PB by Intel's tables. A quarter of that was
    /// written.
    #[test]
    fn a_load_of_as_much_as_the_drive_is_rated_for_gives_the_rated_years() {
        let wear =
            DriveWear { wear_percent: 25, power_on_hours: 10_000, written_bytes: Some(2190 * TB) };
        let day = WriteRate { bytes: 48 * TB / 10, hours: 24.0 };
        assert_eq!(wear.years_at(day), Some(3.7), "three quarters of 5 years");
        let half = WriteRate { bytes: 24 * TB / 10, ..day };
        assert_eq!(wear.years_at(half), Some(7.5));
        assert_eq!(wear.years_at(WriteRate { bytes: 0, ..day }), Some(YEARS_MAX));
        assert_eq!(wear.years_at(WriteRate { hours: 1.0, ..day }), None, "too early");
        assert_eq!(DriveWear { written_bytes: None, ..wear }.years_at(day), None);
    }
}
