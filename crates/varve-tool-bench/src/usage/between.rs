//! What was used between two moments.

use serde::{Deserialize, Serialize};

use crate::usage::ceph::CephUsage;
use crate::usage::counters::{Counters, TICKS_A_SECOND};
use crate::usage::server::ServerUsage;

/// Use of a machine, a second. Fields are added over time, never renamed.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize, Debug)]
pub struct MachineUsage {
    /// Time between the two moments, in s.
    pub seconds: f64,
    /// Processors there are.
    pub cpus: u32,
    /// Processors that were busy, on average.
    pub cpus_busy: f64,
    /// Processors that others took from a virtual machine.
    pub cpus_stolen: f64,
    /// Disks that did anything.
    pub disks: Vec<DiskUsage>,
    /// Networks that moved anything.
    pub nets: Vec<NetUsage>,
    /// The processes asked for.
    pub processes: Vec<ProcessUsage>,
    /// The measured server's media, where it was asked.
    #[serde(default)]
    pub server: Option<ServerUsage>,
    /// Daemons of Ceph, where they were asked.
    #[serde(default)]
    pub ceph: Vec<CephUsage>,
}

/// Use of a disk.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize, Debug)]
pub struct DiskUsage {
    /// As the kernel calls it.
    pub name: String,
    /// Reads a second.
    pub reads_per_second: f64,
    /// Bytes read a second.
    pub read_bytes_per_second: f64,
    /// Mean time of a read, in µs; 0 without any.
    pub read_us: f64,
    /// Writes a second.
    pub writes_per_second: f64,
    /// Bytes written a second.
    pub write_bytes_per_second: f64,
    /// Mean time of a write, in µs; 0 without any.
    pub write_us: f64,
    /// Share of time in which something was under way, in percent. A disk that does much at a time may do more at 100.
    pub busy_percent: f64,
}

/// Use of a network interface.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize, Debug)]
pub struct NetUsage {
    /// As the kernel calls it.
    pub name: String,
    /// Bytes received a second.
    pub received_bytes_per_second: f64,
    /// Bytes sent a second.
    pub sent_bytes_per_second: f64,
    /// Most of one direction a second, where the kernel knows it.
    pub bytes_per_second_max: Option<u64>,
}

/// Use of a process.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize, Debug)]
pub struct ProcessUsage {
    /// Its id.
    pub id: u32,
    /// Its name.
    pub name: String,
    /// Whether it makes the load.
    #[serde(default)]
    pub is_client: bool,
    /// Processors that it kept busy.
    pub cpus: f64,
    /// Memory that it had at the end.
    pub resident_bytes: u64,
    /// Bytes a second that it had disks read.
    pub read_bytes_per_second: f64,
    /// Bytes a second that it had disks write.
    pub write_bytes_per_second: f64,
    /// Its busiest thread.
    pub busiest_thread: String,
    /// Processors that this one kept busy, 1 at most.
    pub busiest_thread_cpus: f64,
}

impl MachineUsage {
    /// What was used from `first` to `last`, `seconds` later, where processes `clients` made the load.
    ///
    /// # Panics
    /// When no time lies between them.
    #[must_use]
    pub fn between(first: &Counters, last: &Counters, seconds: f64, clients: &[u32]) -> Self {
        assert!(seconds > 0.0, "use takes time");
        // Counters of a device that was replaced begin anew.
        let rate = |first: u64, last: u64| last.saturating_sub(first) as f64 / seconds;
        let cpus = |first, last| rate(first, last) / TICKS_A_SECOND;
        Self {
            seconds,
            cpus: last.cpus,
            cpus_busy: cpus(first.busy, last.busy),
            cpus_stolen: cpus(first.stolen, last.stolen),
            disks: disks(first, last, &rate),
            nets: nets(first, last, &rate),
            processes: processes(first, last, clients, &rate),
            server: first
                .server
                .as_ref()
                .zip(last.server.as_ref())
                .map(|(first, last)| ServerUsage::between(first, last, seconds)),
            ceph: last
                .ceph
                .iter()
                .filter_map(|(name, last)| {
                    let first = first.ceph.get(name)?;
                    Some(CephUsage::between(name, first, last, seconds))
                })
                .collect(),
        }
    }
}

fn disks(first: &Counters, last: &Counters, rate: &dyn Fn(u64, u64) -> f64) -> Vec<DiskUsage> {
    let both = last.disks.iter().filter_map(|(name, last)| {
        let first = first.disks.get(name)?;
        let mean_us = |ms: (u64, u64), count: (u64, u64)| {
            let count = count.1.saturating_sub(count.0);
            let us = ms.1.saturating_sub(ms.0) as f64 * 1000.0;
            if count == 0 { 0.0 } else { us / count as f64 }
        };
        Some(DiskUsage {
            name: name.clone(),
            reads_per_second: rate(first.reads, last.reads),
            read_bytes_per_second: rate(first.read_bytes, last.read_bytes),
            read_us: mean_us((first.read_ms, last.read_ms), (first.reads, last.reads)),
            writes_per_second: rate(first.writes, last.writes),
            write_bytes_per_second: rate(first.write_bytes, last.write_bytes),
            write_us: mean_us((first.write_ms, last.write_ms), (first.writes, last.writes)),
            busy_percent: (rate(first.busy_ms, last.busy_ms) / 10.0).min(100.0),
        })
    });
    both.filter(|disk| disk.reads_per_second + disk.writes_per_second > 0.0).collect()
}

fn nets(first: &Counters, last: &Counters, rate: &dyn Fn(u64, u64) -> f64) -> Vec<NetUsage> {
    let both = last.nets.iter().filter_map(|(name, last)| {
        let first = first.nets.get(name)?;
        Some(NetUsage {
            name: name.clone(),
            received_bytes_per_second: rate(first.received_bytes, last.received_bytes),
            sent_bytes_per_second: rate(first.sent_bytes, last.sent_bytes),
            bytes_per_second_max: last.bytes_a_second_max,
        })
    });
    both.filter(|net| net.received_bytes_per_second + net.sent_bytes_per_second > 0.0).collect()
}

fn processes(
    first: &Counters,
    last: &Counters,
    clients: &[u32],
    rate: &dyn Fn(u64, u64) -> f64,
) -> Vec<ProcessUsage> {
    let both = last.processes.iter().filter_map(|(id, last)| {
        let first = first.processes.get(id)?;
        let threads = last.threads.iter().map(|(thread, (name, ticks))| {
            let before = first.threads.get(thread).map_or(0, |(_, ticks)| *ticks);
            (name.clone(), rate(before, *ticks) / TICKS_A_SECOND)
        });
        let (busiest_thread, busiest_cpus) =
            threads.max_by(|a, b| a.1.total_cmp(&b.1)).unwrap_or_default();
        Some(ProcessUsage {
            id: *id,
            name: last.name.clone(),
            is_client: clients.contains(id),
            cpus: rate(first.ticks, last.ticks) / TICKS_A_SECOND,
            resident_bytes: last.resident_bytes,
            read_bytes_per_second: rate(first.read_bytes, last.read_bytes),
            write_bytes_per_second: rate(first.write_bytes, last.write_bytes),
            busiest_thread,
            busiest_thread_cpus: busiest_cpus.min(1.0),
        })
    });
    both.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::usage::counters::{DiskCount, NetCount, ProcessCount};

    #[test]
    fn use_is_told_a_second() {
        let disk = |n| DiskCount {
            reads: 100 * n,
            read_bytes: 409_600 * n,
            read_ms: 50 * n,
            busy_ms: 1500 * n,
            ..DiskCount::default()
        };
        let net = |n| NetCount {
            sent_bytes: 1000 * n,
            bytes_a_second_max: Some(125_000),
            ..NetCount::default()
        };
        let process = |n: u64| ProcessCount {
            name: "server".to_owned(),
            ticks: 300 * n,
            threads: [(7, ("a".to_owned(), 190 * n)), (8, ("b".to_owned(), 110 * n))].into(),
            resident_bytes: 5000,
            ..ProcessCount::default()
        };
        let counters = |n| Counters {
            cpus: 2,
            busy: 400 * n,
            stolen: 20 * n,
            disks: [("sda".to_owned(), disk(n)), ("idle".to_owned(), disk(1))].into(),
            nets: [("eth0".to_owned(), net(n)), ("idle".to_owned(), net(1))].into(),
            processes: [(1, process(n)), (u32::try_from(n).unwrap() + 1, process(n))].into(),
            server: None,
            ceph: Default::default(),
        };
        let usage = MachineUsage::between(&counters(1), &counters(2), 2.0, &[1]);
        assert_eq!((usage.cpus, usage.cpus_busy, usage.cpus_stolen), (2, 2.0, 0.1));
        let [disk] = &usage.disks[..] else { panic!("{:?}", usage.disks) };
        assert_eq!((disk.reads_per_second, disk.read_us, disk.busy_percent), (50.0, 500.0, 75.0));
        let [net] = &usage.nets[..] else { panic!("{:?}", usage.nets) };
        assert_eq!(net.sent_bytes_per_second, 500.0);
        let [process] = &usage.processes[..] else { panic!("the other one came or went") };
        assert_eq!((process.cpus, process.busiest_thread.as_str()), (1.5, "a"));
        assert!(process.is_client);
        assert_eq!(process.busiest_thread_cpus, 0.95);
    }
}
