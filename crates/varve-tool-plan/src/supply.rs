//! What one node gives: by what was measured on clusters of it, else by its drives' own figures.
//!
//! SUPPLY-1. Figures are never taken further than they were shown: not to larger blocks at the same operations a
//!     second, not to far smaller ones, not to more drives.
//! SUPPLY-2. What is not known is not given.

use serde::Serialize;

use crate::catalogue::{Catalogue, Cluster, DriveModel, MeasuredCluster, NodeModel};
use crate::demand::{Demand, DemandPolicy};
use crate::normalisation::{READS_OF_EC_4_2, WRITES_OF_EC_4_2};
use crate::protection::Protection;
use crate::rounding::real;
use crate::units::{Amount, ByteRate, OpRate, Seconds};

/// How many times larger than the demand's a measured block may be, for its operations to count.
const BLOCK_RATIO_MAX: f64 = 16.0;

/// Blocks from this size on show what a stream reaches.
const STREAM_BLOCK_BYTES: f64 = 65_536.0;

/// A seek of a spinning disk and half a turn, at the least.
const SEEK_SECONDS: f64 = 0.005;

/// What one node gives.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct Supply {
    /// Reads a second of the demand's size.
    pub reads_per_second: Option<OpRate>,
    /// Writes a second of that size, on drives: all copies and journals counted.
    pub drive_writes_per_second: Option<OpRate>,
    /// 2 where each write counts with its journal, else 1.
    pub journal_factor: f64,
    /// Streams of clients that read.
    pub read_bytes_per_second: Option<ByteRate>,
    /// Streams of clients that write, as the layout protects them.
    pub write_bytes_per_second: Option<ByteRate>,
    /// Where the figures come from.
    pub basis: Vec<String>,
    /// Faults of the sources that matter.
    pub errata: Vec<String>,
    /// Whether all that is asked for was measured within the bound on latency. It is not where a part was measured
    /// later, or a spinning disk has to seek for longer; not known where the latency of a part was not measured.
    pub latency_shown: Option<bool>,
}

/// A node of a layout.
#[derive(Clone, Copy)]
pub(crate) struct EquippedNode<'a> {
    pub(crate) node: &'a NodeModel,
    pub(crate) drive: &'a DriveModel,
    pub(crate) drives: u64,
    pub(crate) protection: Protection,
}

impl Supply {
    /// What `node` gives under `demand`.
    pub(crate) fn of(
        catalogue: &Catalogue,
        node: EquippedNode<'_>,
        demand: &Demand,
        policy: &DemandPolicy,
    ) -> Self {
        let mut supply = Self { journal_factor: journal_factor(node.node), ..Self::default() };
        supply.take_measured(catalogue, node, demand);
        supply.take_drives(node, demand, policy);
        supply
    }

    fn take_measured(&mut self, catalogue: &Catalogue, node: EquippedNode<'_>, demand: &Demand) {
        let all: Vec<MeasurementRow<'_>> = MeasurementRow::of(catalogue, node).collect();
        // CATALOGUE-2: what users measured counts, also where a source has more.
        let replaced = |row: &&MeasurementRow<'_>| all.iter().any(|other| other.replaces(row));
        let rows: Vec<&MeasurementRow<'_>> = all.iter().filter(|row| !replaced(row)).collect();
        // Of each rate that is asked for, whether it was measured within the bound on latency.
        let mut within = Vec::new();
        for reads in [true, false] {
            let (operations_asked, stream_asked) = demand_of_kind(demand, reads);
            let held = |row: Option<&MeasurementRow<'_>>| {
                let measured = row.and_then(|row| row.within(demand));
                measured.or_else(|| known_of_seeks(node, demand, reads))
            };
            let kind: Vec<&MeasurementRow<'_>> =
                rows.iter().copied().filter(|row| row.reads() == Some(reads)).collect();
            let operations = kind.iter().filter_map(|row| Some((row.operations(demand)?, *row)));
            let best = timely(operations.collect(), demand).into_iter().min_by(|one, other| {
                let near = one.1.distance(demand).total_cmp(&other.1.distance(demand));
                near.then(other.0.base().total_cmp(&one.0.base()))
            });
            if operations_asked > OpRate::ZERO {
                within.push(held(best.map(|(_, row)| row)));
            }
            if let Some((rate, row)) = best {
                match reads {
                    true => self.reads_per_second = Some(rate),
                    false => {
                        self.journal_factor = row.measured.journal_factor;
                        self.drive_writes_per_second = Some(rate * row.drive_writes());
                    }
                }
                self.note(row);
            }
            let streams = kind.iter().filter_map(|row| Some((row.stream(node.protection)?, *row)));
            let streams = timely(streams.collect(), demand).into_iter();
            let best = streams.max_by(|one, other| one.0.base().total_cmp(&other.0.base()));
            if stream_asked > ByteRate::ZERO {
                within.push(held(best.map(|(_, row)| row)));
            }
            if let Some((rate, row)) = best {
                match reads {
                    true => self.read_bytes_per_second = Some(rate),
                    false => self.write_bytes_per_second = Some(rate),
                }
                self.note(row);
            }
        }
        if within.is_empty() {
            within.push(known_of_seeks(node, demand, true));
        }
        let is_late = within.contains(&Some(false));
        let is_known = is_late || !within.contains(&None);
        self.latency_shown = is_known.then_some(!is_late);
    }

    /// Records where a figure comes from.
    fn note(&mut self, row: &MeasurementRow<'_>) {
        let basis = format!("measured: {}", row.measured.source);
        if !self.basis.contains(&basis) {
            self.basis.push(basis);
        }
        self.errata.extend(row.measured.errata.iter().map(|id| id.get_ref().clone()));
    }

    /// Fills what was not measured from the drives' own figures.
    fn take_drives(&mut self, node: EquippedNode<'_>, demand: &Demand, policy: &DemandPolicy) {
        let count = real(node.drives);
        let cores = node.node.cores.map(|cores| policy.operations_per_core * real(cores));
        let bounded = |rate: OpRate| cores.map_or(rate, |most| rate.min(most));
        let shrunk = demand.block_bytes.base().max(4096.0) / 4096.0;
        let mut used = false;
        if self.reads_per_second.is_none() {
            let reads = node.drive.reads.map(|reads| bounded(reads * count / shrunk));
            used |= reads.is_some();
            self.reads_per_second = reads;
        }
        if self.drive_writes_per_second.is_none() {
            let writes = node.drive.writes.map(|writes| writes * count / shrunk);
            let writes = writes.map(|writes| bounded(writes * policy.write_efficiency));
            used |= writes.is_some();
            self.drive_writes_per_second = writes;
        }
        if self.read_bytes_per_second.is_none() {
            let rate = node.drive.read_rate.map(|rate| rate * count);
            used |= rate.is_some();
            self.read_bytes_per_second = rate;
        }
        if self.write_bytes_per_second.is_none() {
            let factor = node.protection.overhead() * journal_factor(node.node);
            let rate = node.drive.write_rate.map(|rate| rate * count / factor);
            used |= rate.is_some();
            self.write_bytes_per_second = rate;
        }
        if used {
            self.basis.push(format!(
                "figures of {}, not measured in a cluster",
                node.drive.name.get_ref()
            ));
        }
    }
}

/// Of rates and where they come from, those that were not measured beyond the bound on latency; all where none is left.
fn timely<'a, 'b, R: Copy>(
    rates: Vec<(R, &'a MeasurementRow<'b>)>,
    demand: &Demand,
) -> Vec<(R, &'a MeasurementRow<'b>)> {
    let within = |(_, row): &&(R, &MeasurementRow<'_>)| row.within(demand) != Some(false);
    let kept: Vec<_> = rates.iter().filter(within).copied().collect();
    if kept.is_empty() { rates } else { kept }
}

/// Operations and streams of one kind that are asked for.
fn demand_of_kind(demand: &Demand, reads: bool) -> (OpRate, ByteRate) {
    let operations = demand.operations();
    match reads {
        true => (operations.reads, demand.read_stream()),
        false => (operations.writes, demand.write_stream()),
    }
}

/// What is known of a latency that was not measured: a spinning disk keeps no bound below a seek. Writes may be
/// answered from a journal drive before.
fn known_of_seeks(node: EquippedNode<'_>, demand: &Demand, reads: bool) -> Option<bool> {
    let seeks = reads || node.node.journal_drives == 0;
    (seeks && seek_is_late(node.drive, demand)).then_some(false)
}

/// Whether a drive has to seek for longer than the bound on latency.
pub(crate) fn seek_is_late(drive: &DriveModel, demand: &Demand) -> bool {
    let is_bound_below = |bound: Seconds| bound.base() < SEEK_SECONDS;
    !drive.media.is_flash() && demand.latency_seconds.is_some_and(is_bound_below)
}

/// 2 where the journal lies on the data drives.
pub(crate) fn journal_factor(node: &NodeModel) -> f64 {
    if node.journal_drives > 0 { 1.0 } else { 2.0 }
}

/// A measurement of a cluster of the same nodes.
struct MeasurementRow<'a> {
    measured: &'a MeasuredCluster,
    cluster: &'a Cluster,
    /// Part of the measured drives that a node of the layout has; 1 where it has more (SUPPLY-1).
    drives: f64,
}

impl<'a> MeasurementRow<'a> {
    fn of(
        catalogue: &'a Catalogue,
        node: EquippedNode<'a>,
    ) -> impl Iterator<Item = MeasurementRow<'a>> {
        catalogue.measured.iter().filter_map(move |measured| {
            let cluster = catalogue.clusters.get(measured.cluster.get_ref())?;
            let same = cluster.node.get_ref() == node.node.name.get_ref();
            let had = cluster.drives.unwrap_or(node.node.drives);
            let drives = (real(node.drives) / real(had)).min(1.0);
            same.then_some(MeasurementRow { measured, cluster, drives })
        })
    }

    /// Whether it is of the same as `other`, from a later file (CATALOGUE-2).
    fn replaces(&self, other: &MeasurementRow<'_>) -> bool {
        let (own, other) = (self.measured, other.measured);
        let alike = own.block == other.block && own.read_share == other.read_share;
        alike && own.file > other.file
    }

    /// Whether only reads were measured, or only writes; nothing of mixes.
    fn reads(&self) -> Option<bool> {
        match self.measured.read_share.base() {
            1.0 => Some(true),
            0.0 => Some(false),
            _ => None,
        }
    }

    fn within(&self, demand: &Demand) -> Option<bool> {
        Some(self.measured.latency? <= demand.latency_seconds?)
    }

    /// Operations a second of the demand's size, of one node and as clients saw them (SUPPLY-1).
    fn operations(&self, demand: &Demand) -> Option<OpRate> {
        let ratio = demand.block_bytes / self.measured.block;
        if ratio * BLOCK_RATIO_MAX < 1.0 {
            return None;
        }
        let rate = self.measured.operations() * self.drives / real(self.cluster.nodes);
        Some(rate / ratio.max(1.0))
    }

    /// How far its block is from the demand's, as a ratio either way: the nearest measurement counts (SUPPLY-1).
    fn distance(&self, demand: &Demand) -> f64 {
        let ratio = self.measured.block / demand.block_bytes;
        ratio.max(1.0 / ratio)
    }

    /// Operations on drives for each write as it was measured.
    fn drive_writes(&self) -> f64 {
        self.cluster.protection.operations_per_write() * self.measured.journal_factor
    }

    /// What one node streams under `protection`.
    fn stream(&self, protection: Protection) -> Option<ByteRate> {
        if self.measured.block.base() < STREAM_BLOCK_BYTES {
            return None;
        }
        let rate = self.measured.operations() * self.measured.block;
        let factor = protection_factor(self.cluster.protection, protection, self.reads()?);
        Some(rate * self.drives * factor / real(self.cluster.nodes))
    }
}

/// What another protection makes of a rate (formula F3): the source's factors between copies and codes, else the bytes
/// that are written.
fn protection_factor(measured: Protection, wanted: Protection, reads: bool) -> f64 {
    use Protection::{Copies, Erasure};
    match (measured, wanted) {
        _ if !reads => writes_factor(measured, wanted),
        (Copies(_), Erasure { .. }) => READS_OF_EC_4_2,
        (Erasure { .. }, Copies(_)) => 1.0 / READS_OF_EC_4_2,
        _ => 1.0,
    }
}

/// What another protection makes of a rate of writes (formula F3).
pub(crate) fn writes_factor(measured: Protection, wanted: Protection) -> f64 {
    use Protection::{Copies, Erasure};
    match (measured, wanted) {
        (Copies(_), Erasure { .. }) => writes_of_code(measured, wanted),
        (Erasure { .. }, Copies(_)) => 1.0 / writes_of_code(wanted, measured),
        _ => measured.overhead() / wanted.overhead(),
    }
}

/// Write rate of an erasure code ÷ that of copies: the source's 1.27 for EC 4+2 and three copies, by the bytes for
/// others.
fn writes_of_code(copies: Protection, code: Protection) -> f64 {
    WRITES_OF_EC_4_2 * (copies.overhead() / 3.0) * (1.5 / code.overhead())
}

#[cfg(test)]
mod tests {
    use super::*;

    const EC_4_2: Protection = Protection::Erasure { data: 4, parity: 2 };

    #[test]
    fn the_sources_factors_stand_between_copies_and_codes() {
        let writes = |from, to| protection_factor(from, to, false);
        assert_eq!(writes(Protection::Copies(3), EC_4_2), 1.27);
        assert_eq!(writes(Protection::Copies(2), Protection::Copies(3)), 2.0 / 3.0);
        assert_eq!(protection_factor(Protection::Copies(3), EC_4_2, true), 0.85);
        // Two copies write less than three, so what they reach falls more on the way to a code.
        assert!(writes(Protection::Copies(2), EC_4_2) < 1.27);
        let there_and_back =
            writes(Protection::Copies(2), EC_4_2) * writes(EC_4_2, Protection::Copies(2));
        assert!((there_and_back - 1.0).abs() < 1e-12);
    }
}
