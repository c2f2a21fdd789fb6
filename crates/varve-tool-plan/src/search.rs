//! The search for a layout: every kind of node, number of drives and protection is tried, what meets the demand is
//! ranked.

use serde::{Deserialize, Serialize};

use crate::catalogue::{Catalogue, Class, DriveModel, NodeModel};
use crate::cost::CostBasis;
use crate::demand::{Demand, DemandPolicy};
use crate::error::{Error, Result};
use crate::layout::{Layout, Parts};
use crate::protection::Protection;
use crate::supply::EquippedNode;
use crate::units::{Amount, ByteRate, Money, OpRate};

/// By what alternatives are ranked. What is not known ranks last.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rank {
    /// Cost of owning it over the policy's time.
    #[default]
    Cost,
    /// Purchase for each operation a second.
    PerOperation,
    /// Purchase for each TB of data asked for; for each usable TB where none is.
    PerTb,
    /// Watts for each TB of data asked for; for each usable TB where none is.
    WattsPerTb,
    /// Joules for each GB written.
    JoulesPerGb,
    /// Number of nodes.
    Nodes,
}

// Capacity that nobody asked for is no merit: figures for each TB divide by what is asked, not by what is bought.

impl Rank {
    /// All of them, and how they are spelled.
    pub const ALL: [(Self, &'static str); 6] = [
        (Self::Cost, "cost"),
        (Self::PerOperation, "per-operation"),
        (Self::PerTb, "per-tb"),
        (Self::WattsPerTb, "watts-per-tb"),
        (Self::JoulesPerGb, "joules-per-gb"),
        (Self::Nodes, "nodes"),
    ];

    /// The figure of `layout` that it ranks by; less is better.
    #[must_use]
    pub fn figure(self, layout: &Layout) -> Option<f64> {
        match self {
            Self::Cost => layout.price.map(|price| price.ownership.total.base()),
            Self::PerOperation => layout.price?.per_operation,
            Self::PerTb => {
                layout.price.map(|price| price.per_asked_tb.unwrap_or(price.per_usable_tb))
            }
            Self::WattsPerTb => layout
                .power
                .map(|power| power.watts_per_asked_tb.unwrap_or(power.watts_per_usable_tb)),
            Self::JoulesPerGb => layout.power?.joules_per_gb_written,
            Self::Nodes => Some(crate::rounding::real(layout.nodes)),
        }
    }

    /// Best first: those whose latency is shown to hold, then those where it is not known, then those that are late;
    /// among them by figure.
    fn order(self, one: &Layout, other: &Layout) -> std::cmp::Ordering {
        let place = |layout: &Layout| match layout.supply.latency_shown {
            Some(true) => 0,
            None => 1,
            Some(false) => 2,
        };
        place(one).cmp(&place(other)).then(self.order_by_figure(one, other))
    }

    /// By the figure, then by nodes, then by what is bought in all.
    fn order_by_figure(self, one: &Layout, other: &Layout) -> std::cmp::Ordering {
        let key = |layout: &Layout| self.figure(layout).unwrap_or(f64::INFINITY);
        let by_figure = key(one).total_cmp(&key(other));
        let by_nodes = by_figure.then(one.nodes.cmp(&other.nodes));
        by_nodes.then(one.raw_bytes.base().total_cmp(&other.raw_bytes.base()))
    }
}

/// What is tried.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Choice {
    /// Kinds of nodes; all of the catalogue where none is named.
    pub nodes: Vec<String>,
    /// How what meets the demand is ranked.
    pub rank: Rank,
}

/// A cluster that is given by its parts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GivenCluster {
    /// Kind of node.
    pub node: String,
    /// How many.
    pub nodes: u64,
    /// Data drives in each; as many as the catalogue says at least where it is not said.
    pub drives: Option<u64>,
    /// How data are protected.
    pub protection: Protection,
}

/// A kind of node that does not meet the demand, or of which too little is known.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct RejectedNode {
    /// The kind of node.
    pub node: String,
    /// How data would be protected.
    pub protection: Protection,
    /// Why not.
    pub reason: String,
}

/// The layout with the least of one figure, of all kinds of nodes, protections and numbers of drives.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Best {
    /// The figure.
    pub figure: Rank,
    /// The least of it.
    pub value: f64,
    /// Kind of node.
    pub node: String,
    /// How many.
    pub nodes: u64,
    /// Data drives in each.
    pub drives_per_node: u64,
    /// How data are protected.
    pub protection: Protection,
    /// Whether it is late.
    pub is_late: bool,
}

/// What meets a demand, best first.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct DemandPlan {
    /// The demand.
    pub demand: Demand,
    /// The policy.
    pub policy: DemandPolicy,
    /// How alternatives are ranked.
    pub rank: Rank,
    /// Currency of all prices.
    pub currency: String,
    /// Prices that no source gives.
    pub assumed_prices: Vec<String>,
    /// What all costs are counted with.
    pub cost_basis: CostBasis,
    /// What is to be known before the alternatives are compared.
    pub warnings: Vec<String>,
    /// Alternatives, best first; one for each kind of node and protection.
    pub layouts: Vec<Layout>,
    /// The best by each figure that any has, also with other numbers of drives than those of `layouts`: of those that
    /// are not late, where there are such.
    pub best_by_each: Vec<Best>,
    /// What does not meet it.
    pub rejected: Vec<RejectedNode>,
}

impl DemandPlan {
    /// Searches `catalogue` for what meets `demand` under `policy`.
    ///
    /// # Errors
    /// [`Error::Range`] when demand or policy make no sense, [`Error::Unknown`] for a node that is not there.
    pub fn search(
        catalogue: &Catalogue,
        demand: Demand,
        policy: DemandPolicy,
        choice: &Choice,
    ) -> Result<Self> {
        demand.check()?;
        policy.check()?;
        let mut names: Vec<&String> = choice.nodes.iter().collect();
        if names.is_empty() {
            names = catalogue.nodes.keys().collect();
        }
        let (mut layouts, mut rejected, mut all) = (Vec::new(), Vec::new(), Vec::new());
        for name in names {
            for &protection in &policy.protections {
                match candidates(catalogue, &demand, &policy, name, protection) {
                    Ok(found) => {
                        let best = found.iter().min_by(|one, other| choice.rank.order(one, other));
                        layouts.extend(best.cloned());
                        all.extend(found);
                    }
                    Err(error @ Error::Unknown { .. }) => return Err(error),
                    Err(error) => {
                        let reason = error.to_string();
                        rejected.push(RejectedNode { node: name.clone(), protection, reason });
                    }
                }
            }
        }
        layouts.sort_by(|one, other| choice.rank.order(one, other));
        let cost_basis = CostBasis::of(&catalogue.prices);
        Ok(Self {
            rank: choice.rank,
            currency: cost_basis.currency.clone(),
            assumed_prices: cost_basis.assumed.clone(),
            cost_basis,
            warnings: warnings(&demand),
            best_by_each: best_by_each(&all),
            demand,
            policy,
            layouts,
            rejected,
        })
    }

    /// The layout of so many nodes of one kind, whatever they are for: what they hold, take and cost.
    ///
    /// # Errors
    /// As [`DemandPlan::search`]; [`Error::Range`] for no nodes.
    pub fn evaluate(
        catalogue: &Catalogue,
        given: &GivenCluster,
        policy: &DemandPolicy,
    ) -> Result<Layout> {
        policy.check()?;
        let demand = Demand::default();
        let (node, drive, journal) = entries(catalogue, &given.node)?;
        let drives = given.drives.unwrap_or(node.drives);
        crate::error::positive("the number of drives in a node", crate::rounding::real(drives))?;
        let equipped = EquippedNode { node, drive, drives, protection: given.protection };
        Parts { catalogue, demand: &demand, policy, equipped, journal }.of_nodes(given.nodes)
    }
}

/// What a demand leaves open.
fn warnings(demand: &Demand) -> Vec<String> {
    let operations = demand.operations();
    let moves = operations.reads + operations.writes > OpRate::ZERO
        || demand.read_stream() + demand.write_stream() > ByteRate::ZERO;
    let is_for_operations = demand.class == Class::Iops && !moves;
    let warning =
        "no operations were asked for: nodes are counted by capacity alone, also slow ones";
    is_for_operations.then(|| warning.to_owned()).into_iter().collect()
}

/// The layout with the least of each figure that any has: of those that are not late, where there are such.
fn best_by_each(all: &[Layout]) -> Vec<Best> {
    let all_late = all.iter().all(Layout::is_late);
    let best = |rank: Rank| {
        let known = all
            .iter()
            .filter(|layout| rank.figure(layout).is_some() && (all_late || !layout.is_late()));
        let layout = known.min_by(|one, other| rank.order_by_figure(one, other))?;
        Some(Best {
            figure: rank,
            value: rank.figure(layout)?,
            node: layout.node.clone(),
            nodes: layout.nodes,
            drives_per_node: layout.drives_per_node,
            protection: layout.protection,
            is_late: layout.is_late(),
        })
    };
    Rank::ALL.iter().filter_map(|&(rank, _)| best(rank)).collect()
}

/// A kind of node with a protection, with each number of drives that meets the demand: one at least.
fn candidates(
    catalogue: &Catalogue,
    demand: &Demand,
    policy: &DemandPolicy,
    name: &str,
    protection: Protection,
) -> Result<Vec<Layout>> {
    let (node, drive, journal) = entries(catalogue, name)?;
    if protection == Protection::Copies(2) && !drive.media.is_flash() {
        return Err(Error::TwoCopiesOnDisks { drive: drive.name.get_ref().clone() });
    }
    let (mut found, mut refused) = (Vec::new(), None);
    for drives in node.drives..=node.drives_max.unwrap_or(node.drives) {
        let equipped = EquippedNode { node, drive, drives, protection };
        match (Parts { catalogue, demand, policy, equipped, journal }).layout() {
            Ok(layout) => found.push(layout),
            Err(error) => refused = Some(error),
        }
    }
    match refused {
        Some(error) if found.is_empty() => Err(error),
        _ => Ok(found),
    }
}

/// The node called `name`, its data drive and its journal drive.
fn entries<'a>(
    catalogue: &'a Catalogue,
    name: &str,
) -> Result<(&'a NodeModel, &'a DriveModel, Option<&'a DriveModel>)> {
    let node = catalogue.nodes.get(name).ok_or_else(|| {
        let known: Vec<&str> = catalogue.nodes.keys().map(String::as_str).collect();
        Error::Unknown { kind: "node", name: name.to_owned(), known: known.join(", ") }
    })?;
    let drive =
        catalogue.drives.get(node.drive.get_ref()).expect("CATALOGUE-1: what a node names exists");
    let journal = node.journal_drive.as_ref();
    let journal = journal.map(|name| catalogue.drives.get(name.get_ref()).expect("CATALOGUE-1"));
    Ok((node, drive, journal))
}

/// Prices as they stand in a plan.
#[must_use]
pub fn money(amount: Money, currency: &str) -> String {
    format!("{amount} {currency}").trim_end().to_owned()
}
