//! Structured logs on standard error, quiet by default.

use std::io::{self, IsTerminal};

use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::config::{LogFormat, LogLevel};

/// Starts logging for the rest of the process. A second call keeps the first one's choice.
pub fn start(level: LogLevel, format: LogFormat) {
    let filter = match level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    };
    // The S3 library's lines hold requests as they came: keys of clients, authorizations, presigned addresses. The
    // gateway has a line of its own.
    let targets = Targets::new().with_default(filter).with_target("s3s", LevelFilter::OFF);
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(io::stderr)
        // A log that cannot be written, on a full disk say, is no reason to panic; saying so on standard error would be
        // one.
        .log_internal_errors(false)
        .with_ansi(io::stderr().is_terminal());
    let registry = tracing_subscriber::registry().with(targets);
    // An error says that logging was started before.
    let _ = match format {
        LogFormat::Text => registry.with(lines).try_init(),
        LogFormat::Json => registry.with(lines.json().flatten_event(true)).try_init(),
    };
}
