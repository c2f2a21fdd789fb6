//! What front-ends serve: the two traits between a protocol and the volumes.
//!
//! BLOCK-EXPORT-1. An export's effects are durable when its future returns `Ok`: flags and flushes of protocols
//!     rest on that.
//! BLOCK-EXPORT-2. Requests of one export may run concurrently and finish in any order.

use std::future::Future;

use varve_stdx::{BufSlice, ReadPart};
use varve_types::{ByteOffset, ErrorKind};

use crate::peer::Peer;

/// What requests are checked against; cheap to copy, asked for at every request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ExportInfo {
    /// Bytes of the export now; a resize shows at the next request.
    pub size_bytes: u64,
    /// Requests aligned to this many bytes are the cheapest; a power of two. Others work as well.
    pub block_bytes: u32,
    /// Whether writes, trims and zeroing are refused.
    pub read_only: bool,
    /// Whether it is served to one connection at a time.
    pub exclusive: bool,
}

/// What is known of an extent without reading it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ExtentKind {
    /// Not allocated; reads as zeros.
    Hole,
    /// Allocated; reads as zeros.
    Zero,
    /// Anything else.
    Data,
}

/// A run of bytes with one status.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Extent {
    /// Length in bytes.
    pub len: u64,
    /// Its status.
    pub kind: ExtentKind,
}

/// A run of bytes that may differ from a snapshot, or does not.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Change {
    /// Length in bytes.
    pub len: u64,
    /// Whether it may differ.
    pub dirty: bool,
}

/// One block device on this thread. Ranges handed to it lie within [`ExportInfo::size_bytes`], unless a shrink
/// overtakes them, and are of any alignment.
pub trait Export {
    /// What a read returns, in order and covering the range exactly.
    type Parts: IntoIterator<Item = ReadPart>;

    /// Size and properties now. Called for every request.
    fn info(&self) -> ExportInfo;

    /// Takes the export for a connection of this client, for as long as this value lives.
    ///
    /// # Errors
    /// The client that has it, where it is exclusive.
    fn admit(&self, _peer: &Peer) -> Result<(), String> {
        Ok(())
    }

    /// The client that has it, where it is exclusive.
    fn holder(&self) -> Option<String> {
        None
    }

    /// Reads `len` bytes.
    fn read(
        &self,
        offset: ByteOffset,
        len: u32,
    ) -> impl Future<Output = Result<Self::Parts, ErrorKind>>;

    /// Writes `data`. Durable on return (BLOCK-EXPORT-1).
    fn write(
        &self,
        offset: ByteOffset,
        data: BufSlice,
    ) -> impl Future<Output = Result<(), ErrorKind>>;

    /// Gives the range back; it reads as zeros afterwards. Durable on return (BLOCK-EXPORT-1).
    fn trim(&self, offset: ByteOffset, len: u64) -> impl Future<Output = Result<(), ErrorKind>>;

    /// Makes the range read as zeros; keeps its space when `keep_allocated`. Durable on return (BLOCK-EXPORT-1).
    ///
    /// # Errors
    /// `Unsupported` says that writing zeros would be as fast.
    fn write_zeroes(
        &self,
        offset: ByteOffset,
        len: u64,
        keep_allocated: bool,
    ) -> impl Future<Output = Result<(), ErrorKind>>;

    /// Makes everything durable that returned before, on any connection.
    fn flush(&self) -> impl Future<Output = Result<(), ErrorKind>>;

    /// Status of a range of at least one byte, from its start on: one to `extents_max` extents, each of at
    /// least one byte; they may end before the range does.
    fn block_status(
        &self,
        offset: ByteOffset,
        len: u64,
        extents_max: usize,
    ) -> impl Future<Output = Result<Vec<Extent>, ErrorKind>>;

    /// Snapshots since which this handle tells changes, in the order of their numbers; of those it was opened with, the
    /// ones there are.
    fn since(&self) -> &[String] {
        &[]
    }

    /// Names of snapshots since which it could tell changes, `max` at most.
    fn snapshots(&self, _max: usize) -> impl Future<Output = Result<Vec<String>, ErrorKind>> {
        std::future::ready(Ok(Vec::new()))
    }

    /// Which bytes of a range may differ from the snapshot of this number in [`Self::since`]; bounds as
    /// [`Self::block_status`].
    fn changes(
        &self,
        _since: usize,
        _offset: ByteOffset,
        _len: u64,
        _extents_max: usize,
    ) -> impl Future<Output = Result<Vec<Change>, ErrorKind>> {
        std::future::ready(Err(ErrorKind::Unsupported))
    }
}

/// The exports that a connection may choose from, on this thread.
pub trait Exports {
    /// What opening yields.
    type Export: Export;

    /// Names that LIST shows, in order.
    fn list(&self) -> impl Future<Output = Result<Vec<String>, ErrorKind>>;

    /// Opens an export for as long as the returned value lives.
    ///
    /// # Errors
    /// `NotFound` when there is none of this name.
    fn open(&self, name: &str) -> impl Future<Output = Result<Self::Export, ErrorKind>>;

    /// The same, with what changed since these snapshots of the export, as far as they are there.
    ///
    /// # Errors
    /// `NotFound` when there is no export of this name.
    fn open_since(
        &self,
        name: &str,
        _since: &[String],
    ) -> impl Future<Output = Result<Self::Export, ErrorKind>> {
        self.open(name)
    }
}
