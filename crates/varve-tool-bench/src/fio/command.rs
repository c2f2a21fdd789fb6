//! A load as options of fio, for targets that fio reaches and this generator does not, and to compare the two.
//!
//! FIO-COMMAND-1. What fio would do otherwise than this generator is refused, and not left out.

use std::path::PathBuf;

use crate::access::AccessPattern;
use crate::cells::HistogramCells;
use crate::error::{Error, Result};
use crate::fio::output::{FioRun, FioSide};
use crate::load::{KindTotals, LoadSpec, Measurement};

/// Bytes of an operation that fills, and how many of them are under way.
const FILL: (u64, u32) = (1 << 20, 8);

/// What fio's load is put on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FioPlace {
    /// A file or block device, opened with `O_DIRECT`.
    File(PathBuf),
    /// An export of an NBD server, as libnbd names it.
    Nbd(String),
    /// An image of Ceph's block devices.
    Rbd {
        /// Its pool.
        pool: String,
        /// Its name there.
        image: String,
    },
}

impl FioPlace {
    /// The image that `POOL/IMAGE` names.
    ///
    /// # Errors
    /// `Target` when it names none.
    pub fn rbd(name: &str) -> Result<Self> {
        let parts = name.split_once('/');
        match parts.filter(|(pool, image)| !pool.is_empty() && !image.is_empty()) {
            Some((pool, image)) => Ok(Self::Rbd { pool: pool.to_owned(), image: image.to_owned() }),
            None => {
                let reason = "an image is rbd:POOL/IMAGE".to_owned();
                Err(Error::Target { target: format!("rbd:{name}"), reason })
            }
        }
    }

    /// The engine of fio that reaches it, where nobody names one.
    #[must_use]
    pub fn engine(&self) -> &'static str {
        match self {
            Self::File(_) => "io_uring",
            Self::Nbd(_) => "nbd",
            Self::Rbd { .. } => "rbd",
        }
    }

    fn options(&self) -> Vec<String> {
        match self {
            Self::File(path) => {
                // A colon would part several files.
                let path = path.display().to_string().replace(':', "\\:");
                vec![format!("--filename={path}"), "--direct=1".to_owned()]
            }
            Self::Nbd(uri) => vec![format!("--uri={uri}")],
            Self::Rbd { pool, image } => {
                vec![format!("--pool={pool}"), format!("--rbdname={image}")]
            }
        }
    }
}

/// What fio is told to do.
#[derive(Clone, Copy, Debug)]
pub struct FioCommand<'a> {
    /// The load.
    pub load: &'a LoadSpec,
    /// What it is put on.
    pub place: &'a FioPlace,
    /// Engine that does it.
    pub engine: &'a str,
    /// Bytes of the target that are used, from its beginning; without it all, which one job alone can.
    pub size_bytes: Option<u64>,
}

impl FioCommand<'_> {
    /// Arguments for writing each block once.
    ///
    /// # Errors
    /// What fio cannot do.
    pub fn fill(&self) -> Result<Vec<String>> {
        self.check()?;
        let mut all = self.common();
        let (block_bytes, depth) = FILL;
        all.extend([
            "--rw=write".to_owned(),
            format!("--bs={block_bytes}"),
            format!("--iodepth={depth}"),
        ]);
        all.extend(self.size_bytes.map(|bytes| format!("--size={bytes}")));
        Ok(all)
    }

    /// Arguments for the load.
    ///
    /// # Errors
    /// What fio cannot do.
    pub fn load(&self, ramp_ms: u64, duration_ms: u64) -> Result<Vec<String>> {
        self.check()?;
        let load = self.load;
        let is_sequential = load.pattern == AccessPattern::Sequential;
        let rw = match (load.read_percent, is_sequential) {
            (100, true) => "read",
            (100, false) => "randread",
            (0, true) => "write",
            (0, false) => "randwrite",
            (_, true) => "rw",
            (_, false) => "randrw",
        };
        let mut all = self.common();
        all.extend([
            format!("--rw={rw}"),
            format!("--rwmixread={}", load.read_percent),
            format!("--bs={}", load.block_bytes),
            format!("--iodepth={}", load.depth),
            format!("--numjobs={}", load.jobs),
            "--time_based=1".to_owned(),
            format!("--ramp_time={ramp_ms}ms"),
            format!("--runtime={duration_ms}ms"),
            "--norandommap=1".to_owned(),
            "--random_generator=tausworthe64".to_owned(),
            format!("--randseed={}", load.seed),
        ]);
        match load.pattern {
            AccessPattern::Sequential | AccessPattern::Uniform => {}
            AccessPattern::Zipf { theta } => {
                all.push(format!("--random_distribution=zipf:{theta}"));
            }
            AccessPattern::HotCold { access_percent, block_percent } => {
                let (accesses, blocks) = (100 - access_percent, 100 - block_percent);
                let zones = format!("{access_percent}/{block_percent}:{accesses}/{blocks}");
                all.push(format!("--random_distribution=zoned:{zones}"));
            }
        }
        if load.durable {
            all.push("--sync=dsync".to_owned());
        }
        if let Some(size_bytes) = self.size_bytes {
            let part_bytes = load.blocks_a_job(size_bytes)? * load.block_bytes as u64;
            all.push(format!("--size={part_bytes}"));
            all.push(format!("--offset_increment={part_bytes}"));
        }
        Ok(all)
    }

    fn common(&self) -> Vec<String> {
        let data = &self.load.data;
        let mut all = vec![
            "--name=load".to_owned(),
            format!("--ioengine={}", self.engine),
            "--output-format=json+".to_owned(),
            "--group_reporting=1".to_owned(),
            "--lat_percentiles=1".to_owned(),
            "--refill_buffers=1".to_owned(),
        ];
        if data.compression_ratio > 1.0 {
            let percent = (1.0 - 1.0 / data.compression_ratio) * 100.0;
            all.push(format!("--buffer_compress_percentage={percent:.0}"));
        }
        if data.duplicate_percent > 0 {
            all.push(format!("--dedupe_percentage={}", data.duplicate_percent));
        }
        all.extend(self.place.options());
        all
    }

    /// FIO-COMMAND-1.
    fn check(&self) -> Result<()> {
        let load = self.load;
        let is_file = matches!(self.place, FioPlace::File(_));
        let refused = [
            (
                load.rate.is_some(),
                "a rate: its latencies do not count from when operations are due",
            ),
            (load.verify, "verification of what each block held last"),
            (load.mixture.is_some(), "several sorts of operations"),
            (load.data.zero_percent > 0, "a share of zeros"),
            (load.durable && !is_file, "durable writes, but of files"),
            (load.jobs > 1 && self.size_bytes.is_none(), "several jobs on a target without --size"),
        ];
        match refused.iter().find(|(is_so, _)| *is_so) {
            None => Ok(()),
            Some((_, what)) => Err(Error::FioCannot { what }),
        }
    }
}

impl FioRun {
    /// What was measured, as of a load of this generator.
    #[must_use]
    pub fn measured(&self) -> Measurement {
        let side = |side: &Option<FioSide>| side.as_ref().map(FioSide::side).unwrap_or_default();
        Measurement {
            reads: side(&self.reads),
            writes: side(&self.writes),
            window_ns: self.window_ms * 1_000_000,
            ..Measurement::default()
        }
    }
}

impl FioSide {
    fn side(&self) -> KindTotals {
        let mut side =
            KindTotals { operations: self.operations, bytes: self.bytes, ..KindTotals::default() };
        for (latency_ns, count) in HistogramCells::to_vec(&self.cells) {
            side.latency_ns.saturating_record_n(latency_ns.max(1), count);
        }
        side
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fio::FioFile;

    fn command<'a>(load: &'a LoadSpec, place: &'a FioPlace) -> FioCommand<'a> {
        FioCommand { load, place, engine: place.engine(), size_bytes: Some(1 << 30) }
    }

    /// What the arguments say, as this crate reads job files.
    fn read_back(arguments: &[String]) -> crate::fio::FioJob {
        let own = ["output-format", "lat_percentiles", "offset_increment", "random_generator"];
        let mut text = "[load]\n".to_owned();
        for argument in arguments {
            let option = argument.strip_prefix("--").unwrap();
            if !own.contains(&option.split_once('=').unwrap().0) && !option.starts_with("name=") {
                text += option;
                text += "\n";
            }
        }
        let mut jobs = FioFile::read(&text).unwrap().jobs(true).unwrap();
        assert_eq!(jobs.len(), 1);
        jobs.remove(0)
    }

    #[test]
    fn a_load_survives_its_way_through_options() {
        let place = FioPlace::File("/dev/x".into());
        for (read_percent, pattern, durable) in [
            (100, AccessPattern::Uniform, false),
            (0, AccessPattern::Sequential, true),
            (70, AccessPattern::Zipf { theta: 0.9 }, false),
        ] {
            let load = LoadSpec {
                read_percent,
                pattern,
                durable,
                jobs: 2,
                block_bytes: 16384,
                ..LoadSpec::default()
            };
            let job = read_back(&command(&load, &place).load(500, 2000).unwrap());
            assert_eq!(job.load, load);
            assert_eq!((job.ramp_ms, job.duration_ms), (500, Some(2000)));
        }
    }

    #[test]
    fn parts_of_jobs_do_not_meet() {
        let place = FioPlace::rbd("rbd/image").unwrap();
        let load = LoadSpec { jobs: 4, ..LoadSpec::default() };
        let all = command(&load, &place).load(0, 1000).unwrap();
        assert!(all.contains(&format!("--size={}", 1 << 28)), "{all:?}");
        assert!(all.contains(&format!("--offset_increment={}", 1 << 28)));
        assert!(all.contains(&"--rbdname=image".to_owned()));
    }

    #[test]
    fn what_fio_would_do_otherwise_is_refused() {
        let place = FioPlace::rbd("p/i").unwrap();
        let good = LoadSpec::default();
        for bad in [
            LoadSpec { rate: Some(5.0), ..good },
            LoadSpec { verify: true, ..good },
            LoadSpec { durable: true, ..good },
        ] {
            let refused = command(&bad, &place).load(0, 1000);
            assert!(matches!(refused, Err(Error::FioCannot { .. })), "{bad:?}");
        }
        for wrong in ["", "pool", "/image", "pool/"] {
            assert!(FioPlace::rbd(wrong).is_err(), "{wrong}");
        }
    }
}
