//! Where the time of an operation goes, layer by layer, and what storage does for each operation and byte of the
//! client.

use serde::{Deserialize, Serialize};
use varve_tool_bench::{CephUsage, MachineUsage, ProcessUsage, ServedRates};

/// Shares of which a disk does less for the client's operations and bytes are not told: others use it too.
const TOLD_MIN: f64 = 0.05;

/// Of one window. Fields are added over time, never renamed.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize, Debug)]
pub(crate) struct Layers {
    /// Parts of the mean latency, from the client down; together they are all of it.
    pub(crate) mean_us: Vec<(String, f64)>,
    /// Time of processors for each operation: of all that was looked at, of the clients, and of each other process.
    #[serde(default)]
    cpu_us: Vec<(String, f64)>,
    /// What storage did for each operation and each byte of the client.
    pub(crate) amplification: Vec<Amplification>,
}

/// What one part of storage did.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub(crate) struct Amplification {
    /// Which.
    at: String,
    /// Its operations for one of the client.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    operations: Option<f64>,
    /// Bytes read there for each that the client read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    read: Option<f64>,
    /// Bytes written there for each that the client wrote.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    written: Option<f64>,
}

impl Layers {
    /// What is known of a window.
    pub(crate) fn of(served: &ServedRates, usage: Option<&MachineUsage>) -> Self {
        let Some(usage) = usage else { return Self::default() };
        let client = Rates {
            operations: served.operations_per_second,
            read: served.read_bytes_per_second,
            written: served.write_bytes_per_second,
        };
        let mut amplification = Vec::new();
        if let Some(server) = &usage.server {
            let media = Rates {
                operations: server.media_reads_per_second + server.media_writes_per_second,
                read: server.stored_read_bytes_per_second,
                written: server.stored_write_bytes_per_second,
            };
            amplification.push(client.times("drives of the daemon", media));
        }
        if !usage.ceph.is_empty() {
            amplification.push(client.times("daemons of Ceph", ceph(&usage.ceph)));
        }
        for disk in &usage.disks {
            let disk_rates = Rates {
                operations: disk.reads_per_second + disk.writes_per_second,
                read: disk.read_bytes_per_second,
                written: disk.write_bytes_per_second,
            };
            amplification.push(client.times(&format!("disk {}", disk.name), disk_rates));
        }
        let cpu_us = processors(served.operations_per_second, usage);
        Self { mean_us: times(served, usage), cpu_us, amplification }
    }

    /// Lines for people; empty where nothing is known.
    pub(crate) fn facts(&self) -> Vec<(&'static str, String)> {
        let parts: Vec<String> =
            self.mean_us.iter().map(|(name, us)| format!("{name} {us:.0} µs")).collect();
        let layers = (!parts.is_empty()).then(|| ("layers", parts.join(" + ")));
        let parts: Vec<String> =
            self.cpu_us.iter().map(|(name, us)| format!("{name} {us:.1} µs")).collect();
        let cpu = (!parts.is_empty())
            .then(|| ("processors", format!("{} for an operation", parts.join(", "))));
        let lines = self.amplification.iter().filter_map(Amplification::text);
        layers.into_iter().chain(cpu).chain(lines.map(|text| ("amplified", text))).collect()
    }
}

/// Parts of the mean latency, as far as the daemon tells them.
fn times(served: &ServedRates, usage: &MachineUsage) -> Vec<(String, f64)> {
    let Some(server) = &usage.server else { return Vec::new() };
    let (mean_us, rate) = (served.mean_us, served.operations_per_second);
    let does_read = served.does_read();
    let request_us = server.request_us(does_read).map(|us| us.min(mean_us));
    let media_us = server.media_us(does_read, rate).min(request_us.unwrap_or(mean_us));
    let engine = match request_us {
        Some(request_us) => vec![
            ("client, network and front-end".to_owned(), mean_us - request_us),
            ("engine".to_owned(), request_us - media_us),
        ],
        None => vec![("client, network and daemon".to_owned(), mean_us - media_us)],
    };
    engine.into_iter().chain([("drives".to_owned(), media_us)]).collect()
}

/// Time of processors for each of so many operations a second.
fn processors(operations_per_second: f64, usage: &MachineUsage) -> Vec<(String, f64)> {
    if operations_per_second == 0.0 {
        return Vec::new();
    }
    let mut cpus = vec![("all".to_owned(), usage.cpus_busy)];
    // Clients first, whatever their ids.
    let mut processes: Vec<&ProcessUsage> = usage.processes.iter().collect();
    processes.sort_by_key(|process| !process.is_client);
    for process in processes {
        let name = if process.is_client { "clients" } else { process.name.as_str() };
        match cpus.iter_mut().skip(1).find(|(known, _)| known == name) {
            Some((_, sum)) => *sum += process.cpus,
            None => cpus.push((name.to_owned(), process.cpus)),
        }
    }
    let us = |cpus: f64| cpus * 1e6 / operations_per_second;
    cpus.into_iter().map(|(name, cpus)| (name, us(cpus))).collect()
}

/// What OSDs did: operations of clients, and those for other OSDs.
fn ceph(daemons: &[CephUsage]) -> Rates {
    let sum = |names: &[&str]| -> f64 {
        daemons.iter().flat_map(|daemon| names.iter().map(|name| daemon.rate(name))).sum()
    };
    Rates {
        operations: sum(&["osd.op", "osd.subop"]),
        read: sum(&["osd.op_out_bytes"]),
        written: sum(&["osd.op_in_bytes", "osd.subop_in_bytes"]),
    }
}

/// What is done a second.
#[derive(Clone, Copy)]
struct Rates {
    operations: f64,
    read: f64,
    written: f64,
}

impl Rates {
    /// What `storage` does for each of these.
    fn times(self, at: &str, storage: Self) -> Amplification {
        let ratio = |storage: f64, client: f64| (client > 0.0).then(|| storage / client);
        Amplification {
            at: at.to_owned(),
            operations: ratio(storage.operations, self.operations),
            read: ratio(storage.read, self.read),
            written: ratio(storage.written, self.written),
        }
    }
}

impl Amplification {
    fn text(&self) -> Option<String> {
        let part = |value: Option<f64>, what: &str| value.map(|value| format!("{value:.2} {what}"));
        let parts = [
            part(self.operations, "operations for one"),
            part(self.read, "bytes read for one"),
            part(self.written, "bytes written for one"),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        let ratios = [self.operations, self.read, self.written];
        let is_some = ratios.into_iter().flatten().any(|ratio| ratio >= TOLD_MIN);
        is_some.then(|| format!("{}: {}", self.at, parts.join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use varve_tool_bench::{Measurement, OperationKind, ServerUsage};

    fn served() -> ServedRates {
        let mut measured = Measurement { window_ns: 1_000_000_000, ..Measurement::default() };
        (0..100).for_each(|_| measured.answer(OperationKind::Write, 4096, 0, 1_000_000));
        ServedRates::of(&measured)
    }

    #[test]
    fn layers_are_the_whole_latency_and_bytes_are_compared() {
        let server = ServerUsage {
            request_write_us: 700.0,
            media_write_wait_us: 450.0,
            stored_write_bytes_per_second: 100.0 * 4096.0 * 2.5,
            media_writes_per_second: 50.0,
            ..ServerUsage::default()
        };
        let process = |name: &str, is_client, cpus| ProcessUsage {
            name: name.to_owned(),
            is_client,
            cpus,
            ..ProcessUsage::default()
        };
        let usage = MachineUsage {
            server: Some(server),
            cpus_busy: 0.5,
            processes: vec![
                process("varve", false, 0.1),
                process("varve", true, 0.02),
                process("varve", true, 0.03),
            ],
            ..MachineUsage::default()
        };
        let layers = Layers::of(&served(), Some(&usage));
        let sum: f64 = layers.mean_us.iter().map(|(_, us)| us).sum();
        assert!((sum - 1000.0).abs() < 1.0, "{sum}");
        let facts = layers.facts();
        assert_eq!(
            facts[0].1,
            "client, network and front-end 300 µs + engine 250 µs + drives 450 µs"
        );
        assert_eq!(
            facts[1],
            (
                "processors",
                "all 5000.0 µs, clients 500.0 µs, varve 1000.0 µs for an operation".to_owned()
            )
        );
        assert_eq!(
            facts[2].1,
            "drives of the daemon: 0.50 operations for one, 2.50 bytes written for one"
        );
        assert_eq!(Layers::of(&served(), None).facts(), []);
    }

    #[test]
    fn copies_between_daemons_count() {
        let osd = |name: &str, rates: &[(&str, f64)]| CephUsage {
            name: name.to_owned(),
            per_second: rates.iter().map(|(name, rate)| ((*name).to_owned(), *rate)).collect(),
            ..CephUsage::default()
        };
        let ceph = vec![
            osd("osd.0", &[("osd.op", 100.0), ("osd.op_in_bytes", 409_600.0)]),
            osd("osd.1", &[("osd.subop", 100.0), ("osd.subop_in_bytes", 409_600.0)]),
        ];
        let usage = MachineUsage { ceph, ..MachineUsage::default() };
        let layers = Layers::of(&served(), Some(&usage));
        assert_eq!(
            layers.facts()[1].1,
            "daemons of Ceph: 2.00 operations for one, 2.00 bytes written for one"
        );
    }
}
