//! Moments as stored records have them, and as people read them.

use std::fmt;

use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// A moment, in ms since 1970.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct UnixMillis(pub u64);

impl fmt::Display for UnixMillis {
    /// In UTC, to the second, as RFC 3339 has it; the number where no calendar reaches.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = i64::try_from(self.0 / 1000).unwrap_or(i64::MAX);
        let date = OffsetDateTime::from_unix_timestamp(seconds).ok();
        match date.and_then(|date| date.format(&Rfc3339).ok()) {
            Some(date) => f.write_str(&date),
            None => write!(f, "{} ms since 1970", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_reads_as_a_date() {
        assert_eq!(UnixMillis(0).to_string(), "1970-01-01T00:00:00Z");
        assert_eq!(UnixMillis(1_795_846_686_156).to_string(), "2026-11-28T06:18:06Z");
        assert_eq!(UnixMillis(u64::MAX).to_string(), format!("{} ms since 1970", u64::MAX));
    }
}
