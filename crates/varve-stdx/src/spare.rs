//! Memory of dropped buffers, kept for the next ones of the same thread. Called by `AlignedBuf`.
//!
//! A fresh allocation costs a page fault every 4 KiB: reading 4 MiB into one took 2.8 ms of CPU, into a
//! spare one of huge pages 0.03 to 0.06 ms.
//!
//! P1. Every spare of a class has exactly the capacity of the class, the alignment of [`layout`], and initialised bytes.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ptr::NonNull;

use crate::buffer::ALIGN;

/// Size of a huge page of common processors.
const HUGE_PAGE: usize = 2 << 20;

/// Most bytes a thread keeps unless told otherwise: several segments, and blocks of the write buffer, which come back a segment at
/// a time.
const BYTES_MAX_DEFAULT: usize = 32 << 20;

/// Bounds the memory of dropped buffers that the calling thread keeps for its next ones, in bytes.
pub fn limit_spare_memory(bytes_max: usize) {
    SPARES.with(|spares| spares.borrow_mut().bytes_max = bytes_max);
}

/// The capacity of the class that holds `len` bytes; at most an eighth more than the pages needed.
pub(crate) fn class_capacity(len: usize) -> usize {
    let pages = len.next_multiple_of(ALIGN).max(ALIGN);
    pages.next_multiple_of((pages.next_power_of_two() / 16).max(ALIGN))
}

fn layout(capacity: usize) -> Layout {
    let align = if capacity < HUGE_PAGE { ALIGN } else { HUGE_PAGE };
    Layout::from_size_align(capacity, align).expect("capacity is far below isize::MAX")
}

/// New zero bytes, in huge pages where they are large enough: the kernel then pins a transfer in fewer steps.
pub(crate) fn allocate(capacity: usize) -> NonNull<u8> {
    let layout = layout(capacity);
    // SAFETY: the layout has a size of at least ALIGN, never zero.
    #[expect(unsafe_code, reason = "aligned allocation")]
    let raw = unsafe { alloc(layout) };
    let Some(memory) = NonNull::new(raw) else { handle_alloc_error(layout) };
    if capacity >= HUGE_PAGE {
        let address = memory.as_ptr().cast();
        // SAFETY: the range was just allocated, and the advice changes nothing but its pages' size.
        #[expect(unsafe_code, reason = "advice to the kernel")]
        let _refused_is_fine = unsafe { libc::madvise(address, capacity, libc::MADV_HUGEPAGE) };
    }
    // SAFETY: the allocation has `capacity` bytes.
    #[expect(unsafe_code, reason = "initialises the allocation, as P1 demands")]
    unsafe {
        memory.as_ptr().write_bytes(0, capacity);
    }
    memory
}

struct Spares {
    by_capacity: BTreeMap<usize, Vec<NonNull<u8>>>,
    bytes: usize,
    bytes_max: usize,
}

impl Default for Spares {
    fn default() -> Self {
        Self { by_capacity: BTreeMap::new(), bytes: 0, bytes_max: BYTES_MAX_DEFAULT }
    }
}

impl Drop for Spares {
    fn drop(&mut self) {
        for (capacity, spares) in &self.by_capacity {
            for spare in spares {
                release(*spare, *capacity);
            }
        }
    }
}

thread_local! {
    static SPARES: RefCell<Spares> = RefCell::default();
}

/// Memory of exactly `capacity` bytes, holding whatever was last written to it.
pub(crate) fn take(capacity: usize) -> Option<NonNull<u8>> {
    let taken = SPARES.try_with(|spares| {
        let mut spares = spares.borrow_mut();
        let spare = spares.by_capacity.get_mut(&capacity)?.pop()?;
        spares.bytes -= capacity;
        Some(spare)
    });
    taken.ok().flatten()
}

/// Keeps memory of `capacity` bytes made by [`allocate`], or frees it when the thread has enough.
pub(crate) fn keep(memory: NonNull<u8>, capacity: usize) {
    let kept = SPARES.try_with(|spares| {
        let mut spares = spares.borrow_mut();
        let fits = spares.bytes + capacity <= spares.bytes_max;
        if fits {
            spares.bytes += capacity;
            spares.by_capacity.entry(capacity).or_default().push(memory);
        }
        fits
    });
    if kept != Ok(true) {
        release(memory, capacity);
    }
}

fn release(memory: NonNull<u8>, capacity: usize) {
    // SAFETY: P1: it was allocated with this very layout, and whoever held it has let go.
    #[expect(unsafe_code, reason = "frees an aligned allocation")]
    unsafe {
        dealloc(memory.as_ptr(), layout(capacity));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::AlignedBuf;

    #[test]
    fn classes_waste_little() {
        for pages in 1..5000 {
            let capacity = class_capacity(pages * ALIGN);
            assert!(capacity >= pages * ALIGN && capacity.is_multiple_of(ALIGN));
            assert!(capacity * 8 <= pages * ALIGN * 9, "{pages} pages take {capacity} bytes");
            assert_eq!(class_capacity(capacity), capacity, "a class is its own");
        }
        assert_eq!(class_capacity(4 << 20), 4 << 20);
        assert_eq!(class_capacity(0), ALIGN);
    }

    #[test]
    fn memory_comes_back_and_is_zero_where_promised() {
        let mut buf = AlignedBuf::zeroed(100_000);
        buf.fill(7);
        let address = buf.as_ptr();
        drop(buf);
        let again = AlignedBuf::scratch(99_000);
        assert_eq!(again.as_ptr(), address);
        assert_eq!(again[0], 7);
        drop(again);
        let mut zero = AlignedBuf::zeroed(90_000);
        zero.set_len(zero.capacity());
        assert!(zero.iter().all(|byte| *byte == 0));
    }

    #[test]
    fn a_thread_keeps_a_bounded_amount() {
        std::thread::spawn(|| {
            drop((0..20).map(|_| AlignedBuf::zeroed(4 << 20)).collect::<Vec<_>>());
            SPARES.with(|spares| assert_eq!(spares.borrow().bytes, BYTES_MAX_DEFAULT));
            limit_spare_memory(BYTES_MAX_DEFAULT + (4 << 20));
            drop((0..20).map(|_| AlignedBuf::zeroed(4 << 20)).collect::<Vec<_>>());
            SPARES.with(|spares| assert_eq!(spares.borrow().bytes, BYTES_MAX_DEFAULT + (4 << 20)));
        })
        .join()
        .unwrap();
    }
}
