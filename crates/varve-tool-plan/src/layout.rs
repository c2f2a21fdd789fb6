//! One way to meet a demand: so many nodes of a kind with so many drives, and all that follows. F5 and what it is made
//! of.

use serde::Serialize;

use crate::catalogue::{Catalogue, DriveKind, DriveModel, NodeModel};
use crate::cost::{Ownership, RunningCosts};
use crate::demand::{Demand, DemandPolicy, FailureDomain};
use crate::endurance::{Warranty, Wear};
use crate::error::{Error, Result};
use crate::network::Links;
use crate::operations::{self, WriteCost};
use crate::placement_groups::{self, PlacementGroups};
use crate::protection::Protection;
use crate::rebuild::{Rebuild, Rebuilder};
use crate::risks;
use crate::rounding::{Need, real};
use crate::supply::{EquippedNode, Supply, journal_factor};
use crate::units::{Amount, ByteRate, Bytes, EnergyPerByte, Money, OpRate, Share, Watts};
use crate::{cache, capacity, cost, energy, journal, normalisation};

/// Most nodes of a plan: beyond it a demand is a mistake.
const NODES_MAX: u64 = 1_000_000;

/// Monitors of a cluster: a majority survives the loss of one.
const MONITORS: u64 = 3;

/// A reason for a number of nodes.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Term {
    /// What needs them.
    pub what: &'static str,
    /// The formula, by its number in docs/plan.md.
    pub formula: &'static str,
    /// How many.
    pub nodes: Need,
}

/// Journals of one node.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Journals {
    /// Size of each.
    pub size_bytes: Bytes,
    /// How many lie on each journal drive; empty where they lie on the data drives.
    pub on_each_drive: Vec<u64>,
    /// Journal drives that the ratio of OSDs to journals asks for; nothing where none is known.
    pub drives_needed: Option<Need>,
}

/// What flows where, of the whole demand.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Traffic {
    /// Sent by a node to clients and other nodes.
    pub node_sends_bytes_per_second: ByteRate,
    /// Received by a node.
    pub node_receives_bytes_per_second: ByteRate,
    /// The larger of both ÷ what the ports carry; on the busier network where there are two.
    pub used: Share,
}

/// What the layout reaches, where its node's figures are known: never more than its network carries (formula F14).
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct LayoutReach {
    /// Operations a second of the demand's mix.
    pub operations_per_second: Option<OpRate>,
    /// Streams that read.
    pub read_bytes_per_second: Option<ByteRate>,
    /// Streams that write.
    pub write_bytes_per_second: Option<ByteRate>,
    /// Which of them the nodes could exceed if the network carried more.
    pub bound_by_network: NetworkBound,
}

/// Figures that the network bounds, rather than drives and processors.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct NetworkBound {
    /// Operations a second.
    pub operations: bool,
    /// Streams that read.
    pub reading: bool,
    /// Streams that write.
    pub writing: bool,
}

/// Power, and energy for data moved at full rate.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Power {
    /// The most that is taken, of what is known; the rest stands among the risks.
    pub total_watts: Watts,
    /// For each TB of usable capacity.
    pub watts_per_usable_tb: f64,
    /// For each TB of data that the demand asks for, at the end of the time; nothing where it asks for none.
    pub watts_per_asked_tb: Option<f64>,
    /// J/GB read, by what drives take while they read.
    pub joules_per_gb_read: Option<f64>,
    /// J/GB written, by what they take while they write.
    pub joules_per_gb_written: Option<f64>,
    /// Joules of the demand's job, written at full rate.
    pub job_joules: Option<f64>,
}

/// Prices, where all parts have one.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Price {
    /// Purchase and running over the policy's time.
    pub ownership: Ownership,
    /// Purchase for each TB of usable capacity.
    pub per_usable_tb: f64,
    /// Purchase for each TB of data that the demand asks for, at the end of the time; nothing where it asks for none.
    pub per_asked_tb: Option<f64>,
    /// Purchase for each operation a second that is reached.
    pub per_operation: Option<f64>,
}

/// How long redundancy is reduced after a loss.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Rebuilds {
    /// Part of the drives that is taken to hold data: as the demand fills them at the end, else as the policy allows.
    pub filled: Share,
    /// After the loss of a drive.
    pub drive: Rebuild,
    /// After the loss of a node.
    pub node: Rebuild,
}

/// One way to meet the demand.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Layout {
    /// Kind of node.
    pub node: String,
    /// Kind of data drive.
    pub drive: String,
    /// What its data are stored on.
    pub media: DriveKind,
    /// Data drives in each node.
    pub drives_per_node: u64,
    /// How data are protected.
    pub protection: Protection,
    /// Where copies or strips do not meet.
    pub failure_domain: FailureDomain,
    /// How many nodes.
    pub nodes: u64,
    /// What asks for that many.
    pub binding: &'static str,
    /// All that was asked for.
    pub terms: Vec<Term>,
    /// OSDs of the cluster.
    pub osds: u64,
    /// Monitors of the cluster.
    pub monitors: u64,
    /// Capacity of all data drives.
    pub raw_bytes: Bytes,
    /// What protection leaves of it.
    pub usable_bytes: Bytes,
    /// What may be stored: usable × fill × reduction.
    pub planned_bytes: Bytes,
    /// Data at the end ÷ usable × reduction: how full it becomes.
    pub filled: Share,
    /// Placement groups of a pool over all OSDs.
    pub placement_groups: PlacementGroups,
    /// Journals of a node.
    pub journals: Option<Journals>,
    /// Cache for metadata of a node's drives; of spinning ones only.
    pub metadata_cache_bytes: Option<Bytes>,
    /// How long data drives last, in years; nothing where they do not wear or it is not known.
    pub drive_life_years: Option<f64>,
    /// How long journal drives last, in years.
    pub journal_life_years: Option<f64>,
    /// Network use.
    pub traffic: Traffic,
    /// What it reaches.
    pub reach: LayoutReach,
    /// What a node gives.
    pub supply: Supply,
    /// Power.
    pub power: Option<Power>,
    /// Height.
    pub rack_units: Option<f64>,
    /// Prices.
    pub price: Option<Price>,
    /// Rebuilding.
    pub rebuild: Rebuilds,
    /// What may go wrong, or is not known.
    pub risks: Vec<String>,
    /// Faults of the sources that matter here, by number.
    pub errata: Vec<String>,
}

impl Layout {
    /// Whether something that is asked for takes longer than the bound on latency.
    #[must_use]
    pub fn is_late(&self) -> bool {
        self.supply.latency_shown == Some(false)
    }
}

/// What drives do while their power is counted.
#[derive(Clone, Copy)]
pub(crate) enum DriveWork {
    /// What takes most.
    Any,
    /// Data drives read, journals wait.
    Reading,
    /// Both write.
    Writing,
}

/// What a layout is made from.
#[derive(Clone, Copy)]
pub(crate) struct Parts<'a> {
    pub(crate) catalogue: &'a Catalogue,
    pub(crate) demand: &'a Demand,
    pub(crate) policy: &'a DemandPolicy,
    pub(crate) equipped: EquippedNode<'a>,
    pub(crate) journal: Option<&'a DriveModel>,
}

impl<'a> Parts<'a> {
    pub(crate) fn node(self) -> &'a NodeModel {
        self.equipped.node
    }

    pub(crate) fn drive(self) -> &'a DriveModel {
        self.equipped.drive
    }

    fn protection(self) -> Protection {
        self.equipped.protection
    }

    fn drives(self) -> f64 {
        real(self.equipped.drives)
    }

    fn raw(self) -> Bytes {
        self.drive().capacity * self.drives()
    }

    /// Data at the end of the time.
    fn held(self) -> Bytes {
        self.demand.held_after(self.policy.time_seconds)
    }

    /// The same, where any are asked for.
    fn requested_capacity(self) -> Option<Bytes> {
        Some(self.held()).filter(|held| *held > Bytes::ZERO)
    }

    fn osds(self) -> u64 {
        self.equipped.drives * self.node().osds_per_drive
    }

    /// The layout of these parts.
    ///
    /// # Errors
    /// [`Error::NoSupply`] or [`Error::Range`] when no number of such nodes meets the demand, or a figure that it needs
    /// is not known.
    pub(crate) fn layout(self) -> Result<Layout> {
        let supply = Supply::of(self.catalogue, self.equipped, self.demand, self.policy);
        self.check_known(&supply)?;
        let terms = self.terms(&supply)?;
        let most = terms.iter().max_by(|one, other| {
            let order = one.nodes.count.cmp(&other.nodes.count);
            order.then(one.nodes.exact.total_cmp(&other.nodes.exact))
        });
        let most = most.expect("the width of the protection is always a term");
        let (nodes, binding) = (most.nodes.count.max(1), most.what);
        if nodes > NODES_MAX {
            let allowed = "at most 1,000,000";
            return Err(Error::Range { what: "the number of nodes", value: real(nodes), allowed });
        }
        self.describe(nodes, binding, terms, supply)
    }

    /// The layout of so many nodes, which nothing asked for.
    pub(crate) fn of_nodes(self, nodes: u64) -> Result<Layout> {
        if !(1..=NODES_MAX).contains(&nodes) {
            let (value, allowed) = (real(nodes), "1 to 1,000,000");
            return Err(Error::Range { what: "the number of nodes", value, allowed });
        }
        let supply = Supply::of(self.catalogue, self.equipped, self.demand, self.policy);
        self.describe(nodes, "what is given", Vec::new(), supply)
    }

    /// That what the demand asks for is known of the node (SUPPLY-2).
    fn check_known(self, supply: &Supply) -> Result<()> {
        let operations = self.demand.operations();
        let reads = self.demand.read_stream();
        let writes = self.demand.write_stream();
        let needs = [
            (
                operations.reads.base(),
                supply.reads_per_second.is_some(),
                "reading blocks of this size",
                "reads",
            ),
            (
                operations.writes.base(),
                supply.drive_writes_per_second.is_some(),
                "writing blocks of this size",
                "writes",
            ),
            (reads.base(), supply.read_bytes_per_second.is_some(), "a stream read", "read_rate"),
            (
                writes.base(),
                supply.write_bytes_per_second.is_some(),
                "a stream written",
                "write_rate",
            ),
        ];
        let missing = needs.into_iter().find(|(asked, known, ..)| *asked > 0.0 && !known);
        let Some((_, _, what, field)) = missing else { return Ok(()) };
        let (node, drive) =
            (self.node().name.get_ref().clone(), self.drive().name.get_ref().clone());
        Err(Error::Unmeasured { what, node, drive, field })
    }

    /// All reasons for nodes (formula F5).
    fn terms(self, supply: &Supply) -> Result<Vec<Term>> {
        let share = self.policy.node_share_max.unwrap_or(self.demand.class.node_share_max());
        let width = match self.policy.failure_domain {
            FailureDomain::Node => u64::from(self.protection().width()),
            FailureDomain::Drive => {
                u64::from(self.protection().width()).div_ceil(self.equipped.drives)
            }
        };
        let usable = self.protection().usable(self.raw());
        let planned = capacity::planned(usable, self.policy.fill, self.policy.reduction());
        let read = supply.read_bytes_per_second.unwrap_or(ByteRate::ZERO);
        let write = supply.write_bytes_per_second.unwrap_or(ByteRate::ZERO);
        let reads = self.demand.read_stream();
        let writes = self.demand.write_stream();
        let mut terms = vec![
            Term { what: "capacity", formula: "F2", nodes: capacity::nodes(self.held(), planned)? },
            Term { what: "operations", formula: "F12", nodes: self.nodes_for_operations(supply)? },
            Term {
                what: "reading",
                formula: "F4",
                nodes: normalisation::nodes_for_rate(reads, read)?,
            },
            Term {
                what: "writing",
                formula: "F4",
                nodes: normalisation::nodes_for_rate(writes, write)?,
            },
            Term { what: "network", formula: "F14", nodes: self.nodes_for_network()? },
            Term { what: "protection", formula: "F5", nodes: Need::whole(width) },
            Term {
                what: "share of a node",
                formula: "F5",
                nodes: capacity::nodes_for_share(share)?,
            },
        ];
        for (what, wear) in
            [("endurance", self.data_wear()), ("journals' endurance", self.journal_wear())]
        {
            let Some((warranty, wear)) = wear else { continue };
            let days = self.policy.time_seconds.years() * 365.0;
            let written = wear.per_drive_and_day()? * days;
            let nodes =
                Need::of("drive writes under warranty", written.tb(), warranty.total().tb())?;
            terms.push(Term { what, formula: "F10", nodes });
        }
        Ok(terms)
    }

    fn cost(self, supply: &Supply) -> WriteCost {
        let copies = self.protection().operations_per_write();
        WriteCost { copies, journal_factor: supply.journal_factor }
    }

    fn nodes_for_operations(self, supply: &Supply) -> Result<Need> {
        operations::nodes(self.demand.operations(), self.cost(supply), node_operations(supply))
    }

    /// What all nodes together send and receive on each network, as if they were one, while clients read and write so
    /// much: to clients, and to each other.
    fn flows(self, reads: ByteRate, writes: ByteRate) -> [(ByteRate, ByteRate, u64); 2] {
        // What one node sends another receives.
        let protection = self.protection();
        let between =
            writes * protection.sent_per_written() + reads * protection.gathered_per_read();
        let node = self.node();
        match node.cluster_ports {
            0 => [
                (reads + between, writes + between, node.ports),
                (ByteRate::ZERO, ByteRate::ZERO, 1),
            ],
            own => [(reads, writes, node.ports), (between, between, own)],
        }
    }

    fn demanded_flows(self) -> [(ByteRate, ByteRate, u64); 2] {
        self.flows(self.demand.read_rate(), self.demand.write_rate())
    }

    /// How many times as much as this clients may read and write before a network of so many nodes is full (formula
    /// F14).
    fn network_factor(self, nodes: u64, reads: ByteRate, writes: ByteRate) -> f64 {
        let factors = self.flows(reads, writes).map(|(sends, receives, ports)| {
            let links = Links { nodes, ports, speed: self.node().speed };
            links.ceiling() / sends.max(receives)
        });
        // A network without traffic bounds nothing: its factor is infinite.
        factors.into_iter().fold(f64::INFINITY, f64::min)
    }

    fn nodes_for_network(self) -> Result<Need> {
        let mut most = Need::NONE;
        for (sends, receives, ports) in self.demanded_flows() {
            let links = Links { nodes: 1, ports, speed: self.node().speed };
            most = most.max(normalisation::nodes_for_rate(sends.max(receives), links.ceiling())?);
        }
        Ok(most)
    }

    /// Warranty and wear of the data drives of one node that takes all writes.
    fn data_wear(self) -> Option<(Warranty, Wear)> {
        let wear = Wear {
            client_per_day: self.demand.written_per_day(),
            overhead: self.protection().overhead(),
            write_amplification: self.policy.write_amplification,
            journal_factor: journal_factor(self.node()),
            drives: self.equipped.drives,
        };
        Some((warranty(self.drive())?, wear))
    }

    /// The same of its journal drives, which all copies pass.
    fn journal_wear(self) -> Option<(Warranty, Wear)> {
        let wear = Wear {
            client_per_day: self.demand.written_per_day(),
            overhead: self.protection().overhead(),
            write_amplification: 1.0,
            journal_factor: 1.0,
            drives: self.node().journal_drives,
        };
        Some((warranty(self.journal?)?, wear))
    }

    fn describe(
        self,
        nodes: u64,
        binding: &'static str,
        terms: Vec<Term>,
        supply: Supply,
    ) -> Result<Layout> {
        let raw = self.raw() * real(nodes);
        let usable = self.protection().usable(raw);
        let filled = Share::of_base(self.held() / (usable * self.policy.reduction()));
        let osds = nodes * self.osds();
        let reach = self.reach(nodes, &supply);
        let price = self.price(nodes, usable, reach)?;
        let lives = [self.data_wear(), self.journal_wear()].map(|wear| years(nodes, wear));
        let [drive_life_years, journal_life_years] = lives;
        let mut layout = Layout {
            node: self.node().name.get_ref().clone(),
            drive: self.drive().name.get_ref().clone(),
            media: self.drive().media,
            drives_per_node: self.equipped.drives,
            protection: self.protection(),
            failure_domain: self.policy.failure_domain,
            nodes,
            binding,
            terms,
            osds,
            monitors: MONITORS,
            raw_bytes: raw,
            usable_bytes: usable,
            planned_bytes: capacity::planned(usable, self.policy.fill, self.policy.reduction()),
            filled,
            placement_groups: placement_groups::of_pool(osds, self.protection(), 1.0)?,
            journals: self.journals()?,
            metadata_cache_bytes: (!self.drive().media.is_flash())
                .then(|| cache::metadata_size(self.raw())),
            drive_life_years,
            journal_life_years,
            traffic: self.traffic(nodes),
            reach,
            power: self.power(nodes, usable, reach),
            rack_units: self.node().rack_units.map(|units| units * real(nodes)),
            price,
            rebuild: self.rebuilds(nodes, filled),
            risks: Vec::new(),
            errata: self.errata(&supply),
            supply,
        };
        layout.risks = risks::of_layout(self, &layout);
        Ok(layout)
    }

    fn reach(self, nodes: u64, supply: &Supply) -> LayoutReach {
        let (reads, share) = (supply.reads_per_second, self.demand.read_share.base());
        let writes =
            supply.drive_writes_per_second.map(|writes| writes / self.cost(supply).operations());
        // The part of a node's second that one operation of the mix takes.
        let part = |rate: Option<OpRate>, share: f64| match rate {
            _ if share == 0.0 => Some(0.0),
            rate => rate.map(|rate| share / rate.base()),
        };
        let time = part(reads, share).zip(part(writes, 1.0 - share));
        let count = real(nodes);
        let operations = time.map(|(read, write)| OpRate::of_base(count / (read + write)));
        let of_all = |rate: Option<ByteRate>| rate.map(|rate| rate * count);
        let (read, written) =
            (of_all(supply.read_bytes_per_second), of_all(supply.write_bytes_per_second));
        let moved = operations.unwrap_or(OpRate::ZERO) * self.demand.block_bytes;
        let factor = |reads: ByteRate, writes: ByteRate| self.network_factor(nodes, reads, writes);
        let of_operations = factor(moved * share, moved * (1.0 - share));
        let of_reads = factor(read.unwrap_or(ByteRate::ZERO), ByteRate::ZERO);
        let of_writes = factor(ByteRate::ZERO, written.unwrap_or(ByteRate::ZERO));
        LayoutReach {
            operations_per_second: operations.map(|rate| rate * of_operations.min(1.0)),
            read_bytes_per_second: read.map(|rate| rate * of_reads.min(1.0)),
            write_bytes_per_second: written.map(|rate| rate * of_writes.min(1.0)),
            bound_by_network: NetworkBound {
                operations: of_operations < 1.0,
                reading: of_reads < 1.0,
                writing: of_writes < 1.0,
            },
        }
    }

    fn journals(self) -> Result<Option<Journals>> {
        let network =
            Links { nodes: 1, ports: self.node().ports, speed: self.node().speed }.ceiling();
        let by_rate = self.drive().write_rate;
        let by_rate = by_rate.map(|rate| {
            journal::size(
                rate / real(self.node().osds_per_drive),
                network,
                self.policy.sync_seconds,
            )
        });
        let Some(size_bytes) = self.node().journal_size.or(by_rate) else { return Ok(None) };
        let drives = self.node().journal_drives;
        let on_each_drive =
            if drives == 0 { Vec::new() } else { journal::partitions(self.osds(), drives)? };
        let ratio = self.node().osds_per_journal.filter(|_| drives > 0);
        let drives_needed = ratio.map(|ratio| journal::drives(self.osds(), ratio)).transpose()?;
        Ok(Some(Journals { size_bytes, on_each_drive, drives_needed }))
    }

    fn traffic(self, nodes: u64) -> Traffic {
        let mut traffic = Traffic {
            node_sends_bytes_per_second: ByteRate::ZERO,
            node_receives_bytes_per_second: ByteRate::ZERO,
            used: Share::ZERO,
        };
        for (sends, receives, ports) in self.demanded_flows() {
            let links = Links { nodes, ports, speed: self.node().speed };
            traffic.node_sends_bytes_per_second += sends / real(nodes);
            traffic.node_receives_bytes_per_second += receives / real(nodes);
            traffic.used = traffic.used.max(links.used(sends.max(receives)));
        }
        traffic
    }

    /// Drives and journals of a node, and its own where it is known.
    pub(crate) fn node_power(self, work: DriveWork) -> Option<Watts> {
        let (drive, journal) = (self.drive(), self.journal);
        let (drives, journals) = match work {
            DriveWork::Any => (drive.power(), journal.and_then(DriveModel::power)),
            DriveWork::Reading => {
                (drive.power_reading(), journal.and_then(DriveModel::power_waiting))
            }
            DriveWork::Writing => {
                (drive.power_writing(), journal.and_then(DriveModel::power_writing))
            }
        };
        let drives = drives.map(|power| power * self.drives());
        let journals = journals.map(|power| power * real(self.node().journal_drives));
        [drives, journals, self.node().power].into_iter().flatten().reduce(|sum, power| sum + power)
    }

    fn power(self, nodes: u64, usable: Bytes, reach: LayoutReach) -> Option<Power> {
        let of_all = |work| self.node_power(work).map(|power| power * real(nodes));
        let total = of_all(DriveWork::Any)?;
        let per_byte = |work, rate: Option<ByteRate>| Some(energy::per_byte(of_all(work)?, rate?));
        let read = per_byte(DriveWork::Reading, reach.read_bytes_per_second);
        let written = per_byte(DriveWork::Writing, reach.write_bytes_per_second);
        Some(Power {
            total_watts: total,
            watts_per_usable_tb: energy::watts_per_tb(total, usable),
            watts_per_asked_tb: self
                .requested_capacity()
                .map(|asked| energy::watts_per_tb(total, asked)),
            joules_per_gb_read: read.map(EnergyPerByte::joules_per_gb),
            joules_per_gb_written: written.map(EnergyPerByte::joules_per_gb),
            job_joules: written.map(|energy| (energy * self.demand.job_bytes).base()),
        })
    }

    /// Parts of a node without a price.
    pub(crate) fn unpriced(self) -> Vec<String> {
        let mut parts = Vec::new();
        let mut note = |price: Option<Money>, name: &str| {
            if price.is_none() {
                parts.push(name.to_owned());
            }
        };
        note(self.node().price, self.node().name.get_ref());
        note(self.drive().price, self.drive().name.get_ref());
        if let Some(journal) = self.journal {
            note(journal.price, journal.name.get_ref());
        }
        parts
    }

    fn price(self, nodes: u64, usable: Bytes, reach: LayoutReach) -> Result<Option<Price>> {
        let journals = self.journal.map_or(Some(Money::ZERO), |drive| drive.price);
        let parts = (self.node().price, self.drive().price, journals);
        let (Some(node), Some(drive), Some(journal)) = parts else { return Ok(None) };
        let drives = drive * self.drives() + journal * real(self.node().journal_drives);
        let basis = cost::CostBasis::of(&self.catalogue.prices);
        let running = RunningCosts {
            time: self.policy.time_seconds,
            power: self.node_power(DriveWork::Any).unwrap_or(Watts::ZERO) * real(nodes),
            power_usage_effectiveness: basis.power_usage_effectiveness,
            price_per_kwh: basis.kwh.unwrap_or(Money::ZERO),
            rack_units: self.node().rack_units.unwrap_or(0.0) * real(nodes),
            price_per_rack_unit_and_year: basis.rack_unit_per_year.unwrap_or(Money::ZERO),
            drives: drives * real(nodes),
            replaced_per_year: basis.replaced_per_year.base(),
        };
        let purchase = (node + drives) * real(nodes);
        let per_operation =
            reach.operations_per_second.map(|rate| cost::per_operation(purchase, rate));
        Ok(Some(Price {
            ownership: running.ownership(purchase),
            per_usable_tb: cost::per_tb(purchase, usable),
            per_asked_tb: self.requested_capacity().map(|asked| cost::per_tb(purchase, asked)),
            per_operation,
        }))
    }

    fn rebuilds(self, nodes: u64, filled: Share) -> Rebuilds {
        let links = Links { nodes: 1, ports: self.node().ports, speed: self.node().speed };
        let filled = if self.requested_capacity().is_some() { filled } else { self.policy.fill };
        let rebuilder = Rebuilder {
            nodes,
            drives: self.equipped.drives,
            capacity: self.drive().capacity,
            filled,
            drive_writes: self.drive().write_rate,
            network: links.ceiling() * self.policy.rebuild_network_share.base(),
            protection: self.protection(),
            failure_domain: self.policy.failure_domain,
        };
        Rebuilds { filled, drive: rebuilder.of_drive(), node: rebuilder.of_node() }
    }

    /// Faults of the sources behind the demand and the figures used.
    fn errata(self, supply: &Supply) -> Vec<String> {
        let parts = [&self.node().errata, &self.drive().errata].into_iter().flatten();
        let mut ids: Vec<String> = parts.map(|id| id.get_ref().clone()).collect();
        ids.extend(supply.errata.iter().chain(&self.demand.errata).cloned());
        if matches!(self.protection(), Protection::Erasure { data: 4, parity: 2 }) {
            ids.push("X05".to_owned());
        }
        ids.sort();
        ids.dedup();
        ids
    }
}

/// Operations that a node gives, for F12; 0 of what is not known.
fn node_operations(supply: &Supply) -> operations::Operations {
    let known = |rate: Option<OpRate>| rate.unwrap_or(OpRate::ZERO);
    operations::Operations {
        reads: known(supply.reads_per_second),
        writes: known(supply.drive_writes_per_second),
    }
}

fn warranty(drive: &DriveModel) -> Option<Warranty> {
    Some(Warranty {
        capacity: drive.capacity,
        drive_writes_per_day: drive.drive_writes_per_day?,
        years: drive.warranty?.years(),
    })
}

/// Years that drives last which share the writes of all nodes.
fn years(nodes: u64, wear: Option<(Warranty, Wear)>) -> Option<f64> {
    let (warranty, wear) = wear?;
    let shared = Wear { drives: wear.drives * nodes, ..wear };
    let years = shared.lifetime(warranty).ok()?.years();
    years.is_finite().then_some(years)
}
