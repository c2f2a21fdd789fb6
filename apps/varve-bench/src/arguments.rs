//! The load as flags.

use std::path::PathBuf;

use clap::Args;
use varve_client::age::now_unix_ms;
use varve_client::{Failure, Result};
use varve_media_rados::ClusterOptions;
use varve_tool_bench::cosbench::Workload;
use varve_tool_bench::fio::FioPlace;
use varve_tool_bench::{
    AccessPattern, DataSpec, LoadSpec, Mixture, MixturePart, Target, processes_named,
};
use varve_types::{ByteCount, parse_size};

use super::bucket::BucketName;
use super::rados::RadosGoal;
use super::s3::{S3Server, S3Settings};

/// Exponent of a Zipf law where none is named: that of most benchmarks of key-value stores.
const THETA_DEFAULT: f64 = 0.99;

/// What is done to the target.
#[derive(Args, Debug)]
#[command(next_help_heading = "Load")]
pub struct LoadArgs {
    /// Size of an operation, a multiple of 4 KiB
    #[arg(long, value_parser = parse_size, default_value = "4KiB", value_name = "SIZE")]
    block: ByteCount,

    /// Share of operations that read, in percent; the others write
    #[arg(long, value_parser = percent, default_value = "100", value_name = "PERCENT")]
    reads: u8,

    /// Which blocks: random, sequential, zipf(:THETA), or hot:PERCENT/PERCENT for accesses to hot blocks and how many
    /// those are
    #[arg(long, value_parser = pattern, default_value = "random", value_name = "PATTERN")]
    pattern: AccessPattern,

    /// Operations of several sorts instead, SHARE:KIND:SIZE:PATTERN of each, whose shares are 100 % together; behind it
    /// :durable or :compression=RATIO: 50%:read:16KiB:random,50%:write:128KiB:sequential
    #[arg(long, value_parser = mixture, conflicts_with_all = ["block", "reads", "pattern", "durable", "compression"], value_name = "SORTS")]
    mix: Option<Mixture>,

    /// Jobs at a time, each with a thread, a connection and an equal part of the target
    #[arg(long, default_value_t = 1, value_name = "COUNT")]
    jobs: u32,

    /// Operations under way of each job at most
    #[arg(long, default_value_t = 32, value_name = "COUNT")]
    depth: u32,

    /// Operations a second of all jobs together, due at even times whatever the target does; latency counts from then.
    /// Without it each answer is followed by the next operation
    #[arg(long, value_name = "OPS")]
    rate: Option<f64>,

    /// Wait for each write until it survives power loss
    #[arg(long)]
    durable: bool,

    /// Compare what is read with what was written, and at the end read everything back that was written
    #[arg(long)]
    verify: bool,

    #[command(flatten)]
    data: DataArgs,

    /// Where blocks, kinds and data follow from
    #[arg(long, default_value_t = 1, value_name = "NUMBER")]
    seed: u64,
}

impl LoadArgs {
    /// The load that they describe.
    pub fn spec(&self) -> Result<LoadSpec> {
        let data = self.data.unchecked();
        let spec = LoadSpec {
            seed: self.seed,
            block_bytes: usize::try_from(self.block.0).unwrap_or(usize::MAX),
            read_percent: self.reads,
            pattern: self.pattern,
            jobs: self.jobs,
            depth: self.depth,
            rate: self.rate,
            durable: self.durable,
            verify: self.verify,
            data,
            mixture: None,
        };
        let spec = self.mix.map_or(spec, |mixture| spec.mixed(mixture));
        spec.check().map_err(|error| Failure::misuse(error.to_string()))?;
        Ok(spec)
    }
}

/// What is written.
#[derive(Args, Debug)]
pub struct DataArgs {
    /// Share of written blocks of 4 KiB that are zeros, in percent
    #[arg(long, value_parser = percent, default_value = "0", value_name = "PERCENT")]
    zeros: u8,

    /// Share of written blocks of 4 KiB that are copies of a thousand others, in percent
    #[arg(long, value_parser = percent, default_value = "0", value_name = "PERCENT")]
    duplicates: u8,

    /// Bytes of a written block ÷ bytes that LZ4 makes of it
    #[arg(long, default_value_t = 1.0, value_name = "RATIO")]
    compression: f64,
}

impl DataArgs {
    /// The data that they describe.
    pub fn spec(&self) -> Result<DataSpec> {
        let data = DataSpec { seed: 1, ..self.unchecked() };
        data.check().map_err(|error| Failure::misuse(error.to_string()))?;
        Ok(data)
    }

    fn unchecked(&self) -> DataSpec {
        DataSpec {
            zero_percent: self.zeros,
            duplicate_percent: self.duplicates,
            compression_ratio: self.compression,
            ..DataSpec::default()
        }
    }
}

/// What a load is put on, as users name it.
#[derive(Clone, Debug)]
pub enum TargetArg {
    /// A file, device, export or memory.
    Disk(Target),
    /// An image of Ceph's, which fio reaches.
    Rbd(FioPlace),
    /// Native objects of a pool of Ceph.
    Rados(String),
    /// Volumes of the daemon, of that size each.
    Volumes(u64),
    /// A volume of a pool that no daemon serves meanwhile.
    Engine(String),
    /// A bucket of an S3 server.
    Bucket(BucketName),
}

/// Reads what a load is put on.
pub fn aim(text: &str) -> std::result::Result<TargetArg, String> {
    if let Some(rest) = text.strip_prefix("s3://") {
        return BucketName::read(rest).map(TargetArg::Bucket);
    }
    if let Some(size) = text.strip_prefix("volumes:") {
        return parse_size(size).map(|size| TargetArg::Volumes(size.0));
    }
    if let Some(volume) = text.strip_prefix("engine:").filter(|volume| !volume.is_empty()) {
        return Ok(TargetArg::Engine(volume.to_owned()));
    }
    if let Some(pool) = text.strip_prefix("rados:").filter(|pool| !pool.is_empty()) {
        return Ok(TargetArg::Rados(pool.to_owned()));
    }
    let aim = match text.strip_prefix("rbd:").filter(|rest| !rest.starts_with("//")) {
        Some(image) => FioPlace::rbd(image).map(TargetArg::Rbd),
        None => text.parse::<Target>().map(TargetArg::Disk),
    };
    aim.map_err(|error| error.to_string())
}

/// The server of a bucket, and a load on it.
#[derive(Args, Debug)]
#[command(next_help_heading = "Buckets (s3://…)")]
pub struct ObjectsArgs {
    /// Server of an s3:// target: http://HOST(:PORT) [default: AWS_ENDPOINT_URL]
    #[arg(long, value_name = "URL")]
    endpoint: Option<String>,

    /// Access key ID [default: AWS_ACCESS_KEY_ID, with AWS_SECRET_ACCESS_KEY]
    #[arg(long, value_name = "KEY", requires = "secret_file")]
    access_key: Option<String>,

    /// File with its secret, - for standard input
    #[arg(long, value_name = "FILE", requires = "access_key")]
    secret_file: Option<PathBuf>,

    /// Objects of a load of your own, all of them written before it
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..=100_000_000), value_name = "COUNT")]
    objects: u64,

    /// Sizes of these objects, as COSBench says them: c(128)KB, u(4,64)KB or h(MIN|MAX|WEIGHT,…)KB, of B, KB, MB, GB,
    /// which are powers of ten
    #[arg(long, default_value = "c(128)KB", value_name = "SELECTOR")]
    object_sizes: String,

    /// Share of operations that list objects, in percent
    #[arg(long, value_parser = percent, default_value = "0", value_name = "PERCENT")]
    lists: u8,

    /// Share of operations that remove an object, in percent; what is removed is written first
    #[arg(long, value_parser = percent, default_value = "0", value_name = "PERCENT")]
    deletes: u8,
}

impl ObjectsArgs {
    /// The server.
    pub fn server(&self) -> Result<S3Server> {
        let (endpoint, access_key) = (self.endpoint.clone(), self.access_key.clone());
        let settings =
            S3Settings::from_arguments(endpoint, access_key, self.secret_file.as_deref())?;
        settings.server("the command line", |_| None)
    }

    /// A load of the user's own, as a workload of one folder; `load` has what it has in common with loads of blocks.
    pub fn workload(&self, load: &LoadSpec) -> Result<Workload> {
        let Self { objects, object_sizes, lists, deletes, .. } = self;
        let reads = load.read_percent;
        let shares = u32::from(reads) + u32::from(*lists) + u32::from(*deletes);
        let writes = 100_u32.checked_sub(shares).ok_or_else(|| {
            Failure::misuse(format!(
                "reads, lists and deletes are {shares} % of operations together"
            ))
            .hint("--reads defaults to 100")
        })?;
        if u32::from(*deletes) > writes {
            let what = format!("{deletes} % deletes and {writes} % writes leave no objects");
            return Err(Failure::misuse(what).hint("remove no more than is written"));
        }
        let of_objects = match load.pattern {
            AccessPattern::Uniform => format!("u(1,{objects})"),
            AccessPattern::Sequential => format!("s(1,{objects})"),
            AccessPattern::Zipf { .. } | AccessPattern::HotCold { .. } => {
                return Err(Failure::misuse("patterns of objects are random and sequential"));
            }
        };
        if object_sizes.contains(['"', '<', '&', ';']) {
            return Err(Failure::misuse(format!("invalid size selector `{object_sizes}`")));
        }
        let place = format!("cprefix=f;containers=c(1);objects={of_objects};sizes={object_sizes}");
        let operation = |(kind, ratio)| {
            format!("<operation type=\"{kind}\" ratio=\"{ratio}\" config=\"{place}\"/>")
        };
        let kinds = [
            ("read", u32::from(reads)),
            ("write", writes),
            ("list", u32::from(*lists)),
            ("delete", u32::from(*deletes)),
        ];
        let operations: String = kinds.into_iter().map(operation).collect();
        let xml = format!(
            "<workload name=\"own\"><workflow><workstage name=\"prepare\"><work type=\"prepare\" workers=\"1\" \
             config=\"cprefix=f;containers=r(1,1);objects=r(1,{objects});sizes={object_sizes}\"/></workstage><workstage name=\"main\">\
             <work name=\"main\" workers=\"1\" runtime=\"1\">{operations}</work></workstage></workflow></workload>"
        );
        Workload::read(&xml).map_err(|error| Failure::misuse(error.to_string()))
    }

    /// What of a load of blocks says nothing of objects.
    pub fn check(load: &LoadSpec) -> Result<()> {
        let blocks = LoadSpec::default();
        let said = [
            ("--block", load.block_bytes != blocks.block_bytes),
            ("--durable", load.durable),
            ("--mix", load.mixture.is_some()),
        ];
        match said.iter().find(|(_, is_said)| *is_said) {
            None => Ok(()),
            Some((flag, _)) => {
                let what = format!("{flag} is of blocks, and an s3:// target has objects");
                Err(Failure::misuse(what).hint("--object-sizes has their sizes"))
            }
        }
    }
}

/// How to reach Ceph.
#[derive(Args, Debug)]
#[command(next_help_heading = "Ceph (rados:…)")]
pub struct CephArgs {
    /// Its configuration: where its monitors are, and the user's key
    #[arg(long, default_value = "/etc/ceph/ceph.conf", value_name = "FILE")]
    ceph_conf: PathBuf,

    /// The user
    #[arg(long, default_value = "client.admin", value_name = "USER")]
    ceph_user: String,
}

impl CephArgs {
    /// Connects to a pool for objects of `object_bytes`, `size_bytes` in all.
    pub fn connect(&self, pool: &str, object_bytes: usize, size_bytes: u64) -> Result<RadosGoal> {
        let config = self.ceph_conf.display().to_string();
        let options = ClusterOptions { config, user: self.ceph_user.clone() };
        RadosGoal::connect(&options, pool, now_unix_ms(), object_bytes, size_bytes)
    }
}

/// Reads which processes to look at: an id, or all of a name.
pub fn processes(text: &str) -> std::result::Result<Vec<u32>, String> {
    let found = text.parse().map_or_else(|_| processes_named(text), |id| vec![id]);
    if found.is_empty() { Err(format!("no process is named `{text}`")) } else { Ok(found) }
}

fn percent(text: &str) -> std::result::Result<u8, String> {
    let number = text.strip_suffix('%').unwrap_or(text);
    let read = number.parse().ok().filter(|percent| *percent <= 100);
    read.ok_or_else(|| format!("invalid percentage `{text}`: must be a whole number from 0 to 100"))
}

fn pattern(text: &str) -> std::result::Result<AccessPattern, String> {
    let unknown =
        || format!("`{text}` is none of random, sequential, zipf(:THETA), hot:PERCENT/PERCENT");
    let (name, rest) = text.split_once(':').map_or((text, None), |(name, rest)| (name, Some(rest)));
    match (name, rest) {
        ("random", None) => Ok(AccessPattern::Uniform),
        ("sequential", None) => Ok(AccessPattern::Sequential),
        ("zipf", None) => Ok(AccessPattern::Zipf { theta: THETA_DEFAULT }),
        ("zipf", Some(theta)) => {
            let theta = theta.parse().map_err(|_| unknown())?;
            Ok(AccessPattern::Zipf { theta })
        }
        ("hot", Some(shares)) => {
            let (accesses, blocks) = shares.split_once('/').ok_or_else(unknown)?;
            let (access_percent, block_percent) = (percent(accesses)?, percent(blocks)?);
            Ok(AccessPattern::HotCold { access_percent, block_percent })
        }
        _ => Err(unknown()),
    }
}

fn mixture(text: &str) -> std::result::Result<Mixture, String> {
    let parts: Vec<MixturePart> =
        text.split(',').map(part).collect::<std::result::Result<_, _>>()?;
    Mixture::of(&parts).map_err(|error| error.to_string())
}

/// Reads a sort of operations.
fn part(text: &str) -> std::result::Result<MixturePart, String> {
    let unknown = || {
        format!(
            "invalid mixture `{text}`: must be SHARE:KIND:SIZE:PATTERN, such as 50%:read:16KiB:random"
        )
    };
    let words: Vec<&str> = text.split(':').collect();
    let [share, kind, size, access, more @ ..] = words.as_slice() else { return Err(unknown()) };
    let is_read = match *kind {
        "read" => true,
        "write" => false,
        _ => return Err(unknown()),
    };
    let bytes = parse_size(size)?;
    let bytes = usize::try_from(bytes.0).map_err(|_| unknown())?;
    let percent = percent(share)?;
    let mut part =
        MixturePart { percent, is_read, bytes, pattern: pattern(access)?, ..MixturePart::BASE };
    for word in more {
        match word.split_once('=') {
            None if *word == "durable" && !is_read => part.durable = true,
            Some(("compression", ratio)) if !is_read => {
                part.compression_ratio = ratio.parse().map_err(|_| unknown())?;
            }
            _ => return Err(unknown()),
        }
    }
    Ok(part)
}

/// Reads a time: `500ms`, `30s`, `5m`, `1h`.
pub fn milliseconds(text: &str) -> std::result::Result<u64, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let unit_ms = match unit {
        "ms" => 1,
        "s" => 1000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return Err(format!("invalid time `{text}`: write 500ms, 30s, 5m or 1h")),
    };
    let time_ms = number.parse::<u64>().ok().and_then(|number| number.checked_mul(unit_ms));
    // A year: what is added to it stays far from the end of 64 bits in ns.
    let time_ms = time_ms.filter(|time_ms| *time_ms <= 366 * 24 * 3_600_000);
    time_ms.ok_or_else(|| format!("invalid time `{text}`: at most a year"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        assert_eq!(milliseconds("500ms"), Ok(500));
        assert_eq!(milliseconds("5m"), Ok(300_000));
        for wrong in ["5", "s", "", "1d", "99999999999999999999s", "9000h", "1.5s"] {
            assert!(milliseconds(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn buckets_are_told_from_disks() {
        assert!(matches!(aim("s3://b"), Ok(TargetArg::Bucket(_))));
        assert!(matches!(aim("null:1GiB"), Ok(TargetArg::Disk(_))));
        assert!(aim("s3://").is_err() && aim("rbd://p/v").is_err());
        assert!(matches!(aim("rbd:pool/image"), Ok(TargetArg::Rbd(_))) && aim("rbd:pool").is_err());
    }

    #[test]
    fn sorts_of_operations_are_told_apart() {
        let text = "60%:read:16KiB:random,40:write:128KiB:sequential:durable:compression=2.5";
        let mixture = mixture(text).unwrap();
        let [reads, writes] = mixture.parts() else { panic!("{mixture:?}") };
        assert!(reads.is_read && reads.bytes == 16 << 10 && reads.percent == 60);
        assert!(!writes.is_read && writes.durable && writes.pattern == AccessPattern::Sequential);
        assert_eq!(writes.compression_ratio, 2.5);
        for wrong in ["", "50%:read:4KiB:random", "100:read:4KiB", "100:trim:4KiB:random"] {
            assert!(super::mixture(wrong).is_err(), "{wrong}");
        }
        assert!(super::mixture("100:read:4KiB:random:durable").is_err(), "reads are not durable");
    }

    #[test]
    fn patterns_are_named() {
        assert_eq!(pattern("zipf:1.2"), Ok(AccessPattern::Zipf { theta: 1.2 }));
        let hot = AccessPattern::HotCold { access_percent: 90, block_percent: 5 };
        assert_eq!(pattern("hot:90/5%"), Ok(hot));
        for wrong in ["", "uniform", "random:1", "zipf:x", "hot:90", "hot:90/101"] {
            assert!(pattern(wrong).is_err(), "{wrong}");
        }
    }
}
