//! Small questions of `varve plan`: placement groups, journals, endurance, cost, comparison, a known cluster.

use clap::Args;
use serde::Serialize;
use varve_client::{Failure, Result};
use varve_tool_plan::endurance::{Warranty, Wear};
use varve_tool_plan::placement_groups::PlacementGroups;
use varve_tool_plan::report::{self, Document};
use varve_tool_plan::{
    Amount, Assessment, ByteRate, Bytes, Comparison, CostBasis, DemandPlan, DemandPolicy,
    GivenCluster, Layout, Need, Protection, Seconds, Share, journal, placement_groups, short,
};

use super::catalogue::Catalogues;
use super::form::{OutputForm, refused};

/// Placement groups of a Ceph pool
#[derive(Args, Debug)]
pub(crate) struct Pg {
    /// OSDs of the cluster
    #[arg(long, value_name = "NUMBER")]
    osds: u64,

    /// Copies, such as 3, or data and parity strips, such as 4+2
    #[arg(long, value_name = "PROTECTION")]
    size: Protection,

    /// The pool's part of the cluster's data
    #[arg(long, value_name = "SHARE", default_value = "100%")]
    share: Share,

    #[command(flatten)]
    form: OutputForm,
}

impl Pg {
    pub(crate) fn run(self) -> Result<String> {
        let groups = placement_groups::of_pool(self.osds, self.size, self.share.base());
        let groups = groups.map_err(refused)?;
        let width = u64::from(self.size.width());
        let unplaced = (self.osds < width).then(|| {
            format!("{} OSDs cannot hold {}: no group can be placed whole", self.osds, self.size)
        });
        let answer = PgAnswer { groups, warnings: unplaced.into_iter().collect() };
        let facts = vec![
            ("formula", groups.formula.to_string()),
            ("placement groups", groups.count.to_string()),
            ("an OSD holds", short(groups.per_osd)),
        ];
        let document = Document::new(format!("{} OSDs, {}", self.osds, self.size)).facts(facts);
        self.form.print(&answer, &document.notes("Warnings", answer.warnings.clone()))
    }
}

#[derive(Serialize)]
struct PgAnswer {
    #[serde(flatten)]
    groups: PlacementGroups,
    warnings: Vec<String>,
}

/// Journal of a Ceph OSD
#[derive(Args, Debug)]
pub(crate) struct Journal {
    /// Rate of the data drive
    #[arg(long, value_name = "RATE")]
    disk: ByteRate,

    /// Rate of the network; 10 Gbit/s are 1250MB/s
    #[arg(long, value_name = "RATE")]
    net: ByteRate,

    /// Time between syncs
    #[arg(long, value_name = "TIME", default_value = "5s")]
    sync: Seconds,

    /// OSDs of a node, to count its journal drives
    #[arg(long, value_name = "NUMBER", requires = "ratio")]
    osds: Option<u64>,

    /// OSDs that a journal drive may serve: 12 or 16 HDDs on an NVMe drive, 4 or 5 on a SATA SSD
    #[arg(long, value_name = "NUMBER", requires = "osds")]
    ratio: Option<f64>,

    #[command(flatten)]
    form: OutputForm,
}

#[derive(Serialize)]
struct JournalAnswer {
    size_bytes: Bytes,
    covered_bytes_per_second: ByteRate,
    drives: Option<Need>,
}

impl Journal {
    pub(crate) fn run(self) -> Result<String> {
        journal::check(self.disk, self.net, self.sync).map_err(refused)?;
        let size = journal::size(self.disk, self.net, self.sync);
        let counted = self.osds.zip(self.ratio);
        let drives = counted.map(|(osds, ratio)| journal::drives(osds, ratio)).transpose();
        let drives = drives.map_err(refused)?;
        let covered = journal::covered_rate(size, self.sync);
        // Tenths, and no commas: the number goes into a configuration.
        let megabytes = (size.base() / 1e5).round() / 10.0;
        let mut facts =
            vec![("size", format!("{megabytes} MB")), ("suffices up to", covered.to_string())];
        facts.extend(
            drives
                .map(|need| ("journal drives", format!("{} ({})", need.count, short(need.exact)))),
        );
        let answer = JournalAnswer { size_bytes: size, covered_bytes_per_second: covered, drives };
        let document = Document::new("Journal of an OSD").facts(facts);
        let document = if drives.is_some() { document.errata(["X10"]) } else { document };
        self.form.print(&answer, &document)
    }
}

/// Endurance of flash drives
#[derive(Args, Debug)]
pub(crate) struct Endurance {
    /// Capacity of a drive
    #[arg(long, value_name = "SIZE", required_unless_present = "drive", requires = "drive_writes")]
    capacity: Option<Bytes>,

    /// Whole drive writes a day under warranty
    #[arg(long, value_name = "NUMBER", requires = "capacity")]
    drive_writes: Option<f64>,

    /// Time of the warranty
    #[arg(long, value_name = "TIME", default_value = "5y")]
    warranty: Seconds,

    /// Drive of the catalogue, instead of capacity and drive writes
    #[arg(long, value_name = "NAME", conflicts_with = "capacity")]
    drive: Option<String>,

    /// Data that clients write on a day
    #[arg(long, value_name = "SIZE")]
    written_per_day: Option<Bytes>,

    /// Copies, such as 3, or data and parity strips, such as 4+2
    #[arg(long, value_name = "PROTECTION", default_value = "3")]
    protect: Protection,

    /// Bytes written to a drive for each byte of its share
    #[arg(long, value_name = "RATIO", default_value_t = 1.0)]
    write_amplification: f64,

    /// 2 where journals lie on the same drives, else 1
    #[arg(long, value_name = "RATIO", default_value_t = 1.0)]
    journal_factor: f64,

    /// Drives of the cluster
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    drives: u64,

    #[command(flatten)]
    catalogues: Catalogues,
    #[command(flatten)]
    form: OutputForm,
}

#[derive(Serialize)]
struct EnduranceAnswer {
    per_day_bytes: Bytes,
    total_bytes: Bytes,
    taken_per_drive_and_day_bytes: Option<Bytes>,
    life_years: Option<f64>,
}

impl Endurance {
    pub(crate) fn run(self) -> Result<String> {
        let warranty = self.warranty()?;
        warranty.check().map_err(refused)?;
        let wear = Wear {
            client_per_day: self.written_per_day.unwrap_or(Bytes::ZERO),
            overhead: self.protect.overhead(),
            write_amplification: self.write_amplification,
            journal_factor: self.journal_factor,
            drives: self.drives,
        };
        let taken = wear.per_drive_and_day().map_err(refused)?;
        let life = wear.lifetime(warranty).map_err(refused)?;
        let taken = self.written_per_day.map(|_| taken);
        let answer = EnduranceAnswer {
            per_day_bytes: warranty.per_day(),
            total_bytes: warranty.total(),
            taken_per_drive_and_day_bytes: taken,
            life_years: Some(life.years()).filter(|years| years.is_finite()),
        };
        let mut facts = vec![
            ("a day", warranty.per_day().to_string()),
            ("in all", warranty.total().to_string()),
        ];
        facts.extend(taken.map(|taken| ("a drive takes a day", taken.to_string())));
        facts.extend(answer.life_years.map(|years| ("lasts", format!("{} years", short(years)))));
        self.form.print(&answer, &Document::new("Endurance of a drive").facts(facts))
    }

    fn warranty(&self) -> Result<Warranty> {
        let Some(name) = &self.drive else {
            let (capacity, writes) = self.capacity.zip(self.drive_writes).ok_or_else(|| {
                Failure::misuse("a drive is not described")
                    .hint("give --capacity and --drive-writes, or --drive")
            })?;
            let years = self.warranty.years();
            return Ok(Warranty { capacity, drive_writes_per_day: writes, years });
        };
        let catalogue = self.catalogues.read()?;
        let drive = catalogue.drives.get(name).ok_or_else(|| {
            Failure::misuse(format!("no drive `{name}`")).hint("`varve plan catalogue` lists them")
        })?;
        let known = drive.drive_writes_per_day.zip(drive.warranty).ok_or_else(|| {
            Failure::misuse(format!("the endurance of {name} is not known"))
                .hint("add drive_writes_per_day and warranty in a --catalogue")
        })?;
        Ok(Warranty {
            capacity: drive.capacity,
            drive_writes_per_day: known.0,
            years: known.1.years(),
        })
    }
}

/// What nodes of one kind hold, take and cost
#[derive(Args, Debug)]
pub(crate) struct Cost {
    /// Kind of node
    #[arg(long, value_name = "NAME")]
    node: String,

    /// How many
    #[arg(long, value_name = "NUMBER")]
    nodes: u64,

    /// Data drives in each [default: the fewest that the node takes]
    #[arg(long, value_name = "NUMBER")]
    drives: Option<u64>,

    /// Copies, such as 3, or data and parity strips, such as 4+2
    #[arg(long, value_name = "PROTECTION", default_value = "3")]
    protect: Protection,

    /// How long they run
    #[arg(long, value_name = "TIME", default_value = "5y")]
    time: Seconds,

    #[command(flatten)]
    catalogues: Catalogues,
    #[command(flatten)]
    form: OutputForm,
}

#[derive(Serialize)]
struct CostAnswer {
    #[serde(flatten)]
    layout: Layout,
    cost_basis: CostBasis,
}

impl Cost {
    pub(crate) fn run(self) -> Result<String> {
        let catalogue = self.catalogues.read()?;
        let given = GivenCluster {
            node: self.node,
            nodes: self.nodes,
            drives: self.drives,
            protection: self.protect,
        };
        let policy = DemandPolicy { time_seconds: self.time, ..DemandPolicy::default() };
        let layout = DemandPlan::evaluate(&catalogue, &given, &policy).map_err(refused)?;
        let cost_basis = CostBasis::of(&catalogue.prices);
        let document = report::of_layout(&layout, &cost_basis);
        self.form.print(&CostAnswer { layout, cost_basis }, &document)
    }
}

/// Two measured clusters beside each other, normalised to the same nodes and protection
#[derive(Args, Debug)]
pub(crate) struct Compare {
    /// Cluster whose figures are normalised
    first: String,

    /// Cluster to compare with
    second: String,

    #[command(flatten)]
    catalogues: Catalogues,
    #[command(flatten)]
    form: OutputForm,
}

impl Compare {
    pub(crate) fn run(self) -> Result<String> {
        let catalogue = self.catalogues.read()?;
        let comparison = Comparison::of(&catalogue, &self.first, &self.second).map_err(refused)?;
        self.form.print(&comparison, &report::of_comparison(&comparison))
    }
}

/// What a cluster of the catalogue holds, where its limits are, and which rules it breaks
#[derive(Args, Debug)]
pub(crate) struct ClusterQuestion {
    /// Its name, such as idf16
    name: String,

    #[command(flatten)]
    catalogues: Catalogues,
    #[command(flatten)]
    form: OutputForm,
}

impl ClusterQuestion {
    pub(crate) fn run(self) -> Result<String> {
        let catalogue = self.catalogues.read()?;
        let standing = Assessment::of(&catalogue, &self.name).map_err(refused)?;
        self.form.print(&standing, &report::of_standing(&standing))
    }
}
