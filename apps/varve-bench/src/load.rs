//! The load of a report, for programs and in words.

use serde::{Deserialize, Serialize};
use varve_tool_bench::cosbench::Verb;
use varve_tool_bench::fio::FioRun;
use varve_tool_bench::{AccessPattern, LoadSpec, Mixture};
use varve_types::ByteCount;

use super::crowd::ObjectsPlan;
use super::objects::kind;
use super::plan::{LoadTarget, RunPlan};

/// What was done to the target. Loads that differ in nothing can be compared.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct Load {
    block_bytes: usize,
    /// Share of operations that read.
    pub read_percent: u8,
    pattern: String,
    /// Jobs side by side.
    pub jobs: u32,
    depth: u32,
    pub(crate) rate_per_second: Option<f64>,
    durable: bool,
    verify: bool,
    zero_percent: u8,
    duplicate_percent: u8,
    compression_ratio: f64,
    seed: u64,
    /// Operations of several sorts, instead of what block, reads, pattern, durability and compressibility say.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    mixture: Vec<SortSpec>,
    /// What is done to objects, instead of blocks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub objects: Option<ObjectsLoad>,
    /// Options of fio that this program has no word for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    options: Vec<String>,
    /// Setting of the measured system that it was done under, as the user named it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub setting: Option<String>,
    /// Hosts that did it together; jobs and rate are those of all.
    #[serde(default = "one_host", skip_serializing_if = "is_one_host")]
    hosts: u32,
}

/// Operations of one sort.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
struct SortSpec {
    percent: u8,
    kind: String,
    block_bytes: usize,
    pattern: String,
    durable: bool,
    compression_ratio: f64,
}

impl SortSpec {
    fn all(mixture: &Mixture) -> Vec<Self> {
        let sort = |part: &varve_tool_bench::MixturePart| Self {
            percent: part.percent,
            kind: if part.is_read { "read" } else { "write" }.to_owned(),
            block_bytes: part.bytes,
            pattern: pattern(part.pattern),
            durable: part.durable,
            compression_ratio: part.compression_ratio,
        };
        mixture.parts().iter().map(sort).collect()
    }

    fn text(&self) -> String {
        let Self { percent, kind, pattern, .. } = self;
        let durable = if self.durable { "durable " } else { "" };
        let ratio = match self.compression_ratio {
            1.0 => String::new(),
            ratio => format!(" {ratio}:1"),
        };
        let size = ByteCount(self.block_bytes as u64);
        format!("{percent} % {durable}{kind}s of {size} {pattern}{ratio}")
    }
}

/// What is done to the objects of a bucket.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct ObjectsLoad {
    /// Objects that are written before.
    prepared: u64,
    /// Operations by their shares.
    operations: Vec<ObjectsOperation>,
}

/// One of them; numbers and sizes in bytes are COSBench's selectors.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
struct ObjectsOperation {
    kind: String,
    percent: u64,
    containers: String,
    objects: String,
    /// Of what is written.
    sizes: Option<String>,
}

impl ObjectsLoad {
    fn of(plan: &ObjectsPlan) -> Self {
        let operations = plan.main.operations.iter().map(|operation| ObjectsOperation {
            kind: kind(operation.verb).to_owned(),
            percent: operation.ratio,
            containers: operation.containers.to_string(),
            objects: operation.objects.to_string(),
            sizes: (operation.verb == Verb::Write).then(|| operation.sizes.to_string()),
        });
        Self { prepared: plan.prepared.0, operations: operations.collect() }
    }

    fn text(&self) -> String {
        let operations = self.operations.iter().map(|one| {
            let ObjectsOperation { kind, percent, .. } = one;
            let sizes = one.sizes.as_ref().map(|sizes| format!(" of {sizes} bytes"));
            format!("{percent} % {kind}s{}", sizes.unwrap_or_default())
        });
        let operations: Vec<String> = operations.collect();
        format!("{}; {} objects", operations.join(", "), self.prepared)
    }
}

impl Load {
    /// The load of a plan.
    pub(crate) fn of_plan(plan: &RunPlan) -> Self {
        let setting = plan.setting.as_ref().map(|setting| setting.name.clone());
        let load = Self { setting, ..Self::of(&plan.load) };
        match &plan.goal {
            LoadTarget::Disk(_)
            | LoadTarget::Engine(_)
            | LoadTarget::Rados(_)
            | LoadTarget::Volumes(_) => load,
            LoadTarget::Fio(goal) => {
                Self { options: vec![format!("by fio ioengine={}", goal.engine)], ..load }
            }
            LoadTarget::Objects(plan) => {
                Self { block_bytes: 0, objects: Some(ObjectsLoad::of(plan)), ..load }
            }
        }
    }

    pub(crate) fn of(spec: &LoadSpec) -> Self {
        Self {
            block_bytes: spec.block_bytes,
            read_percent: spec.read_percent,
            pattern: pattern(spec.pattern),
            jobs: spec.jobs,
            depth: spec.depth,
            rate_per_second: spec.rate,
            durable: spec.durable,
            verify: spec.verify,
            zero_percent: spec.data.zero_percent,
            duplicate_percent: spec.data.duplicate_percent,
            compression_ratio: spec.data.compression_ratio,
            seed: spec.seed,
            mixture: spec.mixture.iter().flat_map(SortSpec::all).collect(),
            objects: None,
            options: Vec::new(),
            setting: None,
            hosts: 1,
        }
    }

    /// The load of what fio ran.
    pub(crate) fn of_fio(run: &FioRun) -> Self {
        Self { options: run.options.clone(), ..Self::of(&run.job.load) }
    }

    /// Those of several hosts as one; none when they differ in more than jobs, rate and seed.
    pub(crate) fn merged(loads: &[&Self]) -> Option<Self> {
        let alike = |load: &Self| Self {
            jobs: 0,
            rate_per_second: None,
            seed: 0,
            hosts: 0,
            ..load.clone()
        };
        let first = loads.first()?;
        let has_rate = |load: &Self| load.rate_per_second.is_some();
        let is_alike =
            |load: &Self| alike(load) == alike(first) && has_rate(load) == has_rate(first);
        loads.iter().all(|load| is_alike(load)).then(|| Self {
            jobs: loads.iter().map(|load| load.jobs).sum(),
            rate_per_second: loads.iter().map(|load| load.rate_per_second).sum(),
            hosts: loads.iter().map(|load| load.hosts).sum(),
            ..(*first).clone()
        })
    }

    /// Operations under way of all jobs at most.
    pub fn depth(&self) -> u64 {
        u64::from(self.jobs) * u64::from(self.depth)
    }

    /// Setting of a load that is the same but for it.
    pub(crate) fn setting_beside<'a>(&self, other: &'a Self) -> Option<&'a str> {
        let without = |load: &Self| Self { setting: None, ..load.clone() };
        let other_setting = other.setting.as_deref().filter(|_| other.setting != self.setting)?;
        (without(self) == without(other)).then_some(other_setting)
    }

    /// Whether data that it writes are those of another load.
    pub(crate) fn writes_what(&self, other: &Self) -> bool {
        self.read_percent < 100 && self.objects.is_none() && self.seed == other.seed
    }

    /// One line.
    pub fn text(&self) -> String {
        let setting = self.setting.as_ref().map(|name| format!(", under {name}"));
        self.without_setting() + &setting.unwrap_or_default()
    }

    pub(super) fn without_setting(&self) -> String {
        let pace = match self.rate_per_second {
            None => "as fast as answered".to_owned(),
            Some(rate) if rate < 1.0 => format!("{rate} operations/s"),
            Some(rate) => format!("{} operations/s", (rate * 100.0).round() / 100.0),
        };
        let hosts = match self.hosts {
            1 => String::new(),
            hosts => format!(" of {hosts} clients"),
        };
        let what = self.what();
        if self.objects.is_some() {
            let connections = self.jobs * self.depth;
            return format!("{what}, {connections} connections{hosts}, {pace}");
        }
        let jobs = if self.jobs == 1 { "1 job".to_owned() } else { format!("{} jobs", self.jobs) };
        let options = if self.options.is_empty() {
            String::new()
        } else {
            format!(", {}", self.options.join(" "))
        };
        format!("{what}, {jobs} × {} under way{hosts}, {pace}{options}", self.depth)
    }

    /// What its operations are, however many there are.
    fn what(&self) -> String {
        if let Some(objects) = &self.objects {
            objects.text()
        } else if self.mixture.is_empty() {
            let size = ByteCount(self.block_bytes as u64);
            format!("{size} {}, {} % reads", self.pattern, self.read_percent)
        } else {
            self.mixture.iter().map(SortSpec::text).collect::<Vec<_>>().join(", ")
        }
    }

    /// What loads of one sweep have in common.
    pub(super) fn swept(&self) -> String {
        let setting = self.setting.as_ref().map(|name| format!(", under {name}"));
        self.what() + &setting.unwrap_or_default()
    }

    /// What orders them: operations under way, and a second.
    pub(super) fn amount(&self) -> (u32, f64) {
        (self.jobs * self.depth, self.rate_per_second.unwrap_or(0.0))
    }

    /// Bytes of an operation and whether all of them read; none of mixes, of objects and of loads with a rate, which is
    /// no limit.
    pub fn baseline(&self) -> Option<(usize, bool)> {
        let is_pure = matches!(self.read_percent, 0 | 100);
        let is_whole = self.objects.is_none() && self.mixture.is_empty();
        let is_limit = self.rate_per_second.is_none();
        (is_pure && is_whole && is_limit).then_some((self.block_bytes, self.read_percent == 100))
    }

    /// What is written, in one line.
    pub fn data(&self) -> String {
        let durable = if self.durable { "durable, " } else { "" };
        format!(
            "{durable}{} % zeros, {} % duplicates, compressible {}:1",
            self.zero_percent, self.duplicate_percent, self.compression_ratio
        )
    }
}

fn one_host() -> u32 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn is_one_host(hosts: &u32) -> bool {
    *hosts == 1
}

/// A load in words.
pub(super) fn load_text(spec: &LoadSpec) -> String {
    Load::of(spec).text()
}

/// A pattern as it is asked for.
pub(super) fn pattern(pattern: AccessPattern) -> String {
    match pattern {
        AccessPattern::Sequential => "sequential".to_owned(),
        AccessPattern::Uniform => "random".to_owned(),
        AccessPattern::Zipf { theta } => format!("zipf:{theta}"),
        AccessPattern::HotCold { access_percent, block_percent } => {
            format!("hot:{access_percent}/{block_percent}")
        }
    }
}
