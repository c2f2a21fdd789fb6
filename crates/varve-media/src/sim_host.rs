//! The file system of a simulated host: the room that sparse files on it share with whatever else is there.
//!
//! Called by [`SimMedium`](crate::SimMedium), for files that take room as they are written.

use std::cell::Cell;
use std::ops::Range;
use std::rc::Rc;

use varve_stdx::Rng;

use crate::mem::SparseBytes;

const PAGE: u64 = SparseBytes::PAGE_BYTES as u64;

/// What a simulated file system does with room.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RoomPolicy {
    /// Room can be taken ahead, and is kept from then on.
    Promised,
    /// Nothing is promised, and each write goes to a new place: it needs room also where something is overwritten.
    CopyOnWrite,
}

/// A file system with room for so much. Clones share it.
#[derive(Clone)]
pub struct SimHost {
    policy: RoomPolicy,
    free_pages: Rc<Cell<u64>>,
    refused_writes: Rc<Cell<u64>>,
}

impl SimHost {
    /// One with `free_bytes` of room.
    #[must_use]
    pub fn new(free_bytes: u64, policy: RoomPolicy) -> Self {
        let free_pages = Rc::new(Cell::new(free_bytes / PAGE));
        Self { policy, free_pages, refused_writes: Rc::default() }
    }

    /// Whether room can be promised.
    #[must_use]
    pub fn policy(&self) -> RoomPolicy {
        self.policy
    }

    /// Bytes that nothing takes.
    #[must_use]
    pub fn free_bytes(&self) -> u64 {
        self.free_pages.get() * PAGE
    }

    /// Something else takes up to `bytes`; how much it got.
    #[must_use]
    pub fn take(&self, bytes: u64) -> u64 {
        let pages = (bytes / PAGE).min(self.free_pages.get());
        self.free_pages.set(self.free_pages.get() - pages);
        pages * PAGE
    }

    /// Something else gives back what it took.
    pub fn give(&self, bytes: u64) {
        self.free_pages.set(self.free_pages.get() + bytes / PAGE);
    }

    /// Writes that were refused for want of room.
    #[must_use]
    pub fn refused_writes(&self) -> u64 {
        self.refused_writes.get()
    }
}

/// The room of one file.
pub(crate) struct FileRoom {
    host: SimHost,
    /// Whether each page has room.
    pages: Vec<bool>,
    /// Pages whose room a power cut may take away, and the number before which a flush has to begin that does not keep
    /// it.
    unsettled: Vec<(u64, Vec<usize>)>,
}

impl FileRoom {
    /// An empty file of `size` bytes.
    pub(crate) fn new(host: &SimHost, size: u64) -> Self {
        let pages = vec![false; page_of(size)];
        Self { host: host.clone(), pages, unsettled: Vec::new() }
    }

    /// Takes room ahead; false when there is not enough, and then some of it is taken.
    pub(crate) fn allocate(&mut self, range: &Range<u64>, number: u64) -> bool {
        match self.host.policy {
            RoomPolicy::Promised => self.take(range, Some(number)),
            RoomPolicy::CopyOnWrite => true,
        }
    }

    /// Takes the room that a write needs, durably unless a number is given; false when there is not enough.
    pub(crate) fn write(&mut self, range: &Range<u64>, number: Option<u64>) -> bool {
        let needed = (range.end - range.start).div_ceil(PAGE);
        let is_copied = self.host.policy == RoomPolicy::CopyOnWrite;
        let is_full = is_copied && self.host.free_pages.get() < needed;
        if is_full || !self.take(range, number) {
            return false;
        }
        if number.is_none() {
            let written = page_of(range.start)..page_of(range.end);
            let is_left = |page: &usize| !written.contains(page);
            self.unsettled.iter_mut().for_each(|(_, pages)| pages.retain(is_left));
        }
        true
    }

    /// Counts a write that was refused for want of room.
    pub(crate) fn count_refusal(&self) {
        self.host.refused_writes.set(self.host.refused_writes.get() + 1);
    }

    /// A flush that began when numbers were below `before` has ended.
    pub(crate) fn flush(&mut self, before: u64) {
        self.unsettled.retain(|(number, _)| *number >= before);
    }

    /// Power is cut: any room that was not durable may be free again.
    pub(crate) fn crash(&mut self, rng: &mut Rng) {
        for (_, pages) in std::mem::take(&mut self.unsettled) {
            if rng.chance(1, 2) {
                self.host.give(pages.len() as u64 * PAGE);
                pages.into_iter().for_each(|page| self.pages[page] = false);
            }
        }
    }

    fn take(&mut self, range: &Range<u64>, number: Option<u64>) -> bool {
        let mut taken = Vec::new();
        let mut has_room = true;
        for page in page_of(range.start)..page_of(range.end) {
            if self.pages[page] {
                continue;
            }
            has_room = self.host.take(PAGE) == PAGE;
            if !has_room {
                break;
            }
            self.pages[page] = true;
            taken.push(page);
        }
        if let Some(number) = number
            && !taken.is_empty()
        {
            self.unsettled.push((number, taken));
        }
        has_room
    }
}

fn page_of(offset: u64) -> usize {
    usize::try_from(offset / PAGE).expect("a file in memory")
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: u64 = 16 * PAGE;

    fn file(free_pages: u64, policy: RoomPolicy) -> (SimHost, FileRoom) {
        let host = SimHost::new(free_pages * PAGE, policy);
        let room = FileRoom::new(&host, SIZE);
        (host, room)
    }

    #[test]
    fn what_was_allocated_can_be_written_on_a_full_host() {
        let (host, mut room) = file(6, RoomPolicy::Promised);
        assert!(room.allocate(&(0..4 * PAGE), 1));
        assert_eq!(host.take(SIZE), 2 * PAGE);
        assert!(room.write(&(PAGE..3 * PAGE), None));
        assert!(!room.allocate(&(3 * PAGE..5 * PAGE), 2));
        assert!(!room.write(&(4 * PAGE..5 * PAGE), None));
        host.give(PAGE);
        assert!(room.write(&(4 * PAGE..5 * PAGE), None));
        assert_eq!(host.free_bytes(), 0);
    }

    #[test]
    fn a_power_cut_takes_back_what_was_not_flushed() {
        let mut given = 0;
        for seed in 0..20 {
            let (host, mut room) = file(8, RoomPolicy::Promised);
            assert!(room.allocate(&(0..2 * PAGE), 1));
            room.flush(2);
            assert!(
                room.allocate(&(2 * PAGE..5 * PAGE), 2) && room.write(&(4 * PAGE..5 * PAGE), None)
            );
            room.crash(&mut Rng::new(seed));
            let free = host.free_bytes() / PAGE;
            assert!(free == 3 || free == 5, "what was flushed or written stays: {free}");
            given += u64::from(free == 5);
        }
        assert!((1..20).contains(&given), "{given} of 20 lost room");
    }

    #[test]
    fn overwriting_needs_room_where_writes_are_copied() {
        let (host, mut room) = file(2, RoomPolicy::CopyOnWrite);
        assert!(room.allocate(&(0..SIZE), 1), "nothing is promised, and nothing refused");
        assert!(room.write(&(0..PAGE), None) && room.write(&(0..PAGE), None));
        assert_eq!(host.take(SIZE), PAGE);
        assert!(!room.write(&(0..PAGE), None));
    }
}
