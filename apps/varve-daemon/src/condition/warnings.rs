//! What is wrong with a drive: each bit of NVMe's critical warning by itself, and what follows from the rest. Pure.

use varve_access_admin::v1::DriveWarning;

use super::smart::SmartReport;

/// From which wear on a drive should be replaced, in percent of its rated life.
const WORN_PERCENT: u64 = 90;

/// One of them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum WarningKind {
    /// NVMe's bit 0.
    SpareLow,
    /// Bit 1, or a temperature above its limit.
    Temperature,
    /// Bit 2.
    Unreliable,
    /// Bit 3.
    ReadOnly,
    /// Bit 4.
    CacheUnprotected,
    /// Bit 5.
    MemoryReadOnly,
    /// The drive says that it fails.
    Failing,
    Worn,
    MediaErrors,
    Reallocated,
    Pending,
}

/// NVMe's bits, from bit 0 on.
const BITS: [WarningKind; 6] = [
    WarningKind::SpareLow,
    WarningKind::Temperature,
    WarningKind::Unreliable,
    WarningKind::ReadOnly,
    WarningKind::CacheUnprotected,
    WarningKind::MemoryReadOnly,
];

impl WarningKind {
    const fn word(self) -> &'static str {
        match self {
            Self::SpareLow => "spare_low",
            Self::Temperature => "temperature",
            Self::Unreliable => "unreliable",
            Self::ReadOnly => "read_only",
            Self::CacheUnprotected => "cache_unprotected",
            Self::MemoryReadOnly => "memory_read_only",
            Self::Failing => "failing",
            Self::Worn => "worn",
            Self::MediaErrors => "media_errors",
            Self::Reallocated => "reallocated",
            Self::Pending => "pending",
        }
    }

    /// Whether the drive may fail soon: heat passes, and what is worn works for long.
    const fn is_critical(self) -> bool {
        match self {
            Self::SpareLow
            | Self::Unreliable
            | Self::ReadOnly
            | Self::CacheUnprotected
            | Self::Failing => true,
            Self::Temperature
            | Self::MemoryReadOnly
            | Self::Worn
            | Self::MediaErrors
            | Self::Reallocated
            | Self::Pending => false,
        }
    }

    const fn advice(self) -> &'static str {
        match self {
            Self::Temperature => {
                "check fans and the air of the machine: a hot drive gets slower, and ages"
            }
            Self::MemoryReadOnly => "Varve does not use it; replace the drive if other programs do",
            Self::CacheUnprotected => {
                "replace the drive: its cache may lose what it has acknowledged when power fails"
            }
            Self::Worn => {
                "plan its replacement: it works on, but its vendor does not vouch for it for long"
            }
            Self::SpareLow | Self::Unreliable | Self::ReadOnly | Self::Failing => {
                "replace the drive now, before it fails"
            }
            Self::MediaErrors | Self::Reallocated | Self::Pending => {
                "replace the drive if that goes on; a scrub shows what it holds that is wrong"
            }
        }
    }

    fn with(self, message: String) -> DriveWarning {
        DriveWarning {
            kind: self.word().to_owned(),
            is_critical: self.is_critical(),
            message,
            advice: self.advice().to_owned(),
        }
    }
}

/// What is wrong by the last report, and by what grew since the first one of the daemon.
pub(super) fn warnings(first: &SmartReport, last: &SmartReport) -> Vec<DriveWarning> {
    let bits = (0_u32..).zip(BITS).filter(|(bit, _)| last.critical_bits >> bit & 1 == 1);
    let mut all: Vec<DriveWarning> = bits.map(|(_, kind)| kind.with(of_bit(kind, last))).collect();
    let has = |all: &[DriveWarning], kind: WarningKind| all.iter().any(|it| it.kind == kind.word());
    if let (Some(now), Some(limit)) = (last.temperature_celsius, last.temperature_limit_celsius)
        && now >= limit
        && !has(&all, WarningKind::Temperature)
    {
        let message = format!("{now} °C, and {limit} °C are the most it may have");
        all.push(WarningKind::Temperature.with(message));
    }
    if !last.failing_attributes.is_empty() {
        let message = format!("below its threshold: {}", last.failing_attributes.join(", "));
        all.push(WarningKind::Failing.with(message));
    } else if last.has_passed == Some(false) && last.critical_bits == 0 {
        all.push(WarningKind::Failing.with("it says that it fails".to_owned()));
    }
    if let Some(percent) = last.wear_percent.filter(|it| *it >= WORN_PERCENT) {
        all.push(WarningKind::Worn.with(format!("{percent} % of its rated life are used")));
    }
    let grown = [
        (WarningKind::MediaErrors, first.media_errors, last.media_errors, "media errors"),
        (
            WarningKind::Reallocated,
            first.reallocated_sectors,
            last.reallocated_sectors,
            "sectors replaced",
        ),
    ];
    for (kind, before, now, what) in grown {
        let (Some(before), Some(now)) = (before, now) else { continue };
        if now > before {
            let more = now - before;
            all.push(
                kind.with(format!("{more} more {what} since the daemon started, {now} in all")),
            );
        }
    }
    if let Some(sectors) = last.pending_sectors.filter(|it| *it > 0) {
        all.push(WarningKind::Pending.with(format!("{sectors} sectors cannot be read")));
    }
    all
}

/// What a bit means of a drive.
fn of_bit(kind: WarningKind, report: &SmartReport) -> String {
    match kind {
        WarningKind::SpareLow => match (report.spare_percent, report.spare_threshold_percent) {
            (Some(left), Some(threshold)) => {
                format!(
                    "{left} % of its spare flash are left, below its threshold of {threshold} %"
                )
            }
            _ => "its spare flash is below its threshold".to_owned(),
        },
        WarningKind::Temperature => match report.temperature_celsius {
            Some(now) => format!("{now} °C are outside of what it may have"),
            None => "its temperature is outside of what it may have".to_owned(),
        },
        WarningKind::Unreliable => "it is unreliable, by errors of its media or inside".to_owned(),
        WarningKind::ReadOnly => "it takes no more writes".to_owned(),
        WarningKind::CacheUnprotected => {
            "what saves its cache when power fails does not work".to_owned()
        }
        WarningKind::MemoryReadOnly => "its persistent memory takes no more writes".to_owned(),
        WarningKind::Failing
        | WarningKind::Worn
        | WarningKind::MediaErrors
        | WarningKind::Reallocated
        | WarningKind::Pending => kind.word().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(first: &SmartReport, last: &SmartReport) -> Vec<String> {
        warnings(first, last).into_iter().map(|it| it.kind).collect()
    }

    #[test]
    fn each_bit_is_a_warning_of_its_own() {
        let words = BITS.map(WarningKind::word);
        let well = SmartReport::default();
        assert_eq!(kinds(&well, &well), [""; 0]);
        for (bit, word) in words.iter().enumerate() {
            let report = SmartReport { critical_bits: 1 << bit, ..SmartReport::default() };
            assert_eq!(kinds(&well, &report), [*word]);
        }
        let all = SmartReport { critical_bits: 0xff, has_passed: Some(false), ..well.clone() };
        assert_eq!(kinds(&well, &all), words, "the verdict says no more than the bits do");
        let critical = warnings(&well, &all).into_iter().filter(|it| it.is_critical);
        let critical: Vec<String> = critical.map(|it| it.kind).collect();
        assert_eq!(critical, ["spare_low", "unreliable", "read_only", "cache_unprotected"]);
    }

    #[test]
    fn only_errors_that_came_since_the_start_are_warned_of() {
        let first = SmartReport {
            media_errors: Some(7),
            reallocated_sectors: Some(2),
            pending_sectors: Some(0),
            wear_percent: Some(89),
            ..SmartReport::default()
        };
        assert_eq!(kinds(&first, &first), [""; 0]);
        let last = SmartReport {
            media_errors: Some(9),
            reallocated_sectors: Some(3),
            pending_sectors: Some(1),
            wear_percent: Some(90),
            has_passed: Some(false),
            ..SmartReport::default()
        };
        let expected = ["failing", "worn", "media_errors", "reallocated", "pending"];
        assert_eq!(kinds(&first, &last), expected);
        let said = &warnings(&first, &last)[2].message;
        assert_eq!(said, "2 more media errors since the daemon started, 9 in all");
    }

    #[test]
    fn a_limit_that_the_drive_tells_is_as_good_as_the_bit() {
        let hot = |celsius| SmartReport {
            temperature_celsius: Some(celsius),
            temperature_limit_celsius: Some(70),
            ..SmartReport::default()
        };
        assert_eq!(kinds(&hot(69), &hot(69)), [""; 0]);
        assert_eq!(kinds(&hot(70), &hot(70)), ["temperature"]);
        let both = SmartReport { critical_bits: 2, ..hot(80) };
        assert_eq!(kinds(&both, &both), ["temperature"]);
    }
}
