//! Entries of any size: an array of slots in key order at the start, cells from the end: the pages of the key tree.
//!
//! ```text
//!  | slot u16 × count | free | cell … cell |      cell: key_len u16 | value_len u16 | key | value
//! ```
//! SL1. Cells lie in `heap_start .. BODY_BYTES`; `live_bytes` of them belong to a slot, the rest is garbage.

use crate::tree::page::{PAGE_BYTES, zeroed_bytes};

use super::page::BODY_BYTES;

/// Slots and cells.
#[derive(Clone, Debug)]
pub(super) struct SlottedEntries {
    count: usize,
    heap_start: usize,
    live_bytes: usize,
    bytes: Box<[u8; PAGE_BYTES]>,
}

const SLOT_BYTES: usize = 2;

const _: () = assert!(BODY_BYTES <= u16::MAX as usize, "a slot names any place of a page");
const CELL_HEADER_BYTES: usize = 4;

/// Cost of an entry beside its key and value.
pub(super) const ENTRY_OVERHEAD: usize = SLOT_BYTES + CELL_HEADER_BYTES;

impl SlottedEntries {
    pub(super) fn new() -> Self {
        Self { count: 0, heap_start: BODY_BYTES, live_bytes: 0, bytes: zeroed_bytes() }
    }

    pub(super) fn len(&self) -> usize {
        self.count
    }

    pub(super) fn used_bytes(&self) -> usize {
        self.live_bytes + self.count * SLOT_BYTES
    }

    pub(super) fn key(&self, index: usize) -> &[u8] {
        let (key_at, value_at, _) = self.cell(index);
        &self.bytes[key_at..value_at]
    }

    pub(super) fn value(&self, index: usize) -> &[u8] {
        let (_, value_at, end) = self.cell(index);
        &self.bytes[value_at..end]
    }

    pub(super) fn value_mut(&mut self, index: usize) -> &mut [u8] {
        let (_, value_at, end) = self.cell(index);
        &mut self.bytes[value_at..end]
    }

    /// Index of the first entry from `start` on whose key is not below `key`, and whether it equals it.
    pub(super) fn lower_bound(&self, start: usize, key: &[u8]) -> (usize, bool) {
        if start >= self.count || self.key(self.count - 1) < key {
            return (self.count, false); // Appends end here.
        }
        let mut base = start;
        let mut len = self.count - start;
        while len > 1 {
            let half = len / 2;
            base += if self.key(base + half - 1) < key { half } else { 0 };
            len -= half;
        }
        debug_assert!(self.key(base) >= key, "from here on none is below");
        debug_assert!(base == start || self.key(base - 1) < key, "all before are below");
        (base, self.key(base) == key)
    }

    pub(super) fn insert(&mut self, index: usize, key: &[u8], value: &[u8]) {
        let cell_bytes = CELL_HEADER_BYTES + key.len() + value.len();
        assert!(index <= self.count && self.used_bytes() + SLOT_BYTES + cell_bytes <= BODY_BYTES);
        if self.heap_start < (self.count + 1) * SLOT_BYTES + cell_bytes {
            self.compact();
        }
        let at = self.heap_start - cell_bytes;
        let value_at = at + CELL_HEADER_BYTES + key.len();
        self.put_u16(at, key.len());
        self.put_u16(at + 2, value.len());
        self.bytes[at + CELL_HEADER_BYTES..value_at].copy_from_slice(key);
        self.bytes[value_at..value_at + value.len()].copy_from_slice(value);
        self.heap_start = at;
        self.live_bytes += cell_bytes;
        let slot = index * SLOT_BYTES;
        self.bytes.copy_within(slot..self.count * SLOT_BYTES, slot + SLOT_BYTES);
        self.count += 1;
        self.put_u16(slot, at);
        assert!(self.heap_start >= self.count * SLOT_BYTES); // SL1
        assert!(self.live_bytes <= BODY_BYTES - self.heap_start, "cells lie in the heap"); // SL1
    }

    pub(super) fn remove(&mut self, index: usize) {
        assert!(self.live_bytes <= BODY_BYTES - self.heap_start, "cells lie in the heap"); // SL1
        let (key_at, _, end) = self.cell(index);
        self.live_bytes -= end - key_at + CELL_HEADER_BYTES;
        let slot = index * SLOT_BYTES;
        self.bytes.copy_within(slot + SLOT_BYTES..self.count * SLOT_BYTES, slot);
        self.count -= 1;
        assert!(self.count > 0 || self.live_bytes == 0, "each cell has a slot"); // SL1
    }

    /// Moves the entries from `index` on into `to`, behind what it has.
    pub(super) fn move_tail(&mut self, index: usize, to: &mut Self) {
        assert!(index <= self.count, "a tail begins in the page or behind it");
        for i in index..self.count {
            to.insert(to.count, self.key(i), self.value(i));
        }
        while self.count > index {
            self.remove(self.count - 1);
        }
    }

    fn compact(&mut self) {
        let mut compacted = Self::new();
        for i in 0..self.count {
            compacted.insert(i, self.key(i), self.value(i));
        }
        assert_eq!(compacted.live_bytes, self.live_bytes); // SL1
        *self = compacted;
        assert!(self.used_bytes() <= BODY_BYTES, "nothing but garbage was between"); // SL1
    }

    /// Start of the key, start of the value, end of the cell.
    fn cell(&self, index: usize) -> (usize, usize, usize) {
        assert!(index < self.count, "entry {index} of {}", self.count);
        let at = self.get_u16(index * SLOT_BYTES);
        let key_at = at + CELL_HEADER_BYTES;
        let value_at = key_at + self.get_u16(at);
        debug_assert!(at >= self.heap_start && value_at <= BODY_BYTES); // SL1
        (key_at, value_at, value_at + self.get_u16(at + 2))
    }

    fn get_u16(&self, at: usize) -> usize {
        usize::from(u16::from_le_bytes([self.bytes[at], self.bytes[at + 1]]))
    }

    fn put_u16(&mut self, at: usize, value: usize) {
        let value = u16::try_from(value).expect("offsets and lengths in a page fit 16 bits");
        self.bytes[at..at + 2].copy_from_slice(&value.to_le_bytes());
    }
}

impl PartialEq for SlottedEntries {
    fn eq(&self, other: &Self) -> bool {
        let same = |i| self.key(i) == other.key(i) && self.value(i) == other.value(i);
        self.count == other.count && (0..self.count).all(same)
    }
}

impl Eq for SlottedEntries {}
