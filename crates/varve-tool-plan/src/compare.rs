//! Two clusters beside each other, as measured and as if the first had the nodes and protection of the second. F3, F4, F6, F7.

use serde::Serialize;

use crate::catalogue::Catalogue;
use crate::error::{Error, Result};
use crate::normalisation::{self, Normalisation, WRITES_OF_EC_4_2};
use crate::protection::Protection;
use crate::rounding::{Need, real};
use crate::standing::Built;
use crate::units::{Amount, ByteRate, Bytes, Money, Seconds, Watts};
use crate::{capacity, cost, energy};

/// A figure of both clusters.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Figure {
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

/// Two clusters beside each other.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Comparison {
    /// The first cluster.
    pub first: String,
    /// The second.
    pub second: String,
    /// What rates of the first are multiplied by to compare: nodes, and protection of writes.
    pub multipliers: [f64; 2],
    /// The figures.
    pub figures: Vec<Figure>,
    /// Nodes for parity.
    pub parity: Vec<Parity>,
    /// Price of a drive of the second at which a usable TB costs the same; nothing where prices are missing.
    pub break_even_drive: Option<Money>,
}

/// What is compared of a cluster.
struct Side<'a> {
    built: Built<'a>,
    read: ByteRate,
    write: ByteRate,
    latencies: Option<(Seconds, Seconds)>,
}

impl<'a> Side<'a> {
    fn of(catalogue: &'a Catalogue, name: &str) -> Result<Self> {
        let built = Built::of(catalogue, name)?;
        let rows = |share: f64| {
            let own = catalogue
                .measured
                .iter()
                .filter(move |row| row.cluster.get_ref() == name && row.read_share.base() == share);
            own.max_by(|one, other| one.block.base().total_cmp(&other.block.base()))
        };
        let unmeasured = || Error::Uncompared { cluster: name.to_owned() };
        let read = rows(1.0).ok_or_else(unmeasured)?;
        let write = rows(0.0).ok_or_else(unmeasured)?;
        let rate = |row: &crate::catalogue::Measured| row.operations() * row.block;
        let latencies = read.latency.zip(write.latency);
        Ok(Self { read: rate(read), write: rate(write), latencies, built })
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
    fn of(first: &Side<'_>, second: &Side<'_>) -> Result<Self> {
        let codes =
            |side: &Side<'_>| matches!(side.built.cluster.protection, Protection::Erasure { .. });
        let protection = match (codes(first), codes(second)) {
            (false, true) => WRITES_OF_EC_4_2,
            (true, false) => 1.0 / WRITES_OF_EC_4_2,
            _ => 1.0,
        };
        let (nodes_measured, nodes_target) = (first.nodes(), second.nodes());
        let of = |protection| Normalisation { nodes_measured, nodes_target, protection };
        Ok(Self {
            read: of(1.0).rate(first.read)?,
            write: of(protection).rate(first.write)?,
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
        let (one, other) = (Side::of(catalogue, first)?, Side::of(catalogue, second)?);
        let basis = Basis::of(&one, &other)?;
        let mut figures = rates(&one, &other, &basis);
        figures.extend(per_tb(&other, &basis));
        figures.extend(powers(&one, &other, &basis));
        figures.extend(prices(&one, &other));
        Ok(Self {
            first: first.to_owned(),
            second: second.to_owned(),
            parity: parity(&one, &other, &basis)?,
            break_even_drive: break_even(&one, &other)?,
            multipliers: basis.multipliers,
            figures,
        })
    }
}

/// More is better.
fn more(what: impl Into<String>, first: f64, second: f64, errata: &[&'static str]) -> Figure {
    Figure { what: what.into(), first, second, gain: second / first, errata: errata.to_vec() }
}

/// Less is better.
fn less(what: impl Into<String>, first: f64, second: f64, errata: &[&'static str]) -> Figure {
    Figure { what: what.into(), first, second, gain: first / second, errata: errata.to_vec() }
}

fn rates(one: &Side<'_>, other: &Side<'_>, basis: &Basis) -> Vec<Figure> {
    let mb = ByteRate::mb_per_second;
    let mut figures = vec![
        more("read MB/s, measured", mb(one.read), mb(other.read), &[]),
        more("write MB/s, measured", mb(one.write), mb(other.write), &[]),
        more("read MB/s, normalised", mb(basis.read), mb(other.read), &[]),
        more("write MB/s, normalised", mb(basis.write), mb(other.write), &[]),
    ];
    if let (Some(one), Some(other)) = (one.latencies, other.latencies) {
        figures.push(less("read latency, ms", one.0.base() * 1e3, other.0.base() * 1e3, &[]));
        figures.push(less("write latency, ms", one.1.base() * 1e3, other.1.base() * 1e3, &["X08"]));
    }
    figures
}

fn per_tb(other: &Side<'_>, basis: &Basis) -> Vec<Figure> {
    let usable = other.usable_of_node() * other.nodes();
    let of = |rate: ByteRate, usable: Bytes| rate.mb_per_second() / usable.tb();
    let errata = ["X02", "X03", "X05"];
    vec![
        more(
            "read MB/s for each usable TB, normalised",
            of(basis.read, basis.usable),
            of(other.read, usable),
            &errata,
        ),
        more(
            "write MB/s for each usable TB, normalised",
            of(basis.write, basis.usable),
            of(other.write, usable),
            &errata,
        ),
    ]
}

fn powers(one: &Side<'_>, other: &Side<'_>, basis: &Basis) -> Vec<Figure> {
    let (Some(first), Some(second)) = (one.power(), other.power()) else { return Vec::new() };
    let usable = |side: &Side<'_>| side.usable_of_node() * side.nodes();
    let per_gb = |power, rate| energy::per_byte(power, rate).joules_per_gb();
    let protected = one.write * basis.multipliers[1];
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
        less("J/GB read, measured", per_gb(first.0, one.read), per_gb(second.0, other.read), &[]),
        less(
            "J/GB written, measured",
            per_gb(first.1, one.write),
            per_gb(second.1, other.write),
            &raw,
        ),
        less(
            "J/GB written, normalised",
            per_gb(first.1, protected),
            per_gb(second.1, other.write),
            &raw,
        ),
    ]
}

fn prices(one: &Side<'_>, other: &Side<'_>) -> Vec<Figure> {
    let (Some((first, _)), Some((second, _))) = (one.price(), other.price()) else {
        return Vec::new();
    };
    let raw = |price, side: &Side<'_>| cost::per_tb(price, side.built.raw_of_node());
    let usable = |price, side: &Side<'_>| cost::per_tb(price, side.usable_of_node());
    vec![
        less("price of a node", first.base(), second.base(), &[]),
        less("price of a raw TB", raw(first, one), raw(second, other), &[]),
        less("price of a usable TB", usable(first, one), usable(second, other), &["X05"]),
    ]
}

fn parity(one: &Side<'_>, other: &Side<'_>, basis: &Basis) -> Result<Vec<Parity>> {
    let usable = other.usable_of_node() * other.nodes();
    let nodes = other.nodes();
    let read = normalisation::nodes_for_rate(other.read, basis.read / nodes)?;
    let write = normalisation::nodes_for_rate(other.write, basis.write / nodes)?;
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

/// The drive price of `other` at which a usable TB costs what it does of `one` (F7).
fn break_even(one: &Side<'_>, other: &Side<'_>) -> Result<Option<Money>> {
    let (Some((first, _)), Some((_, rest))) = (one.price(), other.price()) else { return Ok(None) };
    let per_tb = cost::per_tb(first, one.usable_of_node());
    let drive = cost::break_even_drive(per_tb, other.usable_of_node(), rest, other.built.drives())?;
    Ok((drive > Money::ZERO).then_some(drive))
}
