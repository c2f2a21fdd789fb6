//! How fast parity is computed and strips are rebuilt: by each kernel of the processor and by ISA-L, in turns over one
//! stripe, so that what else the machine does meets all of them.
//!
//! 1. PARITY-1: rates count the CPU time of the calling thread, not time on the wall.
//! 2. PARITY-2: strips are overwritten before each round, and compared with those of the scalar kernel after it.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;
use varve_parity::{CodeShape, ErasureCode, IsaL, Kernel};
use varve_stdx::{AlignedBuf, Rng};

use crate::error::{Error, Result};

/// Rounds in which each contender is measured.
const ROUNDS: u32 = 9;

/// Calls that take less are made several times between two looks at the clock.
const CLOCK_INTERVAL: Duration = Duration::from_micros(200);

/// Longest strip, in bytes: no cache is larger, and the widest code stays below 4 GiB of memory.
const STRIP_BYTES_MAX: usize = 64 << 20;

/// What strips hold before a round, in every byte.
const STALE: u8 = 0xa5;

/// What the strips of ISA-L's functions for RAID are multiples of, in bytes.
const RAID_BYTES: usize = 32;

/// What to measure.
#[derive(Clone, Copy, Debug)]
pub struct ParitySpec {
    /// Data strips.
    pub data: usize,
    /// Parity strips.
    pub parity: usize,
    /// Length of a strip, in bytes.
    pub strip_bytes: usize,
    /// Strips that are rebuilt, the first ones.
    pub lost: usize,
    /// CPU time of each contender, for encoding and for rebuilding, over all rounds.
    pub time: Duration,
}

/// Bytes of data a CPU-second: those of all data strips, however many strips are made from them.
#[derive(Clone, Copy, Serialize, PartialEq, Debug)]
pub struct RateSpread {
    /// Of the rounds.
    pub median: f64,
    /// Of the slowest round.
    pub min: f64,
    /// Of the fastest round.
    pub max: f64,
}

/// What a measurement came to. Fields are added over time, never renamed.
#[derive(Clone, Serialize, Debug)]
pub struct ParityReport {
    /// How parity follows from data: `copies`, `xor`, `p+q` or `cauchy`.
    pub code: String,
    /// File of ISA-L; `None` where it cannot be loaded.
    pub isa_l: Option<String>,
    /// Why ISA-L cannot be loaded.
    pub isa_l_missing: Option<String>,
    /// The kernels of this processor, the slowest kind of instructions first, and ISA-L.
    pub rates: Vec<ParityRate>,
}

/// What a contender came to. Fields are added over time, never renamed.
#[derive(Clone, Serialize, Debug)]
pub struct ParityRate {
    /// The kernel; `isa-l`, which computes by `ec_encode_data`; or `isa-l-raid`, by `xor_gen` or `pq_gen`.
    pub contender: String,
    /// Parity from data.
    pub encode: RateSpread,
    /// Lost strips from others; `None` of who only encodes.
    pub decode: Option<RateSpread>,
    /// Rounds after which a strip was not that of the scalar kernel.
    pub wrong_rounds: u32,
}

impl ParitySpec {
    /// Whether it can be measured.
    ///
    /// # Errors
    /// When there is no such code, strips are empty or too long, or none or more are lost than there are parity strips.
    pub fn check(&self) -> Result<()> {
        self.shape()?;
        check_count("bytes of a strip", self.strip_bytes, STRIP_BYTES_MAX)?;
        check_count("lost strips", self.lost, self.parity)
    }

    /// Measures all kernels of this processor, and ISA-L where the system has it.
    ///
    /// # Errors
    /// As [`check`](Self::check).
    pub fn measure(&self) -> Result<ParityReport> {
        self.check()?;
        let shape = self.shape()?;
        let bench = ParityBench { spec: *self, shape };
        let library = IsaL::load();
        Ok(ParityReport {
            code: shape.kind().to_string(),
            isa_l: library.as_ref().ok().map(|library| library.path().unwrap_or_default()),
            isa_l_missing: library.as_ref().err().cloned(),
            rates: bench.measure(library.ok().as_ref()),
        })
    }

    fn shape(&self) -> Result<CodeShape> {
        Ok(CodeShape::new(self.data, self.parity)?)
    }
}

/// A specification that was checked.
struct ParityBench {
    spec: ParitySpec,
    shape: CodeShape,
}

impl ParityBench {
    fn measure(&self, library: Option<&IsaL>) -> Vec<ParityRate> {
        let mut stripe = BenchStripe::new(self);
        let mut contenders: Vec<Contender<'_>> =
            Kernel::available().into_iter().map(|kernel| self.kernel(kernel)).collect();
        if let Some(library) = library {
            contenders.push(self.library(library));
            contenders.extend(self.raid_library(library));
        }
        for _ in 0..ROUNDS {
            for contender in &mut contenders {
                contender.run(self, &mut stripe);
            }
        }
        contenders.into_iter().map(Contender::finish).collect()
    }

    fn kernel<'a>(&self, kernel: Kernel) -> Contender<'a> {
        let code = ErasureCode::new(self.shape).with_kernel(kernel);
        let (present, lost) = self.choice();
        let plan = code.plan(&present, &lost).expect("no more are lost than parity makes up for");
        Contender::new(
            kernel.to_string(),
            Box::new(move |data, parity| code.encode(data, parity)),
            Some(Box::new(move |sources, lost| plan.rebuild(sources, lost))),
        )
    }

    fn library<'a>(&self, library: &'a IsaL) -> Contender<'a> {
        let code = ErasureCode::new(self.shape);
        let (present, lost) = self.choice();
        let plan = code.plan(&present, &lost).expect("no more are lost than parity makes up for");
        let encode = library.prepare(code.product());
        let decode = library.prepare(plan.product());
        Contender::new(
            "isa-l".to_owned(),
            Box::new(move |data, parity| library.compute(&encode, data, parity)),
            Some(Box::new(move |sources, lost| library.compute(&decode, sources, lost))),
        )
    }

    /// The functions of ISA-L for RAID, where they compute this code.
    fn raid_library<'a>(&self, library: &'a IsaL) -> Option<Contender<'a>> {
        let is_raid = self.shape.data() >= 2 && self.shape.parity() <= 2;
        (is_raid && self.spec.strip_bytes.is_multiple_of(RAID_BYTES)).then(|| {
            let encode: Compute<'a> = Box::new(move |data, parity| {
                library.compute_raid(data, parity);
            });
            Contender::new("isa-l-raid".to_owned(), encode, None)
        })
    }

    /// Strips that are there, and those that are lost.
    fn choice(&self) -> (Vec<usize>, Vec<usize>) {
        ((self.spec.lost..self.shape.strips()).collect(), (0..self.spec.lost).collect())
    }
}

/// Computes strips from others.
type Compute<'a> = Box<dyn Fn(&[&[u8]], &mut [&mut [u8]]) + 'a>;

/// Who computes, and its rates so far.
struct Contender<'a> {
    name: String,
    encode: Compute<'a>,
    decode: Option<Compute<'a>>,
    encode_rates: Vec<f64>,
    decode_rates: Vec<f64>,
    wrong_rounds: u32,
}

impl<'a> Contender<'a> {
    fn new(name: String, encode: Compute<'a>, decode: Option<Compute<'a>>) -> Self {
        let (encode_rates, decode_rates) = (Vec::new(), Vec::new());
        Self { name, encode, decode, encode_rates, decode_rates, wrong_rounds: 0 }
    }

    /// One round of both directions.
    fn run(&mut self, bench: &ParityBench, stripe: &mut BenchStripe) {
        let (shape, time) = (bench.shape, bench.spec.time / ROUNDS);
        let data: Vec<usize> = (0..shape.data()).collect();
        let parity: Vec<usize> = (shape.data()..shape.strips()).collect();
        let round = stripe.run(&data, &parity, time, &self.encode);
        self.encode_rates.push(round.rate);
        let mut is_right = round.is_right;
        if let Some(decode) = &self.decode {
            let (present, lost) = bench.choice();
            let round = stripe.run(&present[..shape.data()], &lost, time, decode);
            self.decode_rates.push(round.rate);
            is_right &= round.is_right;
        }
        self.wrong_rounds += u32::from(!is_right);
    }

    fn finish(self) -> ParityRate {
        ParityRate {
            contender: self.name,
            encode: RateSpread::of(self.encode_rates).expect("there was a round"),
            decode: RateSpread::of(self.decode_rates),
            wrong_rounds: self.wrong_rounds,
        }
    }
}

/// The strips that all work on.
struct BenchStripe {
    strip_bytes: usize,
    /// Data strips, one behind the other, as they lie in a segment.
    data: AlignedBuf,
    /// Their parity by the scalar kernel.
    parity: AlignedBuf,
    /// Strips that are made.
    made: AlignedBuf,
}

/// What a round came to.
struct RoundResult {
    /// Bytes of data a CPU-second.
    rate: f64,
    is_right: bool,
}

impl BenchStripe {
    fn new(bench: &ParityBench) -> Self {
        let (shape, strip_bytes) = (bench.shape, bench.spec.strip_bytes);
        let mut data = AlignedBuf::zeroed(shape.data() * strip_bytes);
        Rng::new(1).fill(&mut data);
        let mut parity = AlignedBuf::zeroed(shape.parity() * strip_bytes);
        ErasureCode::new(shape).with_kernel(Kernel::Scalar).encode(
            &data.chunks(strip_bytes).collect::<Vec<_>>(),
            &mut parity.chunks_mut(strip_bytes).collect::<Vec<_>>(),
        );
        let made = AlignedBuf::zeroed(shape.parity() * strip_bytes);
        Self { strip_bytes, data, parity, made }
    }

    /// Lets strips be made from others until so much CPU time is over.
    fn run(
        &mut self,
        sources: &[usize],
        wanted: &[usize],
        time: Duration,
        compute: &Compute<'_>,
    ) -> RoundResult {
        // PARITY-2
        self.made.fill(STALE);
        let strips = self.data.chunks(self.strip_bytes).chain(self.parity.chunks(self.strip_bytes));
        let strips: Vec<&[u8]> = strips.collect();
        let read: Vec<&[u8]> = sources.iter().map(|at| strips[*at]).collect();
        let made = self.made.chunks_mut(self.strip_bytes);
        let mut made: Vec<&mut [u8]> = made.take(wanted.len()).collect();
        let (mut calls, mut calls_at_once, mut elapsed) = (0_u64, 1_u64, Duration::ZERO);
        let began = cpu_time();
        while elapsed < time || elapsed.is_zero() {
            (0..calls_at_once).for_each(|_| compute(&read, &mut made));
            calls += calls_at_once;
            let now = cpu_time().saturating_sub(began);
            if now.saturating_sub(elapsed) < CLOCK_INTERVAL {
                calls_at_once *= 2;
            }
            elapsed = now;
        }
        let bytes = calls as f64 * self.data.len() as f64;
        let is_right = wanted.iter().zip(&made).all(|(at, made)| *strips[*at] == **made);
        RoundResult { rate: bytes / elapsed.as_secs_f64(), is_right }
    }
}

impl RateSpread {
    /// That of some rates; `None` of none.
    fn of(mut rates: Vec<f64>) -> Option<Self> {
        rates.sort_by(f64::total_cmp);
        let (min, max) = (*rates.first()?, *rates.last()?);
        Some(Self { median: rates[rates.len() / 2], min, max })
    }
}

fn check_count(what: &'static str, count: usize, count_max: usize) -> Result<()> {
    if (1..=count_max).contains(&count) {
        return Ok(());
    }
    let number = |count| u32::try_from(count).unwrap_or(u32::MAX);
    Err(Error::Count { what, count: number(count), count_max: number(count_max) })
}

/// CPU time that this thread has used.
fn cpu_time() -> Duration {
    // PARITY-1
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(data: usize, parity: usize) -> ParitySpec {
        let time = Duration::from_millis(9);
        ParitySpec { data, parity, strip_bytes: 4096, lost: parity, time }
    }

    #[test]
    fn every_kernel_is_measured_and_right() {
        for (data, parity) in [(2, 1), (4, 2), (10, 4), (1, 2)] {
            let report = spec(data, parity).measure().unwrap();
            assert_ne!(report.isa_l.is_some(), report.isa_l_missing.is_some());
            assert!(report.rates.len() >= Kernel::available().len());
            for rate in report.rates {
                assert_eq!(rate.wrong_rounds, 0, "{rate:?}");
                for spread in [Some(rate.encode), rate.decode].into_iter().flatten() {
                    assert!(0.0 < spread.min && spread.min <= spread.median, "{rate:?}");
                    assert!(spread.median <= spread.max && spread.max.is_finite(), "{rate:?}");
                }
            }
        }
    }

    #[test]
    fn wrong_strips_are_found() {
        let bench = ParityBench { spec: spec(3, 1), shape: CodeShape::new(3, 1).unwrap() };
        let mut contender = bench.kernel(Kernel::Scalar);
        contender.encode = Box::new(|_, parity| parity[0][1..].fill(0));
        contender.run(&bench, &mut BenchStripe::new(&bench));
        assert_eq!(contender.finish().wrong_rounds, 1);
    }

    #[test]
    fn what_cannot_be_measured_is_refused() {
        for (strip_bytes, lost) in [(0, 1), (4096, 0), (4096, 3), (usize::MAX, 1)] {
            let spec = ParitySpec { strip_bytes, lost, ..spec(4, 2) };
            assert!(matches!(spec.check(), Err(Error::Count { .. })), "{spec:?}");
        }
        assert!(matches!(spec(0, 2).check(), Err(Error::Parity(_))));
    }
}
