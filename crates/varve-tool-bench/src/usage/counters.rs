//! The kernel's counters, as `/proc` tells them at one moment.
//!
//! COUNTERS-1. What cannot be read is left out: a process that ended, a device that went away, a file of somebody else.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::usage::ceph::CephCounters;
use crate::usage::server::ServerCounters;

/// Ticks of processor time a second: `USER_HZ`, which Linux has kept at 100 for all it tells user space.
pub(crate) const TICKS_A_SECOND: f64 = 100.0;

/// Bytes of a sector in `/proc/diskstats`, whatever those of the disk.
const SECTOR_BYTES: u64 = 512;

/// Everything counted since the machine or the process began.
#[derive(Clone, Default, PartialEq, Debug)]
pub struct Counters {
    pub(crate) cpus: u32,
    /// Ticks of all processors together.
    pub(crate) busy: u64,
    pub(crate) stolen: u64,
    pub(crate) disks: BTreeMap<String, DiskCount>,
    pub(crate) nets: BTreeMap<String, NetCount>,
    pub(crate) processes: BTreeMap<u32, ProcessCount>,
    /// Of the measured server, where somebody asked it.
    pub server: Option<ServerCounters>,
    /// Of daemons of Ceph, by the names of their sockets, as far as somebody asked them.
    pub ceph: BTreeMap<String, CephCounters>,
}

#[derive(Clone, Copy, Default, PartialEq, Debug)]
pub(crate) struct DiskCount {
    pub(crate) reads: u64,
    pub(crate) read_bytes: u64,
    /// Time that all reads together took, in ms.
    pub(crate) read_ms: u64,
    pub(crate) writes: u64,
    pub(crate) write_bytes: u64,
    pub(crate) write_ms: u64,
    /// Time in which there was one at least under way, in ms.
    pub(crate) busy_ms: u64,
}

#[derive(Clone, Copy, Default, PartialEq, Debug)]
pub(crate) struct NetCount {
    pub(crate) received_bytes: u64,
    pub(crate) sent_bytes: u64,
    /// Of one direction; none where the kernel does not know it.
    pub(crate) bytes_a_second_max: Option<u64>,
}

#[derive(Clone, Default, PartialEq, Debug)]
pub(crate) struct ProcessCount {
    pub(crate) name: String,
    pub(crate) resident_bytes: u64,
    pub(crate) read_bytes: u64,
    pub(crate) write_bytes: u64,
    /// Name and ticks of each thread.
    pub(crate) threads: BTreeMap<u32, (String, u64)>,
    /// Of all threads, ended ones too.
    pub(crate) ticks: u64,
}

impl Counters {
    /// The counters of the machine, and of these processes (COUNTERS-1).
    #[must_use]
    pub fn read(processes: &[u32]) -> Self {
        let text = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let mut counters = Self::default();
        counters.read_stat(&text("/proc/stat"));
        for (name, count) in text("/proc/diskstats").lines().filter_map(disk) {
            // Partitions would count everything twice.
            if count.reads + count.writes > 0 && Path::new("/sys/block").join(&name).exists() {
                counters.disks.insert(name, count);
            }
        }
        for (name, count) in text("/proc/net/dev").lines().filter_map(net) {
            let speed = text(&format!("/sys/class/net/{name}/speed"));
            let megabits = speed.trim().parse::<u64>().ok();
            let bytes_a_second_max = megabits.map(|megabits| megabits * 125_000);
            counters.nets.insert(name, NetCount { bytes_a_second_max, ..count });
        }
        for id in processes {
            counters.processes.extend(process(*id).map(|count| (*id, count)));
        }
        counters
    }

    fn read_stat(&mut self, stat: &str) {
        for line in stat.lines() {
            let mut words = line.split_ascii_whitespace();
            match words.next() {
                Some("cpu") => {
                    let [user, nice, system, _idle, _waiting, irq, softirq, stolen] =
                        numbers(words);
                    self.busy = user + nice + system + irq + softirq;
                    self.stolen = stolen;
                }
                Some(word) if word.starts_with("cpu") => self.cpus += 1,
                _ => {}
            }
        }
    }
}

/// The ids of processes of that name, as `/proc/PID/comm` has it: at most 15 bytes of it.
#[must_use]
pub fn processes_named(name: &str) -> Vec<u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let ids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let is_named = |id: &u32| {
        let found = fs::read_to_string(format!("/proc/{id}/comm"));
        found.is_ok_and(|found| found.trim_end() == name)
    };
    ids.filter(is_named).collect()
}

/// The first numbers of a line, 0 for those that are not there.
fn numbers<'a, const N: usize>(words: impl Iterator<Item = &'a str>) -> [u64; N] {
    let mut found = [0; N];
    for (place, word) in found.iter_mut().zip(words) {
        *place = word.parse().unwrap_or(0);
    }
    found
}

fn disk(line: &str) -> Option<(String, DiskCount)> {
    let mut words = line.split_ascii_whitespace().skip(2);
    let name = words.next()?.to_owned();
    let [reads, _, read_sectors, read_ms, writes, _, write_sectors, write_ms, _, busy_ms] =
        numbers(words);
    let count = DiskCount {
        reads,
        read_bytes: read_sectors * SECTOR_BYTES,
        read_ms,
        writes,
        write_bytes: write_sectors * SECTOR_BYTES,
        write_ms,
        busy_ms,
    };
    Some((name, count))
}

fn net(line: &str) -> Option<(String, NetCount)> {
    let (name, rest) = line.split_once(':')?;
    let [received_bytes, _, _, _, _, _, _, _, sent_bytes] = numbers(rest.split_ascii_whitespace());
    let count = NetCount { received_bytes, sent_bytes, bytes_a_second_max: None };
    Some((name.trim().to_owned(), count))
}

fn process(id: u32) -> Option<ProcessCount> {
    let text = |file: &str| fs::read_to_string(format!("/proc/{id}/{file}"));
    let (name, ticks) = stat(&text("stat").ok()?)?;
    let labelled = |text: &str, label: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(label));
        line.map_or(0, |line| numbers::<1>(line.split_ascii_whitespace())[0])
    };
    let status = text("status").unwrap_or_default();
    let io = text("io").unwrap_or_default();
    let threads = fs::read_dir(format!("/proc/{id}/task")).into_iter().flatten().flatten();
    let threads = threads.filter_map(|entry| {
        let thread = entry.file_name().to_str()?.parse().ok()?;
        let count = stat(&fs::read_to_string(entry.path().join("stat")).ok()?)?;
        Some((thread, count))
    });
    Some(ProcessCount {
        name,
        resident_bytes: labelled(&status, "VmRSS:") * 1024,
        read_bytes: labelled(&io, "read_bytes:"),
        write_bytes: labelled(&io, "write_bytes:"),
        threads: threads.collect(),
        ticks,
    })
}

/// Name and ticks of a process or thread. The name is in brackets, and may have any in itself.
fn stat(line: &str) -> Option<(String, u64)> {
    let (_, rest) = line.split_once('(')?;
    let (name, rest) = rest.rsplit_once(')')?;
    let [user, system] = numbers(rest.split_ascii_whitespace().skip(11));
    Some((name.to_owned(), user + system))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_kernel_are_read() {
        let mut counters = Counters::default();
        counters.read_stat("cpu  10 2 30 400 50 6 7 8 0 0\ncpu0 1 2\ncpu1 3 4\nintr 5\n");
        assert_eq!((counters.cpus, counters.busy, counters.stolen), (2, 55, 8));
        let line = " 253       0 vda 100 5 800 70 200 6 1600 90 0 110 160 0 0 0 0 0 0";
        let (name, count) = disk(line).unwrap();
        assert_eq!((name.as_str(), count.reads, count.read_bytes), ("vda", 100, 409_600));
        assert_eq!((count.write_bytes, count.write_ms, count.busy_ms), (819_200, 90, 110));
        let (name, count) = net("  eth0: 1000 1 0 0 0 0 0 0 2000 2 0 0 0 0 0 0").unwrap();
        assert_eq!((name.as_str(), count.received_bytes, count.sent_bytes), ("eth0", 1000, 2000));
        let line = "17 (a (b) c) S 1 17 17 0 -1 4194304 1 2 3 4 55 66 0 0 20 0 1 0";
        assert_eq!(stat(line), Some(("a (b) c".to_owned(), 121)));
        assert_eq!(disk("1 2"), None);
        assert_eq!(stat("17 no brackets"), None);
    }

    #[test]
    fn this_process_is_found_with_its_threads() {
        let id = std::process::id();
        let counters = Counters::read(&[id]);
        let process = &counters.processes[&id];
        assert!(process.resident_bytes > 0 && !process.threads.is_empty());
        assert!(counters.cpus > 0 && counters.busy > 0);
        assert!(processes_named(&process.name).contains(&id));
        assert!(Counters::read(&[u32::MAX]).processes.is_empty(), "COUNTERS-1");
    }
}
