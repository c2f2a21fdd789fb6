//! Memory of dropped buffers, kept for the next ones. Called by `AlignedBuf`.
//!
//! A fresh allocation costs a page fault every 4 KiB: reading 4 MiB into one took 2.8 ms of CPU, into a
//! spare one of huge pages 0.03 to 0.06 ms.
//!
//! SPARE-1. Every spare of a class has exactly the capacity of the class, the alignment of [`layout`], and initialised
//!     bytes.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ptr::NonNull;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::buffer::ALIGN;

/// Size of a huge page of common processors.
const HUGE_PAGE: usize = 2 << 20;

/// What a thread and its share of the common store keep unless told otherwise: several segments, and blocks of the
/// write buffer, which come back a segment at a time.
const BYTES_MAX_DEFAULT: usize = 32 << 20;

/// Bytes of one class that a thread keeps to itself. Beyond, half of them move to the common store at once, and as many
/// come back.
const CLASS_BYTES_MAX: usize = 256 << 10;

/// Bounds the memory of dropped buffers that is kept for the calling thread's next ones, in bytes: half of it by the
/// thread itself, half in the common store.
pub fn limit_spare_memory(bytes_max: usize) {
    SPARES.with(|spares| spares.borrow_mut().limit(bytes_max));
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

/// Spares by capacity (SPARE-1), within a bound.
struct Store {
    by_capacity: BTreeMap<usize, Vec<NonNull<u8>>>,
    bytes: usize,
    bytes_max: usize,
}

// SAFETY: the store owns its memory; nobody else has a pointer to it.
#[expect(unsafe_code, reason = "owned allocations may move between threads")]
unsafe impl Send for Store {}

impl Store {
    const fn new(bytes_max: usize) -> Self {
        Self { by_capacity: BTreeMap::new(), bytes: 0, bytes_max }
    }

    fn class_bytes(&self, capacity: usize) -> usize {
        self.by_capacity.get(&capacity).map_or(0, Vec::len) * capacity
    }

    fn fits(&self, capacity: usize) -> bool {
        self.bytes + capacity <= self.bytes_max
    }

    fn take(&mut self, capacity: usize) -> Option<NonNull<u8>> {
        let spare = self.by_capacity.get_mut(&capacity)?.pop()?;
        self.bytes -= capacity;
        Some(spare)
    }

    /// Keeps `memory` if it fits, and frees it otherwise.
    fn keep(&mut self, memory: NonNull<u8>, capacity: usize) {
        if !self.fits(capacity) {
            return release(memory, capacity);
        }
        self.bytes += capacity;
        self.by_capacity.entry(capacity).or_default().push(memory);
    }

    /// Frees what is beyond a new bound.
    fn limit(&mut self, bytes_max: usize) {
        self.bytes_max = bytes_max;
        while self.bytes > bytes_max
            && let Some(mut class) = self.by_capacity.first_entry()
        {
            let capacity = *class.key();
            match class.get_mut().pop() {
                Some(spare) => {
                    self.bytes -= capacity;
                    release(spare, capacity);
                }
                None => drop(class.remove()),
            }
        }
    }
}

/// What no thread keeps to itself: buffers are often filled by the thread of a connection and dropped by the one of a
/// shard.
static COMMON: Mutex<Store> = Mutex::new(Store::new(0));

fn common() -> MutexGuard<'static, Store> {
    COMMON.lock().unwrap_or_else(PoisonError::into_inner) // A store is whole between any two of its calls.
}

/// Spares of one thread.
struct Spares {
    own: Store,
    /// What this thread adds to the bound of the common store.
    share: usize,
}

impl Default for Spares {
    fn default() -> Self {
        let mut spares = Self { own: Store::new(0), share: 0 };
        spares.limit(BYTES_MAX_DEFAULT);
        spares
    }
}

impl Spares {
    fn limit(&mut self, bytes_max: usize) {
        let share = bytes_max / 2;
        self.own.limit(share);
        let mut common = common();
        let others = common.bytes_max - self.share;
        common.limit(others + share);
        self.share = share;
    }

    fn take(&mut self, capacity: usize) -> Option<NonNull<u8>> {
        let own = self.own.take(capacity);
        if own.is_some() {
            return own;
        }
        let mut common = common();
        let taken = common.take(capacity)?;
        while self.own.class_bytes(capacity) + capacity <= CLASS_BYTES_MAX / 2
            && self.own.fits(capacity)
            && let Some(more) = common.take(capacity)
        {
            self.own.keep(more, capacity);
        }
        Some(taken)
    }

    fn keep(&mut self, memory: NonNull<u8>, capacity: usize) {
        if self.own.class_bytes(capacity) + capacity <= CLASS_BYTES_MAX && self.own.fits(capacity) {
            return self.own.keep(memory, capacity);
        }
        let mut common = common();
        common.keep(memory, capacity);
        while self.own.class_bytes(capacity) > CLASS_BYTES_MAX / 2
            && let Some(spare) = self.own.take(capacity)
        {
            common.keep(spare, capacity);
        }
    }
}

impl Drop for Spares {
    fn drop(&mut self) {
        self.limit(0);
    }
}

thread_local! {
    static SPARES: RefCell<Spares> = RefCell::default();
}

/// Memory of exactly `capacity` bytes, holding whatever was last written to it.
pub(crate) fn take(capacity: usize) -> Option<NonNull<u8>> {
    SPARES.try_with(|spares| spares.borrow_mut().take(capacity)).ok().flatten()
}

/// Keeps memory of `capacity` bytes made by [`allocate`], or frees it when there is enough.
pub(crate) fn keep(memory: NonNull<u8>, capacity: usize) {
    let kept = SPARES.try_with(|spares| spares.borrow_mut().keep(memory, capacity));
    if kept.is_err() {
        release(memory, capacity); // The thread is ending.
    }
}

fn release(memory: NonNull<u8>, capacity: usize) {
    // SAFETY: SPARE-1: it was allocated with this very layout, and whoever held it has let go.
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

    fn own_bytes() -> usize {
        SPARES.with(|spares| spares.borrow().own.bytes)
    }

    #[test]
    fn what_is_kept_is_bounded() {
        std::thread::spawn(|| {
            limit_spare_memory(8 << 20);
            drop((0..4000).map(|_| AlignedBuf::zeroed(4 << 10)).collect::<Vec<_>>());
            assert!(own_bytes() <= CLASS_BYTES_MAX, "the rest went to the common store");
            drop((1..600).map(|pages| AlignedBuf::zeroed(pages * ALIGN)).collect::<Vec<_>>());
            assert!(own_bytes() <= 4 << 20);
            limit_spare_memory(1 << 20);
            assert!(own_bytes() <= 512 << 10, "a lower bound holds at once");
        })
        .join()
        .unwrap();
        let common = common();
        assert!(common.bytes <= common.bytes_max);
        let held: usize = common.by_capacity.iter().map(|(size, spares)| size * spares.len()).sum();
        assert_eq!(held, common.bytes);
    }

    #[test]
    fn memory_dropped_by_one_thread_serves_another() {
        let odd = 3 << 20; // A class that no other test uses, and room that others cannot fill.
        limit_spare_memory(4 << 30);
        let buf = AlignedBuf::zeroed(odd);
        let address = buf.as_ptr() as usize;
        std::thread::spawn(move || drop(buf)).join().unwrap();
        assert_eq!(AlignedBuf::scratch(odd).as_ptr() as usize, address);
    }
}
