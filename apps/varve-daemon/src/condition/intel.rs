//! Intel's vendor log CAh of NVMe drives, "additional SMART attributes", which Solidigm's have, too. Pure.
//!
//! smartctl prints the page as hexadecimal digits. It has entries of 12 B: a key, 2 B reserved, a normalized value, 1 B
//! reserved, 6 B of raw value, 1 B reserved. Intel describes them in the specifications of its drives, such as the DC
//! P4510.

use serde_json::Value;

/// Identities on PCI of vendors that have this log: Intel, and Solidigm, which has its drives.
const VENDORS: [u64; 2] = [0x8086, 0x025e];
/// Arguments of smartctl that print it.
pub(super) const ARGUMENTS: [&str; 3] = ["--json=co", "-l", "nvmelog,0xca,512"];

const ENTRY_BYTES: usize = 12;
/// Bytes written to flash and by hosts are counted in 32 MiB.
const UNIT_BYTES: u64 = 32 << 20;
const PROGRAM_FAILS: u8 = 0xab;
const ERASE_FAILS: u8 = 0xac;
const END_TO_END_ERRORS: u8 = 0xb8;
const FLASH_WRITTEN: u8 = 0xf4;

/// What the log says that page 02h does not.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct IntelLog {
    /// Bytes written to flash.
    pub(super) flash_written_bytes: Option<u64>,
    /// Blocks of flash that could not be written or erased: they were replaced.
    pub(super) failed_blocks: Option<u64>,
    /// Errors that the drive found on the way between host and flash.
    pub(super) end_to_end_errors: Option<u64>,
}

impl IntelLog {
    /// Whether drives of this vendor have it.
    pub(super) fn is_of(vendor: Option<u64>) -> bool {
        vendor.is_some_and(|vendor| VENDORS.contains(&vendor))
    }

    /// What an output of smartctl has of it; nothing where the drive has none.
    pub(super) fn parse(output: &[u8]) -> Self {
        let json: Value = serde_json::from_slice(output).unwrap_or_default();
        let lines = json["smartctl"]["output"].as_array();
        let lines = lines.into_iter().flatten().filter_map(Value::as_str);
        let dump = lines.skip_while(|line| !line.starts_with("NVMe Log 0xca"));
        let bytes: Vec<u8> = dump.skip(1).map_while(dumped).flatten().collect();
        Self::of(&bytes)
    }

    fn of(page: &[u8]) -> Self {
        let raw = |key: u8| {
            let entry = page.chunks_exact(ENTRY_BYTES).find(|entry| entry.first() == Some(&key))?;
            let mut raw = [0; 8];
            raw[..6].copy_from_slice(entry.get(5..11)?);
            Some(u64::from_le_bytes(raw))
        };
        let failed = [raw(PROGRAM_FAILS), raw(ERASE_FAILS)].into_iter().flatten();
        Self {
            flash_written_bytes: raw(FLASH_WRITTEN).map(|it| it.saturating_mul(UNIT_BYTES)),
            failed_blocks: failed.reduce(u64::saturating_add),
            end_to_end_errors: raw(END_TO_END_ERRORS),
        }
    }
}

/// The bytes of a line like ` 10     0a 00 …    …....`; `None` of others.
fn dumped(line: &str) -> Option<Vec<u8>> {
    let columns = line.get(..line.len().min(60))?;
    let mut words = columns.split_ascii_whitespace();
    u32::from_str_radix(words.next()?, 16).ok()?;
    let byte = |word: &str| (word.len() == 2).then(|| u8::from_str_radix(word, 16).ok()).flatten();
    words.map(byte).collect()
}

#[cfg(test)]
mod tests {
    use super::super::fixture;
    use super::*;

    #[test]
    fn the_vendor_log_is_read_from_the_dump() {
        let log = IntelLog::parse(fixture!("intel-nvme-log-ca").as_bytes());
        assert_eq!(log.flash_written_bytes, Some(0x0001_2345 * (32 << 20)));
        assert_eq!(log.failed_blocks, Some(3));
        assert_eq!(log.end_to_end_errors, Some(0));
        assert!(IntelLog::is_of(Some(0x8086)) && !IntelLog::is_of(Some(0x144d)));
    }

    #[test]
    fn what_is_no_dump_says_nothing() {
        for output in
            ["", "{}", "[1]", r#"{"smartctl": {"output": ["NVMe Log 0xca (0x0200 bytes)"]}}"#]
        {
            assert_eq!(IntelLog::parse(output.as_bytes()), IntelLog::default(), "{output}");
        }
        let short =
            r#"{"smartctl": {"output": ["NVMe Log 0xca (0x0200 bytes)", " 00     f4 00"]}}"#;
        assert_eq!(IntelLog::parse(short.as_bytes()), IntelLog::default());
    }
}
