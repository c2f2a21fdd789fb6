//! The simulated disk: operations take simulated time, and a power cut keeps any part of what was not yet durable.
//!
//! A [`SimMedium`] is the thing that survives a crash; a [`SimDisk`] is one incarnation's handle on it.
//!
//! ```text
//!   write called      write returned, cached       flush returned, or durable write returned
//!        |                    |                              |
//!   in flight ----------> cached -----------------------> durable
//!        \____________________/
//!          a power cut keeps any subset of these sectors
//! ```
//!
//! MEDIA-SIM-1. Every choice comes from the reactor's seed or from the generator handed in: the same seed gives the
//!     same run.
//! MEDIA-SIM-2. Reads see what returned, and none of what is in flight.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

use varve_reactor::{Nanos, Reactor};
use varve_stdx::{AlignedBuf, BufSlice, Rng};

use crate::contract::{IoFuture, refused};
use crate::disk::{Disk, Persist, assert_range};
use crate::mem::{SparseBytes, flip_bit};
use crate::sim_host::{FileRoom, SimHost};
use crate::{Error, Result};

const SECTOR: usize = 512;

/// How long simulated operations take, in nanoseconds, drawn evenly from each range.
#[derive(Clone, Debug)]
pub struct SimLatency {
    /// Of a read.
    pub read_nanos: Range<u64>,
    /// Of a write, cached or durable.
    pub write_nanos: Range<u64>,
    /// Of a flush.
    pub flush_nanos: Range<u64>,
}

impl Default for SimLatency {
    /// A flash drive with a write cache: quick writes, slower reads, now and then out of order.
    fn default() -> Self {
        Self {
            read_nanos: 20_000..150_000,
            write_nanos: 5_000..80_000,
            flush_nanos: 5_000..100_000,
        }
    }
}

/// A write that is not durable yet.
#[derive(Clone)]
struct CachedWrite {
    number: u64,
    offset: u64,
    bytes: BufSlice,
    /// Sectors that no later durable write has replaced.
    live: Vec<bool>,
}

impl CachedWrite {
    fn sectors(&self) -> impl Iterator<Item = (u64, &[u8])> {
        let at = |index: usize| self.offset + (index * SECTOR) as u64;
        let parts = self.bytes.chunks(SECTOR).enumerate().zip(&self.live);
        parts.filter(|(_, live)| **live).map(move |((index, part), _)| (at(index), part))
    }

    /// Where it goes.
    fn range(&self) -> Range<u64> {
        self.offset..self.offset + self.bytes.len() as u64
    }

    fn touches(&self, range: &Range<u64>) -> bool {
        let own = self.range();
        own.start < range.end && range.start < own.end
    }

    fn is_whole(&self) -> bool {
        self.live.iter().all(|live| *live)
    }

    fn retire(&mut self, range: &Range<u64>) {
        if !self.touches(range) {
            return;
        }
        for (index, live) in self.live.iter_mut().enumerate() {
            if range.contains(&(self.offset + (index * SECTOR) as u64)) {
                *live = false;
            }
        }
    }
}

#[derive(Default)]
struct State {
    durable: SparseBytes,
    /// Returned but not durable, in the order in which they returned.
    cached: Vec<CachedWrite>,
    in_flight: BTreeMap<u64, CachedWrite>,
    next_number: u64,
    unreadable: Vec<Range<u64>>,
    writes_fail: bool,
    write_fails_once: bool,
    /// Nothing of a write lands that begins now.
    refuses_writes: bool,
    stuck_until: Nanos,
    /// Of a sparse file.
    room: Option<FileRoom>,
    owner: u64,
}

impl State {
    /// MEDIA-SIM-2
    fn read(&self, offset: u64, out: &mut [u8]) {
        self.durable.read(offset, out);
        let end = offset + out.len() as u64;
        let cached = self.cached.iter().filter(|extent| extent.touches(&(offset..end)));
        for (at, part) in cached.flat_map(CachedWrite::sectors) {
            if at >= offset && at < end {
                let start = usize::try_from(at - offset).expect("within a buffer");
                out[start..start + part.len()].copy_from_slice(part);
            }
        }
    }

    fn begin_write(&mut self, offset: u64, bytes: BufSlice) -> u64 {
        let number = self.next_number;
        self.next_number += 1;
        let live = vec![!self.refuses_writes; bytes.len() / SECTOR];
        self.in_flight.insert(number, CachedWrite { number, offset, bytes, live });
        number
    }

    /// Whether a write or flush that comes to its end now fails.
    fn write_fails(&mut self) -> bool {
        std::mem::take(&mut self.write_fails_once) || self.writes_fail
    }

    /// Whether nothing of a write that is under way lands.
    fn is_refused(&self, number: u64) -> bool {
        let extent = self.in_flight.get(&number);
        extent.is_some_and(|extent| extent.live.iter().all(|live| !live))
    }

    /// Takes the room that a write needs before it is finished; false when there is none.
    fn take_room(&mut self, number: u64, persist: Persist) -> bool {
        let (Some(room), Some(extent)) = (&mut self.room, self.in_flight.get(&number)) else {
            return true;
        };
        let range = extent.range();
        room.write(&range, (persist == Persist::Cached).then_some(self.next_number))
    }

    /// Ends a write that failed: any part of it may have landed.
    fn fail_write(&mut self, number: u64, rng: &mut Rng) {
        if let Some(extent) = self.in_flight.remove(&number) {
            self.keep_some(&extent, rng);
        }
    }

    fn finish_write(&mut self, number: u64, persist: Persist) {
        let Some(mut extent) = self.in_flight.remove(&number) else { return };
        if persist == Persist::Durable {
            let range = extent.range();
            self.cached.iter_mut().for_each(|older| older.retire(&range));
            self.cached.retain(|older| older.live.iter().any(|live| *live));
            self.durable.write(extent.offset, &extent.bytes);
        } else {
            extent.number = self.next_number;
            self.next_number += 1;
            self.cached.push(extent);
        }
    }

    fn finish_flush(&mut self, before: u64) {
        let (now, later) = std::mem::take(&mut self.cached)
            .into_iter()
            .partition(|extent: &CachedWrite| extent.number < before);
        self.cached = later;
        now.iter().for_each(|extent: &CachedWrite| self.keep_all(extent));
        if let Some(room) = &mut self.room {
            room.flush(before);
        }
    }

    fn keep_all(&mut self, extent: &CachedWrite) {
        if extent.is_whole() {
            self.durable.write(extent.offset, &extent.bytes);
        } else {
            self.keep(extent, |_| true);
        }
    }

    fn keep(&mut self, extent: &CachedWrite, mut choose: impl FnMut(u64) -> bool) {
        for (at, part) in extent.sectors() {
            if choose(at) {
                self.durable.write_in_page(at, part);
            }
        }
    }

    /// DISK-4
    fn keep_some(&mut self, extent: &CachedWrite, rng: &mut Rng) {
        match rng.below(4) {
            0 => {}
            1 => self.keep_all(extent),
            // A prefix, as of a transfer cut short; otherwise any subset.
            2 => {
                let end = extent.offset + rng.below(extent.bytes.len() as u64);
                self.keep(extent, |at| at < end);
            }
            _ => self.keep(extent, |_| rng.chance(1, 2)),
        }
    }
}

/// Simulated bytes that survive crashes. Clones share them.
#[derive(Clone)]
pub struct SimMedium {
    name: Rc<str>,
    size: Rc<Cell<u64>>,
    state: Rc<RefCell<State>>,
}

impl SimMedium {
    /// `size` zero bytes.
    #[must_use]
    pub fn new(name: &str, size: u64) -> Self {
        Self { name: name.into(), size: Rc::new(Cell::new(size)), state: Rc::default() }
    }

    /// Makes it longer, durably: what comes is zeros.
    pub fn grow(&self, size: u64) {
        self.size.set(self.size.get().max(size));
    }

    /// Has the medium be a sparse file of `host` from now on, of which nothing is written yet.
    pub fn lie_on(&self, host: &SimHost) {
        self.state.borrow_mut().room = Some(FileRoom::new(host, self.size.get()));
    }

    /// Cuts power: keeps any subset of the 512-byte sectors that were not durable. Drop the loop before.
    pub fn crash(&self, rng: &mut Rng) {
        let mut state = self.state.borrow_mut();
        let cached = std::mem::take(&mut state.cached);
        let mut in_flight: Vec<_> = std::mem::take(&mut state.in_flight).into_values().collect();
        for extent in &cached {
            state.keep_some(extent, rng);
        }
        while !in_flight.is_empty() {
            let extent = in_flight.swap_remove(rng.index(in_flight.len()));
            state.keep_some(&extent, rng);
        }
        if let Some(room) = &mut state.room {
            room.crash(rng);
        }
        state.stuck_until = Nanos(0);
    }

    /// Kills the process but not the machine: what returned stays, what was in flight lands in full or not at all.
    pub fn kill(&self, rng: &mut Rng) {
        let mut state = self.state.borrow_mut();
        for number in state.in_flight.keys().copied().collect::<Vec<_>>() {
            if rng.chance(1, 2) && state.take_room(number, Persist::Cached) {
                state.finish_write(number, Persist::Cached);
            }
        }
        state.in_flight.clear();
        state.stuck_until = Nanos(0);
    }

    /// Inverts one bit of what is durable, as decay would.
    ///
    /// # Panics
    /// When `offset` lies outside the medium.
    pub fn flip_bit(&self, offset: u64, bit: u8) {
        assert!(offset < self.size.get(), "{offset} lies outside {}", self.name);
        flip_bit(&mut self.state.borrow_mut().durable, offset, bit);
    }

    /// What a range holds durably, whose start is a multiple of 4 KiB; none while a write to the medium is under way or
    /// cached, which a power cut may keep or not.
    #[must_use]
    pub fn durable(&self, range: Range<u64>) -> Option<Vec<u8>> {
        let state = self.state.borrow();
        if !state.cached.is_empty() || !state.in_flight.is_empty() {
            return None;
        }
        let mut bytes = vec![0; len_of(&range)];
        state.durable.read(range.start, &mut bytes);
        Some(bytes)
    }

    /// What reads see of a range whose start is a multiple of 4 KiB: all that returned, durable or not (MEDIA-SIM-2).
    #[must_use]
    pub fn visible(&self, range: Range<u64>) -> Vec<u8> {
        let mut bytes = vec![0; len_of(&range)];
        self.state.borrow().read(range.start, &mut bytes);
        bytes
    }

    /// Whether nothing is cached or under way, so that a power cut changes nothing.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        let state = self.state.borrow();
        state.cached.is_empty() && state.in_flight.is_empty()
    }

    /// Another medium with what this one holds, as a copy of the device has it.
    #[must_use]
    pub fn copy(&self) -> Self {
        let state = self.state.borrow();
        let mut copy = State { durable: state.durable.clone(), ..State::default() };
        state.cached.iter().for_each(|extent| copy.keep_all(extent));
        let state = Rc::new(RefCell::new(copy));
        Self { name: Rc::clone(&self.name), size: Rc::new(Cell::new(self.size.get())), state }
    }

    /// Another medium as this one is now, with what is cached and under way: what happens to either from now on does
    /// not reach the other.
    ///
    /// # Panics
    /// When it lies on a host, whose room both would have.
    #[must_use]
    pub fn fork(&self) -> Self {
        let state = self.state.borrow();
        assert!(state.room.is_none(), "the room of a host is not copied");
        let fork = State {
            durable: state.durable.clone(),
            cached: state.cached.clone(),
            in_flight: state.in_flight.clone(),
            unreadable: state.unreadable.clone(),
            room: None,
            ..*state
        };
        let state = Rc::new(RefCell::new(fork));
        Self { name: Rc::clone(&self.name), size: Rc::new(Cell::new(self.size.get())), state }
    }

    /// Puts what `other` holds durably at `from` in the place of `to`, durably, as a write does that went astray, or an
    /// older one whose successor was lost. Positions are multiples of 4 KiB.
    pub fn transplant(&self, to: Range<u64>, other: &Self, from: u64) {
        let mut bytes = vec![0; len_of(&to)];
        other.state.borrow().durable.read(from, &mut bytes);
        let mut state = self.state.borrow_mut();
        state.cached.iter_mut().for_each(|extent| extent.retire(&to));
        state.durable.write(to.start, &bytes);
    }

    /// Makes a range read as zeros, durably. Both ends are multiples of 4 KiB.
    pub fn erase(&self, range: Range<u64>) {
        let mut state = self.state.borrow_mut();
        state.cached.iter_mut().for_each(|extent| extent.retire(&range));
        state.durable.erase(range);
    }

    /// Makes every read that touches `range` fail from now on.
    pub fn fail_reads(&self, range: Range<u64>) {
        self.state.borrow_mut().unreadable.push(range);
    }

    /// Makes every write and flush fail from now on, or work again. A failed write may have landed in part.
    pub fn fail_writes(&self, fail: bool) {
        self.state.borrow_mut().writes_fail = fail;
    }

    /// Makes the next write or flush that comes to its end fail, or no longer does. A failed write may have landed in
    /// part.
    pub fn fail_next_write(&self, fail: bool) {
        self.state.borrow_mut().write_fails_once = fail;
    }

    /// Has every write that begins from now on fail with nothing of it on the medium, or no longer. One that was under
    /// way ends as before.
    pub fn refuse_writes(&self, refuses: bool) {
        self.state.borrow_mut().refuses_writes = refuses;
    }

    /// Makes no operation come to its end before `until`: the device does not answer. A power cut or a kill ends that.
    pub fn stick(&self, until: Nanos) {
        self.state.borrow_mut().stuck_until = until;
    }

    /// Whether the next write or flush fails, or no operation comes to its end yet.
    #[must_use]
    pub fn is_disturbed(&self, now: Nanos) -> bool {
        self.stuck_for(now).is_some() || self.state.borrow().write_fails_once
    }

    /// How long no operation comes to its end, in ns.
    fn stuck_for(&self, now: Nanos) -> Option<u64> {
        let left = self.state.borrow().stuck_until.since(now);
        (left > 0).then_some(left)
    }

    /// Ends all read failures.
    pub fn heal_reads(&self) {
        self.state.borrow_mut().unreadable.clear();
    }

    /// Opens the medium for one incarnation; older handles are fenced off.
    #[must_use]
    pub fn open(&self, reactor: &Reactor, latency: SimLatency) -> SimDisk {
        let owner = {
            let mut state = self.state.borrow_mut();
            state.owner += 1;
            state.owner
        };
        SimDisk { medium: self.clone(), reactor: reactor.clone(), latency, owner: Cell::new(owner) }
    }

    fn no_space(&self) -> Error {
        Error::NoSpace { path: self.name.to_string() }
    }

    fn error(&self, operation: &'static str, offset: u64, len: u64) -> Error {
        let reason = "simulated failure".to_owned();
        Error::Io { operation, path: self.name.to_string(), offset, len, reason }
    }
}

fn len_of(range: &Range<u64>) -> usize {
    usize::try_from(range.end - range.start).expect("a range in memory")
}

/// One incarnation's handle on a [`SimMedium`].
pub struct SimDisk {
    medium: SimMedium,
    reactor: Reactor,
    latency: SimLatency,
    owner: Cell<u64>,
}

impl SimDisk {
    fn pause(&self, range: &Range<u64>) -> varve_reactor::Sleep {
        let width = range.end.saturating_sub(range.start).max(1);
        self.reactor.sleep(range.start + self.reactor.random_u64() % width) // MEDIA-SIM-1
    }

    fn run<T: 'static>(
        &self,
        pause: &Range<u64>,
        finish: impl FnOnce(&SimMedium) -> Result<T> + 'static,
    ) -> IoFuture<'_, T> {
        let (pause, medium) = (self.pause(pause), self.medium.clone());
        let reactor = self.reactor.clone();
        let task = async move {
            pause.await;
            while let Some(left) = medium.stuck_for(reactor.now()) {
                reactor.sleep(left).await;
            }
            finish(&medium)
        };
        Box::pin(self.reactor.spawn_join(task)) // DISK-3: it goes on when the future is dropped.
    }
}

impl Disk for SimDisk {
    fn path(&self) -> &str {
        &self.medium.name
    }

    fn size(&self) -> u64 {
        self.medium.size.get()
    }

    fn read(&self, offset: u64, len: usize) -> IoFuture<'_, AlignedBuf> {
        assert_range(self.medium.size.get(), offset, len as u64);
        self.run(&self.latency.read_nanos, move |medium| {
            let state = medium.state.borrow();
            let end = offset + len as u64;
            if state.unreadable.iter().any(|bad| bad.start < end && offset < bad.end) {
                return Err(medium.error("read", offset, len as u64));
            }
            let mut buf = AlignedBuf::scratch(len);
            state.read(offset, &mut buf);
            Ok(buf)
        })
    }

    fn write(&self, offset: u64, bytes: BufSlice, persist: Persist) -> IoFuture<'_, ()> {
        assert_range(self.medium.size.get(), offset, bytes.len() as u64);
        if let Err(error) = self.check_fence() {
            return refused(error);
        }
        let len = bytes.len() as u64;
        let number = self.medium.state.borrow_mut().begin_write(offset, bytes);
        let mut rng = Rng::new(self.reactor.random_u64());
        self.run(&self.latency.write_nanos, move |medium| {
            let mut state = medium.state.borrow_mut();
            if state.write_fails() || state.is_refused(number) {
                state.fail_write(number, &mut rng);
                return Err(medium.error("write", offset, len));
            }
            if !state.take_room(number, persist) {
                state.room.iter().for_each(FileRoom::count_refusal);
                state.fail_write(number, &mut rng);
                return Err(medium.no_space());
            }
            state.finish_write(number, persist);
            Ok(())
        })
    }

    fn flush(&self) -> IoFuture<'_, ()> {
        let before = self.medium.state.borrow().next_number;
        self.run(&self.latency.flush_nanos, move |medium| {
            let mut state = medium.state.borrow_mut();
            if state.write_fails() {
                return Err(medium.error("flush", 0, 0));
            }
            state.finish_flush(before);
            Ok(())
        })
    }

    fn allocate(&self, offset: u64, len: u64) -> IoFuture<'_, ()> {
        assert_range(self.medium.size.get(), offset, len);
        if self.medium.state.borrow().room.is_none() {
            return Box::pin(std::future::ready(Ok(())));
        }
        self.run(&self.latency.write_nanos, move |medium| {
            let mut state = medium.state.borrow_mut();
            let number = state.next_number;
            state.next_number += 1;
            let has_room = match &mut state.room {
                Some(room) => room.allocate(&(offset..offset + len), number),
                None => true,
            };
            if has_room { Ok(()) } else { Err(medium.no_space()) }
        })
    }

    /// Room that a file has stays with it.
    fn discard(&self, offset: u64, len: u64) -> IoFuture<'_, ()> {
        assert_range(self.medium.size.get(), offset, len);
        self.run(&self.latency.write_nanos, move |medium| {
            let mut state = medium.state.borrow_mut();
            let range = offset..offset + len;
            state.cached.iter_mut().for_each(|older| older.retire(&range));
            state.durable.discard(offset, len);
            Ok(())
        })
    }

    fn check_fence(&self) -> Result<()> {
        if self.medium.state.borrow().owner == self.owner.get() {
            return Ok(());
        }
        Err(Error::Fenced)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim_host::RoomPolicy;
    use varve_reactor::SimLoop;

    const SIZE: u64 = 1 << 20;

    fn filled(byte: u8, len: usize) -> BufSlice {
        BufSlice::copy_from(&vec![byte; len])
    }

    /// Writes `first` durably and `second` cached over it, crashes, and returns what is read afterwards.
    fn overwrite_and_crash(seed: u64, flush: bool) -> Vec<u8> {
        let mut rng = Rng::new(seed);
        let medium = SimMedium::new("sim0", SIZE);
        let mut sim = SimLoop::new(seed);
        let disk = medium.open(&sim.handle(), SimLatency::default());
        sim.run_until(async move {
            disk.write(4096, filled(1, 8192), Persist::Durable).await.unwrap();
            disk.write(4096, filled(2, 8192), Persist::Cached).await.unwrap();
            assert_eq!(disk.read(4096, 4096).await.unwrap()[0], 2);
            if flush {
                disk.flush().await.unwrap();
            }
        });
        drop(sim);
        medium.crash(&mut rng);
        let mut sim = SimLoop::new(seed);
        let disk = medium.open(&sim.handle(), SimLatency::default());
        sim.run_until(async move { disk.read(4096, 8192).await.unwrap().to_vec() })
    }

    #[test]
    fn a_crash_keeps_any_subset_of_cached_sectors_and_all_flushed_ones() {
        let (mut old, mut new, mut mixed) = (0, 0, 0);
        for seed in 0..200 {
            let after = overwrite_and_crash(seed, false);
            assert!(after.chunks(SECTOR).all(|sector| sector.iter().all(|b| *b == sector[0])));
            match (after.contains(&1), after.contains(&2)) {
                (true, true) => mixed += 1,
                (true, false) => old += 1,
                (false, true) => new += 1,
                (false, false) => panic!("durable bytes are gone"),
            }
            assert!(overwrite_and_crash(seed, true).iter().all(|b| *b == 2));
        }
        assert!(old > 10 && new > 10 && mixed > 10, "{old} {new} {mixed}");
    }

    #[test]
    fn nothing_lands_of_what_begins_while_writes_are_refused() {
        for seed in 0..20 {
            let medium = SimMedium::new("sim0", SIZE);
            let mut sim = SimLoop::new(seed);
            let disk = medium.open(&sim.handle(), SimLatency::default());
            let (of_medium, mut rng) = (medium.clone(), Rng::new(seed));
            sim.run_until(async move {
                disk.write(0, filled(1, 4096), Persist::Durable).await.unwrap();
                of_medium.refuse_writes(true);
                disk.write(0, filled(2, 4096), Persist::Durable).await.unwrap_err();
                drop(disk.write(0, filled(3, 4096), Persist::Durable)); // Under way when power is cut.
            });
            drop(sim);
            medium.crash(&mut rng);
            assert!(medium.visible(0..4096).iter().all(|byte| *byte == 1));
        }
    }

    #[test]
    fn an_older_cached_write_does_not_come_back_over_a_durable_one() {
        for seed in 0..100 {
            let medium = SimMedium::new("sim0", SIZE);
            let mut sim = SimLoop::new(seed);
            let disk = medium.open(&sim.handle(), SimLatency::default());
            sim.run_until(async move {
                disk.write(0, filled(1, 4096), Persist::Cached).await.unwrap();
                disk.write(0, filled(2, 4096), Persist::Durable).await.unwrap();
            });
            drop(sim);
            medium.crash(&mut Rng::new(seed));
            let mut out = vec![0; 4096];
            medium.state.borrow().read(0, &mut out);
            assert!(out.iter().all(|b| *b == 2), "seed {seed}");
        }
    }

    #[test]
    fn what_is_durable_is_told_while_nothing_is_cached() {
        let medium = SimMedium::new("sim0", SIZE);
        let mut sim = SimLoop::new(1);
        let disk = medium.open(&sim.handle(), SimLatency::default());
        let same = medium.clone();
        sim.run_until(async move {
            disk.write(0, filled(1, 4096), Persist::Durable).await.unwrap();
            assert_eq!(same.durable(0..512), Some(vec![1; 512]));
            disk.write(4096, filled(2, 4096), Persist::Cached).await.unwrap();
            assert_eq!(same.durable(0..512), None);
            assert_eq!(same.visible(4096..4608), vec![2; 512]);
            disk.flush().await.unwrap();
            assert_eq!(same.durable(4096..4608), Some(vec![2; 512]));
            assert!(same.is_settled());
            drop(disk.write(0, filled(3, 4096), Persist::Durable));
            assert_eq!((same.durable(0..512), same.is_settled()), (None, false));
            assert_eq!(same.visible(0..512), vec![1; 512]);
        });
        drop(sim);
        medium.crash(&mut Rng::new(1));
        assert!(medium.durable(0..512).is_some());
    }

    #[test]
    fn a_fork_is_cut_by_itself() {
        let medium = SimMedium::new("sim0", SIZE);
        let mut sim = SimLoop::new(1);
        let disk = medium.open(&sim.handle(), SimLatency::default());
        let same = medium.clone();
        let fork = sim.run_until(async move {
            disk.write(0, filled(1, 4096), Persist::Durable).await.unwrap();
            disk.write(4096, filled(2, 4096), Persist::Cached).await.unwrap();
            let under_way = disk.write(8192, filled(3, 4096), Persist::Durable);
            let fork = same.fork();
            under_way.await.unwrap();
            disk.write(0, filled(4, 4096), Persist::Durable).await.unwrap();
            fork
        });
        assert!(!fork.is_settled() && fork.visible(8192..8704) == vec![0; 512]);
        let mut kept = [false; 2];
        for seed in 0..40 {
            let cut = fork.fork();
            cut.crash(&mut Rng::new(seed));
            assert_eq!(cut.durable(0..512), Some(vec![1; 512]), "seed {seed}");
            kept[0] |= cut.durable(4096..4608) == Some(vec![2; 512]);
            kept[1] |= cut.durable(8192..8704) == Some(vec![3; 512]);
        }
        assert_eq!(kept, [true; 2], "a cut may keep what was cached, and what was under way");
        assert_eq!(medium.visible(0..512), vec![4; 512]);
        assert_eq!(medium.visible(8192..8704), vec![3; 512]);
    }

    #[test]
    fn what_went_astray_takes_the_place_of_what_was_cached() {
        let medium = SimMedium::new("sim0", SIZE);
        let mut sim = SimLoop::new(1);
        let disk = medium.open(&sim.handle(), SimLatency::default());
        let same = medium.clone();
        sim.run_until(async move {
            disk.write(0, filled(1, 4096), Persist::Durable).await.unwrap();
            disk.write(4096, filled(2, 8192), Persist::Cached).await.unwrap();
            same.transplant(4096..8192, &same, 0);
            assert!(disk.read(4096, 4096).await.unwrap().iter().all(|byte| *byte == 1));
            assert!(disk.read(8192, 4096).await.unwrap().iter().all(|byte| *byte == 2));
        });
    }

    #[test]
    fn a_dropped_write_still_happens_and_a_second_owner_fences_the_first() {
        let medium = SimMedium::new("sim0", SIZE);
        let mut sim = SimLoop::new(1);
        let reactor = sim.handle();
        let disk = medium.open(&reactor, SimLatency::default());
        let again = medium.clone();
        sim.run_until(async move {
            drop(disk.write(0, filled(3, 4096), Persist::Durable));
            reactor.sleep(1_000_000).await;
            let next = again.open(&reactor, SimLatency::default());
            assert_eq!(next.read(0, 4096).await.unwrap()[9], 3);
            let refused = disk.write(0, filled(4, 4096), Persist::Durable).await;
            assert!(matches!(refused, Err(Error::Fenced)));
        });
    }

    #[test]
    fn a_file_on_a_full_host_is_written_only_where_it_has_room() {
        let host = SimHost::new(8192, RoomPolicy::Promised);
        let medium = SimMedium::new("sim0", SIZE);
        medium.lie_on(&host);
        let mut sim = SimLoop::new(1);
        let disk = medium.open(&sim.handle(), SimLatency::default());
        sim.run_until(async move {
            disk.allocate(0, 8192).await.unwrap();
            disk.write(4096, filled(1, 4096), Persist::Durable).await.unwrap();
            let refused = disk.write(8192, filled(2, 4096), Persist::Durable).await;
            assert!(matches!(refused, Err(Error::NoSpace { .. })));
            assert!(matches!(disk.allocate(8192, 4096).await, Err(Error::NoSpace { .. })));
            assert_eq!(disk.read(4096, 4096).await.unwrap()[0], 1);
        });
        assert_eq!(host.refused_writes(), 1);
    }

    #[test]
    fn a_stuck_medium_answers_late_and_may_fail_one_write() {
        let medium = SimMedium::new("sim0", SIZE);
        let mut sim = SimLoop::new(1);
        let reactor = sim.handle();
        let disk = medium.open(&reactor, SimLatency::default());
        let until = Nanos(Nanos::seconds(5));
        medium.stick(until);
        medium.fail_next_write(true);
        sim.run_until(async move {
            assert!(disk.write(0, filled(1, 4096), Persist::Durable).await.is_err());
            assert!(reactor.now() >= until, "it was not answered before");
            let began = reactor.now();
            disk.write(0, filled(2, 4096), Persist::Durable).await.unwrap();
            assert!(reactor.now().since(began) < Nanos::seconds(1));
            assert_eq!(disk.read(0, 4096).await.unwrap()[9], 2);
        });
    }

    #[test]
    fn injected_failures_are_definite() {
        let medium = SimMedium::new("sim0", SIZE);
        let mut sim = SimLoop::new(1);
        let disk = medium.open(&sim.handle(), SimLatency::default());
        medium.fail_reads(8192..8193);
        medium.fail_writes(true);
        medium.flip_bit(5, 3);
        sim.run_until(async move {
            assert!(disk.read(8192, 4096).await.is_err());
            assert_eq!(disk.read(0, 4096).await.unwrap()[5], 8);
            assert!(disk.write(0, filled(1, 4096), Persist::Durable).await.is_err());
            assert!(disk.flush().await.is_err());
        });
    }
}
