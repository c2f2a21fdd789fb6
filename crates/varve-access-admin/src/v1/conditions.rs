//! What travels in answers about the condition of drives: what they say of themselves. Fields are only ever added.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What a drive says of itself. A field that it does not tell is absent.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct DriveCondition {
    /// Whether the drive was asked and has answered. If not, nothing here says that it is well.
    pub known: bool,
    /// Why it is not known, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unknown_reason: Option<String>,
    /// The device that this is about, such as `/dev/nvme0n1`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// Whether it is the device below a file system, as the drive is a directory or file: others may use it, too.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub below_file_system: bool,
    /// Whether writes go to a cache of the device that loses them with the power: `write back`, which Varve flushes, or
    /// `write through`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_cache: Option<String>,
    /// When it was asked last, in milliseconds since 1970 UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked_unix_ms: Option<u64>,
    /// Model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Serial number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub serial: Option<String>,
    /// Version of its firmware.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub firmware: Option<String>,
    /// Temperature in degrees Celsius.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature_celsius: Option<i64>,
    /// How much of its rated life is used, in percent; may exceed 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wear_percent: Option<u64>,
    /// How much of its spare flash is left, in percent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spare_percent: Option<u64>,
    /// Below which percentage it warns of that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spare_threshold_percent: Option<u64>,
    /// Reads and writes that it could not carry out in its life, as data could not be recovered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub media_errors: Option<u64>,
    /// Sectors that it has replaced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reallocated_sectors: Option<u64>,
    /// Sectors that it cannot read, and would replace once they are written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pending_sectors: Option<u64>,
    /// How often it lost power without being told before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unsafe_shutdowns: Option<u64>,
    /// Hours for which it had power.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub power_on_hours: Option<u64>,
    /// Bytes written to it in its life.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub written_bytes: Option<u64>,
    /// Bytes that it wrote to its flash for them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flash_written_bytes: Option<u64>,
    /// Years until its rated life is used, if it is written as it was on average.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endurance_years: Option<f64>,
    /// The same, if it is written as it was since the daemon started; absent in the first day.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endurance_years_now: Option<f64>,
    /// What it warns of, and what Varve concludes from the rest.
    #[serde(default)]
    pub warnings: Vec<DriveWarning>,
}

/// One thing that is wrong with a drive.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct DriveWarning {
    /// `spare_low`, `temperature`, `unreliable`, `read_only`, `cache_unprotected`, `memory_read_only`, `failing`,
    /// `worn`, `media_errors`, `reallocated` or `pending`.
    pub kind: String,
    /// Whether the drive may fail soon, or fails already.
    pub is_critical: bool,
    /// What is so, in words.
    pub message: String,
    /// What to do about it.
    pub advice: String,
}

/// The light of a drive that is to be lit, or not.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LocateDrive {
    /// Whether it is to shine.
    pub on: bool,
}

/// A light that was changed.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct DriveLight {
    /// The device that it is of.
    pub device: String,
    /// Whether it shines now.
    pub on: bool,
    /// By what it was changed: `ledctl`, or the file of the enclosure.
    pub by: String,
}
