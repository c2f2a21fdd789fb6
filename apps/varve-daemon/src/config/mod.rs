//! The daemon's settings: one table of what can be set, a file that sets it, flags that override the file.
//!
//! CONFIG-1: a setting exists exactly if `table::SETTINGS` has it; the reader, the checks and the documentation all go
//!     by that table.

mod file;
mod nbd;
mod rados;
mod redundancy;
mod settings;
mod table;

pub use file::{CONFIG_FILE, read, read_data};
pub use nbd::{NbdSettings, TlsSettings};
pub use rados::RadosSettings;
pub use redundancy::RedundancySettings;
pub use settings::{
    DATA_DEFAULT, DriveSetting, LogFormat, LogLevel, S3Listen, S3Settings, Settings, Thresholds,
};
pub use table::{DRIVE_BYTES, document};
