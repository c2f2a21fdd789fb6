//! Reads a catalogue's file: complaints say file, line, column, what is wrong, and what to do.

use std::collections::BTreeMap;
use std::ops::Range;

use serde::Deserialize;
use toml::Spanned;

use super::Catalogue;
use super::entries::{Cluster, DriveModel, MeasuredCluster, NodeModel, Prices, Workload};
use crate::errata;
use crate::error::{Error, Result};
use crate::units::Amount;

/// Most entries of one kind in a file.
const ENTRIES_MAX: usize = 4096;

/// A file's name and text, to say where something is.
#[derive(Clone, Copy)]
pub(super) struct Source<'a> {
    pub(super) name: &'a str,
    pub(super) text: &'a str,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    prices: Prices,
    #[serde(default)]
    drive: Vec<DriveModel>,
    #[serde(default)]
    node: Vec<NodeModel>,
    #[serde(default)]
    cluster: Vec<Cluster>,
    #[serde(default)]
    measured: Vec<MeasuredCluster>,
    #[serde(default)]
    workload: Vec<Workload>,
}

impl Source<'_> {
    fn at(&self, span: &Range<usize>, what: String, advice: &str) -> Error {
        let before = self.text.get(..span.start).unwrap_or(self.text);
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or("").chars().count() + 1;
        let (file, advice) = (self.name.to_owned(), advice.to_owned());
        Error::Catalogue { file, line, column, what, advice }
    }

    /// A complaint about an entry, unless `holds`.
    fn require(
        &self,
        entry: &Spanned<String>,
        holds: bool,
        what: &str,
        advice: &str,
    ) -> Result<()> {
        match holds {
            true => Ok(()),
            false => Err(self.at(&entry.span(), format!("`{}`: {what}", entry.get_ref()), advice)),
        }
    }

    /// That `name` is among `known` (CATALOGUE-1).
    fn known<T>(
        &self,
        kind: &str,
        name: &Spanned<String>,
        known: &BTreeMap<String, T>,
    ) -> Result<()> {
        if known.contains_key(name.get_ref()) {
            return Ok(());
        }
        let names: Vec<&str> = known.keys().map(String::as_str).collect();
        let what = format!("unknown {kind} `{}`", name.get_ref());
        Err(self.at(
            &name.span(),
            what,
            &format!("add a [[{kind}]], or use one of {}", names.join(", ")),
        ))
    }

    fn errata(&self, ids: &[Spanned<String>]) -> Result<()> {
        match ids.iter().find(|id| errata::of(id.get_ref()).is_none()) {
            None => Ok(()),
            Some(id) => {
                let what = format!("unknown erratum `{}`", id.get_ref());
                Err(self.at(&id.span(), what, "X01 to X28, as docs/plan.md lists them"))
            }
        }
    }
}

pub(super) fn add(catalogue: &mut Catalogue, source: Source<'_>) -> Result<()> {
    let file: File = toml::from_str(source.text).map_err(|error| {
        let span = error.span().unwrap_or(0..0);
        source.at(&span, error.message().trim().to_owned(), "docs/plan.md lists tables and fields")
    })?;
    let counts = [
        file.drive.len(),
        file.node.len(),
        file.cluster.len(),
        file.measured.len(),
        file.workload.len(),
    ];
    if counts.iter().any(|&count| count > ENTRIES_MAX) {
        return Err(source.at(
            &(0..0),
            format!("more than {ENTRIES_MAX} entries"),
            "split the file",
        ));
    }
    let mut merged = catalogue.clone();
    for drive in file.drive {
        check_drive(source, &drive)?;
        merged.drives.insert(drive.name.get_ref().clone(), drive);
    }
    for node in file.node {
        check_node(source, &node, &merged)?;
        merged.nodes.insert(node.name.get_ref().clone(), node);
    }
    for cluster in file.cluster {
        check_cluster(source, &cluster, &merged)?;
        merged.clusters.insert(cluster.name.get_ref().clone(), cluster);
    }
    let number = merged.measured.last().map_or(0, |last| last.file + 1);
    for measured in file.measured {
        check_measured(source, &measured, &merged)?;
        merged.measured.push(MeasuredCluster { file: number, ..measured });
    }
    for workload in file.workload {
        check_workload(source, &workload)?;
        merged.workloads.insert(workload.name.get_ref().clone(), workload);
    }
    take_prices(source, file.prices, &mut merged)?;
    *catalogue = merged;
    Ok(())
}

fn check_drive(source: Source<'_>, drive: &DriveModel) -> Result<()> {
    let name = &drive.name;
    source.require(name, drive.capacity.base() > 0.0, "capacity is 0", "give it its capacity")?;
    let writes = drive.drive_writes_per_day;
    let finite = writes.is_none_or(|writes| writes.is_finite() && writes > 0.0);
    let advice = "a number above 0, or leave it out where it is not known";
    source.require(name, finite, "drive_writes_per_day is not a number above 0", advice)?;
    source.errata(&drive.errata)
}

fn check_node(source: Source<'_>, node: &NodeModel, known: &Catalogue) -> Result<()> {
    let name = &node.name;
    source.known("drive", &node.drive, &known.drives)?;
    if let Some(journal) = &node.journal_drive {
        source.known("drive", journal, &known.drives)?;
    }
    let (drives, most) = (node.drives, node.drives_max.unwrap_or(node.drives));
    let fits = drives >= 1 && drives <= most && most <= 1000;
    source.require(
        name,
        fits,
        "drives are not 1 to drives_max",
        "1 to 1000, and no more than drives_max",
    )?;
    let osds = (1..=1000).contains(&node.osds_per_drive);
    source.require(name, osds, "osds_per_drive is not 1 to 1000", "1 where a drive is one OSD")?;
    let journals =
        node.journal_drive.is_some() == (node.journal_drives > 0) && node.journal_drives <= 1000;
    let advice = "give both journal_drive and journal_drives, or neither";
    source.require(name, journals, "journal drives are named or counted, not both", advice)?;
    let ratio = node.osds_per_journal.is_none_or(|ratio| ratio.is_finite() && ratio > 0.0);
    source.require(name, ratio, "osds_per_journal is not a number above 0", "such as 5 or 12")?;
    let linked =
        (1..=1000).contains(&node.ports) && node.cluster_ports <= 1000 && node.speed.base() > 0.0;
    source.require(name, linked, "it has no network", "give ports, 1 to 1000, and their speed")?;
    let height = node.rack_units.is_none_or(|units| units.is_finite() && units >= 0.0);
    source.require(name, height, "rack_units is not a number of 0 or more", "such as 1 or 2")?;
    source.errata(&node.errata)
}

fn check_cluster(source: Source<'_>, cluster: &Cluster, known: &Catalogue) -> Result<()> {
    source.known("node", &cluster.node, &known.nodes)?;
    let nodes = (1..=1_000_000).contains(&cluster.nodes)
        && cluster.drives.is_none_or(|drives| (1..=1000).contains(&drives));
    source.require(
        &cluster.name,
        nodes,
        "nodes or drives are out of range",
        "1 to 1000000 nodes, 1 to 1000 drives",
    )?;
    let gateways =
        cluster.gateways == 0 || cluster.gateway_speed.is_some_and(|speed| speed.base() > 0.0);
    source.require(
        &cluster.name,
        gateways,
        "gateways have no gateway_speed",
        "such as \"10Gbit/s\"",
    )?;
    source.errata(&cluster.errata)
}

fn check_measured(source: Source<'_>, measured: &MeasuredCluster, known: &Catalogue) -> Result<()> {
    source.known("cluster", &measured.cluster, &known.clusters)?;
    let cluster = &measured.cluster;
    let one = measured.operations.is_some() != measured.rate.is_some();
    source.require(cluster, one, "operations or rate, and not both", "give what was measured")?;
    let share = measured.read_share.base() <= 1.0 && measured.block.base() > 0.0;
    source.require(cluster, share, "read_share is above 100 %, or block is 0", "correct it")?;
    let factor = measured.journal_factor >= 1.0 && measured.journal_factor <= 10.0;
    source.require(
        cluster,
        factor,
        "journal_factor is not 1 to 10",
        "1, or 2 where journals count",
    )?;
    source.errata(&measured.errata)
}

fn check_workload(source: Source<'_>, workload: &Workload) -> Result<()> {
    let name = &workload.name;
    let shares = workload.read_share.base() <= 1.0 && workload.fill.base() <= 1.0;
    source.require(name, shares, "a share is above 100 %", "at most \"100%\"")?;
    let amounts = workload.block.base() > 0.0 && workload.fill.base() > 0.0;
    source.require(name, amounts, "block or fill is 0", "give both")?;
    source.errata(&workload.errata)
}

/// Prices of a later file count; those it does not tell stay (CATALOGUE-2).
fn take_prices(source: Source<'_>, new: Prices, merged: &mut Catalogue) -> Result<()> {
    for (name, price) in &new.drives {
        source.known("drive", name, &merged.drives)?;
        if let Some(drive) = merged.drives.get_mut(name.get_ref()) {
            drive.price = Some(*price);
        }
    }
    for (name, price) in &new.nodes {
        source.known("node", name, &merged.nodes)?;
        if let Some(node) = merged.nodes.get_mut(name.get_ref()) {
            node.price = Some(*price);
        }
    }
    if let Some(pue) = new.power_usage_effectiveness.filter(|pue| !(1.0..=10.0).contains(pue)) {
        let what = format!("power_usage_effectiveness is {pue}");
        return Err(source.at(
            &(0..0),
            what,
            "1 to 10: power with cooling ÷ power of the machines",
        ));
    }
    let prices = &mut merged.prices;
    let own = |field: &str| new.assumed.iter().any(|assumed| assumed == field);
    prices.assumed.retain(|field| match field.as_str() {
        "kwh" => new.kwh.is_none(),
        "rack_unit_per_year" => new.rack_unit_per_year.is_none(),
        "power_usage_effectiveness" => new.power_usage_effectiveness.is_none(),
        "replaced_per_year" => new.replaced_per_year.is_none(),
        field => !own(field),
    });
    prices.assumed.extend(new.assumed);
    prices.currency = new.currency.or(prices.currency.take());
    prices.kwh = new.kwh.or(prices.kwh);
    prices.rack_unit_per_year = new.rack_unit_per_year.or(prices.rack_unit_per_year);
    prices.power_usage_effectiveness =
        new.power_usage_effectiveness.or(prices.power_usage_effectiveness);
    prices.replaced_per_year = new.replaced_per_year.or(prices.replaced_per_year);
    Ok(())
}
