//! What a server of Varve says of its media: counters of its metrics, and times of operations between two moments.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Counters of each shard, by name without the layer, and by shard.
#[derive(Clone, Default, PartialEq, Debug)]
pub struct ServerCounters {
    counters: BTreeMap<String, BTreeMap<String, u64>>,
    pool_id: String,
}

/// Bytes that a daemon writes to its drives, by what for. What goes past the lane is in data segments.
const WRITTEN: [&str; 4] = [
    "logstore_lane_written_bytes_total",
    "logstore_data_bytes_total",
    "logstore_metadata_bytes_total",
    "logstore_reclaimed_bytes_total",
];

/// Bytes that it reads from them.
const READ: [&str; 2] = ["engine_media_read_bytes_total", "logstore_reclaim_read_bytes_total"];

/// What the server's media did, a second.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize, Debug)]
pub struct ServerUsage {
    /// Identity of its pool, which tells it from other servers.
    #[serde(default)]
    pub pool_id: String,
    /// Reads from its drives a second.
    pub media_reads_per_second: f64,
    /// Mean time of one, in µs; 0 without any.
    pub media_read_us: f64,
    /// Durable writes to its drives a second.
    pub media_writes_per_second: f64,
    /// Mean time of one, in µs; 0 without any.
    pub media_write_us: f64,
    /// What a write to the server waits for them, in µs: for the one that is under way when it comes, as often as there
    /// is one, and for the one that carries it.
    pub media_write_wait_us: f64,
    /// Reads that its engine answered, a second.
    #[serde(default)]
    pub requests_read_per_second: f64,
    /// Mean time from a front-end's request to the answer of the engine, in µs; 0 without any.
    #[serde(default)]
    pub request_read_us: f64,
    /// Writes likewise.
    #[serde(default)]
    pub requests_written_per_second: f64,
    /// Mean time likewise.
    #[serde(default)]
    pub request_write_us: f64,
    /// Bytes of its clients that were written, a second.
    #[serde(default)]
    pub client_write_bytes_per_second: f64,
    /// Bytes that it wrote to its drives, a second: journal, segments, metadata, and what reclaim moved.
    #[serde(default)]
    pub stored_write_bytes_per_second: f64,
    /// Bytes of its clients that were read, a second.
    #[serde(default)]
    pub client_read_bytes_per_second: f64,
    /// Bytes that it read from its drives for them and for reclaim, a second.
    #[serde(default)]
    pub stored_read_bytes_per_second: f64,
}

impl ServerCounters {
    /// Reads metrics as `/metrics` of a daemon prints them; `None` when they say nothing of media.
    #[must_use]
    pub fn read(metrics: &str) -> Option<Self> {
        let mut counters: BTreeMap<String, BTreeMap<String, u64>> = BTreeMap::new();
        for line in metrics.lines() {
            let Some(rest) = line.strip_prefix("varve_") else { continue };
            let Some((name, value)) = rest.rsplit_once(' ') else { continue };
            let (name, shard) = name.split_once('{').unwrap_or((name, ""));
            let Some((name, value)) = in_micros(name, value) else { continue };
            counters.entry(name).or_default().insert(shard.to_owned(), value);
        }
        let is_any = counters.keys().any(|name| name.starts_with("media_"));
        is_any.then_some(Self { counters, pool_id: String::new() })
    }

    /// The same, of the server of that pool.
    #[must_use]
    pub fn of_pool(self, pool_id: &str) -> Self {
        Self { pool_id: pool_id.to_owned(), ..self }
    }
}

/// A counter as whole numbers: seconds in µs, under the name that servers had for those before they counted in seconds.
fn in_micros(name: &str, value: &str) -> Option<(String, u64)> {
    match name.strip_suffix("_seconds_total") {
        Some(of) => {
            let micros = (value.parse::<f64>().ok()? * 1e6).round();
            // Saturates; a negative or absurd figure is no counter of ours.
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "saturates"
            )]
            Some((format!("{of}_us_total"), micros as u64))
        }
        None => Some((name.to_owned(), value.parse().ok()?)),
    }
}

impl ServerUsage {
    /// What was done from `first` to `last`, `seconds` later.
    pub(crate) fn between(first: &ServerCounters, last: &ServerCounters, seconds: f64) -> Self {
        let of = |counters: &ServerCounters, name: &str, shard: &str| {
            counters.counters.get(name).and_then(|shards| shards.get(shard)).copied().unwrap_or(0)
        };
        // Counters of a server that was started again begin anew.
        let delta = |name: &str, shard: &str| {
            of(last, name, shard).saturating_sub(of(first, name, shard)) as f64
        };
        let shards = |name: &str| last.counters.get(name).into_iter().flat_map(BTreeMap::keys);
        let sum = |name: &str| shards(name).map(|shard| delta(name, shard)).sum::<f64>();
        let mean = |us: f64, count: f64| if count > 0.0 { us / count } else { 0.0 };
        let (reads, writes) = (sum("media_reads_total"), sum("media_durable_writes_total"));
        let waits = shards("media_durable_write_us_total").map(|shard| {
            let us = delta("media_durable_write_us_total", shard);
            let under_way = us / 1e6 / seconds;
            us * (1.0 + under_way.min(1.0))
        });
        Self {
            pool_id: last.pool_id.clone(),
            media_reads_per_second: reads / seconds,
            media_read_us: mean(sum("media_read_us_total"), reads),
            media_writes_per_second: writes / seconds,
            media_write_us: mean(sum("media_durable_write_us_total"), writes),
            media_write_wait_us: mean(waits.sum(), writes),
            requests_read_per_second: sum("volume_reads_total") / seconds,
            request_read_us: mean(sum("volume_read_us_total"), sum("volume_reads_total")),
            requests_written_per_second: sum("volume_writes_total") / seconds,
            request_write_us: mean(sum("volume_write_us_total"), sum("volume_writes_total")),
            client_write_bytes_per_second: sum("engine_write_bytes_total") / seconds,
            stored_write_bytes_per_second: WRITTEN.map(sum).iter().sum::<f64>() / seconds,
            client_read_bytes_per_second: sum("engine_read_bytes_total") / seconds,
            stored_read_bytes_per_second: READ.map(sum).iter().sum::<f64>() / seconds,
        }
    }

    /// Mean time of the engine's part, media included, in µs; none of a server that does not count it.
    #[must_use]
    pub fn request_us(&self, does_read: bool) -> Option<f64> {
        let us = if does_read { self.request_read_us } else { self.request_write_us };
        (us > 0.0).then_some(us)
    }

    /// What media add to the mean time of an operation, in µs. A read waits for a read of the drives as often as there
    /// are such; a write waits for the durable write that carries it, with others, and often for the one before.
    #[must_use]
    pub fn media_us(&self, does_read: bool, operations_per_second: f64) -> f64 {
        if !does_read {
            return self.media_write_wait_us;
        }
        let share = self.media_reads_per_second / operations_per_second.max(1e-9);
        self.media_read_us * share.min(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_add_up_and_means_are_of_the_time_between() {
        let metrics = |n: u64| {
            let text = format!(
                "# HELP varve_media_reads_total Reads.\nvarve_media_reads_total{{shard=\"0\"}} {}\n\
                 varve_media_reads_total{{shard=\"1\"}} {}\nvarve_media_read_seconds_total{{shard=\"0\"}} {}\n\
                 varve_media_durable_writes_total 7\nvarve_engine_reads_total 5\n",
                10 * n,
                20 * n,
                0.006 * n as f64
            );
            ServerCounters::read(&text).unwrap().of_pool("p")
        };
        let usage = ServerUsage::between(&metrics(1), &metrics(3), 2.0);
        assert_eq!(usage.pool_id, "p");
        assert_eq!((usage.media_reads_per_second, usage.media_read_us), (30.0, 200.0));
        assert_eq!((usage.media_writes_per_second, usage.media_write_us), (0.0, 0.0));
        assert_eq!(usage.media_us(true, 300.0), 20.0, "one read of ten goes to the drives");
        assert_eq!(usage.media_us(true, 3.0), 200.0);
        let bytes = |n: u64| {
            let text = format!(
                "varve_media_reads_total 1\nvarve_engine_write_bytes_total {n}\nvarve_logstore_lane_written_bytes_total {}\n\
                 varve_logstore_data_bytes_total {n}\nvarve_volume_reads_total {n}\nvarve_volume_read_us_total {}\n",
                2 * n,
                50 * n
            );
            ServerCounters::read(&text).unwrap()
        };
        let usage = ServerUsage::between(&bytes(100), &bytes(300), 2.0);
        assert_eq!(usage.client_write_bytes_per_second, 100.0);
        assert_eq!(usage.stored_write_bytes_per_second, 300.0);
        assert_eq!((usage.request_us(true), usage.request_us(false)), (Some(50.0), None));
        // A busy shard and an idle one: a write waits for two of 2 ms there, and for one here.
        let text = |busy: u64, idle: u64| {
            let of = |shard: u64, count: u64| {
                format!(
                    "varve_media_durable_writes_total{{shard=\"{shard}\"}} {count}\nvarve_media_durable_write_us_total{{shard=\"{shard}\"}} {}\n",
                    2000 * count
                )
            };
            ServerCounters::read(&(of(0, busy) + &of(1, idle))).unwrap()
        };
        let busy = ServerUsage::between(&text(0, 0), &text(500, 0), 1.0);
        assert_eq!((busy.media_write_us, busy.media_us(false, 9.0)), (2000.0, 4000.0));
        let idle = ServerUsage::between(&text(0, 0), &text(0, 5), 1.0);
        assert_eq!(idle.media_us(false, 9.0), 2020.0);
        for nothing in ["", "varve_engine_reads_total 5\n", "varve_media_reads_total x\n"] {
            assert_eq!(ServerCounters::read(nothing), None, "{nothing}");
        }
    }
}
