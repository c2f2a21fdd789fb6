//! Workloads of the published papers under names of their own, with exactly their parameters.

mod block;
mod later;
mod metric;
mod objects;
mod segments;

use crate::access::AccessPattern;
use crate::load::Mixture;
pub use crate::preset::metric::Metric;
pub use crate::preset::segments::Segments;

/// A workload of a source.
#[derive(Clone, PartialEq, Debug)]
pub struct Preset {
    /// Its name.
    pub id: String,
    /// One line on what it is.
    pub what: String,
    /// Where it comes from: S0 to S4 are the papers of `docs/plan.md`, "Sources", from the first to the last; others
    /// are tools.
    pub source: &'static str,
    /// Protection and fill of the system under test, which the load cannot bring about.
    pub setting: &'static str,
    /// What the source does not say and is taken to be so.
    pub assumed: Vec<&'static str>,
    /// What to look at, and what the source measured.
    pub reference: &'static str,
    /// What it is run for.
    pub metric: Metric,
    /// What it does.
    pub work: PresetWork,
}

/// What a preset does.
#[derive(Clone, PartialEq, Debug)]
pub enum PresetWork {
    /// Loads on a block target, one after another.
    Block(BlockWork),
    /// A workload of COSBench on an S3 server.
    Objects {
        /// COSBench's XML, without endpoint and keys.
        xml: String,
        /// Segments of video that each worker reads, where it is a reader of such.
        segments: Option<Segments>,
    },
    /// Volumes of a daemon, each through its whole life.
    Lives(Lives),
    /// Something that cannot be run yet.
    Needs {
        /// What is missing.
        what: &'static str,
        /// Parameters as the source gives them.
        parameters: &'static str,
    },
}

/// Loads on a block target.
#[derive(Clone, PartialEq, Debug)]
pub struct BlockWork {
    /// Bytes of the target that are used; without it all.
    pub size_bytes: Option<u64>,
    /// Whether each block is written once before.
    pub fill: bool,
    /// Time before each measurement, in s.
    pub ramp_s: u64,
    /// Time of each measurement, in s.
    pub duration_s: u64,
    /// What it is run on, in a few words.
    pub needs: &'static str,
    /// Client processes of the source, which have the jobs among them in equal parts.
    pub clients: u32,
    /// Bytes of a written block ÷ bytes that LZ4 makes of it, where the workload says.
    pub compression_ratio: Option<f64>,
    /// One after another.
    pub steps: Vec<PresetStep>,
}

/// One load of a preset.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct PresetStep {
    /// Bytes of an operation.
    pub block_bytes: usize,
    /// The size as the source writes it, where that may mean something else.
    pub block_in_source: &'static str,
    /// Share of operations that read.
    pub read_percent: u8,
    /// How blocks are chosen.
    pub pattern: AccessPattern,
    /// Jobs, each with an equal part of the target: what the source calls volumes, or workers.
    pub jobs: u32,
    /// Operations under way of each job.
    pub depth: u32,
    /// Operations a second of all jobs.
    pub rate: Option<f64>,
    /// Operations of several sorts, instead of size, reads and pattern.
    pub mixture: Option<Mixture>,
    /// What is done with the volumes of a daemon meanwhile, each of which a job has for itself.
    pub volumes: Option<VolumeWork>,
}

/// What is done with volumes of a daemon beside a load on them.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct VolumeWork {
    /// They are clones of one volume that was written as a whole, and the load works on so much of each, in percent.
    pub own_percent: Option<u8>,
    /// A snapshot of each when the load begins, and again after so many s.
    pub snapshot_every_s: Option<u32>,
    /// Of the first snapshots one of so many is cloned.
    pub clone_one_in: Option<u32>,
}

/// Many volumes that are made, written, read and removed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lives {
    /// Volumes in all.
    pub volumes: u32,
    /// Volumes at a time.
    pub at_once: u32,
    /// Bytes of each.
    pub size_bytes: u64,
    /// Bytes of each that are written and read back.
    pub io_bytes: u64,
    /// Bytes of an operation.
    pub block_bytes: usize,
    /// Operations under way of a volume.
    pub depth: u32,
}

impl Preset {
    /// All of them, those that can be run first.
    #[must_use]
    pub fn all() -> Vec<Self> {
        [block::presets(), objects::presets(), later::presets()].concat()
    }

    /// The one of that name.
    #[must_use]
    pub fn named(id: &str) -> Option<Self> {
        Self::all().into_iter().find(|preset| preset.id == id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::DataSpec;
    use crate::load::LoadSpec;
    use std::collections::BTreeSet;

    #[test]
    fn names_are_unique_and_every_step_is_a_load() {
        let all = Preset::all();
        let names: BTreeSet<&str> = all.iter().map(|preset| preset.id.as_str()).collect();
        assert_eq!(names.len(), all.len());
        for preset in &all {
            let PresetWork::Block(work) = &preset.work else { continue };
            assert!(!work.steps.is_empty() && work.duration_s > 0, "{}", preset.id);
            let is_divided = |step: &PresetStep| step.jobs.is_multiple_of(work.clients);
            assert!(work.steps.iter().all(is_divided), "{}", preset.id);
            for step in &work.steps {
                let mixed = |load: LoadSpec| step.mixture.map_or(load, |mix| load.mixed(mix));
                let spec = mixed(LoadSpec {
                    block_bytes: step.block_bytes,
                    read_percent: step.read_percent,
                    pattern: step.pattern,
                    jobs: step.jobs,
                    depth: step.depth,
                    rate: step.rate,
                    data: DataSpec::default(),
                    ..LoadSpec::default()
                });
                spec.check().unwrap();
                if let Some(size_bytes) = work.size_bytes {
                    spec.blocks_a_job(size_bytes).unwrap();
                }
            }
        }
    }

    #[test]
    fn every_preset_of_the_sources_is_known() {
        for id in [
            "uc1-fio",
            "vdi-4k-rr",
            "vdi-4k-rw",
            "vdi-capped",
            "general",
            "virtinfra",
            "oltp-100r",
            "oltp-100w",
            "oltp-7030",
            "oltp-8k",
            "nosql",
            "appb-small-90w",
            "appb-medium-50w",
            "appb-large-10w",
            "idf16",
            "ccic-db",
            "readahead-ab",
            "win-2m-qd64",
            "vm-guest",
            "scale-1000x50",
            "null-workers",
            "net-4k-256",
            "net-1m-256",
            "cos-small-read",
            "cos-small-write",
            "cos-large-read",
            "cos-large-write",
            "cos-mixed-80-20",
            "asus-trace",
            "dvr-private",
            "dvr-shared",
            "backup-archive",
            "vod",
            "yahoo-cas",
            "rados-4m-write",
            "rados-4m-seq",
            "rados-4m-rand",
            "file-2m-qd64",
            "file-smallfiles",
            "file-mixed",
            "reduce-vdi",
            "reduce-fused",
            "aggregate",
        ] {
            assert!(Preset::named(id).is_some(), "{id}");
        }
        assert_eq!(Preset::named("vdi"), None);
    }

    #[test]
    fn parameters_are_those_of_the_sources() {
        let work = |id: &str| match Preset::named(id).unwrap().work {
            PresetWork::Block(work) => work,
            other => panic!("{id} is {other:?}"),
        };
        let appb = work("appb-small-90w");
        let step = appb.steps[0];
        assert_eq!((appb.ramp_s, appb.duration_s, appb.fill), (30, 300, true));
        assert_eq!(appb.size_bytes, Some(50 * 25_000_000_000));
        assert_eq!(
            (step.block_bytes, step.read_percent, step.jobs, step.depth),
            (4096, 10, 50, 32)
        );
        assert_eq!(work("appb-large-10w").steps[0].depth, 8);
        let depths: Vec<u32> = work("oltp-7030").steps.iter().map(|step| step.depth).collect();
        assert_eq!(depths, [1, 2, 4, 8, 16, 32, 64, 128]);
        let capped = work("vdi-capped").steps[0];
        assert_eq!(capped.rate, Some(f64::from(capped.jobs) * 100.0));
        assert_eq!(work("win-2m-qd64").size_bytes, Some(8 << 30));
        let workers: Vec<u32> = work("null-workers").steps.iter().map(|step| step.jobs).collect();
        assert_eq!(workers, [1, 2, 3, 4, 8, 16, 32]);
        assert_eq!(work("idf16").steps.len(), 8);
        let fio = work("uc1-fio");
        let steps = fio.steps.iter().map(|step| (step.read_percent, step.jobs, step.depth));
        assert_eq!(steps.collect::<Vec<_>>(), [(100, 40, 32), (0, 40, 32)]);
        assert_eq!((fio.clients, work("vdi-4k-rw").clients, appb.clients), (4, 4, 5));
        assert_eq!(work("oltp-8k").clients, 1);
        let shares: Vec<(u8, u32)> =
            work("oltp-8k").steps.iter().map(|step| (step.read_percent, step.depth)).collect();
        assert_eq!((shares.len(), shares[0], shares[15]), (16, (80, 1), (70, 128)));
        let metric = |id: &str| Preset::named(id).unwrap().metric;
        assert_eq!(metric("vdi-4k-rw"), Metric::Volumes { rate: 100.0 });
        assert_eq!(metric("vdi-capped"), Metric::Capped { p99_ms: 20 });
        assert_eq!(metric("oltp-8k"), Metric::Within { mean_ms: &[1, 3, 4] });
        assert_eq!(metric("virtinfra"), Metric::Drop { percent: 20.0 });
        assert_eq!(metric("vod"), Metric::Readers { within_s: 8, is_strict: true });
        assert_eq!(metric("dvr-private"), Metric::Readers { within_s: 8, is_strict: false });
        assert_eq!(metric("scale-1000x50"), Metric::Wall { seconds: 283.5 });
        assert_eq!((metric("idf16"), metric("cos-large-read")), (Metric::Table, Metric::Network));
        let net = |id: &str| -> Vec<(usize, u8, u32)> {
            let steps = work(id).steps;
            steps.iter().map(|step| (step.block_bytes, step.read_percent, step.depth)).collect()
        };
        assert_eq!(net("net-4k-256"), [(4096, 0, 256), (4096, 100, 256)]);
        assert_eq!(net("net-1m-256"), [(1 << 20, 0, 256), (1 << 20, 100, 256)]);
        assert_eq!(net("readahead-ab"), [(4096, 100, 32)]);
        assert_eq!(work("reduce-fused").compression_ratio, Some(2.0));
        let sorts = |id: &str| -> Vec<(u8, bool, usize)> {
            let mixture = work(id).steps[0].mixture.unwrap();
            mixture
                .parts()
                .iter()
                .map(|part| (part.percent, part.is_read, part.bytes >> 10))
                .collect()
        };
        assert_eq!(sorts("nosql"), [(50, true, 16), (50, false, 128)]);
        assert!(sorts("aggregate").iter().all(|(_, is_read, kib)| !is_read && *kib <= 32));
        let PresetWork::Lives(lives) = Preset::named("scale-1000x50").unwrap().work else {
            panic!("the scale test is about volumes")
        };
        assert_eq!((lives.volumes, lives.at_once, lives.size_bytes), (1000, 50, 1 << 30));
        assert_eq!((lives.block_bytes, lives.depth), (2 << 20, 64));
    }
}
