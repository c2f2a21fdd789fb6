//! Metrics of the process itself, under the names that Prometheus client libraries use.

use std::fs;
use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};

use varve_access_admin::{Metric, MetricKind, Sample};

/// A tick of the kernel's CPU accounting in µs: Linux reports 100 a second to programs on every architecture we
/// support.
const TICK_US: u64 = 10_000;

static STARTED: OnceLock<SystemTime> = OnceLock::new();

/// Records the start of the process.
pub(super) fn begin() {
    STARTED.get_or_init(SystemTime::now);
}

/// The metrics now; those that the system does not provide are left out.
pub(super) fn now() -> Vec<Metric> {
    let mut build = Metric::new("varve_build_info", "Version of the daemon.", MetricKind::Gauge);
    let labels = vec![("version", env!("CARGO_PKG_VERSION").to_owned())];
    build.samples.push(Sample { labels, value: 1 });
    let mut metrics = vec![build];
    let mut push = |name, help, kind, value: Option<u64>| {
        let samples = value.map(|value| Sample { labels: Vec::new(), value }).into_iter();
        let metric = Metric { samples: samples.collect(), ..Metric::new(name, help, kind) };
        metrics.extend(Some(metric).filter(|metric| !metric.samples.is_empty()));
    };
    let start = STARTED.get().and_then(|start| start.duration_since(UNIX_EPOCH).ok());
    let start = start.and_then(|start| u64::try_from(start.as_micros()).ok());
    let gauge = MetricKind::Gauge;
    push(
        "process_start_time_seconds",
        "Start of the process, as seconds since 1970.",
        gauge,
        start,
    );
    let status = status();
    let kib = |name| kib_field(&status, name);
    push("process_resident_memory_bytes", "Resident memory of the process.", gauge, kib("VmRSS:"));
    push("process_virtual_memory_bytes", "Virtual memory of the process.", gauge, kib("VmSize:"));
    let fds = fs::read_dir("/proc/self/fd").ok().map(|fds| fds.count() as u64);
    push("process_open_fds", "Open file descriptors of the process.", gauge, fds);
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    push("process_max_fds", "Limit of open file descriptors of the process.", gauge, limit);
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let help = "CPU time of the process, user and system.";
    push("process_cpu_seconds_total", help, MetricKind::Counter, cpu_us(&stat));
    metrics
}

/// Resident memory of the process, if the system provides it.
pub(super) fn resident_bytes() -> Option<u64> {
    kib_field(&status(), "VmRSS:")
}

fn status() -> String {
    fs::read_to_string("/proc/self/status").unwrap_or_default()
}

/// The bytes after a name, in a file that has them in KiB.
fn kib_field(text: &str, name: &str) -> Option<u64> {
    field(text, name).map(|kib| kib.saturating_mul(1024))
}

/// The number after a name, in a file with one of each per line.
fn field(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

/// CPU time in µs: fields 14 and 15. Fields are counted from the end of the name in parentheses, which may contain
/// spaces.
fn cpu_us(stat: &str) -> Option<u64> {
    let (_, behind) = stat.rsplit_once(')')?;
    let mut fields = behind.split_whitespace().skip(11);
    let ticks = fields.next()?.parse::<u64>().ok()? + fields.next()?.parse::<u64>().ok()?;
    Some(ticks * TICK_US)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_metrics_of_the_process_are_there() {
        begin();
        let names: Vec<_> = now().iter().map(|metric| metric.name).collect();
        assert_eq!(names.len(), 7, "{names:?}");
        let stat = "7 (a b) c) S 1 2 3 4 5 6 7 8 9 10 120 30 0 0";
        assert_eq!(cpu_us(stat), Some(1_500_000));
        assert_eq!(cpu_us("7"), None);
        assert_eq!(field("VmRSS:\t  12 kB\n", "VmRSS:"), Some(12));
        assert!(resident_bytes().is_some_and(|bytes| bytes > 1 << 20));
    }
}
