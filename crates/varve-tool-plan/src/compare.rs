//! Two clusters beside each other, as measured and as if the first had the nodes and protection of the second.
//! Formulas F3, F4, F6 and F7.

use serde::Serialize;

use crate::catalogue::{Catalogue, MeasuredCluster};
use crate::errata::MICRON;
use crate::error::{Error, Result};
use crate::normalisation::{self, Normalisation, WRITES_OF_EC_4_2};
use crate::protection::Protection;
use crate::rounding::{Need, real};
use crate::standing::BuiltCluster;
use crate::supply::writes_factor;
use crate::units::{Amount, ByteRate, Bytes, Money, Seconds, Watts};
use crate::{capacity, cost, energy, errata};

/// A figure of both clusters.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct FigurePair {
    /// What it is, with its unit and basis.
    pub what: String,
    /// Of the first cluster.
    pub first: f64,
    /// Of the second.
    pub second: f64,
    /// How many times better the second is.
    pub gain: f64,
    /// Faults of the source that matter here.
    pub errata: Vec<&'static str>,
}

/// Nodes of the first kind that equal the second cluster.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Parity {
    /// In what.
    pub what: &'static str,
    /// How many.
    pub nodes: Need,
    /// Faults of the source that matter here.
    pub errata: Vec<&'static str>,
}

/// What Micron's comparison takes for the 2/3 that EC 4+2 leaves: 760 for 768 TB (erratum X05).
const TWO_THIRDS_OF_SOURCE: f64 = 0.66;

/// Two clusters beside each other.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Comparison {
    /// The first cluster.
    pub first: String,
    /// The second.
    pub second: String,
    /// Blocks that were read when the rates were measured: of the first, of the second.
    pub read_block_bytes: [Bytes; 2],
    /// Blocks that were written.
    pub write_block_bytes: [Bytes; 2],
    /// What rates of the first are multiplied by to compare: nodes, and protection of writes.
    pub multipliers: [f64; 2],
    /// Currency of the prices among the figures; empty where the catalogue names none.
    pub currency: String,
    /// The figures.
    pub figures: Vec<FigurePair>,
    /// Nodes for parity.
    pub parity: Vec<Parity>,
    /// Price of a drive of the second at which a usable TB costs the same; nothing where prices are missing.
    pub break_even_drive: Option<Money>,
    /// What keeps the figures from being comparable.
    pub warnings: Vec<String>,
    /// Faults of the sources in what is known of both clusters, by number.
    pub errata: Vec<String>,
}

/// What is compared of a cluster.
struct ComparedSide<'a> {
    built: BuiltCluster<'a>,
    reads: &'a MeasuredCluster,
    writes: &'a MeasuredCluster,
}

/// Measurements of two clusters with one share of reads: those of the largest block that both have, else the largest
/// block of each.
fn pair<'a>(
    catalogue: &'a Catalogue,
    clusters: [&str; 2],
    read_share: f64,
) -> Result<[&'a MeasuredCluster; 2]> {
    let rows = |cluster: &str| -> Vec<&'a MeasuredCluster> {
        let is_own = |row: &&MeasuredCluster| {
            row.cluster.get_ref() == cluster && row.read_share.base() == read_share
        };
        catalogue.measured.iter().filter(is_own).collect()
    };
    let [first, second] = clusters.map(rows);
    let has = |rows: &[&MeasuredCluster], block: Bytes| rows.iter().any(|row| row.block == block);
    let shared = first.iter().map(|row| row.block).filter(|&block| has(&second, block));
    let shared = shared.reduce(Bytes::max);
    let largest = |rows: Vec<&'a MeasuredCluster>, cluster: &str| {
        let fits = rows.into_iter().filter(|row| shared.is_none_or(|block| row.block == block));
        // Of equal ones the last: that of the last file (CATALOGUE-2).
        let largest = fits.max_by(|one, other| one.block.base().total_cmp(&other.block.base()));
        largest.ok_or_else(|| Error::Uncompared { cluster: cluster.to_owned() })
    };
    Ok([largest(first, clusters[0])?, largest(second, clusters[1])?])
}

impl<'a> ComparedSide<'a> {
    /// Both clusters.
    fn pair(catalogue: &'a Catalogue, clusters: [&str; 2]) -> Result<[Self; 2]> {
        let [first, second] = clusters.map(|cluster| BuiltCluster::of(catalogue, cluster));
        let (first, second) = (first?, second?);
        let reads = pair(catalogue, clusters, 1.0)?;
        let writes = pair(catalogue, clusters, 0.0)?;
        Ok([
            Self { built: first, reads: reads[0], writes: writes[0] },
            Self { built: second, reads: reads[1], writes: writes[1] },
        ])
    }

    fn read(&self) -> ByteRate {
        self.reads.operations() * self.reads.block
    }

    fn write(&self) -> ByteRate {
        self.writes.operations() * self.writes.block
    }

    fn latencies(&self) -> Option<(Seconds, Seconds)> {
        self.reads.latency.zip(self.writes.latency)
    }

    /// Whether cluster and measurements are those of a source.
    fn is_of(&self, source: &str) -> bool {
        let sources = [&self.built.cluster.source, &self.reads.source, &self.writes.source];
        sources.into_iter().all(|of| of == source)
    }

    /// Faults of what is known of it, by number.
    fn errata(&self) -> impl Iterator<Item = String> {
        let BuiltCluster { cluster, node, drive, .. } = self.built;
        let parts = [&cluster.errata, &node.errata, &drive.errata];
        let rows = [&self.reads.errata, &self.writes.errata];
        parts.into_iter().chain(rows).flatten().map(|id| id.get_ref().clone())
    }

    fn nodes(&self) -> f64 {
        real(self.built.cluster.nodes)
    }

    fn usable_of_node(&self) -> Bytes {
        self.built.cluster.protection.usable(self.built.raw_of_node())
    }

    /// Power of its data drives: reading and writing.
    fn power(&self) -> Option<(Watts, Watts)> {
        let drives = real(self.built.drives()) * self.nodes();
        Some((self.built.drive.power_read? * drives, self.built.drive.power_write? * drives))
    }

    /// Price of a node, and its part that is no data drive.
    fn price(&self) -> Option<(Money, Money)> {
        let journals = real(self.built.node.journal_drives);
        let journals = match self.built.journal {
            Some(drive) => drive.price? * journals,
            None => Money::ZERO,
        };
        let rest = self.built.node.price? + journals;
        Some((rest + self.built.drive.price? * real(self.built.drives()), rest))
    }
}

/// How the first cluster is made comparable.
struct Basis {
    read: ByteRate,
    write: ByteRate,
    usable: Bytes,
    multipliers: [f64; 2],
}

impl Basis {
    fn of(first: &ComparedSide<'_>, second: &ComparedSide<'_>) -> Result<Self> {
        let [from, to] = [first, second].map(|side| side.built.cluster.protection);
        let protection = writes_factor(from, to);
        let (nodes_measured, nodes_target) = (first.nodes(), second.nodes());
        let of = |protection| Normalisation { nodes_measured, nodes_target, protection };
        Ok(Self {
            read: of(1.0).rate(first.read())?,
            write: of(protection).rate(first.write())?,
            usable: first.usable_of_node() * nodes_target,
            multipliers: [nodes_target / nodes_measured, protection],
        })
    }
}

impl Comparison {
    /// Compares the clusters called `first` and `second` of the catalogue.
    ///
    /// # Errors
    /// [`Error::Unknown`] when one is not there, [`Error::Uncompared`] when reads or writes of one were not measured.
    pub fn of(catalogue: &Catalogue, first: &str, second: &str) -> Result<Self> {
        let [one, other] = ComparedSide::pair(catalogue, [first, second])?;
        let basis = Basis::of(&one, &other)?;
        let mut figures = rates(&one, &other, &basis);
        figures.extend(per_tb(&other, &basis));
        if one.is_of(MICRON) && other.is_of(MICRON) {
            figures.extend(per_tb_of_source(&other, &basis));
        }
        figures.extend(powers(&one, &other, &basis));
        figures.extend(prices(&one, &other));
        let mut parity = parity(&one, &other, &basis)?;
        // What a source says of its own comparison holds of no other.
        let holds = |id: &&'static str| {
            errata::of(id)
                .is_some_and(|erratum| one.is_of(erratum.source) && other.is_of(erratum.source))
        };
        for figure in &mut figures {
            figure.errata.retain(holds);
        }
        for parity in &mut parity {
            parity.errata.retain(holds);
        }
        let mut own: Vec<String> = one.errata().chain(other.errata()).collect();
        own.sort();
        own.dedup();
        Ok(Self {
            first: first.to_owned(),
            second: second.to_owned(),
            read_block_bytes: [one.reads.block, other.reads.block],
            write_block_bytes: [one.writes.block, other.writes.block],
            currency: catalogue.prices.currency.clone().unwrap_or_default(),
            break_even_drive: break_even(&one, &other)?,
            warnings: warnings(&one, &other, &basis),
            multipliers: basis.multipliers,
            figures,
            parity,
            errata: own,
        })
    }
}

/// What keeps the figures from being comparable.
fn warnings(one: &ComparedSide<'_>, other: &ComparedSide<'_>, basis: &Basis) -> Vec<String> {
    let mut warnings = Vec::new();
    for (what, first, second) in
        [("reads", one.reads, other.reads), ("writes", one.writes, other.writes)]
    {
        if first.block != second.block {
            warnings.push(format!(
                "{what} of {} and of {} are compared: no block was measured on both",
                first.block, second.block
            ));
        }
    }
    let [from, to] = [one, other].map(|side| side.built.cluster.protection);
    let is_code = |protection| matches!(protection, Protection::Erasure { .. });
    let of_source = [WRITES_OF_EC_4_2, 1.0 / WRITES_OF_EC_4_2].contains(&basis.multipliers[1]);
    if is_code(from) != is_code(to) && !of_source {
        warnings.push(format!(
            "the source's factor for writes, {WRITES_OF_EC_4_2}, is of 3 copies and EC 4+2; that of {from} and {to} follows by the bytes that are written"
        ));
    }
    warnings
}

/// More is better.
fn more(what: impl Into<String>, first: f64, second: f64, errata: &[&'static str]) -> FigurePair {
    FigurePair { what: what.into(), first, second, gain: second / first, errata: errata.to_vec() }
}

/// Less is better.
fn less(what: impl Into<String>, first: f64, second: f64, errata: &[&'static str]) -> FigurePair {
    FigurePair { what: what.into(), first, second, gain: first / second, errata: errata.to_vec() }
}

fn rates(one: &ComparedSide<'_>, other: &ComparedSide<'_>, basis: &Basis) -> Vec<FigurePair> {
    let mb = ByteRate::mb_per_second;
    let mut figures = vec![
        more("read MB/s, measured", mb(one.read()), mb(other.read()), &[]),
        more("write MB/s, measured", mb(one.write()), mb(other.write()), &[]),
        more("read MB/s, normalised", mb(basis.read), mb(other.read()), &[]),
        more("write MB/s, normalised", mb(basis.write), mb(other.write()), &[]),
    ];
    if let (Some(one), Some(other)) = (one.latencies(), other.latencies()) {
        figures.push(less("read latency, ms", one.0.base() * 1e3, other.0.base() * 1e3, &[]));
        figures.push(less("write latency, ms", one.1.base() * 1e3, other.1.base() * 1e3, &["X08"]));
    }
    figures
}

fn per_tb(other: &ComparedSide<'_>, basis: &Basis) -> Vec<FigurePair> {
    let usable = other.usable_of_node() * other.nodes();
    let of = |rate: ByteRate, usable: Bytes| rate.mb_per_second() / usable.tb();
    let errata = ["X02", "X03", "X05"];
    vec![
        more(
            "read MB/s for each usable TB, normalised",
            of(basis.read, basis.usable),
            of(other.read(), usable),
            &errata,
        ),
        more(
            "write MB/s for each usable TB, normalised",
            of(basis.write, basis.usable),
            of(other.write(), usable),
            &errata,
        ),
    ]
}

/// Writes for each usable TB on the other two bases of the source (erratum X02).
fn per_tb_of_source(other: &ComparedSide<'_>, basis: &Basis) -> [FigurePair; 2] {
    let usable = other.built.raw() * TWO_THIRDS_OF_SOURCE;
    let of = |rate: ByteRate, usable: Bytes| rate.mb_per_second() / usable.tb();
    let second = of(other.write(), usable);
    let errata = ["X02", "X05"];
    let [_, protection] = basis.multipliers;
    let for_nodes_alone = basis.write / protection;
    [
        more(
            "write MB/s for each usable TB, normalised, 760 TB",
            of(basis.write, basis.usable),
            second,
            &errata,
        ),
        more(
            "write MB/s for each usable TB, normalised for nodes alone, 760 TB",
            of(for_nodes_alone, basis.usable),
            second,
            &errata,
        ),
    ]
}

fn powers(one: &ComparedSide<'_>, other: &ComparedSide<'_>, basis: &Basis) -> Vec<FigurePair> {
    let (Some(first), Some(second)) = (one.power(), other.power()) else { return Vec::new() };
    let usable = |side: &ComparedSide<'_>| side.usable_of_node() * side.nodes();
    let per_gb = |power, rate| energy::per_byte(power, rate).joules_per_gb();
    let protected = one.write() * basis.multipliers[1];
    let raw = ["X08"];
    vec![
        less("W of drives", first.1.base(), second.1.base(), &[]),
        less(
            "W for each raw TB",
            energy::watts_per_tb(first.1, one.built.raw()),
            energy::watts_per_tb(second.1, other.built.raw()),
            &raw,
        ),
        less(
            "W for each usable TB",
            energy::watts_per_tb(first.1, usable(one)),
            energy::watts_per_tb(second.1, usable(other)),
            &raw,
        ),
        less(
            "J/GB read, measured",
            per_gb(first.0, one.read()),
            per_gb(second.0, other.read()),
            &[],
        ),
        less(
            "J/GB written, measured",
            per_gb(first.1, one.write()),
            per_gb(second.1, other.write()),
            &raw,
        ),
        less(
            "J/GB written, normalised",
            per_gb(first.1, protected),
            per_gb(second.1, other.write()),
            &raw,
        ),
    ]
}

fn prices(one: &ComparedSide<'_>, other: &ComparedSide<'_>) -> Vec<FigurePair> {
    let (Some((first, _)), Some((second, _))) = (one.price(), other.price()) else {
        return Vec::new();
    };
    let raw = |price, side: &ComparedSide<'_>| cost::per_tb(price, side.built.raw_of_node());
    let usable = |price, side: &ComparedSide<'_>| cost::per_tb(price, side.usable_of_node());
    vec![
        less("price of a node", first.base(), second.base(), &[]),
        less("price of a raw TB", raw(first, one), raw(second, other), &[]),
        less("price of a usable TB", usable(first, one), usable(second, other), &["X05"]),
    ]
}

fn parity(one: &ComparedSide<'_>, other: &ComparedSide<'_>, basis: &Basis) -> Result<Vec<Parity>> {
    let usable = other.usable_of_node() * other.nodes();
    let nodes = other.nodes();
    let read = normalisation::nodes_for_rate(other.read(), basis.read / nodes)?;
    let write = normalisation::nodes_for_rate(other.write(), basis.write / nodes)?;
    Ok(vec![
        Parity {
            what: "capacity",
            nodes: capacity::nodes(usable, one.usable_of_node())?,
            errata: vec!["X04", "X05"],
        },
        Parity { what: "reading", nodes: read, errata: vec!["X01"] },
        Parity { what: "writing", nodes: write, errata: vec![] },
    ])
}

/// The drive price of `other` at which a usable TB costs what it does of `one` (formula F7).
fn break_even(one: &ComparedSide<'_>, other: &ComparedSide<'_>) -> Result<Option<Money>> {
    let (Some((first, _)), Some((_, rest))) = (one.price(), other.price()) else { return Ok(None) };
    let per_tb = cost::per_tb(first, one.usable_of_node());
    let drive = cost::break_even_drive(per_tb, other.usable_of_node(), rest, other.built.drives())?;
    Ok((drive > Money::ZERO).then_some(drive))
}
