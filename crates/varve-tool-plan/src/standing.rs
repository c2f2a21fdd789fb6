//! A cluster that exists: what it holds, where its limits are, what its measurements say, and which rules it breaks.

use serde::Serialize;

use crate::catalogue::{Catalogue, Cluster, DriveModel, NodeModel};
use crate::error::{Error, Result};
use crate::network::Links;
use crate::operations;
use crate::placement_groups::{self, PlacementGroups};
use crate::rounding::{Need, real};
use crate::units::{Amount, BitRate, ByteRate, Bytes, OpRate, Share};
use crate::{cache, capacity, journal};

/// What may bound a cluster, and where.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Limit {
    /// What bounds.
    pub what: &'static str,
    /// Data a second that it lets through to clients that read.
    pub bytes_per_second: ByteRate,
}

/// A measurement, and what follows from it.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct MeasurementFinding {
    /// Where it stands.
    pub source: String,
    /// Size of an operation.
    pub block_bytes: Bytes,
    /// Part of reads.
    pub read_share: Share,
    /// Operations a second.
    pub operations_per_second: OpRate,
    /// The same in bytes.
    pub bytes_per_second: ByteRate,
    /// For each node.
    pub operations_per_node: OpRate,
    /// For each OSD.
    pub operations_per_osd: OpRate,
    /// Part of the nodes' links.
    pub links_used: Share,
    /// In flight, by Little's law, where a latency was measured.
    pub in_flight: Option<f64>,
    /// Machines of 100 operations a second that it serves.
    pub machines: u64,
    /// Faults of the source.
    pub errata: Vec<String>,
}

/// A cluster as it stands.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Assessment {
    /// Its name.
    pub name: String,
    /// Nodes.
    pub nodes: u64,
    /// OSDs.
    pub osds: u64,
    /// Monitors.
    pub monitors: u64,
    /// Capacity of all data drives.
    pub raw_bytes: Bytes,
    /// What protection leaves.
    pub usable_bytes: Bytes,
    /// Part of the raw capacity that its data take, where they are known.
    pub filled: Option<Share>,
    /// Placement groups of a pool over all OSDs.
    pub placement_groups: PlacementGroups,
    /// Journals on each journal drive of a node.
    pub journals_on_each_drive: Vec<u64>,
    /// Cache ÷ the drives behind it.
    pub cache_share: Option<Share>,
    /// What bounds reading, tightest first.
    pub limits: Vec<Limit>,
    /// What was measured.
    pub findings: Vec<MeasurementFinding>,
    /// Rules that it breaks.
    pub warnings: Vec<String>,
    /// Faults of the sources that matter here, by number.
    pub errata: Vec<String>,
}

/// Finds the cluster called `name`.
///
/// # Errors
/// [`Error::Unknown`] when there is none.
pub(crate) fn find<'a>(catalogue: &'a Catalogue, name: &str) -> Result<&'a Cluster> {
    catalogue.clusters.get(name).ok_or_else(|| {
        let known: Vec<&str> = catalogue.clusters.keys().map(String::as_str).collect();
        Error::Unknown { kind: "cluster", name: name.to_owned(), known: known.join(", ") }
    })
}

/// A cluster with its parts.
#[derive(Clone, Copy)]
pub(crate) struct BuiltCluster<'a> {
    pub(crate) cluster: &'a Cluster,
    pub(crate) node: &'a NodeModel,
    pub(crate) drive: &'a DriveModel,
    pub(crate) journal: Option<&'a DriveModel>,
}

impl<'a> BuiltCluster<'a> {
    pub(crate) fn of(catalogue: &'a Catalogue, name: &str) -> Result<Self> {
        let cluster = find(catalogue, name)?;
        let node = catalogue
            .nodes
            .get(cluster.node.get_ref())
            .expect("CATALOGUE-1: what an entry names exists");
        let drive = catalogue.drives.get(node.drive.get_ref()).expect("CATALOGUE-1");
        let journal = node.journal_drive.as_ref();
        let journal =
            journal.map(|name| catalogue.drives.get(name.get_ref()).expect("CATALOGUE-1"));
        Ok(Self { cluster, node, drive, journal })
    }

    pub(crate) fn drives(self) -> u64 {
        self.cluster.drives.unwrap_or(self.node.drives)
    }

    pub(crate) fn raw_of_node(self) -> Bytes {
        self.drive.capacity * real(self.drives())
    }

    pub(crate) fn raw(self) -> Bytes {
        self.raw_of_node() * real(self.cluster.nodes)
    }

    fn osds(self) -> u64 {
        self.cluster.nodes * self.drives() * self.node.osds_per_drive
    }

    fn links(self) -> Links {
        Links { nodes: self.cluster.nodes, ports: self.node.ports, speed: self.node.speed }
    }

    /// Bytes that nodes send on their ports for each that clients read: to clients, and of a code to each other too,
    /// where they have no network of their own.
    fn sent_per_read(self) -> f64 {
        let gathered = self.cluster.protection.gathered_per_read();
        if self.node.cluster_ports == 0 { 1.0 + gathered } else { 1.0 }
    }

    fn limits(self) -> Vec<Limit> {
        let gateways = Links {
            nodes: self.cluster.gateways,
            ports: self.cluster.gateway_ports,
            speed: self.cluster.gateway_speed.unwrap_or(BitRate::ZERO),
        };
        let drives =
            self.drive.read_rate.map(|rate| rate * real(self.cluster.nodes * self.drives()));
        let limits = [
            (self.cluster.gateways > 0).then(|| ("network of the gateways", gateways.ceiling())),
            Some(("network of the nodes", self.links().ceiling() / self.sent_per_read())),
            drives.map(|rate| ("drives", rate)),
        ];
        let limits = limits.into_iter().flatten();
        let mut limits: Vec<Limit> =
            limits.map(|(what, bytes_per_second)| Limit { what, bytes_per_second }).collect();
        limits.sort_by(|one, other| {
            one.bytes_per_second.base().total_cmp(&other.bytes_per_second.base())
        });
        limits
    }

    fn findings(self, catalogue: &Catalogue) -> Result<Vec<MeasurementFinding>> {
        let own = |name: &str| name == self.cluster.name.get_ref();
        let rows = catalogue.measured.iter().filter(|row| own(row.cluster.get_ref()));
        rows.map(|row| {
            let operations = row.operations();
            let rate = operations * row.block;
            Ok(MeasurementFinding {
                source: row.source.clone(),
                block_bytes: row.block,
                read_share: row.read_share,
                operations_per_second: operations,
                bytes_per_second: rate,
                operations_per_node: operations / real(self.cluster.nodes),
                operations_per_osd: operations / real(self.osds()),
                links_used: self.links().used(rate),
                in_flight: row.latency.map(|latency| operations::in_flight(operations, latency)),
                machines: operations::machines(
                    operations,
                    OpRate::of_base(operations::PER_MACHINE),
                )?,
                errata: row.errata.iter().map(|id| id.get_ref().clone()).collect(),
            })
        })
        .collect()
    }

    fn warnings(self) -> Result<Vec<String>> {
        let mut warnings = Vec::new();
        let (nodes, class) = (self.cluster.nodes, self.cluster.class);
        let least = capacity::nodes_for_share(class.node_share_max())?;
        if nodes < least.count {
            let share = Share::of_base(1.0 / real(nodes));
            let (most, least) = (class.node_share_max(), least.count);
            warnings.push(format!(
                "a node is {share} of the cluster; {} clusters have at most {most}, {least} nodes (X22)",
                class.name()
            ));
        }
        let monitors = self.monitors();
        if monitors.is_multiple_of(2) || monitors < 3 {
            warnings
                .push(format!("{monitors} monitors: an odd number of 3 or more keeps a majority"));
        }
        let width = u64::from(self.cluster.protection.width());
        if nodes < width {
            warnings.push(format!(
                "{} needs {width} nodes, or a node holds several of its parts",
                self.cluster.protection
            ));
        }
        warnings.extend(self.journal_warning()?);
        Ok(warnings)
    }

    fn journal_warning(self) -> Result<Option<String>> {
        let Some(ratio) = self.node.osds_per_journal.filter(|_| self.journal.is_some()) else {
            return Ok(None);
        };
        let osds = self.drives() * self.node.osds_per_drive;
        let need: Need = journal::drives(osds, ratio)?;
        let short = need.count > self.node.journal_drives;
        let have = self.node.journal_drives;
        Ok(short.then(|| {
            format!("{osds} OSDs on {have} journal drives; by its ratio {} are needed", need.count)
        }))
    }

    fn monitors(self) -> u64 {
        self.cluster.monitors.unwrap_or(3)
    }
}

impl Assessment {
    /// The cluster called `name` of the catalogue.
    ///
    /// # Errors
    /// [`Error::Unknown`] when there is none.
    pub fn of(catalogue: &Catalogue, name: &str) -> Result<Self> {
        let built = BuiltCluster::of(catalogue, name)?;
        let (cluster, node) = (built.cluster, built.node);
        let entries = [&cluster.errata, &node.errata, &built.drive.errata];
        let mut errata: Vec<String> =
            entries.into_iter().flatten().map(|id| id.get_ref().clone()).collect();
        let findings = built.findings(catalogue)?;
        errata.extend(findings.iter().flat_map(|finding| finding.errata.iter().cloned()));
        errata.sort();
        errata.dedup();
        let osds = built.drives() * node.osds_per_drive;
        let journals_on_each_drive = match node.journal_drives {
            0 => Vec::new(),
            drives => journal::partitions(osds, drives)?,
        };
        let stored =
            |data: Bytes| Share::of_base(data * cluster.protection.overhead() / built.raw());
        Ok(Self {
            name: name.to_owned(),
            nodes: cluster.nodes,
            osds: built.osds(),
            monitors: built.monitors(),
            raw_bytes: built.raw(),
            usable_bytes: cluster.protection.usable(built.raw()),
            filled: cluster.data.map(stored),
            placement_groups: placement_groups::of_pool(built.osds(), cluster.protection, 1.0)?,
            journals_on_each_drive,
            cache_share: node.cache.map(|size| cache::share(size, built.raw_of_node())),
            limits: built.limits(),
            findings,
            warnings: built.warnings()?,
            errata,
        })
    }
}
