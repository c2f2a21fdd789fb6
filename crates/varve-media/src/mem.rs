//! A disk in memory: every operation completes at once. For tests, and for pools that need not outlive the process.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::ready;
use std::ops::Range;
use std::rc::Rc;

use varve_stdx::{AlignedBuf, BufSlice};

use crate::contract::IoFuture;
use crate::disk::{Disk, Persist, assert_range};

const PAGE: usize = 4096;

/// Pages that are looked up together.
const GROUP_PAGES: usize = 16;
const GROUP: u64 = GROUP_PAGES as u64;

/// Bytes of which only written pages take memory; the rest reads as zeros. Clones share pages until one is written.
#[derive(Clone, Default)]
pub(crate) struct SparseBytes {
    groups: BTreeMap<u64, Rc<PageGroup>>,
}

/// Neighbouring pages, by their place among each other.
type PageGroup = [Option<Rc<[u8]>>; GROUP_PAGES];

/// A page, by its number: its group, and its place there.
fn place(number: u64) -> (u64, usize) {
    (number / GROUP, (number % GROUP) as usize)
}

impl SparseBytes {
    /// Granularity of what takes memory.
    pub(crate) const PAGE_BYTES: usize = PAGE;

    /// Pages in a range of numbers that were written.
    fn pages(&self, numbers: Range<u64>) -> impl Iterator<Item = (u64, &Rc<[u8]>)> {
        let groups = self.groups.range(numbers.start / GROUP..numbers.end.div_ceil(GROUP));
        let pages = groups.flat_map(|(group, pages)| (group * GROUP..).zip(pages.iter()));
        let written = pages.filter_map(|(number, page)| Some((number, page.as_ref()?)));
        written.filter(move |(number, _)| numbers.contains(number))
    }

    /// Forgets pages.
    fn forget(&mut self, numbers: Range<u64>) {
        for (group, pages) in
            self.groups.range_mut(numbers.start / GROUP..numbers.end.div_ceil(GROUP))
        {
            let pages = Rc::make_mut(pages).iter_mut();
            let there = (group * GROUP..).zip(pages).filter(|(number, _)| numbers.contains(number));
            there.for_each(|(_, page)| *page = None);
        }
    }

    /// Bytes of a range, both ends multiples of the page, that lie in pages that were written.
    pub(crate) fn present_bytes(&self, offset: u64, len: u64) -> u64 {
        let numbers = offset / PAGE as u64..(offset + len) / PAGE as u64;
        self.pages(numbers).count() as u64 * PAGE as u64
    }

    /// Makes a range read as zeros; both ends are multiples of the page.
    pub(crate) fn erase(&mut self, range: Range<u64>) {
        let page = PAGE as u64;
        assert!(range.start.is_multiple_of(page) && range.end.is_multiple_of(page), "whole pages");
        self.forget(range.start / page..range.end / page);
    }

    /// Bytes of all pages that were written.
    pub(crate) fn written_bytes(&self) -> u64 {
        self.groups.values().flat_map(|pages| pages.iter().flatten()).count() as u64 * PAGE as u64
    }

    /// Replaces what `out` holds of written pages; the rest stays.
    pub(crate) fn patch(&self, offset: u64, out: &mut [u8]) {
        let first = offset / PAGE as u64;
        for (number, page) in self.pages(first..first + (out.len() / PAGE) as u64) {
            let start = usize::try_from(number - first).expect("inside the range") * PAGE;
            out[start..start + PAGE].copy_from_slice(page);
        }
    }

    /// Fills `out` with the bytes at `offset`, a multiple of the page.
    pub(crate) fn read(&self, offset: u64, out: &mut [u8]) {
        let mut known: Option<(u64, Option<&PageGroup>)> = None;
        for (number, part) in (offset / PAGE as u64..).zip(out.chunks_mut(PAGE)) {
            let (group, within) = place(number);
            let pages = match known {
                Some((same, pages)) if same == group => pages,
                _ => self.groups.get(&group).map(|pages| &**pages),
            };
            known = Some((group, pages));
            match pages.and_then(|pages| pages[within].as_ref()) {
                Some(page) => part.copy_from_slice(&page[..part.len()]),
                None => part.fill(0),
            }
        }
    }

    /// Stores `bytes`, which must not cross a page.
    pub(crate) fn write_in_page(&mut self, offset: u64, bytes: &[u8]) {
        let within = usize::try_from(offset % PAGE as u64).expect("below a page");
        let (group, at) = place(offset / PAGE as u64);
        let page = &mut Rc::make_mut(self.groups.entry(group).or_default())[at];
        if bytes.len() == PAGE && page.as_ref().is_none_or(|page| Rc::strong_count(page) > 1) {
            *page = Some(bytes.into());
            return;
        }
        let page = page.get_or_insert_with(|| [0; PAGE].as_slice().into());
        Rc::make_mut(page)[within..within + bytes.len()].copy_from_slice(bytes);
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
            self.forget(first..end);
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
