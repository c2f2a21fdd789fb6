//! Jobs in the simulator, on disks whose answers take known times.

use super::*;
use crate::access::AccessPattern;
use crate::error::Error;
use crate::load::measured::KindTotals;
use varve_media::{IoFuture, MemDisk, Persist};
use varve_reactor::SimLoop;
use varve_stdx::{AlignedBuf, BufSlice};

const MS: u64 = 1_000_000;
const SECOND: u64 = 1000 * MS;
const SIZE_BYTES: u64 = 1000 * 4096;

/// Answers one operation at a time, each after 1 ms, and none from second 2 to second 3.
struct Stalling {
    reactor: Reactor,
    memory: MemDisk,
    free_at: Cell<Nanos>,
    is_stalling: bool,
}

impl Stalling {
    fn turn(&self) -> varve_reactor::Sleep {
        let mut begin = self.free_at.get().max(self.reactor.now());
        if self.is_stalling && (2 * SECOND..3 * SECOND).contains(&begin.0) {
            begin = Nanos(3 * SECOND);
        }
        self.free_at.set(begin + MS);
        self.reactor.sleep(begin + MS - self.reactor.now())
    }
}

impl Disk for Stalling {
    fn path(&self) -> &'static str {
        "stalling"
    }

    fn size(&self) -> u64 {
        SIZE_BYTES
    }

    fn read(&self, offset: u64, len: usize) -> IoFuture<'_, AlignedBuf> {
        let turn = self.turn();
        Box::pin(async move {
            turn.await;
            self.memory.read(offset, len).await
        })
    }

    fn write(&self, offset: u64, bytes: BufSlice, persist: Persist) -> IoFuture<'_, ()> {
        let turn = self.turn();
        Box::pin(async move {
            turn.await;
            self.memory.write(offset, bytes, persist).await
        })
    }

    fn flush(&self) -> IoFuture<'_, ()> {
        self.memory.flush()
    }

    fn discard(&self, offset: u64, len: u64) -> IoFuture<'_, ()> {
        self.memory.discard(offset, len)
    }
}

/// Runs phases on a disk that stalls or not; what was measured in each.
fn run(spec: LoadSpec, is_stalling: bool, phases: &[JobPhase]) -> Vec<Measurement> {
    let mut sim = SimLoop::new(1);
    let reactor = sim.handle();
    let disk = Rc::new(Stalling {
        reactor: reactor.clone(),
        memory: MemDisk::new("memory", SIZE_BYTES),
        free_at: Cell::new(Nanos(0)),
        is_stalling,
    });
    let part = JobPart { job: 0, begin_bytes: 0, size_bytes: SIZE_BYTES };
    let job = Job::new(&reactor, disk, &spec, part, Arc::default()).unwrap();
    let phases = phases.to_vec();
    sim.run_until(async move {
        let mut measured = Vec::new();
        for phase in phases {
            measured.push(job.run(phase).await.unwrap());
        }
        measured
    })
}

fn load(seconds: u64) -> JobPhase {
    JobPhase::Load { ramp_ns: 0, duration_ns: seconds * SECOND }
}

fn slower_than(side: &KindTotals, latency_ns: u64) -> u64 {
    side.latency_ns.count_between(latency_ns, u64::MAX)
}

#[test]
fn a_closed_loop_does_what_the_disk_can() {
    let spec = LoadSpec { depth: 4, ..LoadSpec::default() };
    let measured =
        run(spec, false, &[JobPhase::Load { ramp_ns: SECOND, duration_ns: 4 * SECOND }]).remove(0);
    assert_eq!((measured.window_ns, measured.not_begun), (4 * SECOND, 0));
    assert!(measured.reads.operations.abs_diff(4000) <= 8, "{}", measured.reads.operations);
    assert_eq!(measured.writes.operations, 0);
    // Four wait in turn for 1 ms each.
    let median_ns = measured.reads.latency_ns.value_at_quantile(0.5);
    assert!(median_ns.abs_diff(4 * MS) < MS / 10, "{median_ns}");
    assert!(measured.per_second.iter().all(|count| count.abs_diff(1000) <= 8));
}

#[test]
fn an_open_loop_counts_what_queues_behind_a_stall() {
    let open = LoadSpec { rate: Some(100.0), depth: 1, ..LoadSpec::default() };
    let measured = run(open, true, &[load(10)]).remove(0);
    assert_eq!((measured.reads.operations, measured.not_begun), (1000, 0));
    // A hundred operations were due while nothing was answered: half of them waited for more than 500 ms.
    let slow = slower_than(&measured.reads, 500 * MS);
    assert!((50..=62).contains(&slow), "{slow}");
    let max_ns = measured.reads.latency_ns.max();
    assert!(max_ns.abs_diff(SECOND) < 20 * MS, "{max_ns}");
    assert!(measured.reads.latency_ns.value_at_quantile(0.95) > 400 * MS);
    // A loop that waits for answers sends one operation into the stall, and misses the rest.
    let closed = LoadSpec { rate: None, ..open };
    let measured = run(closed, true, &[load(10)]).remove(0);
    assert_eq!(slower_than(&measured.reads, 500 * MS), 1);
}

#[test]
fn a_disk_that_cannot_keep_up_is_told() {
    let spec = LoadSpec { rate: Some(2000.0), depth: 8, ..LoadSpec::default() };
    let measured = run(spec, false, &[load(4)]).remove(0);
    // It answers a thousand a second: at the end four thousand are missing.
    assert!(measured.reads.operations.abs_diff(4000) <= 10, "{}", measured.reads.operations);
    assert_eq!(measured.reads.operations + measured.not_begun, 8000);
    assert_eq!(measured.reads.latency_ns.len(), 8000, "all that were due count");
    let max_ns = measured.reads.latency_ns.max();
    assert!(max_ns.abs_diff(2 * SECOND) < 50 * MS, "{max_ns}");
}

#[test]
fn filling_writes_each_block_once_and_reading_back_finds_it() {
    let pattern = AccessPattern::Zipf { theta: 0.99 };
    let spec = LoadSpec { verify: true, read_percent: 50, pattern, ..LoadSpec::default() };
    let phases = [JobPhase::Fill, load(1), JobPhase::ReadBack];
    let measured = run(spec, false, &phases);
    assert_eq!((measured[0].writes.operations, measured[0].reads.operations), (1000, 0));
    assert!(measured[1].writes.operations > 400 && measured[1].reads.operations > 400);
    assert_eq!((measured[2].reads.operations, measured[2].writes.operations), (1000, 0));
}

#[test]
fn operations_that_were_not_begun_leave_verification_alone() {
    let spec = LoadSpec {
        verify: true,
        read_percent: 50,
        rate: Some(5000.0),
        depth: 8,
        ..LoadSpec::default()
    };
    let measured = run(spec, false, &[load(1), load(1), JobPhase::ReadBack]);
    assert!(measured[0].not_begun > 3000 && measured[1].not_begun > 3000);
    assert!(measured[2].reads.operations > 200);
}

#[test]
fn a_flipped_bit_is_found() {
    let mut sim = SimLoop::new(1);
    let reactor = sim.handle();
    let memory = MemDisk::new("memory", SIZE_BYTES);
    let spec = LoadSpec { verify: true, ..LoadSpec::default() };
    let part = JobPart { job: 0, begin_bytes: 0, size_bytes: SIZE_BYTES };
    let disk = Rc::new(memory.clone());
    let job = Job::new(&reactor, disk, &spec, part, Arc::default()).unwrap();
    let error = sim.run_until(async move {
        job.run(JobPhase::Fill).await.unwrap();
        memory.flip_bit(5 * 4096 + 17, 3);
        job.run(JobPhase::ReadBack).await.unwrap_err()
    });
    assert!(matches!(error, Error::Mismatch { offset: 20_497, writes: 1 }), "{error}");
}

#[test]
fn a_job_that_is_stopped_says_what_it_measured() {
    let mut sim = SimLoop::new(1);
    let reactor = sim.handle();
    let watch = Arc::new(JobWatch::default());
    let disk = Rc::new(Stalling {
        reactor: reactor.clone(),
        memory: MemDisk::new("memory", SIZE_BYTES),
        free_at: Cell::new(Nanos(0)),
        is_stalling: false,
    });
    let spec = LoadSpec { rate: Some(10.0), ..LoadSpec::default() };
    let part = JobPart { job: 0, begin_bytes: 0, size_bytes: SIZE_BYTES };
    let job = Job::new(&reactor, disk, &spec, part, Arc::clone(&watch)).unwrap();
    let measured = sim.run_until(async move {
        let stopper = reactor.clone();
        let stop = Arc::clone(&watch);
        reactor.spawn(async move {
            stopper.sleep(2 * SECOND + 50 * MS).await;
            stop.stop();
        });
        job.run(load(1000)).await.unwrap()
    });
    assert_eq!((measured.reads.operations, measured.not_begun), (21, 0));
    assert!(measured.window_ns.abs_diff(2 * SECOND + 50 * MS) < 100 * MS, "{}", measured.window_ns);
}
