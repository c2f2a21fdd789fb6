//! What bounds a load, and whether its figures can be true.
//!
//! Little's law holds for any system: operations under way = operations a second × mean latency. In a closed loop that
//! is the depth of all jobs, less what they spend beside operations. More than that cannot be: then latencies or counts
//! are wrong.

use std::fmt;

use crate::usage::between::{DiskUsage, MachineUsage};
use crate::usage::served::ServedRates;

/// What operations under way may exceed the depth by: means and histograms are rounded.
const EXCESS: f64 = 1.05;

/// Share of the depth below which jobs spend their time beside operations.
const UNDER_WAY_MIN: f64 = 0.8;

/// Share of what there is from which a processor, disk or network has no more to give.
const BUSY: f64 = 0.9;

/// Share of latency from which a layer is what makes it.
const LATENCY_SHARE: f64 = 0.5;

/// What was seen of a window.
#[derive(Clone, Copy, Debug)]
pub struct WindowObservation<'a> {
    /// Operations under way of all jobs at most.
    pub depth: u64,
    /// Whether operations are due by a rate, and not by answers.
    pub has_rate: bool,
    /// What clients had.
    pub served: ServedRates,
    /// What the machine did; nothing when that was not looked at.
    pub usage: Option<&'a MachineUsage>,
}

/// Figures of a closed loop, which Little's law makes operations under way of.
#[derive(Clone, Copy, Debug)]
pub struct ClosedLoop {
    /// Depth of all jobs.
    pub depth: u64,
    /// Operations a second.
    pub operations_per_second: f64,
    /// Their mean latency, in µs.
    pub mean_us: f64,
    /// The longest one, in µs.
    pub max_us: f64,
    /// Length of the window, in s.
    pub seconds: f64,
}

impl ClosedLoop {
    /// How many there were at a time.
    fn operations(&self) -> f64 {
        self.operations_per_second * self.mean_us / 1e6
    }

    /// That there were more than can have been. Whatever was begun within the window counts as a whole: each of those
    /// under way may reach out of it by the longest latency.
    #[must_use]
    pub fn inconsistent(&self) -> Option<FigureFinding> {
        let reach = self.max_us / 1e6 / self.seconds;
        let (under_way, depth) = (self.operations(), self.depth);
        let is_more = under_way > depth as f64 * (EXCESS + reach);
        is_more.then_some(FigureFinding::Inconsistent { under_way, depth })
    }
}

/// Something that the figures say beside themselves.
#[derive(Clone, PartialEq, Debug)]
pub enum FigureFinding {
    /// More operations were under way than can have been.
    Inconsistent {
        /// By Little's law.
        under_way: f64,
        /// Depth of all jobs.
        depth: u64,
    },
    /// Jobs spend their time beside operations: they make data, or get no processor.
    Client {
        /// By Little's law.
        under_way: f64,
        /// Depth of all jobs.
        depth: u64,
    },
    /// A thread keeps a processor busy, and has no more to give.
    Thread {
        /// Whether it makes the load.
        is_client: bool,
        /// Its process.
        process: String,
        /// Its name.
        thread: String,
        /// Share of its time.
        percent: f64,
    },
    /// All processors are busy.
    Processors {
        /// Share of their time that was used here.
        percent: f64,
        /// Share that others took.
        stolen_percent: f64,
        /// The process that used most, with its processors.
        most: Option<(String, f64)>,
    },
    /// A network moves all it can.
    Net {
        /// As the kernel calls it.
        name: String,
        /// Share of what it can.
        percent: f64,
    },
    /// A disk always has something under way.
    Disk {
        /// As the kernel calls it.
        name: String,
        /// Share of time.
        percent: f64,
    },
    /// The rate is what was asked for.
    Rate,
    /// A disk's own latency is most of what was measured.
    Media {
        /// As the kernel calls it.
        name: String,
        /// Mean time of its operations.
        disk_us: f64,
        /// Mean latency as measured.
        mean_us: f64,
    },
    /// The server's own media are most of what was measured.
    ServerMedia {
        /// What they add to the mean latency.
        media_us: f64,
        /// Mean latency as measured.
        mean_us: f64,
    },
    /// Nothing that was looked at is busy, and the server's media are not what takes the time.
    Server {
        /// What its media add to the mean latency.
        media_us: f64,
        /// Mean latency as measured.
        mean_us: f64,
    },
    /// Nothing that was looked at is busy: the target takes that long.
    Latency {
        /// Mean latency as measured.
        mean_us: f64,
    },
}

impl FigureFinding {
    /// The word for it that programs may rely on.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Inconsistent { .. } => "inconsistent",
            Self::Client { .. } | Self::Thread { is_client: true, .. } => "client",
            Self::Thread { .. } => "thread",
            Self::Processors { .. } => "processors",
            Self::Net { .. } => "network",
            Self::Disk { .. } => "disk",
            Self::Rate => "rate",
            Self::Media { .. } | Self::ServerMedia { .. } => "media",
            Self::Server { .. } => "server",
            Self::Latency { .. } => "latency",
        }
    }
}

impl fmt::Display for FigureFinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Inconsistent { under_way, depth } => write!(
                f,
                "inconsistent: rate × latency gives {under_way:.1} operations under way, and {depth} can have been"
            ),
            Self::Client { under_way, depth } => write!(
                f,
                "client: {under_way:.1} of {depth} operations were under way, the jobs spend the rest of their time on themselves"
            ),
            Self::Thread { is_client, process, thread, percent } => {
                let who = if *is_client { "client" } else { "thread" };
                write!(
                    f,
                    "{who}: thread `{thread}` of {process} is busy for {percent:.0} % of its time"
                )
            }
            Self::Processors { percent, stolen_percent, most } => {
                write!(f, "processors: busy for {percent:.0} % of their time")?;
                if *stolen_percent >= 1.0 {
                    write!(f, ", and {stolen_percent:.0} % went to other machines")?;
                }
                match most {
                    Some((name, cpus)) => write!(f, "; {name} uses {cpus:.1} of them"),
                    None => Ok(()),
                }
            }
            Self::Net { name, percent } => {
                write!(f, "network: {name} moves {percent:.0} % of what it can")
            }
            Self::Disk { name, percent } => {
                write!(f, "disk: {name} has something under way for {percent:.0} % of the time")
            }
            Self::Rate => write!(f, "rate: the target keeps up with what was asked for"),
            Self::Media { name, disk_us, mean_us } => {
                write!(
                    f,
                    "media: operations of {name} take {disk_us:.0} µs, of {mean_us:.0} µs that were measured"
                )
            }
            Self::ServerMedia { media_us, mean_us } => write!(
                f,
                "media: the server's drives take {media_us:.0} µs of the {mean_us:.0} µs that were measured, everything else {:.0} µs",
                (mean_us - media_us).max(0.0)
            ),
            Self::Server { media_us, mean_us } => write!(
                f,
                "server: of {mean_us:.0} µs that were measured its drives take {media_us:.0} µs; the rest is its own, the network's and the client's"
            ),
            Self::Latency { mean_us } => write!(
                f,
                "latency: nothing that was looked at is busy, the target answers after {mean_us:.0} µs; more operations under way would show more"
            ),
        }
    }
}

/// What is to be said of a window; what bounds it most certainly comes first. Never empty.
#[must_use]
pub fn findings(observed: &WindowObservation<'_>) -> Vec<FigureFinding> {
    let mut found: Vec<FigureFinding> = little(observed).into_iter().collect();
    let server = server_media(observed);
    if let Some(usage) = observed.usage {
        let is_thread = |finding: &FigureFinding| matches!(finding, FigureFinding::Thread { .. });
        let (threads, others): (Vec<_>, Vec<_>) = busy(usage).into_iter().partition(is_thread);
        found.extend(threads);
        // Known from the server itself, so more certain than that processors or disks are busy.
        found.extend(
            server
                .filter(|(media_us, mean_us)| *media_us >= mean_us * LATENCY_SHARE)
                .map(|(media_us, mean_us)| FigureFinding::ServerMedia { media_us, mean_us }),
        );
        found.extend(others);
    }
    if !found.is_empty() {
        return found;
    }
    if observed.has_rate && observed.served.not_begun == 0 {
        return vec![FigureFinding::Rate];
    }
    if let Some((media_us, mean_us)) = server {
        return vec![FigureFinding::Server { media_us, mean_us }];
    }
    let mean_us = observed.served.mean_us;
    let disks = observed.usage.into_iter().flat_map(|usage| &usage.disks);
    let media = disks.filter_map(|disk| media(disk, &observed.served));
    let slowest = media.max_by(|a, b| a.1.total_cmp(&b.1));
    vec![match slowest {
        Some((name, disk_us)) => FigureFinding::Media { name, disk_us, mean_us },
        None => FigureFinding::Latency { mean_us },
    }]
}

/// What the server's media add to the mean latency, and that.
fn server_media(observed: &WindowObservation<'_>) -> Option<(f64, f64)> {
    let server = observed.usage?.server.as_ref()?;
    let ServedRates { operations_per_second, mean_us, .. } = observed.served;
    let media_us = server.media_us(observed.served.does_read(), operations_per_second);
    Some((media_us.min(mean_us), mean_us))
}

/// What Little's law says of a closed loop. In an open one the queue has no bound.
fn little(observed: &WindowObservation<'_>) -> Option<FigureFinding> {
    let ServedRates { operations_per_second, mean_us, max_us, seconds, .. } = observed.served;
    if observed.has_rate || seconds == 0.0 {
        return None;
    }
    let depth = observed.depth;
    let figures = ClosedLoop { depth, operations_per_second, mean_us, max_us, seconds };
    let under_way = figures.operations();
    let is_fewer = under_way < depth as f64 * UNDER_WAY_MIN;
    figures.inconsistent().or(is_fewer.then_some(FigureFinding::Client { under_way, depth }))
}

/// Everything that has no more to give.
fn busy(usage: &MachineUsage) -> Vec<FigureFinding> {
    let mut found = Vec::new();
    let threads = usage.processes.iter().filter(|process| process.busiest_thread_cpus >= BUSY);
    let threads = threads.map(|process| FigureFinding::Thread {
        is_client: process.is_client,
        process: process.name.clone(),
        thread: process.busiest_thread.clone(),
        percent: process.busiest_thread_cpus * 100.0,
    });
    let (own, others): (Vec<_>, Vec<_>) =
        threads.partition(|thread| matches!(thread, FigureFinding::Thread { is_client: true, .. }));
    found.extend(own);
    let cpus = f64::from(usage.cpus.max(1));
    if usage.cpus_busy + usage.cpus_stolen >= cpus * BUSY {
        let most = usage.processes.iter().max_by(|a, b| a.cpus.total_cmp(&b.cpus));
        found.push(FigureFinding::Processors {
            percent: usage.cpus_busy / cpus * 100.0,
            stolen_percent: usage.cpus_stolen / cpus * 100.0,
            most: most.map(|process| (process.name.clone(), process.cpus)),
        });
    }
    found.extend(others);
    for net in &usage.nets {
        let moved = net.received_bytes_per_second.max(net.sent_bytes_per_second);
        let share = net.bytes_per_second_max.map_or(0.0, |max| moved / max as f64);
        if share >= BUSY {
            found.push(FigureFinding::Net { name: net.name.clone(), percent: share * 100.0 });
        }
    }
    let disks = usage.disks.iter().filter(|disk| disk.busy_percent >= BUSY * 100.0);
    found.extend(
        disks.map(|disk| FigureFinding::Disk {
            name: disk.name.clone(),
            percent: disk.busy_percent,
        }),
    );
    found
}

/// A disk whose own time is most of the latency of what the load does most.
fn media(disk: &DiskUsage, served: &ServedRates) -> Option<(String, f64)> {
    let (disk_us, rate) = if served.does_read() {
        (disk.read_us, disk.reads_per_second)
    } else {
        (disk.write_us, disk.writes_per_second)
    };
    (rate > 0.0 && disk_us >= served.mean_us * LATENCY_SHARE).then(|| (disk.name.clone(), disk_us))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::{LoadSpec, Measurement, OperationKind};
    use crate::usage::between::{NetUsage, ProcessUsage};
    use crate::usage::server::ServerUsage;

    /// A second of reads with that latency.
    fn measured(operations: u64, latency_us: u64) -> Measurement {
        let mut measured = Measurement { window_ns: 1_000_000_000, ..Measurement::default() };
        for _ in 0..operations {
            measured.answer(OperationKind::Read, 4096, 0, latency_us * 1000);
        }
        measured
    }

    fn names(load: LoadSpec, measured: &Measurement, usage: &MachineUsage) -> Vec<&'static str> {
        let observed = WindowObservation {
            depth: u64::from(load.jobs) * u64::from(load.depth),
            has_rate: load.rate.is_some(),
            served: ServedRates::of(measured),
            usage: Some(usage),
        };
        findings(&observed).iter().map(FigureFinding::name).collect()
    }

    fn process(is_client: bool, busiest_thread_cpus: f64) -> ProcessUsage {
        ProcessUsage { is_client, cpus: 1.0, busiest_thread_cpus, ..ProcessUsage::default() }
    }

    #[test]
    fn figures_that_cannot_be_are_flagged() {
        let load = LoadSpec { jobs: 2, depth: 4, ..LoadSpec::default() };
        let names = |operations, latency_us| {
            names(load, &measured(operations, latency_us), &MachineUsage::default())
        };
        // 1000 a second of 8 ms each: eight under way.
        assert_eq!(names(1000, 8000), ["latency"]);
        assert_eq!(names(1000, 9000), ["inconsistent"]);
        assert_eq!(names(1000, 5000), ["client"]);
        // Eight that took a whole second began twice within it: the last ones end behind it.
        assert_eq!(names(16, 1_000_000), ["latency"]);
        assert_eq!(names(17, 1_000_000), ["inconsistent"]);
    }

    #[test]
    fn what_is_busy_is_named() {
        let load = LoadSpec { depth: 8, ..LoadSpec::default() };
        let seen = measured(1000, 8000);
        let idle = MachineUsage { seconds: 1.0, cpus: 4, ..MachineUsage::default() };
        let of = |usage: &MachineUsage| names(load, &seen, usage);
        assert_eq!(of(&idle), ["latency"]);
        let busy = MachineUsage { cpus_busy: 3.0, cpus_stolen: 0.8, ..idle.clone() };
        assert_eq!(of(&busy), ["processors"]);
        let threads = vec![process(false, 0.97), process(true, 0.99)];
        assert_eq!(of(&MachineUsage { processes: threads, ..idle.clone() }), ["client", "thread"]);
        let net = |sent_bytes_per_second| NetUsage {
            sent_bytes_per_second,
            bytes_per_second_max: Some(1000),
            ..NetUsage::default()
        };
        assert_eq!(of(&MachineUsage { nets: vec![net(950.0)], ..idle.clone() }), ["network"]);
        assert_eq!(of(&MachineUsage { nets: vec![net(800.0)], ..idle.clone() }), ["latency"]);
        let disk = |busy_percent, read_us| DiskUsage {
            busy_percent,
            read_us,
            reads_per_second: 1000.0,
            ..DiskUsage::default()
        };
        assert_eq!(of(&MachineUsage { disks: vec![disk(95.0, 100.0)], ..idle.clone() }), ["disk"]);
        assert_eq!(
            of(&MachineUsage { disks: vec![disk(50.0, 100.0)], ..idle.clone() }),
            ["latency"]
        );
        assert_eq!(of(&MachineUsage { disks: vec![disk(50.0, 7000.0)], ..idle }), ["media"]);
    }

    #[test]
    fn the_slow_layer_of_a_server_is_named() {
        let load = LoadSpec { depth: 8, ..LoadSpec::default() };
        let seen = measured(1000, 8000);
        let server = |media_read_us, media_reads_per_second| {
            let usage =
                ServerUsage { media_read_us, media_reads_per_second, ..ServerUsage::default() };
            MachineUsage { cpus: 2, cpus_busy: 1.9, server: Some(usage), ..MachineUsage::default() }
        };
        let of = |usage: &MachineUsage| names(load, &seen, usage);
        assert_eq!(of(&server(7000.0, 1000.0)), ["media", "processors"]);
        assert_eq!(of(&server(7000.0, 100.0)), ["processors"], "most reads never see a drive");
        let idle = MachineUsage { cpus_busy: 0.1, ..server(300.0, 1000.0) };
        assert_eq!(of(&idle), ["server"]);
    }

    #[test]
    fn a_rate_that_is_kept_is_no_bottleneck() {
        let load = LoadSpec { rate: Some(1000.0), ..LoadSpec::default() };
        let kept = measured(1000, 8000);
        assert_eq!(names(load, &kept, &MachineUsage::default()), ["rate"]);
        let missed = Measurement { not_begun: 5, ..kept };
        assert_eq!(names(load, &missed, &MachineUsage::default()), ["latency"]);
    }
}
