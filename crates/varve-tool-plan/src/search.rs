//! The search for a layout: every kind of node, number of drives and protection is tried, what meets the demand is ranked.

use serde::{Deserialize, Serialize};

use crate::catalogue::{Catalogue, Drive, Node};
use crate::demand::{Demand, Policy};
use crate::error::{Error, Result};
use crate::layout::{Layout, Parts};
use crate::protection::Protection;
use crate::supply::Equipped;
use crate::units::{Amount, Money};

/// By what alternatives are ranked. What is not known ranks last.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rank {
    /// Cost of owning it over the policy's time.
    #[default]
    Cost,
    /// Purchase for each operation a second.
    PerOperation,
    /// Purchase for each usable TB.
    PerTb,
    /// Watts for each usable TB.
    WattsPerTb,
    /// Joules for each GB written.
    JoulesPerGb,
    /// Number of nodes.
    Nodes,
}

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
            Self::PerTb => layout.price.map(|price| price.per_usable_tb),
            Self::WattsPerTb => layout.power.map(|power| power.watts_per_usable_tb),
            Self::JoulesPerGb => layout.power?.joules_per_gb_written,
            Self::Nodes => Some(crate::rounding::real(layout.nodes)),
        }
    }

    /// Best first: those whose latency is shown to hold, then those where it is not known, then those that are late; among them by figure.
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
pub struct Given {
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
pub struct Rejected {
    /// The kind of node.
    pub node: String,
    /// How data would be protected.
    pub protection: Protection,
    /// Why not.
    pub reason: String,
}

/// What meets a demand, best first.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Plan {
    /// The demand.
    pub demand: Demand,
    /// The policy.
    pub policy: Policy,
    /// How alternatives are ranked.
    pub rank: Rank,
    /// Currency of all prices.
    pub currency: String,
    /// Prices that no source gives.
    pub assumed_prices: Vec<String>,
    /// Alternatives, best first; one for each kind of node and protection.
    pub layouts: Vec<Layout>,
    /// What does not meet it.
    pub rejected: Vec<Rejected>,
}

impl Plan {
    /// Searches `catalogue` for what meets `demand` under `policy`.
    ///
    /// # Errors
    /// [`Error::Range`] when demand or policy make no sense, [`Error::Unknown`] for a node that is not there.
    pub fn search(
        catalogue: &Catalogue,
        demand: Demand,
        policy: Policy,
        choice: &Choice,
    ) -> Result<Self> {
        demand.check()?;
        policy.check()?;
        let mut names: Vec<&String> = choice.nodes.iter().collect();
        if names.is_empty() {
            names = catalogue.nodes.keys().collect();
        }
        let (mut layouts, mut rejected) = (Vec::new(), Vec::new());
        for name in names {
            for &protection in &policy.protections {
                match best(
                    catalogue,
                    &demand,
                    &policy,
                    Wanted { name, protection, rank: choice.rank },
                ) {
                    Ok(layout) => layouts.push(layout),
                    Err(error @ Error::Unknown { .. }) => return Err(error),
                    Err(error) => {
                        let reason = error.to_string();
                        rejected.push(Rejected { node: name.clone(), protection, reason });
                    }
                }
            }
        }
        layouts.sort_by(|one, other| choice.rank.order(one, other));
        let prices = &catalogue.prices;
        Ok(Self {
            rank: choice.rank,
            currency: prices.currency.clone().unwrap_or_default(),
            assumed_prices: prices.assumed.clone(),
            demand,
            policy,
            layouts,
            rejected,
        })
    }

    /// The layout of so many nodes of one kind, whatever they are for: what they hold, take and cost.
    ///
    /// # Errors
    /// As [`Plan::search`]; [`Error::Range`] for no nodes.
    pub fn given(catalogue: &Catalogue, given: &Given, policy: &Policy) -> Result<Layout> {
        policy.check()?;
        let demand = Demand::default();
        let (node, drive, journal) = entries(catalogue, &given.node)?;
        let drives = given.drives.unwrap_or(node.drives);
        crate::error::positive("the number of drives in a node", crate::rounding::real(drives))?;
        let equipped = Equipped { node, drive, drives, protection: given.protection };
        Parts { catalogue, demand: &demand, policy, equipped, journal }.of_nodes(given.nodes)
    }

    /// The layout with the least of each figure that any has: of those that are not late, where there are such.
    #[must_use]
    pub fn best_by_each(&self) -> Vec<(Rank, &Layout)> {
        let all_late = self.layouts.iter().all(Layout::is_late);
        let best = |rank: Rank| {
            let known = self.layouts.iter().filter(move |layout| {
                rank.figure(layout).is_some() && (all_late || !layout.is_late())
            });
            Some((rank, known.min_by(|one, other| rank.order_by_figure(one, other))?))
        };
        Rank::ALL.iter().filter_map(|&(rank, _)| best(rank)).collect()
    }
}

#[derive(Clone, Copy)]
struct Wanted<'a> {
    name: &'a String,
    protection: Protection,
    rank: Rank,
}

/// The best number of drives for a kind of node and a protection.
fn best(
    catalogue: &Catalogue,
    demand: &Demand,
    policy: &Policy,
    wanted: Wanted<'_>,
) -> Result<Layout> {
    let (node, drive, journal) = entries(catalogue, wanted.name)?;
    if wanted.protection == Protection::Copies(2) && !drive.media.is_flash() {
        return Err(Error::TwoCopiesOnDisks { drive: drive.name.get_ref().clone() });
    }
    let mut found: Option<Layout> = None;
    let mut refused = None;
    for drives in node.drives..=node.drives_max.unwrap_or(node.drives) {
        let equipped = Equipped { node, drive, drives, protection: wanted.protection };
        match (Parts { catalogue, demand, policy, equipped, journal }).layout() {
            Ok(layout) => {
                let better = |best: &Layout| wanted.rank.order(&layout, best).is_lt();
                if found.as_ref().is_none_or(better) {
                    found = Some(layout);
                }
            }
            Err(error) => refused = Some(error),
        }
    }
    found.ok_or_else(|| refused.expect("a node has one drive at least, so one layout was tried"))
}

/// The node called `name`, its data drive and its journal drive.
fn entries<'a>(
    catalogue: &'a Catalogue,
    name: &str,
) -> Result<(&'a Node, &'a Drive, Option<&'a Drive>)> {
    let node = catalogue.nodes.get(name).ok_or_else(|| {
        let known: Vec<&str> = catalogue.nodes.keys().map(String::as_str).collect();
        Error::Unknown { kind: "node", name: name.to_owned(), known: known.join(", ") }
    })?;
    let drive = catalogue.drives.get(node.drive.get_ref()).expect("C1: what a node names exists");
    let journal = node.journal_drive.as_ref();
    let journal = journal.map(|name| catalogue.drives.get(name.get_ref()).expect("C1"));
    Ok((node, drive, journal))
}

/// Prices as they stand in a plan.
#[must_use]
pub fn money(amount: Money, currency: &str) -> String {
    format!("{amount} {currency}").trim_end().to_owned()
}
