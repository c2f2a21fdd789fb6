//! What a catalogue consists of, as its files spell it. Fields that are missing are not known, and are never taken to
//! be 0.

use serde::{Deserialize, Serialize};
use toml::Spanned;

use crate::protection::Protection;
use crate::units::{BitRate, ByteRate, Bytes, Money, OpRate, Seconds, Share, Watts};

/// What a cluster is for, which says how large a part of it one node may be (Intel's guide, table 1).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Class {
    /// Operations a second: databases, virtual machines.
    #[default]
    Iops,
    /// Data a second: video, large objects.
    Bandwidth,
    /// Data kept: archives.
    Capacity,
}

impl Class {
    /// How it is spelled.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Iops => "iops",
            Self::Bandwidth => "bandwidth",
            Self::Capacity => "capacity",
        }
    }

    /// Largest part of the cluster in one node: 10 %, 10 %, 15 %.
    #[must_use]
    pub fn node_share_max(self) -> Share {
        use crate::units::Amount;
        Share::of_base(match self {
            Self::Iops | Self::Bandwidth => 0.10,
            Self::Capacity => 0.15,
        })
    }
}

/// Kind of drive.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DriveKind {
    /// Spinning disks.
    Hdd,
    /// Flash on SATA or SAS.
    Ssd,
    /// Flash on PCIe.
    Nvme,
    /// Persistent memory.
    Pmem,
}

impl DriveKind {
    /// Whether it wears out by writing and rebuilds fast.
    #[must_use]
    pub fn is_flash(self) -> bool {
        matches!(self, Self::Ssd | Self::Nvme | Self::Pmem)
    }
}

/// A drive one can buy.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DriveModel {
    /// Its name in the catalogue.
    pub name: Spanned<String>,
    /// What it is.
    #[serde(default)]
    pub about: String,
    /// Its kind.
    pub media: DriveKind,
    /// Its capacity.
    pub capacity: Bytes,
    /// 4 KiB reads a second.
    pub reads: Option<OpRate>,
    /// 4 KiB writes a second.
    pub writes: Option<OpRate>,
    /// Rate of large reads.
    pub read_rate: Option<ByteRate>,
    /// Rate of large writes.
    pub write_rate: Option<ByteRate>,
    /// Power when idle.
    pub power_idle: Option<Watts>,
    /// Power while it reads.
    pub power_read: Option<Watts>,
    /// Power while it writes.
    pub power_write: Option<Watts>,
    /// Whole drive writes a day under warranty.
    pub drive_writes_per_day: Option<f64>,
    /// Time of the warranty.
    pub warranty: Option<Seconds>,
    /// Whether acknowledged writes survive a power cut in its cache.
    pub power_loss_protection: Option<bool>,
    /// Price of one.
    pub price: Option<Money>,
    /// Where the figures come from.
    #[serde(default)]
    pub source: String,
    /// Fields that no source gives.
    #[serde(default)]
    pub assumed: Vec<String>,
    /// Faults of the source that matter here.
    #[serde(default)]
    pub errata: Vec<Spanned<String>>,
}

impl DriveModel {
    /// The most power it takes, where any is known.
    #[must_use]
    pub fn power(&self) -> Option<Watts> {
        let known = [self.power_idle, self.power_read, self.power_write];
        known.into_iter().flatten().reduce(Watts::max)
    }

    /// Power while it reads; the most it takes where that is not known.
    #[must_use]
    pub fn power_reading(&self) -> Option<Watts> {
        self.power_read.or_else(|| self.power())
    }

    /// Power while it writes; the most it takes where that is not known.
    #[must_use]
    pub fn power_writing(&self) -> Option<Watts> {
        self.power_write.or_else(|| self.power())
    }

    /// Power while nothing is asked of it; the most it takes where that is not known.
    #[must_use]
    pub fn power_waiting(&self) -> Option<Watts> {
        self.power_idle.or_else(|| self.power())
    }
}

fn one() -> u64 {
    1
}

fn once() -> f64 {
    1.0
}

/// A server with its drives.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeModel {
    /// Its name in the catalogue.
    pub name: Spanned<String>,
    /// What it is.
    #[serde(default)]
    pub about: String,
    /// Its data drives.
    pub drive: Spanned<String>,
    /// How many of them at least.
    pub drives: u64,
    /// How many of them at most; as many as at least where it is not said.
    pub drives_max: Option<u64>,
    /// OSDs on each.
    #[serde(default = "one")]
    pub osds_per_drive: u64,
    /// Drives for journals; without them journals lie on the data drives.
    pub journal_drive: Option<Spanned<String>>,
    /// How many of them.
    #[serde(default)]
    pub journal_drives: u64,
    /// OSDs that one journal drive may serve.
    pub osds_per_journal: Option<f64>,
    /// Size of each OSD's journal, where it is fixed.
    pub journal_size: Option<Bytes>,
    /// Cache in front of the data drives.
    pub cache: Option<Bytes>,
    /// Cores.
    pub cores: Option<u64>,
    /// Memory.
    pub memory: Option<Bytes>,
    /// Network ports for clients, and for other nodes where these have none of their own.
    pub ports: u64,
    /// Speed of a port.
    pub speed: BitRate,
    /// Ports of the same speed for other nodes alone.
    #[serde(default)]
    pub cluster_ports: u64,
    /// Height.
    pub rack_units: Option<f64>,
    /// Power without drives.
    pub power: Option<Watts>,
    /// Price without drives.
    pub price: Option<Money>,
    /// Where the figures come from.
    #[serde(default)]
    pub source: String,
    /// Fields that no source gives.
    #[serde(default)]
    pub assumed: Vec<String>,
    /// Faults of the source that matter here.
    #[serde(default)]
    pub errata: Vec<Spanned<String>>,
}

/// A cluster that exists or did.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cluster {
    /// Its name in the catalogue.
    pub name: Spanned<String>,
    /// Its nodes.
    pub node: Spanned<String>,
    /// How many.
    pub nodes: u64,
    /// Drives in each; as many as the node has at least where it is not said.
    pub drives: Option<u64>,
    /// Monitors; 3 where it is not said.
    pub monitors: Option<u64>,
    /// How data are protected.
    pub protection: Protection,
    /// What it is for.
    #[serde(default)]
    pub class: Class,
    /// Data it held.
    pub data: Option<Bytes>,
    /// Gateways that clients go through; none where they do not.
    #[serde(default)]
    pub gateways: u64,
    /// Ports of each.
    #[serde(default = "one")]
    pub gateway_ports: u64,
    /// Speed of one.
    pub gateway_speed: Option<BitRate>,
    /// Where the figures come from.
    #[serde(default)]
    pub source: String,
    /// Fields that no source gives.
    #[serde(default)]
    pub assumed: Vec<String>,
    /// Faults of the source that matter here.
    #[serde(default)]
    pub errata: Vec<Spanned<String>>,
}

/// What a cluster reached.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MeasuredCluster {
    /// The cluster.
    pub cluster: Spanned<String>,
    /// Size of an operation.
    pub block: Bytes,
    /// Part of the operations that read.
    pub read_share: Share,
    /// 2 where each write is counted with its journal, else 1.
    #[serde(default = "once")]
    pub journal_factor: f64,
    /// Operations a second, or else the rate is given.
    pub operations: Option<OpRate>,
    /// Data a second.
    pub rate: Option<ByteRate>,
    /// Mean latency at that.
    pub latency: Option<Seconds>,
    /// Where the figures come from.
    #[serde(default)]
    pub source: String,
    /// Faults of the source that matter here.
    #[serde(default)]
    pub errata: Vec<Spanned<String>>,
    /// Which file it is from: a later one counts before an earlier one (CATALOGUE-2).
    #[serde(skip)]
    pub(crate) file: usize,
}

impl MeasuredCluster {
    /// Operations a second: as measured, or from the rate.
    #[must_use]
    pub fn operations(&self) -> OpRate {
        let from_rate = self.rate.map(|rate| rate / self.block);
        self.operations.or(from_rate).unwrap_or(OpRate::ZERO)
    }
}

/// Shape of a workload.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    /// Its name in the catalogue.
    pub name: Spanned<String>,
    /// What it is.
    #[serde(default)]
    pub about: String,
    /// What a cluster for it is for.
    pub class: Class,
    /// Size of an operation.
    pub block: Bytes,
    /// Part of the operations that read.
    pub read_share: Share,
    /// Bound on the latency.
    pub latency: Option<Seconds>,
    /// Time of a video segment.
    pub segment_time: Option<Seconds>,
    /// Each user's data must be stored apart, so that nothing may be deduplicated.
    #[serde(default)]
    pub private_copy: bool,
    /// How data are protected.
    pub protection: Protection,
    /// Part of the usable capacity that may be filled.
    pub fill: Share,
    /// Where the figures come from.
    #[serde(default)]
    pub source: String,
    /// Fields that no source gives.
    #[serde(default)]
    pub assumed: Vec<String>,
    /// Faults of the source that matter here.
    #[serde(default)]
    pub errata: Vec<Spanned<String>>,
}

/// What running costs, and prices that are newer than those of the entries.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prices {
    /// Currency of all prices.
    pub currency: Option<String>,
    /// A kWh.
    pub kwh: Option<Money>,
    /// A rack unit for a year.
    pub rack_unit_per_year: Option<Money>,
    /// Power with cooling ÷ power of the machines.
    pub power_usage_effectiveness: Option<f64>,
    /// Part of the drives that is replaced in a year.
    pub replaced_per_year: Option<Share>,
    /// Fields that no source gives.
    #[serde(default)]
    pub assumed: Vec<String>,
    /// Prices of drives by name.
    #[serde(default)]
    pub drives: std::collections::BTreeMap<Spanned<String>, Money>,
    /// Prices of nodes without drives, by name.
    #[serde(default)]
    pub nodes: std::collections::BTreeMap<Spanned<String>, Money>,
}
