//! Entries of constant size, packed in key order without slots: the pages of the chunk table.
//!
//! Keys are big-endian numbers of at most 48 bits.

use crate::tree::page::{PAGE_BYTES, zeroed_bytes};

use super::page::BODY_BYTES;

/// Packed `key | value` pairs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct FixedEntries {
    key_len: usize,
    stride: usize,
    count: usize,
    /// Key of the first entry, as a number.
    first: u64,
    /// Key of the last entry.
    last: u64,
    bytes: Box<[u8; PAGE_BYTES]>,
}

const KEY_BYTES_MAX: usize = 6;
/// Entries that are searched on one side of a guess: half a cache line's worth of steps.
const GUESS_OFF_MAX: usize = 4;

// A distance of keys times a number of entries fits a word.
const _: () = assert!(8 * KEY_BYTES_MAX + BODY_BYTES.ilog2() as usize + 1 < 64);
// A word is loaded at every entry, also at the last one.
const _: () = assert!(BODY_BYTES + 8 <= PAGE_BYTES);

impl FixedEntries {
    pub(super) fn new(key_len: usize, value_len: usize) -> Self {
        assert!((1..=KEY_BYTES_MAX).contains(&key_len) && (key_len + value_len) * 4 <= BODY_BYTES);
        let stride = key_len + value_len;
        Self { key_len, stride, count: 0, first: 0, last: 0, bytes: zeroed_bytes() }
    }

    /// Takes over packed entries whose order the caller checks; `None` when the length is not a whole number of them.
    pub(super) fn from_packed(key_len: usize, value_len: usize, packed: &[u8]) -> Option<Self> {
        let mut entries = Self::new(key_len, value_len);
        if packed.len() > BODY_BYTES || !packed.len().is_multiple_of(entries.stride) {
            return None;
        }
        entries.count = packed.len() / entries.stride;
        entries.bytes.get_mut(..packed.len())?.copy_from_slice(packed);
        entries.note_ends(0);
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
        assert_eq!(key.len(), self.key_len, "keys have one length");
        let at = self.at(index);
        self.bytes[at..at + self.key_len].copy_from_slice(key);
        self.note_ends(index);
    }

    /// Index of the first entry from `start` on whose key is not below `key`, and whether it equals it.
    ///
    /// Ids are spread evenly over a page, so a guess by the distance from both ends is a few entries off at most: with
    /// the ends at hand, one access to memory instead of seven. Halving takes over where it is not.
    #[inline]
    pub(super) fn lower_bound(&self, start: usize, key: &[u8]) -> (usize, bool) {
        assert_eq!(key.len(), self.key_len);
        let wanted = key.iter().fold(0, |word, byte| word << 8 | u64::from(*byte));
        if start >= self.count || self.last < wanted {
            return (self.count, false); // Appends end here.
        }
        let off = wanted.saturating_sub(self.first).min(self.last.saturating_sub(self.first));
        let guess = off * (self.count as u64 - 1) / (self.last.saturating_sub(self.first).max(1));
        let guess = usize::try_from(guess).expect("less than the entries of a page").max(start);
        let found = self.word(guess);
        if found == wanted {
            return (guess, true);
        }
        // Entries before `low` are below the wanted key, those from `high` on are not.
        let (mut low, mut high) = (start, self.count);
        if found < wanted {
            low = guess + 1;
            let probe = low + GUESS_OFF_MAX;
            if probe < high {
                (low, high) = if self.word(probe) < wanted { (probe, high) } else { (low, probe) };
            }
        } else {
            high = guess;
            let probe = high.saturating_sub(GUESS_OFF_MAX);
            if probe > low {
                (low, high) = if self.word(probe) < wanted { (probe, high) } else { (low, probe) };
            }
        }
        while low < high {
            let middle = low.midpoint(high);
            let below = self.word(middle) < wanted;
            low = if below { middle + 1 } else { low };
            high = if below { high } else { middle };
        }
        debug_assert!(low == self.count || self.word(low) >= wanted, "from here on none is below");
        debug_assert!(low == start || self.word(low - 1) < wanted, "all before are below");
        (low, low < self.count && self.word(low) == wanted)
    }

    /// A key as a number.
    #[inline]
    fn word(&self, index: usize) -> u64 {
        let at = index * self.stride;
        let bytes = self.bytes[at..at + 8].try_into().expect("the slice has 8 bytes");
        u64::from_be_bytes(bytes) >> (64 - 8 * self.key_len)
    }

    pub(super) fn insert(&mut self, index: usize, key: &[u8], value: &[u8]) {
        assert!(index <= self.count && self.used_bytes() + self.stride <= BODY_BYTES);
        assert!(key.len() == self.key_len && value.len() == self.stride - self.key_len);
        let at = index * self.stride;
        self.bytes.copy_within(at..self.count * self.stride, at + self.stride);
        self.count += 1;
        self.value_mut(index).copy_from_slice(value);
        self.set_key(index, key);
    }

    pub(super) fn remove(&mut self, index: usize) {
        let at = self.at(index);
        self.bytes.copy_within(at + self.stride..self.count * self.stride, at);
        self.count -= 1;
        self.note_ends(index);
    }

    /// Removes entries, whose indices ascend, in one pass.
    pub(super) fn remove_sorted(&mut self, indices: &[usize]) {
        let Some(&first) = indices.first() else { return };
        let mut to = first * self.stride;
        for (n, index) in (1..).zip(indices) {
            assert!(*index < self.count, "entry {index} of {}", self.count);
            let kept = (index + 1) * self.stride
                ..indices.get(n).copied().unwrap_or(self.count) * self.stride;
            let len = kept.len();
            self.bytes.copy_within(kept, to);
            to += len;
        }
        self.count -= indices.len();
        debug_assert_eq!(to, self.count * self.stride, "what is left stands side by side");
        self.note_ends(0);
    }

    /// Moves the entries from `index` on into `to`, behind what it has.
    pub(super) fn move_tail(&mut self, index: usize, to: &mut Self) {
        assert_eq!((self.key_len, self.stride), (to.key_len, to.stride), "pages of one tree");
        assert!(index <= self.count, "a tail begins in the page or behind it");
        let tail = index * self.stride..self.used_bytes();
        let end = to.used_bytes();
        assert!(end + tail.len() <= BODY_BYTES, "the entries fit the page");
        to.bytes[end..end + tail.len()].copy_from_slice(&self.bytes[tail]);
        to.count += self.count - index;
        self.count = index;
        self.note_ends(index);
        to.note_ends(0);
    }

    /// Entry `index` has changed, come or gone.
    fn note_ends(&mut self, index: usize) {
        if index == 0 || index + 1 >= self.count {
            let last = self.count.saturating_sub(1);
            (self.first, self.last) = (self.word(0), self.word(last));
        }
    }

    fn at(&self, index: usize) -> usize {
        assert!(index < self.count, "entry {index} of {}", self.count);
        index * self.stride
    }
}
