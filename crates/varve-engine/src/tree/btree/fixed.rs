//! Entries of constant size, packed in key order without slots: the pages of the chunk table.
//!
//! Keys of at most 8 bytes are compared as big-endian words.

use crate::tree::page::{PAGE_BYTES, zeroed_bytes};

use super::page::BODY_BYTES;

/// Packed `key | value` pairs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct FixedEntries {
    key_len: usize,
    stride: usize,
    count: usize,
    bytes: Box<[u8; PAGE_BYTES]>,
}

// A word is loaded at every entry, also at the last one.
const _: () = assert!(BODY_BYTES + 8 <= PAGE_BYTES);

impl FixedEntries {
    pub(super) fn new(key_len: usize, value_len: usize) -> Self {
        assert!((1..=8).contains(&key_len) && (key_len + value_len) * 4 <= BODY_BYTES);
        Self { key_len, stride: key_len + value_len, count: 0, bytes: zeroed_bytes() }
    }

    /// Takes over packed entries whose order the caller checks; `None` when the length is not a whole number of them.
    pub(super) fn from_packed(key_len: usize, value_len: usize, packed: &[u8]) -> Option<Self> {
        let mut entries = Self::new(key_len, value_len);
        if packed.len() > BODY_BYTES || !packed.len().is_multiple_of(entries.stride) {
            return None;
        }
        entries.count = packed.len() / entries.stride;
        entries.bytes.get_mut(..packed.len())?.copy_from_slice(packed);
        Some(entries)
    }

    pub(super) fn packed(&self) -> &[u8] {
        &self.bytes[..self.used_bytes()]
    }

    pub(super) fn len(&self) -> usize {
        self.count
    }

    pub(super) fn used_bytes(&self) -> usize {
        self.count * self.stride
    }

    pub(super) fn entry_bytes(&self) -> usize {
        self.stride
    }

    pub(super) fn key(&self, index: usize) -> &[u8] {
        let at = self.at(index);
        &self.bytes[at..at + self.key_len]
    }

    pub(super) fn value(&self, index: usize) -> &[u8] {
        let at = self.at(index);
        &self.bytes[at + self.key_len..at + self.stride]
    }

    pub(super) fn value_mut(&mut self, index: usize) -> &mut [u8] {
        let at = self.at(index);
        &mut self.bytes[at + self.key_len..at + self.stride]
    }

    pub(super) fn set_key(&mut self, index: usize, key: &[u8]) {
        let at = self.at(index);
        self.bytes[at..at + self.key_len].copy_from_slice(key);
    }

    /// Index of the first entry from `start` on whose key is not below `key`, and whether it equals it.
    pub(super) fn lower_bound(&self, start: usize, key: &[u8]) -> (usize, bool) {
        assert_eq!(key.len(), self.key_len);
        let mut padded = [0; 8];
        padded[..key.len()].copy_from_slice(key);
        let wanted = u64::from_be_bytes(padded);
        let mask = u64::MAX << (64 - 8 * self.key_len);
        let word = |index: usize| {
            let at = index * self.stride;
            let bytes = self.bytes[at..at + 8].try_into().expect("the slice has 8 bytes");
            u64::from_be_bytes(bytes) & mask
        };
        if start >= self.count || word(self.count - 1) < wanted {
            return (self.count, false); // Appends end here.
        }
        let mut base = start;
        let mut len = self.count - start;
        while len > 1 {
            let half = len / 2;
            base += if word(base + half - 1) < wanted { half } else { 0 };
            len -= half;
        }
        (base, word(base) == wanted)
    }

    pub(super) fn insert(&mut self, index: usize, key: &[u8], value: &[u8]) {
        assert!(index <= self.count && self.used_bytes() + self.stride <= BODY_BYTES);
        assert!(key.len() == self.key_len && value.len() == self.stride - self.key_len);
        let at = index * self.stride;
        self.bytes.copy_within(at..self.count * self.stride, at + self.stride);
        self.count += 1;
        self.set_key(index, key);
        self.value_mut(index).copy_from_slice(value);
    }

    pub(super) fn remove(&mut self, index: usize) {
        let at = self.at(index);
        self.bytes.copy_within(at + self.stride..self.count * self.stride, at);
        self.count -= 1;
    }

    /// Moves the entries from `index` on into `to`, behind what it has.
    pub(super) fn move_tail(&mut self, index: usize, to: &mut Self) {
        let tail = index * self.stride..self.used_bytes();
        let end = to.used_bytes();
        to.bytes[end..end + tail.len()].copy_from_slice(&self.bytes[tail]);
        to.count += self.count - index;
        self.count = index;
    }

    fn at(&self, index: usize) -> usize {
        assert!(index < self.count, "entry {index} of {}", self.count);
        index * self.stride
    }
}
