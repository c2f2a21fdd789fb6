//! The daemon's settings: one table of what can be set, a file that sets it, flags that override the file.
//!
//! CONFIG-1: a setting exists exactly if `table::SETTINGS` has it; the reader, the checks and the documentation all go
//!     by that table.

mod file;
mod nbd;
mod rados;
mod settings;
mod table;

pub(crate) use file::{CONFIG_FILE, read, read_data};
pub(crate) use nbd::TlsSettings;
pub(crate) use settings::{
    DATA_DEFAULT, DriveSetting, LogFormat, LogLevel, S3Listen, Settings, Thresholds,
};
pub(crate) use table::{DRIVE_BYTES, document};
