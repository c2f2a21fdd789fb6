//! How long flash lasts. F10, from Intel's guide, table 6.

use crate::error::{Error, Result, at_most, positive};
use crate::rounding::real;
use crate::units::{Amount, Bytes, Seconds};

/// Days of a year of warranty.
const DAYS_PER_YEAR: f64 = 365.0;

/// Most whole drive writes a day, and most bytes written for one: beyond it a figure is a mistake.
const FACTOR_MAX: f64 = 1000.0;

/// Most years of a warranty.
const YEARS_MAX: f64 = 100.0;

/// What a drive's warranty allows.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Warranty {
    /// Capacity of the drive.
    pub capacity: Bytes,
    /// Whole drive writes a day.
    pub drive_writes_per_day: f64,
    /// For so many years.
    pub years: f64,
}

impl Warranty {
    /// That its numbers have a meaning.
    ///
    /// # Errors
    /// [`crate::Error::Range`] naming the number.
    pub fn check(self) -> Result<()> {
        positive("the capacity of a drive in bytes", self.capacity.base())?;
        positive("whole drive writes a day", self.drive_writes_per_day)?;
        at_most("whole drive writes a day", self.drive_writes_per_day, FACTOR_MAX, "at most 1000")?;
        positive("the warranty in years", self.years)?;
        at_most("the warranty in years", self.years, YEARS_MAX, "at most 100")
    }

    /// Data that may be written on a day (formula F10): 800 GB × 10 = 8 TB.
    #[must_use]
    pub fn per_day(self) -> Bytes {
        self.capacity * self.drive_writes_per_day
    }

    /// Data that may be written in all (formula F10), often called TBW: 14.6 PB in five years at 8 TB a day.
    #[must_use]
    pub fn total(self) -> Bytes {
        self.per_day() * DAYS_PER_YEAR * self.years
    }
}

/// What clients write, and what becomes of it on the way to the drives.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Wear {
    /// Data that clients write on a day.
    pub client_per_day: Bytes,
    /// Bytes on drives for each byte of data: [`crate::Protection::overhead`].
    pub overhead: f64,
    /// Bytes written to a drive for each byte of its share: reclaim, metadata, the drive's own.
    pub write_amplification: f64,
    /// 2 where the journal lies on the same drives, else 1.
    pub journal_factor: f64,
    /// Drives that share it.
    pub drives: u64,
}

impl Wear {
    /// What one drive takes on a day (formula F10).
    ///
    /// # Errors
    /// [`crate::Error::Range`] when there are no drives, or a factor is not 1 to 1000.
    pub fn per_drive_and_day(self) -> Result<Bytes> {
        let drives = positive("the number of drives", real(self.drives))?;
        factor("the write amplification", self.write_amplification)?;
        factor("the journal factor", self.journal_factor)?;
        let factor = self.overhead * self.write_amplification * self.journal_factor;
        Ok(self.client_per_day * factor / drives)
    }

    /// How long a drive lasts (formula F10); infinite where nothing is written.
    ///
    /// # Errors
    /// As [`Wear::per_drive_and_day`].
    pub fn lifetime(self, warranty: Warranty) -> Result<Seconds> {
        let days = warranty.total() / self.per_drive_and_day()?;
        Ok(Seconds::of_years(days / DAYS_PER_YEAR))
    }
}

/// That bytes written for one are 1 to 1000.
pub(crate) fn factor(what: &'static str, value: f64) -> Result<()> {
    match (1.0..=FACTOR_MAX).contains(&value) {
        true => Ok(()),
        false => Err(Error::Range { what, value, allowed: "1 to 1000" }),
    }
}
