//! What is asked of a cluster, and under which policy.

use serde::Serialize;

use crate::catalogue::{Class, Workload};
use crate::error::{Error, Result};
use crate::operations::{Operations, PER_MACHINE};
use crate::protection::Protection;
use crate::units::{Amount, ByteRate, Bytes, OpRate, Seconds, Share};
use crate::video;

/// What clients ask for. What is 0 is not asked for; what several fields ask for adds up.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Demand {
    /// What the cluster is for.
    pub class: Class,
    /// Data to be held today.
    pub usable_bytes: Bytes,
    /// By how much they grow in a year.
    pub growth_per_year: Share,
    /// Operations a second.
    pub operations_per_second: OpRate,
    /// Virtual machines, each with operations of its own.
    pub machines: u64,
    /// Operations a second of a machine.
    pub operations_per_machine: OpRate,
    /// Size of an operation or object.
    pub block_bytes: Bytes,
    /// Part of the operations that read.
    pub read_share: Share,
    /// Bound on the latency.
    pub latency_seconds: Option<Seconds>,
    /// Data read a second, beside the operations.
    pub read_bytes_per_second: ByteRate,
    /// Data written a second, beside the operations.
    pub write_bytes_per_second: ByteRate,
    /// Viewers, each of whom reads a video segment every segment time.
    pub readers: u64,
    /// Recordings, each of which writes one.
    pub recorders: u64,
    /// Time of a segment.
    pub segment_seconds: Seconds,
    /// Data written on a day, for endurance; by the rates, all day, where it is not said.
    pub written_per_day_bytes: Option<Bytes>,
    /// Data of a job, for its energy.
    pub job_bytes: Bytes,
    /// Faults of the source that its shape is from, by number.
    pub errata: Vec<String>,
}

impl Default for Demand {
    fn default() -> Self {
        Self {
            class: Class::Iops,
            usable_bytes: Bytes::ZERO,
            growth_per_year: Share::ZERO,
            operations_per_second: OpRate::ZERO,
            machines: 0,
            operations_per_machine: OpRate::of_base(PER_MACHINE),
            block_bytes: Bytes::of_base(4096.0),
            read_share: Share::of_base(0.7),
            latency_seconds: None,
            read_bytes_per_second: ByteRate::ZERO,
            write_bytes_per_second: ByteRate::ZERO,
            readers: 0,
            recorders: 0,
            segment_seconds: Seconds::of_base(8.0),
            written_per_day_bytes: None,
            job_bytes: Bytes::of_base(1e12),
            errata: Vec::new(),
        }
    }
}

/// Seconds of a day.
const DAY: f64 = 86_400.0;

impl Demand {
    /// The demand of a workload whose amounts are still to be given.
    #[must_use]
    pub fn of(workload: &Workload) -> Self {
        let usual = Self::default();
        Self {
            class: workload.class,
            block_bytes: workload.block,
            read_share: workload.read_share,
            latency_seconds: workload.latency,
            segment_seconds: workload.segment_time.unwrap_or(usual.segment_seconds),
            errata: workload.errata.iter().map(|id| id.get_ref().clone()).collect(),
            ..usual
        }
    }

    /// Data to be held after `time`.
    #[must_use]
    pub fn held_after(&self, time: Seconds) -> Bytes {
        let growth = 1.0 + self.growth_per_year.base();
        self.usable_bytes * growth.powf(time.years())
    }

    /// Operations of clients, those of machines included.
    #[must_use]
    pub fn operations(&self) -> Operations {
        let machines = self.operations_per_machine * crate::rounding::real(self.machines);
        let all = self.operations_per_second + machines;
        let reads = all * self.read_share.base();
        Operations { reads, writes: all - reads }
    }

    /// Data read a second as a stream: by rate and by viewers.
    #[must_use]
    pub fn read_stream(&self) -> ByteRate {
        let viewers = crate::rounding::real(self.readers);
        let segment = video::mean_segment(video::READ_MB);
        self.read_bytes_per_second + video::rate(segment, viewers, self.segment_seconds)
    }

    /// Data written a second as a stream: by rate and by recordings.
    #[must_use]
    pub fn write_stream(&self) -> ByteRate {
        let recordings = crate::rounding::real(self.recorders);
        let segment = video::mean_segment(video::WRITTEN_MB);
        self.write_bytes_per_second + video::rate(segment, recordings, self.segment_seconds)
    }

    /// All data read a second, for the network.
    #[must_use]
    pub fn read_rate(&self) -> ByteRate {
        self.read_stream() + self.operations().reads * self.block_bytes
    }

    /// All data written a second, for the network.
    #[must_use]
    pub fn write_rate(&self) -> ByteRate {
        self.write_stream() + self.operations().writes * self.block_bytes
    }

    /// Data written on a day.
    #[must_use]
    pub fn written_per_day(&self) -> Bytes {
        self.written_per_day_bytes.unwrap_or(self.write_rate() * Seconds::of_base(DAY))
    }

    /// That something is asked for, and that it has a meaning.
    ///
    /// # Errors
    /// [`Error::Range`] naming the amount.
    pub fn check(&self) -> Result<()> {
        crate::error::positive("the size of an operation in bytes", self.block_bytes.base())?;
        crate::error::positive("the time of a segment in seconds", self.segment_seconds.base())?;
        share("the share of reads", self.read_share)?;
        // After what it is computed from.
        let asked = self.usable_bytes.base() + self.read_rate().base() + self.write_rate().base();
        crate::error::positive("the demand in bytes and operations", asked)?;
        if let Some(latency) = self.latency_seconds {
            crate::error::positive("the bound on latency in seconds", latency.base())?;
        }
        Ok(())
    }
}

/// Where copies or strips of the same data must not meet.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum FailureDomain {
    /// On one node: any node may be lost.
    Node,
    /// On one drive: a node may take several copies with it.
    Drive,
}

/// How the demand is to be met.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct DemandPolicy {
    /// Ways to protect data that are compared.
    pub protections: Vec<Protection>,
    /// Where copies must not meet.
    pub failure_domain: FailureDomain,
    /// Part of the usable capacity that may be filled.
    pub fill: Share,
    /// Largest part of the cluster in one node; that of the class where it is not said.
    pub node_share_max: Option<Share>,
    /// Logical ÷ stored bytes, by deduplication and compression.
    pub reduction_ratio: f64,
    /// Users' data must be stored apart: no reduction counts.
    pub private_copy: bool,
    /// How long the cluster is to serve, grow and last.
    pub time_seconds: Seconds,
    /// Bytes written to a drive for each byte of its share.
    pub write_amplification: f64,
    /// Write efficiency where drives' own figures are used (formula F11).
    pub write_efficiency: f64,
    /// Operations a second of a core where drives' own figures are used.
    pub operations_per_core: OpRate,
    /// Time between syncs of journals (formula F8).
    pub sync_seconds: Seconds,
    /// Part of a node's network that rebuilding may take.
    pub rebuild_network_share: Share,
}

/// Operations a second of a core: IDF16's 216,000 reads a node of 36 cores; use case 3 of Intel's guide has 6,400.
const PER_CORE: f64 = 6000.0;

impl Default for DemandPolicy {
    fn default() -> Self {
        Self {
            protections: vec![Protection::Copies(3)],
            failure_domain: FailureDomain::Node,
            fill: Share::of_base(0.60),
            node_share_max: None,
            reduction_ratio: 1.0,
            private_copy: false,
            time_seconds: Seconds::of_years(5.0),
            write_amplification: 1.0,
            write_efficiency: crate::operations::EFFICIENCY_MEASURED,
            operations_per_core: OpRate::of_base(PER_CORE),
            sync_seconds: Seconds::of_base(5.0),
            rebuild_network_share: Share::of_base(0.5),
        }
    }
}

impl DemandPolicy {
    /// The policy of a workload.
    #[must_use]
    pub fn of(workload: &Workload) -> Self {
        Self {
            protections: vec![workload.protection],
            fill: workload.fill,
            private_copy: workload.private_copy,
            ..Self::default()
        }
    }

    /// What is usual for a class: copies where speed counts, a wide erasure code where capacity does (Intel's guide,
    /// table 1).
    #[must_use]
    pub fn of_class(class: Class) -> Self {
        let protection = match class {
            Class::Iops | Class::Bandwidth => Protection::Copies(3),
            Class::Capacity => Protection::Erasure { data: 10, parity: 4 },
        };
        Self { protections: vec![protection], ..Self::default() }
    }

    /// Reduction that may be counted on.
    #[must_use]
    pub fn reduction(&self) -> f64 {
        if self.private_copy { 1.0 } else { self.reduction_ratio }
    }

    /// That its numbers have a meaning.
    ///
    /// # Errors
    /// [`Error::Range`] naming the number.
    pub fn check(&self) -> Result<()> {
        use crate::error::{at_most, positive};
        positive("the fill", self.fill.base())?;
        share("the fill", self.fill)?;
        positive("the reduction ratio", self.reduction_ratio)?;
        at_most("the reduction ratio", self.reduction_ratio, 1000.0, "at most 1000")?;
        positive("the time in years", self.time_seconds.years())?;
        at_most("the time in years", self.time_seconds.years(), 100.0, "at most 100")?;
        positive("the write efficiency", self.write_efficiency)?;
        share("the write efficiency", Share::of_base(self.write_efficiency))?;
        positive("the time between syncs in seconds", self.sync_seconds.base())?;
        positive("operations of a core", self.operations_per_core.base())?;
        positive("the network's share for rebuilding", self.rebuild_network_share.base())?;
        share("the network's share for rebuilding", self.rebuild_network_share)?;
        if let Some(most) = self.node_share_max {
            positive("the largest share of a node", most.base())?;
            share("the largest share of a node", most)?;
        }
        crate::endurance::factor("the write amplification", self.write_amplification)
    }
}

pub(crate) fn share(what: &'static str, share: Share) -> Result<()> {
    match share.base() {
        value if (0.0..=1.0).contains(&value) => Ok(()),
        value => Err(Error::Range { what, value, allowed: "at most 1, which is 100 %" }),
    }
}
