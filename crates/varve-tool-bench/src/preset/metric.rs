//! Success metrics: the number that a preset is run for, and how it is told from the figures of its loads.

use std::fmt;

/// What a preset is run for.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Metric {
    /// Figures of each load as they are.
    Table,
    /// How many volumes have so many operations a second each.
    Volumes {
        /// Operations a second of a volume.
        rate: f64,
    },
    /// The largest number of volumes, each with its rate, that are all fast enough: loads with other numbers are run
    /// until it is found.
    Capped {
        /// Bound of p99, in ms.
        p99_ms: u32,
    },
    /// Most operations a second of the loads whose mean latency is no more than each bound.
    Within {
        /// Bounds, in ms.
        mean_ms: &'static [u32],
    },
    /// Operations a second that the second load has fewer than the first.
    Drop {
        /// Bound in percent, which is not reached.
        percent: f64,
    },
    /// The last number of workers before a step that gives hardly more.
    Knee {
        /// What a step gives more at least, in percent.
        percent: f64,
    },
    /// Bytes a second, and p99 of reads.
    Streams,
    /// Operations a second above bounds at a mean latency below one.
    Gates {
        /// Of a node, and of a cluster.
        rates: [f64; 2],
        /// In ms.
        mean_ms: u32,
    },
    /// Most readers whose segments come in time.
    Readers {
        /// Time until a segment has to be there, in s.
        within_s: u32,
        /// Whether none may be late; else 1 % may.
        is_strict: bool,
    },
    /// Objects a second beside what a network carries.
    Network,
    /// Time in all, beside that of the source.
    Wall {
        /// The source's, in s.
        seconds: f64,
    },
}

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Table => f.write_str("figures of each load"),
            Self::Volumes { rate } => write!(f, "volumes: operations/s ÷ {rate}"),
            Self::Capped { p99_ms } => {
                write!(f, "volumes: the most with p99 within {p99_ms} ms, searched for to a tenth")
            }
            Self::Within { mean_ms } => {
                let bounds: Vec<String> = mean_ms.iter().map(u32::to_string).collect();
                let bounds = bounds.join(", ");
                write!(f, "most operations/s of the loads with a mean latency within {bounds} ms")
            }
            Self::Drop { percent } => {
                write!(
                    f,
                    "operations/s of the second load: less than {percent} % fewer than of the first"
                )
            }
            Self::Knee { percent } => write!(
                f,
                "knee: the last workers before a step that gives less than {percent} % more operations/s"
            ),
            Self::Streams => f.write_str("MB/s, and p99 of reads"),
            Self::Gates { rates: [node, cluster], mean_ms } => write!(
                f,
                "above {node} operations/s of a node or {cluster} of a cluster, mean latency below {mean_ms} ms"
            ),
            Self::Readers { within_s, is_strict: false } => write!(
                f,
                "readers: the most with p99 of reads and of writes below {within_s} s, and so with fewer ones"
            ),
            Self::Readers { within_s, is_strict: true } => write!(
                f,
                "readers: the most none of whose segments took {within_s} s, and so with fewer ones"
            ),
            Self::Network => f.write_str("objects/s, beside what --nic-gbit carries"),
            Self::Wall { seconds } => write!(f, "time in all, beside {seconds} s of the source"),
        }
    }
}
