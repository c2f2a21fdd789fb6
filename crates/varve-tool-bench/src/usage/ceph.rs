//! What a daemon of Ceph says of itself on its admin socket: counters and times (`perf dump`), and what they come to
//! between two moments.
//!
//! The protocol: a request as JSON that ends with a zero byte; the answer as its length, 4 bytes from the highest, and
//! JSON.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What is asked.
const REQUEST: &[u8] = b"{\"prefix\": \"perf dump\", \"format\": \"json\"}\0";

/// Longest answer: those of OSDs have some 50 KiB.
const ANSWER_BYTES_MAX: u64 = 16 << 20;

/// Longest time for it.
const TIMEOUT: Duration = Duration::from_secs(2);

/// Counters of a daemon, as `section.name`.
#[derive(Clone, Default, PartialEq, Debug)]
pub struct CephCounters {
    /// What only grows.
    counts: BTreeMap<String, f64>,
    /// Events, and their time added up, in s.
    times: BTreeMap<String, (f64, f64)>,
}

/// What a daemon did, a second. Fields are added over time, never renamed.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize, Debug)]
pub struct CephUsage {
    /// Name of its socket.
    pub name: String,
    /// What was counted, as `section.name`, a second; without what did not change.
    pub per_second: BTreeMap<String, f64>,
    /// Mean times of what happened, in µs.
    pub mean_us: BTreeMap<String, f64>,
}

impl CephCounters {
    /// Asks the daemon that listens at `socket`.
    ///
    /// # Errors
    /// When it does not answer within 2 s, or answers something else.
    pub fn ask(socket: &Path) -> io::Result<Self> {
        let mut stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        stream.set_write_timeout(Some(TIMEOUT))?;
        stream.write_all(REQUEST)?;
        let mut length = [0; 4];
        stream.read_exact(&mut length)?;
        let length = u64::from(u32::from_be_bytes(length)).min(ANSWER_BYTES_MAX);
        let mut text = String::new();
        stream.take(length).read_to_string(&mut text)?;
        Self::read(&text).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "no counters"))
    }

    /// Reads what `perf dump` prints; none of anything else.
    #[must_use]
    pub fn read(text: &str) -> Option<Self> {
        let Ok(Value::Object(sections)) = serde_json::from_str(text) else { return None };
        let mut all = Self::default();
        for (section, counters) in sections {
            for (name, value) in counters.as_object().into_iter().flatten() {
                let name = format!("{section}.{name}");
                let field = |field: &str| value.get(field).and_then(Value::as_f64);
                match (value.as_f64(), field("avgcount"), field("sum")) {
                    (Some(count), _, _) => drop(all.counts.insert(name, count)),
                    (None, Some(count), Some(sum)) => drop(all.times.insert(name, (count, sum))),
                    _ => {}
                }
            }
        }
        (!all.counts.is_empty()).then_some(all)
    }
}

impl CephUsage {
    /// What the daemon at `name` did from `first` to `last`, `seconds` later. What fell is a gauge or began anew, and
    /// is left out.
    pub(crate) fn between(
        name: &str,
        first: &CephCounters,
        last: &CephCounters,
        seconds: f64,
    ) -> Self {
        let grown = last.counts.iter().filter_map(|(name, last)| {
            let grown = last - first.counts.get(name)?;
            (grown > 0.0).then(|| (name.clone(), grown / seconds))
        });
        let times = last.times.iter().filter_map(|(name, (last_count, last_s))| {
            let (first_count, first_s) = first.times.get(name)?;
            let (count, time_s) = (last_count - first_count, last_s - first_s);
            (count > 0.0 && time_s >= 0.0).then(|| (name.clone(), time_s / count * 1e6))
        });
        Self { name: name.to_owned(), per_second: grown.collect(), mean_us: times.collect() }
    }

    /// A counter, a second; 0 where it did not change.
    #[must_use]
    pub fn rate(&self, name: &str) -> f64 {
        self.per_second.get(name).copied().unwrap_or(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    fn dump(writes: u64, seconds: f64, objects: u64) -> String {
        format!(
            "{{\"osd\": {{\"op_w\": {writes}, \"numpg\": {objects}, \"op_w_latency\": {{\"avgcount\": {writes}, \"sum\": {seconds}, \"avgtime\": 1}}}}, \"empty\": {{}}}}"
        )
    }

    #[test]
    fn counts_are_rates_and_times_are_means() {
        let read = |text: &str| CephCounters::read(text).unwrap();
        let (first, last) = (read(&dump(100, 1.0, 9)), read(&dump(300, 1.5, 3)));
        let usage = CephUsage::between("osd.0", &first, &last, 2.0);
        assert_eq!((usage.rate("osd.op_w"), usage.rate("osd.numpg")), (100.0, 0.0));
        assert_eq!(usage.mean_us["osd.op_w_latency"], 2500.0);
        let again = CephUsage::between("osd.0", &last, &last, 2.0);
        assert!(again.per_second.is_empty() && again.mean_us.is_empty());
        for nothing in ["", "[]", "{}", "{\"osd\": {}}", "nonsense"] {
            assert_eq!(CephCounters::read(nothing), None, "{nothing}");
        }
    }

    #[test]
    fn a_daemon_is_asked_on_its_socket() {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("osd.asok");
        let listener = UnixListener::bind(&socket).unwrap();
        let daemon = std::thread::spawn(move || {
            for answer in [dump(5, 0.1, 1), "nonsense".to_owned()] {
                let (mut stream, _) = listener.accept().unwrap();
                let mut request = vec![0; REQUEST.len()];
                stream.read_exact(&mut request).unwrap();
                assert_eq!(request, REQUEST);
                let length = u32::try_from(answer.len()).unwrap();
                stream.write_all(&length.to_be_bytes()).unwrap();
                stream.write_all(answer.as_bytes()).unwrap();
            }
        });
        assert_eq!(CephCounters::ask(&socket).unwrap().counts["osd.op_w"], 5.0);
        assert!(CephCounters::ask(&socket).is_err());
        daemon.join().unwrap();
        assert!(CephCounters::ask(&dir.path().join("nobody")).is_err());
    }
}
