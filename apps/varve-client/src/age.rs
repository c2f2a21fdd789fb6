//! The wall clock, and spans of time as people say them.

use std::time::{SystemTime, UNIX_EPOCH};

const UNITS: [(u64, &str); 4] = [(86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1000, "s")];

/// The largest whole unit of a span: `3 d`, `5 h`, `12 min`, `7 s`, `0 s`.
pub fn span(ms: u64) -> String {
    let unit = UNITS.iter().find(|(length_ms, _)| ms >= *length_ms);
    let (length_ms, name) = unit.unwrap_or(&(1000, "s"));
    format!("{} {name}", ms / length_ms)
}

/// The wall clock, in ms since 1970.
pub fn now_unix_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
}

/// How long ago a moment was, such as `3 d ago`.
pub fn since(unix_ms: u64) -> String {
    format!("{} ago", span(now_unix_ms().saturating_sub(unix_ms)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_use_their_largest_unit() {
        let spans = [(0, "0 s"), (59_999, "59 s"), (60_000, "1 min"), (7_300_000, "2 h")];
        for (ms, text) in spans {
            assert_eq!(span(ms), text);
        }
        assert_eq!(span(3 * 86_400_000), "3 d");
    }
}
