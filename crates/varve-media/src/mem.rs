//! A disk in memory: every operation completes at once. For tests, and for pools that need not outlive the process.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::ready;
use std::rc::Rc;

use varve_stdx::{AlignedBuf, BufSlice};

use crate::contract::IoFuture;
use crate::disk::{Disk, Persist, assert_range};

const PAGE: usize = 4096;

/// Bytes of which only written pages take memory; the rest reads as zeros.
#[derive(Clone, Default)]
pub(crate) struct SparseBytes {
    pages: BTreeMap<u64, Box<[u8; PAGE]>>,
}

impl SparseBytes {
    /// Granularity of what takes memory.
    pub(crate) const PAGE_BYTES: usize = PAGE;

    /// Bytes of a range, both ends multiples of the page, that lie in pages that were written.
    pub(crate) fn present_bytes(&self, offset: u64, len: u64) -> u64 {
        let numbers = offset / PAGE as u64..(offset + len) / PAGE as u64;
        self.pages.range(numbers).count() as u64 * PAGE as u64
    }

    /// Makes a range read as zeros; both ends are multiples of the page.
    pub(crate) fn erase(&mut self, range: std::ops::Range<u64>) {
        let page = PAGE as u64;
        assert!(range.start.is_multiple_of(page) && range.end.is_multiple_of(page), "whole pages");
        self.pages.retain(|number, _| !(range.start / page..range.end / page).contains(number));
    }

    /// Bytes of all pages that were written.
    pub(crate) fn written_bytes(&self) -> u64 {
        self.pages.len() as u64 * PAGE as u64
    }

    /// Replaces what `out` holds of written pages; the rest stays.
    pub(crate) fn patch(&self, offset: u64, out: &mut [u8]) {
        let first = offset / PAGE as u64;
        let numbers = first..first + (out.len() / PAGE) as u64;
        for (number, page) in self.pages.range(numbers) {
            let start = usize::try_from(number - first).expect("inside the range") * PAGE;
            out[start..start + PAGE].copy_from_slice(&page[..]);
        }
    }

    /// Fills `out` with the bytes at `offset`, a multiple of the page.
    pub(crate) fn read(&self, offset: u64, out: &mut [u8]) {
        for (number, part) in (offset / PAGE as u64..).zip(out.chunks_mut(PAGE)) {
            match self.pages.get(&number) {
                Some(page) => part.copy_from_slice(&page[..part.len()]),
                None => part.fill(0),
            }
        }
    }

    /// Stores `bytes`, which must not cross a page.
    pub(crate) fn write_in_page(&mut self, offset: u64, bytes: &[u8]) {
        let within = usize::try_from(offset % PAGE as u64).expect("below a page");
        let page = self.pages.entry(offset / PAGE as u64).or_insert_with(|| Box::new([0; PAGE]));
        page[within..within + bytes.len()].copy_from_slice(bytes);
    }

    /// Stores `bytes` at `offset`, a multiple of the page.
    pub(crate) fn write(&mut self, offset: u64, bytes: &[u8]) {
        let mut at = offset;
        for part in bytes.chunks(PAGE) {
            self.write_in_page(at, part);
            at += PAGE as u64;
        }
    }

    /// Forgets whole pages of a range.
    pub(crate) fn discard(&mut self, offset: u64, len: u64) {
        let (first, end) = (offset.div_ceil(PAGE as u64), (offset + len) / PAGE as u64);
        if first < end {
            let mut tail = self.pages.split_off(&first);
            self.pages.append(&mut tail.split_off(&end));
        }
    }
}

/// A disk in memory. Clones share the bytes.
#[derive(Clone)]
pub struct MemDisk {
    name: Rc<str>,
    size: u64,
    bytes: Rc<RefCell<SparseBytes>>,
}

impl MemDisk {
    /// `size` zero bytes; memory is taken page by page as they are written.
    #[must_use]
    pub fn new(name: &str, size: u64) -> Self {
        Self { name: name.into(), size, bytes: Rc::default() }
    }

    /// Inverts one bit, as decay would.
    ///
    /// # Panics
    /// When `offset` lies outside the disk.
    pub fn flip_bit(&self, offset: u64, bit: u8) {
        assert!(offset < self.size, "{offset} lies outside {}", self.name);
        let mut bytes = self.bytes.borrow_mut();
        flip_bit(&mut bytes, offset, bit);
    }
}

pub(crate) fn flip_bit(bytes: &mut SparseBytes, offset: u64, bit: u8) {
    let page = offset / PAGE as u64 * PAGE as u64;
    let mut content = [0; PAGE];
    bytes.read(page, &mut content);
    let within = usize::try_from(offset - page).expect("below a page");
    content[within] ^= 1 << (bit % 8);
    bytes.write(page, &content);
}

impl Disk for MemDisk {
    fn path(&self) -> &str {
        &self.name
    }

    fn size(&self) -> u64 {
        self.size
    }

    fn read(&self, offset: u64, len: usize) -> IoFuture<'_, AlignedBuf> {
        assert_range(self.size, offset, len as u64);
        let mut buf = AlignedBuf::scratch(len);
        self.bytes.borrow().read(offset, &mut buf);
        Box::pin(ready(Ok(buf)))
    }

    fn write(&self, offset: u64, bytes: BufSlice, _: Persist) -> IoFuture<'_, ()> {
        assert_range(self.size, offset, bytes.len() as u64);
        self.bytes.borrow_mut().write(offset, &bytes);
        Box::pin(ready(Ok(())))
    }

    fn flush(&self) -> IoFuture<'_, ()> {
        Box::pin(ready(Ok(())))
    }

    fn discard(&self, offset: u64, len: u64) -> IoFuture<'_, ()> {
        assert_range(self.size, offset, len);
        self.bytes.borrow_mut().discard(offset, len);
        Box::pin(ready(Ok(())))
    }
}
