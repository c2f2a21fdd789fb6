//! Options of fio as loads of this generator. What fio does and this generator does not is an error that names line and
//! option.

use varve_types::limits::MEDIA_ALIGN;

use crate::access::AccessPattern;
use crate::data::DataSpec;
use crate::error::{Error, Result};
use crate::fio::file::{FioFile, FioOption, PLACES, refused};
use crate::load::{LoadSpec, Mixture, MixturePart};

/// What this generator does anyhow, what it reports in its own way, or what changes nothing of a load.
const ANYHOW: [&str; 70] = [
    "description",
    "group_reporting",
    "new_group",
    "per_job_logs",
    "time_based",
    "thread",
    "threads",
    "refill_buffers",
    "scramble_buffers",
    "norandommap",
    "softrandommap",
    "random_generator",
    "invalidate",
    "gtod_reduce",
    "gtod_cpu",
    "clocksource",
    "name",
    // What fio measures and prints beside it.
    "disable_lat",
    "disable_clat",
    "disable_slat",
    "disable_bw_measurement",
    "disable_bw",
    "clat_percentiles",
    "lat_percentiles",
    "slat_percentiles",
    "percentile_list",
    "significant_figures",
    "unified_rw_reporting",
    "write_bw_log",
    "write_lat_log",
    "write_iops_log",
    "log_avg_msec",
    "log_hist_msec",
    "log_max_value",
    "log_offset",
    "log_prio",
    "bwavgtime",
    "iopsavgtime",
    "unit_base",
    "disk_util",
    // How operations are handed over, of which there are as many under way in the end.
    "iodepth_batch",
    "iodepth_batch_submit",
    "iodepth_batch_complete",
    "iodepth_batch_complete_min",
    "iodepth_batch_complete_max",
    "iodepth_low",
    "io_submit_mode",
    "fixedbufs",
    "registerfiles",
    "hipri",
    "sqthread_poll",
    "sqthread_poll_cpu",
    "nonvectored",
    "force_async",
    "mem",
    "iomem",
    "iomem_align",
    // Where the generator itself runs.
    "cpus_allowed",
    "cpus_allowed_policy",
    "numa_cpu_nodes",
    "numa_mem_policy",
    "nice",
    // When it begins and gives up: jobs run one after another, and end with the first failure.
    "startdelay",
    "exitall",
    "exit_what",
    "exitall_on_error",
    "continue_on_error",
    "ignore_error",
    "error_dump",
    // Each job has a part of the target of its own.
    "offset_increment",
];

/// How much is done: the time of a run stands for these.
const AMOUNTS: [&str; 5] = ["io_size", "io_limit", "number_ios", "loops", "fill_device"];

/// How data are verified: this generator has data of its own, and one way.
const VERIFICATION: [&str; 12] = [
    "do_verify",
    "verify_async",
    "verify_async_cpus",
    "verify_backlog",
    "verify_backlog_batch",
    "verify_dump",
    "verify_fatal",
    "verify_interval",
    "verify_offset",
    "verify_pattern",
    "verify_state_save",
    "verifysort",
];

/// Engines that read and write blocks, for which a target can stand.
const BLOCK_ENGINES: [&str; 30] = [
    "sync",
    "psync",
    "vsync",
    "pvsync",
    "pvsync2",
    "libaio",
    "posixaio",
    "solarisaio",
    "windowsaio",
    "io_uring",
    "mmap",
    "splice",
    "sg",
    "nbd",
    "rbd",
    "null",
    "cpp_null",
    "libiscsi",
    "libpmem",
    "pmemblk",
    "dev-dax",
    "libblkio",
    "gfapi",
    "gfapi_async",
    "libhdfs",
    "nfs",
    "dfs",
    "ime_psync",
    "ime_psyncv",
    "ime_aio",
];

/// A job of a job file.
#[derive(Clone, PartialEq, Debug)]
pub struct FioJob {
    /// Name of its section.
    pub name: String,
    /// Line on which that begins.
    pub line: usize,
    /// What it does.
    pub load: LoadSpec,
    /// Bytes that all its jobs use together; none where it does not say.
    pub size_bytes: Option<u64>,
    /// Time before the measurement, in ms.
    pub ramp_ms: u64,
    /// Where the part of the target that is used begins, in bytes.
    pub from_bytes: u64,
    /// Time that is measured, in ms; none where it does not say.
    pub duration_ms: Option<u64>,
    /// Options that say where fio would go.
    pub places: Vec<String>,
    /// Whether the same accesses come each time; else their seed is drawn.
    pub is_repeatable: bool,
    /// Whether it begins when those before it have ended.
    pub waits: bool,
    /// The job before it that fio would run at the same time.
    pub beside: Option<String>,
}

impl FioFile {
    /// Its jobs as loads, one after another, also those that fio would run beside each other; `needs_runtime` where
    /// nobody else says how long.
    ///
    /// # Errors
    /// `Fio`: an engine, option or value that is not understood, or no runtime.
    pub fn jobs(&self, needs_runtime: bool) -> Result<Vec<FioJob>> {
        let mut jobs: Vec<FioJob> = Vec::new();
        for section in &self.sections {
            check_engine(&section.options)?;
            let (mut job, unknown) = fio_load(&section.name, section.line, &section.options)?;
            if let Some(option) = unknown.first() {
                let what = format!("option `{}` is not understood", option.name);
                return Err(refused(option.line, &what));
            }
            if job.duration_ms.is_none() && needs_runtime {
                let what = format!("section `{}` has no runtime: give --duration", section.name);
                return Err(refused(section.line, &what));
            }
            job.beside = jobs.last().filter(|_| !job.waits).map(|before| before.name.clone());
            jobs.push(job);
        }
        Ok(jobs)
    }
}

/// That a target of blocks can stand for the engine, of which the last one that is named counts.
fn check_engine(options: &[FioOption]) -> Result<()> {
    let engine = options.iter().rev().find(|option| option.name == "ioengine");
    match engine {
        Some(engine) if !BLOCK_ENGINES.contains(&engine.value.as_str()) => {
            Err(engine.wrong("is an engine that no target here stands for"))
        }
        _ => Ok(()),
    }
}

/// What was read so far, where options depend on each other.
struct JobReader {
    job: FioJob,
    is_mixed: bool,
    rate_iops: Option<f64>,
    /// Bytes a second of each job.
    rate_bytes: Option<f64>,
    /// Size of a file, where `size` does not say how much of it is used.
    file_bytes: Option<u64>,
    size_bytes: Option<u64>,
    /// Several sizes of operations, and the option that says so.
    sizes: Option<(FioOption, Sizes)>,
}

/// Sizes of operations in bytes, each with its share in percent: of those that read, and of those that write.
type Sizes = [Vec<(usize, u8)>; 2];

/// Options as a load, and those that are not known.
///
/// # Errors
/// `Fio`: an option that is known with a value that is not understood.
fn fio_load(name: &str, line: usize, options: &[FioOption]) -> Result<(FioJob, Vec<FioOption>)> {
    let mut reading = JobReader::new(name, line);
    let mut unknown = Vec::new();
    for option in kinds_first(options) {
        if !reading.take(option)? {
            unknown.push(option.clone());
        }
    }
    let job = reading.close()?;
    let told = |error: Error| refused(line, &format!("section `{name}`: {error}"));
    job.load.check().map_err(told)?;
    Ok((job, unknown))
}

/// What options of a run that was made say of its load, and those that are not understood: such a load need not be one
/// of this generator.
pub(crate) fn fio_told(name: &str, options: &[FioOption]) -> (FioJob, Vec<FioOption>) {
    let mut reading = JobReader::new(name, 0);
    let mut unknown = Vec::new();
    for option in kinds_first(options) {
        if !reading.take(option).unwrap_or(false) {
            unknown.push(option.clone());
        }
    }
    // Sizes as fio drew them are no mixture of this generator.
    unknown.extend(reading.sizes.take().map(|(option, _)| option));
    (reading.plain(), unknown)
}

/// Kinds first: a distribution is one of random accesses.
fn kinds_first(options: &[FioOption]) -> impl Iterator<Item = &FioOption> {
    let is_kind = |option: &&FioOption| matches!(option.name.as_str(), "rw" | "readwrite");
    options.iter().filter(is_kind).chain(options.iter().filter(move |option| !is_kind(option)))
}

impl JobReader {
    fn new(name: &str, line: usize) -> Self {
        let job = FioJob {
            name: name.to_owned(),
            line,
            // fio's own defaults: sequential reads of 4 KiB, one at a time.
            load: LoadSpec { depth: 1, pattern: AccessPattern::Sequential, ..LoadSpec::default() },
            size_bytes: None,
            ramp_ms: 0,
            from_bytes: 0,
            duration_ms: None,
            places: Vec::new(),
            is_repeatable: true,
            waits: false,
            beside: None,
        };
        Self {
            job,
            is_mixed: false,
            rate_iops: None,
            rate_bytes: None,
            file_bytes: None,
            size_bytes: None,
            sizes: None,
        }
    }

    /// Takes an option; whether it is known.
    fn take(&mut self, option: &FioOption) -> Result<bool> {
        let name = option.name.as_str();
        if PLACES.contains(&name) {
            self.job.places.push(name.to_owned());
            return Ok(true);
        }
        let is_known = ANYHOW.contains(&name)
            || AMOUNTS.contains(&name)
            || VERIFICATION.contains(&name)
            || self.take_accesses(option)?
            || self.take_amount(option)?
            || self.take_data(option)?;
        Ok(is_known)
    }

    /// Kinds of operations, their sizes and their places.
    fn take_accesses(&mut self, option: &FioOption) -> Result<bool> {
        let value = option.value.as_str();
        let load = &mut self.job.load;
        match option.name.as_str() {
            "rw" | "readwrite" => {
                if value.starts_with("rand") {
                    load.pattern = AccessPattern::Uniform;
                }
                load.read_percent = match value {
                    "read" | "randread" => 100,
                    "write" | "randwrite" => 0,
                    "rw" | "readwrite" | "randrw" => 50,
                    _ => {
                        let why = "is none of read, write, randread, randwrite, rw, randrw";
                        return Err(option.wrong(why));
                    }
                };
                self.is_mixed = load.read_percent == 50;
            }
            "rwmixread" if self.is_mixed => load.read_percent = option.percent()?,
            "rwmixwrite" if self.is_mixed => load.read_percent = 100 - option.percent()?,
            // Of no load that reads or writes alone.
            "rwmixread" | "rwmixwrite" => drop(option.percent()?),
            "bs" | "blocksize" => {
                load.block_bytes = block_bytes(value).map_err(|why| option.wrong(&why))?;
            }
            "bssplit" => {
                let sizes = sizes(value).map_err(|why| option.wrong(&why))?;
                match (&sizes[0][..], &sizes[1][..]) {
                    ([(reads, _)], [(writes, _)]) if reads == writes => load.block_bytes = *reads,
                    _ => self.sizes = Some((option.clone(), sizes)),
                }
            }
            "random_distribution" => {
                let is_random = load.pattern != AccessPattern::Sequential;
                match (value.split_once(':'), value) {
                    (None, "random") => {}
                    (Some(("zipf", theta)), _) if is_random => {
                        let theta = theta.parse().map_err(|_| option.wrong("has no exponent"))?;
                        load.pattern = AccessPattern::Zipf { theta };
                    }
                    (Some(("zipf", _)), _) => return Err(option.wrong("is of random accesses")),
                    _ => return Err(option.wrong("is neither random nor zipf:THETA")),
                }
            }
            "randrepeat" | "allrandrepeat" => match value {
                "1" | "true" => {}
                "0" | "false" => self.job.is_repeatable = false,
                _ => return Err(option.wrong("is neither 0 nor 1")),
            },
            "randseed" => {
                load.seed = value.parse().map_err(|_| option.wrong("is not a whole number"))?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// How much at a time, how fast, how long, and in which order.
    fn take_amount(&mut self, option: &FioOption) -> Result<bool> {
        let value = option.value.as_str();
        match option.name.as_str() {
            "iodepth" => self.job.load.depth = option.number()?,
            "numjobs" => self.job.load.jobs = option.number()?,
            "size" => {
                let size = bytes(value).ok_or_else(|| option.wrong("is not a size: 4k, 1m, 2g"))?;
                self.size_bytes = Some(size);
            }
            "filesize" => {
                // Of several sizes fio draws one; the largest holds all.
                let largest = value.rsplit(['-', ',']).next().unwrap_or(value);
                let size =
                    bytes(largest).ok_or_else(|| option.wrong("is not a size: 4k, 1m, 2g"))?;
                self.file_bytes = Some(size);
            }
            "offset" => {
                let is_none = value == "0";
                let from = if is_none { Some(0) } else { bytes(value) };
                let from = from.filter(|from| from.is_multiple_of(MEDIA_ALIGN as u64));
                let what = format!("is not a multiple of {MEDIA_ALIGN} bytes");
                self.job.from_bytes = from.ok_or_else(|| option.wrong(&what))?;
            }
            "rate" => {
                let rate = bytes(value).ok_or_else(|| option.wrong("is not a single rate: 1m"))?;
                self.rate_bytes = Some(rate as f64);
            }
            "thinktime" if value == "0" => {}
            "kb_base" if value == "1024" => {}
            "runtime" | "timeout" => self.job.duration_ms = Some(option.time_ms()?),
            "ramp_time" => self.job.ramp_ms = option.time_ms()?,
            "rate_iops" => {
                let rate = value.parse::<u32>().ok().filter(|rate| *rate > 0);
                let what = "is not a whole number of operations a second";
                let rate = rate.ok_or_else(|| option.wrong(what))?;
                self.rate_iops = Some(f64::from(rate));
            }
            "stonewall" | "wait_for_previous" => self.job.waits = value != "0",
            "wait_for" => self.job.waits = true,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// What is written, and when it is answered.
    fn take_data(&mut self, option: &FioOption) -> Result<bool> {
        let load = &mut self.job.load;
        match (option.name.as_str(), option.value.as_str()) {
            ("buffer_compress_percentage", _) => match option.percent()? {
                100 => load.data.zero_percent = 100,
                percent => load.data.compression_ratio = 100.0 / f64::from(100 - percent),
            },
            ("dedupe_percentage", _) => load.data.duplicate_percent = option.percent()?,
            ("zero_buffers", _) => load.data.zero_percent = 100,
            ("verify", "0" | "none" | "null") => load.verify = false,
            ("verify", _) if load.read_percent < 100 => load.verify = true,
            ("verify", _) => {
                return Err(
                    option.wrong("verifies what another job has written, and it only reads")
                );
            }
            ("direct", "1") | ("buffered", "0") => {}
            ("direct" | "buffered", _) => {
                let why = "asks for the page cache, and this generator goes around it";
                return Err(option.wrong(why));
            }
            ("sync", "0" | "none") => {}
            ("sync", "1" | "sync" | "dsync") => load.durable = true,
            ("sync", _) => return Err(option.wrong("is none of none, sync, dsync")),
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// The load, of several sorts where there are several sizes.
    fn close(mut self) -> Result<FioJob> {
        let Some((option, sizes)) = self.sizes.take() else { return Ok(self.plain()) };
        let mut job = self.plain();
        if job.load.pattern != AccessPattern::Uniform {
            // Each sort would have a stream, or frequent places, of its own.
            return Err(option.wrong("has several sizes, which are mixed of random accesses alone"));
        }
        let mixture = mixture(&job.load, &sizes).map_err(|why| option.wrong(&why))?;
        job.load = job.load.mixed(mixture);
        Ok(job)
    }

    /// The load, of one size.
    fn plain(mut self) -> FioJob {
        let jobs = self.job.load.jobs;
        // fio's rate is that of each job.
        let by_bytes = self.rate_bytes.map(|rate| rate / self.job.load.block_bytes as f64);
        let rate = self.rate_iops.into_iter().chain(by_bytes).reduce(f64::min);
        self.job.load.rate = rate.map(|rate| rate * f64::from(jobs));
        // Jobs share a file that is named, and each has one of its own else.
        let is_shared =
            self.job.places.iter().any(|place| place != "ioengine" && place != "directory");
        let parts = if is_shared { 1 } else { u64::from(jobs) };
        let size_bytes = self.size_bytes.or(self.file_bytes);
        self.job.size_bytes = size_bytes.map(|size_bytes| size_bytes.saturating_mul(parts));
        if self.job.load.data.zero_percent == 100 {
            self.job.load.data = DataSpec { zero_percent: 100, ..DataSpec::default() };
        }
        self.job
    }
}

impl FioOption {
    /// What is wrong with its value.
    fn wrong(&self, why: &str) -> Error {
        refused(self.line, &format!("option `{}`: `{}` {why}", self.name, self.value))
    }

    fn number(&self) -> Result<u32> {
        self.value.parse().map_err(|_| self.wrong("is not a whole number"))
    }

    fn percent(&self) -> Result<u8> {
        let percent = self.value.trim_end_matches('%').parse::<u8>().ok();
        percent.filter(|percent| *percent <= 100).ok_or_else(|| self.wrong("is not a percentage"))
    }

    fn time_ms(&self) -> Result<u64> {
        time_ms(&self.value).ok_or_else(|| self.wrong("is not a time"))
    }
}

fn block_bytes(text: &str) -> std::result::Result<usize, String> {
    let size = bytes(text).and_then(|size| usize::try_from(size).ok());
    let size = size.ok_or_else(|| "is not one size for reads and writes: 4k, 1m".to_owned())?;
    if size.is_multiple_of(MEDIA_ALIGN) {
        Ok(size)
    } else {
        Err(format!("is not a multiple of {MEDIA_ALIGN} bytes"))
    }
}

/// Sizes of `bssplit`: `4k/60:64k/40`, and behind a comma those of writes where they differ. Sizes without a share have
/// equal parts of the rest.
fn sizes(text: &str) -> std::result::Result<Sizes, String> {
    let mut lists =
        text.split(',').map(sizes_of_kind).collect::<std::result::Result<Vec<_>, _>>()?;
    match (lists.pop(), lists.pop(), lists.pop()) {
        (Some(both), None, None) => Ok([both.clone(), both]),
        (Some(writes), Some(reads), None) => Ok([reads, writes]),
        _ => Err("has more than sizes of reads and writes".to_owned()),
    }
}

fn sizes_of_kind(text: &str) -> std::result::Result<Vec<(usize, u8)>, String> {
    let mut sizes = Vec::new();
    for one in text.split(':') {
        let (size, share) = one.split_once('/').unwrap_or((one, ""));
        let share = match share {
            "" => None,
            share => Some(share.parse::<u8>().map_err(|_| format!("has no share `{share}`"))?),
        };
        sizes.push((block_bytes(size)?, share));
    }
    let said: usize = sizes.iter().filter_map(|(_, share)| *share).map(usize::from).sum();
    let open = sizes.iter().filter(|(_, share)| share.is_none()).count();
    let rest = 100_usize.checked_sub(said).filter(|rest| match open {
        0 => *rest == 0,
        open => rest.is_multiple_of(open),
    });
    let rest = rest.ok_or("has shares that are not 100 % together in whole percents")?;
    let each = u8::try_from(rest / open.max(1)).expect("at most 100 %");
    Ok(sizes.into_iter().map(|(bytes, share)| (bytes, share.unwrap_or(each))).collect())
}

/// Reads and writes of these sizes; those with no share are none.
fn mixture(load: &LoadSpec, sizes: &Sizes) -> std::result::Result<Mixture, String> {
    let mut parts = Vec::new();
    let kinds = [(true, load.read_percent), (false, 100 - load.read_percent)];
    for ((is_read, of_kind), sizes) in kinds.into_iter().zip(sizes) {
        for (bytes, share) in sizes {
            let product = u32::from(of_kind) * u32::from(*share);
            let percent = u8::try_from(product / 100).expect("at most 100 %");
            if !product.is_multiple_of(100) {
                return Err(format!("has {share} % of {of_kind} %, which is not a whole percent"));
            }
            if percent > 0 {
                parts.push(MixturePart {
                    percent,
                    is_read,
                    bytes: *bytes,
                    pattern: load.pattern,
                    durable: load.durable && !is_read,
                    compression_ratio: load.data.compression_ratio,
                });
            }
        }
    }
    Mixture::of(&parts).map_err(|error| error.to_string())
}

/// A size of fio: `4k`, `4KB` and `4KiB` are 4096 bytes.
fn bytes(text: &str) -> Option<u64> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let shift = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kb" | "ki" | "kib" => 10,
        "m" | "mb" | "mi" | "mib" => 20,
        "g" | "gb" | "gi" | "gib" => 30,
        "t" | "tb" | "ti" | "tib" => 40,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(1 << shift).filter(|size| *size > 0)
}

/// A time of fio: seconds unless it says otherwise.
fn time_ms(text: &str) -> Option<u64> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let unit_ms = match unit {
        "" | "s" => 1000,
        "ms" => 1,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return None,
    };
    // A year: what is added to it stays far from the end of 64 bits in ns.
    let time_ms = number.parse::<u64>().ok()?.checked_mul(unit_ms);
    time_ms.filter(|time_ms| *time_ms <= 366 * 24 * 3_600_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn jobs(text: &str) -> Result<Vec<FioJob>> {
        FioFile::read(text)?.jobs(true)
    }

    #[test]
    fn options_are_loads() {
        let text = "[global]\nioengine=libaio\ndirect=1\nruntime=300\nramp_time=30s\nrandrepeat=1\nfilename=/dev/x\nstonewall\n\
                    [small]\nrw=randrw\nbs=4k\niodepth=32\nnumjobs=5\nrwmixread=70\nsize=25g\nrate_iops=100\nrandom_distribution=zipf:1.2\n\
                    [large]\nrw=write\nbssplit=1m/100\nbuffer_compress_percentage=50\ndedupe_percentage=30\nruntime=2m\nsync=dsync\nrandseed=7\n";
        let jobs = jobs(text).unwrap();
        let small = LoadSpec {
            read_percent: 70,
            pattern: AccessPattern::Zipf { theta: 1.2 },
            depth: 32,
            jobs: 5,
            rate: Some(500.0),
            ..LoadSpec::default()
        };
        assert_eq!((jobs[0].load, jobs[0].size_bytes), (small, Some(25 << 30)));
        assert_eq!((jobs[0].ramp_ms, jobs[0].duration_ms), (30_000, Some(300_000)));
        assert_eq!(jobs[0].places, ["ioengine", "filename"]);
        let large = jobs[1].load;
        assert_eq!((large.read_percent, large.pattern), (0, AccessPattern::Sequential));
        assert_eq!((large.block_bytes, large.depth, large.seed), (1 << 20, 1, 7));
        assert_eq!((large.data.compression_ratio, large.data.duplicate_percent), (2.0, 30));
        assert!(large.durable && jobs[1].duration_ms == Some(120_000));
    }

    #[test]
    fn several_sizes_have_their_shares() {
        let text = |split: &str| {
            let load = "rw=randrw\nrwmixread=70\nsync=1\nbuffer_compress_percentage=50";
            format!("[a]\nruntime=1\nbssplit={split}\n{load}\n")
        };
        let sorts = |split: &str| -> Vec<(u8, bool, usize)> {
            let mixture = jobs(&text(split)).unwrap()[0].load.mixture.unwrap();
            let writes = |part: &MixturePart| part.durable && part.compression_ratio == 2.0;
            assert!(mixture.parts().iter().all(|part| part.is_read || writes(part)));
            mixture.parts().iter().map(|part| (part.percent, part.is_read, part.bytes)).collect()
        };
        let expected = [(42, true, 4096), (28, true, 65536), (18, false, 4096), (12, false, 65536)];
        assert_eq!(sorts("4k/60:64k/40"), expected);
        assert_eq!(sorts("4k/60:64k"), expected);
        assert_eq!(sorts("4k/60:64k/"), expected);
        assert_eq!(sorts("4k,8k/0:16k/100"), [(70, true, 4096), (30, false, 16384)]);
        let load = jobs(&text("4k/60:64k/40")).unwrap()[0].load;
        assert_eq!((load.block_bytes, load.read_percent, load.bytes_max()), (4096, 70, 65536));
        assert_eq!(jobs(&text("8k/100")).unwrap()[0].load.mixture, None);
    }

    #[test]
    fn jobs_without_a_file_of_one_name_have_one_each() {
        let text = "[a]\nruntime=1\nsize=1g\nnumjobs=3\ndirectory=/mnt\n";
        assert_eq!(jobs(text).unwrap()[0].size_bytes, Some(3 << 30));
    }

    #[test]
    fn what_people_write_is_understood() {
        let of = |options: &str| {
            let text = format!("[a]\nruntime=1\nrw=randwrite\nfilename=x\n{options}\n");
            jobs(&text).unwrap().remove(0)
        };
        let plain = of("");
        for harmless in [
            "verify=0",
            "gtod_reduce=1",
            "disable_lat=1",
            "random_generator=lfsr",
            "iodepth_batch=8\niodepth_batch_complete=4",
            "numjobs=1 ; four",
            "nrfiles=4",
            "loops=3",
        ] {
            let job = of(harmless);
            assert_eq!(job.load, plain.load, "{harmless}");
        }
        for (size, bytes) in [("4KB", 4096), ("4KiB", 4096), ("45Gi", 45 << 30), ("1tb", 1 << 40)] {
            assert_eq!(of(&format!("size={size}")).size_bytes, Some(bytes), "{size}");
        }
        assert_eq!(of("filesize=1m-8m").size_bytes, Some(8 << 20));
        assert_eq!(of("filesize=8m\nsize=4m").size_bytes, Some(4 << 20));
        assert_eq!(of("offset=1m").from_bytes, 1 << 20);
        assert_eq!(of("rate=1m\nnumjobs=2").load.rate, Some(512.0));
        assert!(of("verify=crc32c\nverify_fatal=1").load.verify);
    }

    #[test]
    fn sections_that_fio_runs_together_come_one_after_another_and_say_so() {
        let text = "[global]\nruntime=1\n[a]\n[b]\n[c]\nstonewall\n";
        let beside: Vec<Option<String>> =
            jobs(text).unwrap().into_iter().map(|job| job.beside).collect();
        assert_eq!(beside, [None, Some("a".to_owned()), None]);
        // How long is for the command line to say.
        let file = FioFile::read("[a]\nrw=read\n").unwrap();
        assert!(file.jobs(true).is_err());
        assert_eq!(file.jobs(false).unwrap()[0].duration_ms, None);
    }

    #[test]
    fn what_is_not_understood_is_named_with_its_line() {
        let of = |option: &str| format!("[a]\nruntime=1\n{option}\n");
        for (text, line, what) in [
            (of("fsync=1"), 3, "option `fsync` is not understood"),
            (of("rw=trim"), 3, "option `rw`: `trim` is none of"),
            (of("rw=randread:8"), 3, "`randread:8` is none of"),
            (of("bs=512"), 3, "`512` is not a multiple of 4096"),
            (of("bs=4k,8k"), 3, "`4k,8k` is not one size"),
            (of("bssplit=4k/50:8k/50"), 3, "mixed of random accesses alone"),
            (of("rw=randread\nbssplit=4k/50:8k/49"), 4, "not 100 % together"),
            (of("rw=randread\nbssplit=4k/70:8k/40"), 4, "not 100 % together"),
            (of("rw=randread\nbssplit=4k/50:8k/:16k/:32k/"), 4, "in whole percents"),
            (of("rw=randread\nbssplit=512/50:8k/50"), 4, "not a multiple of 4096"),
            (of("rw=randread\nbssplit=4k/x:8k/50"), 4, "has no share `x`"),
            (of("rw=randread\nbssplit=4k,8k,16k"), 4, "more than sizes of reads and writes"),
            (of("rw=randrw\nbssplit=4k/25:8k/75"), 4, "25 % of 50 %, which is not a whole percent"),
            (of("rw=randrw\nbssplit=4k/20:8k/20:16k/20:32k/20:64k/20"), 4, "10 parts"),
            (of("size=50%"), 3, "is not a size"),
            (of("iodepth=x"), 3, "is not a whole number"),
            (of("direct=0"), 3, "page cache"),
            (of("rate_iops=100,200"), 3, "operations a second"),
            (of("random_distribution=pareto:0.2"), 3, "neither random nor zipf"),
            (of("random_distribution=zipf:1.2"), 3, "is of random accesses"),
            (of("iodepth=99999"), 1, "section `a`: 99999 operations under way"),
            ("[a]\nrw=read\n".to_owned(), 1, "no runtime"),
            (of("ioengine=http"), 3, "`http` is an engine that no target here stands for"),
            (of("rw=read\nverify=md5"), 4, "verifies what another job has written"),
            (of("buffered=1"), 3, "page cache"),
            (of("offset=1k"), 3, "not a multiple of 4096"),
        ] {
            let error = jobs(&text).unwrap_err();
            let Error::Fio { line: found, .. } = &error else { panic!("{error}") };
            assert!(*found == line && error.to_string().contains(what), "{text}: {error}");
        }
    }
}
