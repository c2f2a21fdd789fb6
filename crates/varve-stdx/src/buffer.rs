//! Page-aligned memory for O_DIRECT transfers, and cheap shared slices of it.
//!
//! STDX-BUFFER-1. The memory of an [`AlignedBuf`] is aligned to [`AlignedBuf::ALIGN`] and its capacity is a multiple of
//!     it.

use std::fmt;
use std::ops::{Deref, DerefMut, Range};
use std::ptr::NonNull;
use std::sync::Arc;

use crate::spare::{self, class_capacity};

pub(crate) const ALIGN: usize = 4096;

/// Owned, initialised, page-aligned bytes of a fixed capacity and a settable length.
pub struct AlignedBuf {
    ptr: NonNull<u8>,
    len: usize,
    capacity: usize,
}

// SAFETY: the buffer owns its memory and hands it out only through `&self` and `&mut self`.
#[expect(unsafe_code, reason = "an owned allocation may move between threads")]
unsafe impl Send for AlignedBuf {}
// SAFETY: `&AlignedBuf` gives only shared reads.
#[expect(unsafe_code, reason = "shared reads of an owned allocation are safe")]
unsafe impl Sync for AlignedBuf {}

impl AlignedBuf {
    /// Alignment in bytes.
    pub const ALIGN: usize = ALIGN;

    /// `len` zero bytes. The capacity is rounded up to pages and, when large, by up to an eighth.
    #[must_use]
    pub fn zeroed(len: usize) -> Self {
        let capacity = class_capacity(len);
        let Some(ptr) = spare::take(capacity) else {
            return Self { ptr: spare::allocate(capacity), len, capacity };
        };
        let mut buf = Self { ptr, len: capacity, capacity };
        buf.fill(0);
        buf.len = len;
        buf
    }

    /// `len` bytes of any content, for callers that overwrite them: costs nothing where the thread has spare memory.
    #[must_use]
    pub fn scratch(len: usize) -> Self {
        let capacity = class_capacity(len);
        let ptr = spare::take(capacity).unwrap_or_else(|| spare::allocate(capacity));
        Self { ptr, len, capacity }
    }

    /// A copy of `bytes`.
    #[must_use]
    pub fn from_slice(bytes: &[u8]) -> Self {
        let mut buf = Self::scratch(bytes.len());
        buf.copy_from_slice(bytes);
        buf
    }

    /// Bytes that fit without a new allocation.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Sets the length; bytes up to the capacity keep what was last written to them.
    ///
    /// # Panics
    /// When `len` exceeds the capacity.
    pub fn set_len(&mut self, len: usize) {
        assert!(len <= self.capacity, "length exceeds capacity");
        self.len = len;
    }

    /// Makes the buffer immutable and shareable.
    #[must_use]
    pub fn freeze(self) -> BufSlice {
        let len = self.len;
        BufSlice { buf: Arc::new(self), start: 0, end: len }
    }
}

impl Drop for AlignedBuf {
    fn drop(&mut self) {
        spare::keep(self.ptr, self.capacity);
    }
}

impl Deref for AlignedBuf {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: `ptr` is valid for `capacity >= len` initialised bytes (all were written at birth).
        #[expect(unsafe_code, reason = "view of the owned allocation")]
        unsafe {
            std::slice::from_raw_parts(self.ptr.as_ptr(), self.len)
        }
    }
}

impl DerefMut for AlignedBuf {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`, and `&mut self` makes the view unique.
        #[expect(unsafe_code, reason = "view of the owned allocation")]
        unsafe {
            std::slice::from_raw_parts_mut(self.ptr.as_ptr(), self.len)
        }
    }
}

impl fmt::Debug for AlignedBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AlignedBuf({} B)", self.len)
    }
}

/// A shared, immutable part of an [`AlignedBuf`]. Cloning costs one reference count.
#[derive(Clone)]
pub struct BufSlice {
    buf: Arc<AlignedBuf>,
    start: usize,
    end: usize,
}

impl BufSlice {
    /// A copy of `bytes`, at the start of an aligned allocation.
    #[must_use]
    pub fn copy_from(bytes: &[u8]) -> Self {
        AlignedBuf::from_slice(bytes).freeze()
    }

    /// Bytes `range` of this slice, sharing the memory.
    ///
    /// # Panics
    /// When the range lies outside the slice.
    #[must_use]
    pub fn slice(&self, range: Range<usize>) -> Self {
        assert!(range.start <= range.end && range.end <= self.len(), "slice out of bounds");
        Self {
            buf: Arc::clone(&self.buf),
            start: self.start + range.start,
            end: self.start + range.end,
        }
    }

    /// One slice of this and `next` together, if `next` begins in memory where this ends.
    #[must_use]
    pub fn joined(&self, next: &Self) -> Option<Self> {
        let adjacent = Arc::ptr_eq(&self.buf, &next.buf) && self.end == next.start;
        adjacent.then(|| Self { buf: Arc::clone(&self.buf), start: self.start, end: next.end })
    }

    /// Whether both keep the same allocation alive.
    #[must_use]
    pub fn shares_buffer(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.buf, &other.buf)
    }

    /// Bytes of the whole allocation that this slice keeps alive.
    #[must_use]
    pub fn pinned_bytes(&self) -> usize {
        self.buf.capacity()
    }

    /// The buffer itself, if nobody else holds a slice of it and this slice spans it all.
    ///
    /// # Errors
    /// The slice, unchanged, when it is shared or partial.
    pub fn try_into_buf(self) -> Result<AlignedBuf, Self> {
        if self.start != 0 || self.end != self.buf.len() {
            return Err(self);
        }
        let (start, end) = (self.start, self.end);
        Arc::try_unwrap(self.buf).map_err(|buf| Self { buf, start, end })
    }
}

impl Deref for BufSlice {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.buf[self.start..self.end]
    }
}

impl fmt::Debug for BufSlice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BufSlice({} B)", self.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_aligned_and_zero() {
        let buf = AlignedBuf::zeroed(5000);
        assert_eq!(buf.as_ptr().align_offset(AlignedBuf::ALIGN), 0); // STDX-BUFFER-1
        assert_eq!(buf.capacity(), 8192);
        assert!(buf.iter().all(|b| *b == 0));
    }

    #[test]
    fn slices_share_memory() {
        let whole = BufSlice::copy_from(b"hello world");
        let part = whole.slice(6..11).slice(1..3);
        assert_eq!(&*part, b"or");
        assert_eq!(part.as_ptr(), whole[7..].as_ptr());
        assert!(whole.try_into_buf().is_err());
    }
}
