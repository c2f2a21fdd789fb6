//! `varve plan` itself: demand and policy from flags or a workload, the search, and its answer.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};
use varve_client::{Failure, Result};
use varve_tool_plan::catalogue::{Catalogue, Class, Workload};
use varve_tool_plan::report;
use varve_tool_plan::{
    ByteRate, Bytes, Choice, Demand, DemandPlan, DemandPolicy, FailureDomain, OpRate, Protection,
    Rank, Seconds, Share,
};

use super::baseline::add_measured;
use super::catalogue::Catalogues;
use super::form::{OutputForm, refused};
use super::preset::{ShapeOptions, add_preset};

/// What to search for.
#[derive(Args, Debug)]
pub(crate) struct Search {
    #[command(flatten)]
    catalogues: Catalogues,

    /// What `varve bench run` measured on a cluster of the catalogue, CLUSTER=RESULT, instead of figures of sources and
    /// drives; may be repeated
    #[arg(long, value_name = "CLUSTER=RESULT")]
    measured: Vec<String>,

    /// Kind of node to consider, instead of all of the catalogue; may be repeated
    #[arg(long = "node", value_name = "NAME")]
    nodes: Vec<String>,

    /// What alternatives are ranked by
    #[arg(long, value_parser = ranks(), default_value = "cost", value_name = "FIGURE")]
    rank: Rank,

    /// Print configuration of the best alternative instead of the plan
    #[arg(long, value_enum, value_name = "SYSTEM", conflicts_with_all = ["json", "format"])]
    config: Option<System>,

    #[command(flatten)]
    form: OutputForm,
    // Last, since their headings hold for all that follows.
    #[command(flatten)]
    demand: DemandArgs,
    #[command(flatten)]
    policy: PolicyArgs,
}

/// Whose configuration to print.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum System {
    /// ceph.conf, and the commands that create the pool
    Ceph,
    /// varve.toml of one node, or of a machine in front of Ceph where there are several copies
    Varve,
}

/// What is asked of the cluster.
#[derive(Args, Debug)]
#[command(next_help_heading = "Demand")]
struct DemandArgs {
    /// Shape of the workload, such as vdi: of `varve plan catalogue`, or a preset of `varve bench list`
    #[arg(long, value_name = "NAME")]
    workload: Option<String>,

    /// What the cluster is for: it says how large a part of it a node may be
    #[arg(long, value_parser = classes(), value_name = "CLASS")]
    class: Option<Class>,

    /// Data to be held
    #[arg(long, value_name = "SIZE")]
    usable: Option<Bytes>,

    /// By how much they grow in a year
    #[arg(long, value_name = "SHARE")]
    growth: Option<Share>,

    /// Operations a second
    #[arg(long, value_name = "NUMBER")]
    iops: Option<OpRate>,

    /// Virtual machines
    #[arg(long, value_name = "NUMBER")]
    machines: Option<u64>,

    /// Operations a second of a virtual machine [default: 100]
    #[arg(long, value_name = "NUMBER")]
    iops_per_machine: Option<OpRate>,

    /// Size of an operation or object [default: 4KiB]
    #[arg(long, value_name = "SIZE")]
    block: Option<Bytes>,

    /// Part of the operations that read [default: 70%]
    #[arg(long, value_name = "SHARE")]
    reads: Option<Share>,

    /// Bound on the latency
    #[arg(long, value_name = "TIME")]
    latency: Option<Seconds>,

    /// Data read a second, beside the operations
    #[arg(long, value_name = "RATE")]
    read_rate: Option<ByteRate>,

    /// Data written a second, beside the operations
    #[arg(long, value_name = "RATE")]
    write_rate: Option<ByteRate>,

    /// Viewers who each read a video segment every segment time
    #[arg(long, value_name = "NUMBER")]
    readers: Option<u64>,

    /// Recordings that each write one
    #[arg(long, value_name = "NUMBER")]
    recorders: Option<u64>,

    /// Time of a video segment [default: 8s]
    #[arg(long, value_name = "TIME")]
    segment_time: Option<Seconds>,

    /// Data written on a day, for endurance [default: what the rates give all day]
    #[arg(long, value_name = "SIZE")]
    written_per_day: Option<Bytes>,

    /// Data of a job, for its energy [default: 1TB]
    #[arg(long, value_name = "SIZE")]
    job: Option<Bytes>,
}

/// How it is to be met.
#[derive(Args, Debug)]
#[command(next_help_heading = "Policy")]
struct PolicyArgs {
    /// Copies, such as 3, or data and parity strips, such as 4+2; several are compared [default: that of workload or
    /// class]
    #[arg(long, value_name = "PROTECTION", value_delimiter = ',')]
    protect: Vec<Protection>,

    /// Where copies must not meet [default: node]
    #[arg(long, value_parser = domains(), value_name = "DOMAIN")]
    failure_domain: Option<FailureDomain>,

    /// Part of the usable capacity that may be filled [default: that of the workload, else 60%]
    #[arg(long, value_name = "SHARE")]
    fill: Option<Share>,

    /// Largest part of the cluster in one node [default: 10%, of capacity clusters 15%]
    #[arg(long, value_name = "SHARE")]
    node_share: Option<Share>,

    /// Logical ÷ stored bytes, by deduplication and compression [default: 1]
    #[arg(long, value_name = "RATIO")]
    reduction: Option<f64>,

    /// How long the cluster is to serve, grow and last [default: 5y]
    #[arg(long, value_name = "TIME")]
    time: Option<Seconds>,

    /// Bytes written to a drive for each byte of its share [default: 1]
    #[arg(long, value_name = "RATIO")]
    write_amplification: Option<f64>,

    /// Writes by drives' own figures: which part of them counts [default: 0.533; IDF16 quotes 0.6]
    #[arg(long, value_name = "RATIO")]
    write_efficiency: Option<f64>,

    /// Time between syncs of journals [default: 5s]
    #[arg(long, value_name = "TIME")]
    sync: Option<Seconds>,
}

impl Search {
    pub(crate) fn run(self) -> Result<String> {
        let mut catalogue = self.catalogues.read()?;
        add_measured(&mut catalogue, &self.measured)?;
        if let Some(name) = &self.demand.workload {
            let asked = ShapeOptions { block: self.demand.block, reads: self.demand.reads };
            add_preset(&mut catalogue, name, asked)?;
        }
        let workload = self.demand.workload(&catalogue)?;
        let demand = self.demand.apply(workload);
        let policy = self.policy.apply(workload, demand.class);
        let choice = Choice { nodes: self.nodes, rank: self.rank };
        let plan = DemandPlan::search(&catalogue, demand, policy, &choice).map_err(refused)?;
        let Some(best) = plan.layouts.first() else { return Err(unmet(&plan)) };
        match self.config {
            Some(System::Ceph) => Ok(report::ceph(best)),
            Some(System::Varve) => Ok(report::varve(best)),
            None => self.form.print(&plan, &report::of_plan(&plan)),
        }
    }
}

fn unmet(plan: &DemandPlan) -> Failure {
    let mut what = "no kind of node meets the demand".to_owned();
    for rejected in &plan.rejected {
        what.push_str(&format!(
            "\n  {}, {}: {}",
            rejected.node, rejected.protection, rejected.reason
        ));
    }
    Failure::new(what)
        .hint("add what is known of your hardware with --catalogue FILE (docs/plan.md)")
}

impl DemandArgs {
    fn workload<'a>(&self, catalogue: &'a Catalogue) -> Result<Option<&'a Workload>> {
        let Some(name) = &self.workload else { return Ok(None) };
        let found = catalogue.workloads.get(name);
        let missing = || {
            let names: Vec<&str> = catalogue.workloads.keys().map(String::as_str).collect();
            Failure::misuse(format!("no workload `{name}`"))
                .hint(format!("one of {}, or a preset of `varve bench list`", names.join(", ")))
        };
        found.map(Some).ok_or_else(missing)
    }

    fn apply(&self, workload: Option<&Workload>) -> Demand {
        let base = workload.map_or_else(Demand::default, Demand::of);
        Demand {
            class: self.class.unwrap_or(base.class),
            usable_bytes: self.usable.unwrap_or(base.usable_bytes),
            growth_per_year: self.growth.unwrap_or(base.growth_per_year),
            operations_per_second: self.iops.unwrap_or(base.operations_per_second),
            machines: self.machines.unwrap_or(base.machines),
            operations_per_machine: self.iops_per_machine.unwrap_or(base.operations_per_machine),
            block_bytes: self.block.unwrap_or(base.block_bytes),
            read_share: self.reads.unwrap_or(base.read_share),
            latency_seconds: self.latency.or(base.latency_seconds),
            read_bytes_per_second: self.read_rate.unwrap_or(base.read_bytes_per_second),
            write_bytes_per_second: self.write_rate.unwrap_or(base.write_bytes_per_second),
            readers: self.readers.unwrap_or(base.readers),
            recorders: self.recorders.unwrap_or(base.recorders),
            segment_seconds: self.segment_time.unwrap_or(base.segment_seconds),
            written_per_day_bytes: self.written_per_day.or(base.written_per_day_bytes),
            job_bytes: self.job.unwrap_or(base.job_bytes),
            errata: base.errata,
        }
    }
}

impl PolicyArgs {
    fn apply(&self, workload: Option<&Workload>, class: Class) -> DemandPolicy {
        let base = workload.map_or_else(|| DemandPolicy::of_class(class), DemandPolicy::of);
        let own = (!self.protect.is_empty()).then(|| self.protect.clone());
        DemandPolicy {
            protections: own.unwrap_or(base.protections),
            failure_domain: self.failure_domain.unwrap_or(base.failure_domain),
            fill: self.fill.unwrap_or(base.fill),
            node_share_max: self.node_share.or(base.node_share_max),
            reduction_ratio: self.reduction.unwrap_or(base.reduction_ratio),
            private_copy: base.private_copy,
            time_seconds: self.time.unwrap_or(base.time_seconds),
            write_amplification: self.write_amplification.unwrap_or(base.write_amplification),
            write_efficiency: self.write_efficiency.unwrap_or(base.write_efficiency),
            operations_per_core: base.operations_per_core,
            sync_seconds: self.sync.unwrap_or(base.sync_seconds),
            rebuild_network_share: base.rebuild_network_share,
        }
    }
}

fn ranks() -> impl TypedValueParser<Value = Rank> {
    let name = |rank: &(Rank, &'static str)| rank.1;
    PossibleValuesParser::new(Rank::ALL.iter().map(name)).map(|word| {
        let found = Rank::ALL.iter().find(|(_, name)| *name == word);
        found.map_or_else(Rank::default, |(rank, _)| *rank)
    })
}

fn classes() -> impl TypedValueParser<Value = Class> {
    const ALL: [Class; 3] = [Class::Iops, Class::Bandwidth, Class::Capacity];
    PossibleValuesParser::new(ALL.map(Class::name))
        .map(|word| ALL.into_iter().find(|class| class.name() == word).unwrap_or_default())
}

fn domains() -> impl TypedValueParser<Value = FailureDomain> {
    PossibleValuesParser::new(["node", "drive"]).map(|word| match word.as_str() {
        "drive" => FailureDomain::Drive,
        _ => FailureDomain::Node,
    })
}
