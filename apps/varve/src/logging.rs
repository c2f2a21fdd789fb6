//! Structured logs on standard error, quiet by default.

use std::io::{self, IsTerminal};

use tracing::level_filters::LevelFilter;

use crate::config::{LogFormat, LogLevel};

/// Starts logging for the rest of the process. A second call keeps the first one's choice.
pub(crate) fn start(level: LogLevel, format: LogFormat) {
    let filter = match level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    };
    let lines = tracing_subscriber::fmt()
        .with_max_level(filter)
        .with_writer(io::stderr)
        // A log that cannot be written, on a full disk say, is no reason to panic; saying so on standard error would be one.
        .log_internal_errors(false)
        .with_ansi(io::stderr().is_terminal());
    // An error says that logging was started before.
    let _ = match format {
        LogFormat::Text => lines.try_init(),
        LogFormat::Json => lines.json().flatten_event(true).try_init(),
    };
}
