//! What a run is to do: the load, what it is put on, and what goes with it.

use std::fmt;
use std::path::PathBuf;

use varve_tool_bench::fio::FioPlace;
use varve_tool_bench::{LoadSpec, Target};
use varve_types::ByteCount;

use super::crowd::ObjectsPlan;
use super::engine::EngineGoal;
use super::fio::FioGoal;
use super::rados::RadosGoal;
use super::setting::ShellSetting;
use super::volumes::VolumesGoal;

/// What to run.
#[derive(Clone, Debug)]
pub struct RunPlan {
    /// What is to be said of it in its report.
    pub note: Option<String>,
    /// Where the load goes.
    pub goal: LoadTarget,
    /// The load.
    pub load: LoadSpec,
    /// Where the part of the target that is used begins.
    pub from_bytes: u64,
    /// Bytes of it; without it all that follow.
    pub size_bytes: Option<u64>,
    /// Whether each block is written once before anything is measured.
    pub fill: bool,
    /// How full the daemon's pool is made before anything is measured.
    pub pool_percent: Option<u8>,
    /// Time before measuring begins, in ms.
    pub ramp_ms: u64,
    /// Time of a repeat, in ms.
    pub duration_ms: u64,
    /// How often it is measured.
    pub repeats: u32,
    /// When the ramp of the first one begins, in ms since 1970; without it as soon as everything is ready.
    pub at_unix_ms: Option<u64>,
    /// Whether it is one of several clients, which begin each load together.
    pub in_step: bool,
    /// Longest time to wait before the first one until the rate has settled.
    pub settle_ms: Option<u64>,
    /// Command whose exit code says whether the measured system is well; without it a daemon says so of its own
    /// targets.
    pub healthy: Option<String>,
    /// Processes that are looked at, beside this one.
    pub processes: Vec<u32>,
    /// Admin sockets of Ceph's daemons that are asked for theirs.
    pub ceph: Vec<PathBuf>,
    /// Setting of the measured system that is made before.
    pub setting: Option<ShellSetting>,
    /// Whether the load before it has made it.
    pub is_set: bool,
    /// Whether the daemon is asked for its counters.
    pub asks_server: bool,
    /// Bound of p99, in ms, that the largest number of jobs is looked for with, each at its rate.
    pub search_p99_ms: Option<u32>,
}

/// What a load is put on.
#[derive(Clone, Debug)]
pub enum LoadTarget {
    /// A file, device, export or memory.
    Disk(Target),
    /// A volume of a pool that this process opens itself.
    Engine(EngineGoal),
    /// A target that fio reaches.
    Fio(FioGoal),
    /// Native objects of a pool of Ceph.
    Rados(RadosGoal),
    /// A volume of a daemon for each job.
    Volumes(VolumesGoal),
    /// Objects of a bucket.
    Objects(ObjectsPlan),
}

impl fmt::Display for LoadTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Disk(target) => target.fmt(f),
            Self::Fio(goal) => match &goal.place {
                FioPlace::File(path) => write!(f, "{}", path.display()),
                FioPlace::Nbd(uri) => f.write_str(uri),
                FioPlace::Rbd { pool, image } => write!(f, "rbd:{pool}/{image}"),
            },
            Self::Engine(goal) => write!(f, "engine:{}", goal.volume),
            Self::Rados(goal) => write!(f, "rados:{}", goal.pool),
            Self::Volumes(goal) => {
                write!(f, "volumes of {} for this run", ByteCount(goal.size_bytes))
            }
            Self::Objects(plan) => plan.bucket.fmt(f),
        }
    }
}
