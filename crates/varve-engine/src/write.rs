//! The way of a write from the front-end to the lane: admitted, numbered, and answered when its frame is durable. Large
//! writes may pass the lane by (`bypass.rs`).
//!
//! WRITE-1. Numbers are given and records appended in one step without a pause between, so lane order is number order.
//! WRITE-2. A part of a block is merged over the newest version, durable or not, under a claim that keeps other writers
//!     of the block out.
//! WRITE-3. Credits and space are taken before a record exists, so an acknowledged write always has a place to drain
//!     to.
//! WRITE-4. What a part of a block is merged over is read before credits and the claim are taken, if it lies at another
//!     shard; only after many attempts in vain is it read with them.
//! READ-ONLY-1. A shard that is opened for reading only admits no change: what it acknowledged would be gone with the
//!     overlay to which recovery wrote. Everything that clients change passes here.

use std::rc::Rc;

use varve_logstore::format::record::{
    KeyPayload, RecordHeader, RecordKind, RecordOrigin, checksum_of_pieces,
};
use varve_logstore::lane::{JournalFrame, JournalRecord};
use varve_logstore::planted::{Bug, planted};
use varve_stdx::{AlignedBuf, BufSlice, checksum64};
use varve_types::limits::{ADDRESS_UNIT, VOLUME_BYTES_MAX};
use varve_types::{BlockIndex, ByteOffset, ByteRange, CutNumber, StreamId, WriteSeq};

use crate::admission::Permit;
use crate::apply::charge;
use crate::buffer::{BufferedBlock, BufferedContent, Carrier};
use crate::bypass::BYPASS_BYTES_MAX;
use crate::config::BLOCK_BYTES;
use crate::drain::{BLOCK_UNITS, first_block};
use crate::peers::ForeignChunk;
use crate::read::ATTEMPTS_MAX;
use crate::tree::TREE_ENTRY_BYTES_MAX;
use crate::{Error, Result, Shard};

/// Payload of one record at most: bounds what a frame holds and how long its copy takes.
const RECORD_BYTES_MAX: usize = 256 << 10;

const _: () =
    assert!(RECORD_BYTES_MAX.is_multiple_of(BLOCK_BYTES) && RECORD_BYTES_MAX <= BYPASS_BYTES_MAX);

const BLOCK: u64 = BLOCK_BYTES as u64;

impl Shard {
    /// Writes `data` at byte `offset` of a stream; any alignment. Durable on return.
    ///
    /// # Errors
    /// `NoSpace` when the shard is full, `Unavailable` when it closed before the write was durable: then it may or may
    /// not have happened.
    pub async fn write(&self, stream: StreamId, offset: ByteOffset, data: BufSlice) -> Result<()> {
        self.check_open()?;
        let range = checked_range(offset.0, data.len() as u64)?;
        let large = self.large_write(range);
        let mut may_bypass = large.is_some();
        let (mut frame, mut segment) = (None, None);
        let mut at = range.start;
        while at < range.end {
            let done = usize::try_from(at - range.start).expect("inside the data");
            let (block, within) = (ByteOffset(at).block(), ByteOffset(at).within_block());
            let left = data.len() - done;
            let whole = left - left % BLOCK_BYTES;
            let len = if within != 0 || whole == 0 {
                let len = left.min(BLOCK_BYTES - within);
                let part = data.slice(done..done + len);
                frame = Some(self.write_part(stream, block, within, &part).await?);
                len
            } else if may_bypass && self.large_writes_fill_segments() {
                let len = whole.min(BYPASS_BYTES_MAX);
                let part = data.slice(done..done + len);
                let passed = self.write_past_lane(stream, block, &part).await?;
                segment = passed.segment.or(segment);
                may_bypass = passed.bytes == len; // Else the lane holds older versions: the rest goes behind them.
                passed.bytes
            } else {
                let most =
                    RECORD_BYTES_MAX.min(self.lane().payload_max() / BLOCK_BYTES * BLOCK_BYTES);
                let len = whole.min(most);
                let part = data.slice(done..done + len);
                frame = Some(self.write_blocks(stream, block, part).await?);
                len
            };
            at += len as u64;
        }
        assert_eq!(at, range.end, "all of it is on its way");
        // The last frame is durable after all others, and so is the last segment.
        if let Some(frame) = frame {
            self.wait_frame(&frame).await?;
        }
        if let Some(segment) = segment {
            self.wait_segment(segment).await?;
        }
        self.admission.cuts.wait_released(stream).await;
        Ok(())
    }

    async fn write_blocks(
        &self,
        stream: StreamId,
        block: BlockIndex,
        data: BufSlice,
    ) -> Result<Rc<JournalFrame>> {
        let credits = self.admit(stream, data.len()).await?;
        let end = block + data.len() as u64 / BLOCK;
        if !planted(Bug::ClaimOverlooked) {
            self.admission.claims.wait(stream, block, end).await;
        }
        self.push_write(stream, block, data, credits)
    }

    /// Merges a part of a block over its newest version (WRITE-2).
    async fn write_part(
        &self,
        stream: StreamId,
        block: BlockIndex,
        within: usize,
        part: &[u8],
    ) -> Result<Rc<JournalFrame>> {
        assert!(!part.is_empty(), "who writes no bytes merges none");
        assert!(within + part.len() <= BLOCK_BYTES, "a part of one block"); // WRITE-2
        let mut attempt = 0;
        loop {
            let ahead = self.read_ahead(stream, block).await?; // WRITE-4
            let credits = self.admit(stream, BLOCK_BYTES).await?;
            let _claim = if planted(Bug::PartsUnclaimed) {
                None
            } else {
                Some(self.admission.claims.claim(stream, block).await)
            };
            let foreign = self.foreign_name(stream, block).await?;
            let ahead = ahead.filter(|(name, _)| foreign == Some(*name)); // PEERS-5
            if foreign.is_some() && ahead.is_none() && attempt < ATTEMPTS_MAX {
                attempt += 1; // It was overwritten meanwhile, and holds something else of another shard.
                continue;
            }
            let ahead = ahead.map(|(_, data)| data);
            let mut whole = self.newest_block(stream, block, ahead).await?;
            whole[within..within + part.len()].copy_from_slice(part);
            return self.push_write(stream, block, whole.freeze(), credits);
        }
    }

    /// What a block holds of another shard, read there, unless something newer is buffered.
    async fn read_ahead(
        &self,
        stream: StreamId,
        block: BlockIndex,
    ) -> Result<Option<(ForeignChunk, BufSlice)>> {
        let Some(name) = self.foreign_name(stream, block).await? else { return Ok(None) };
        let read = self.read_foreign(&[(0, name)]).await?.pop();
        Ok(read.flatten().map(|data| (name, data)))
    }

    /// The newest version of a block, admitted or in the map; `ahead` is what the map holds, if that was read. The
    /// caller holds its claim: as long as nothing is buffered, the map does not change.
    async fn newest_block(
        &self,
        stream: StreamId,
        block: BlockIndex,
        ahead: Option<BufSlice>,
    ) -> Result<AlignedBuf> {
        let is_claimed = || self.admission.claims.any(stream, block, block + 1);
        debug_assert!(is_claimed() || planted(Bug::PartsUnclaimed)); // WRITE-2
        let mut whole = AlignedBuf::zeroed(BLOCK_BYTES);
        let pending = self.admission.buffer.borrow().newest(stream, block).cloned();
        let pending = pending.map(|pending| pending.content);
        match pending.or(ahead.map(BufferedContent::Data)) {
            Some(BufferedContent::Data(data)) => whole.copy_from_slice(&data),
            Some(BufferedContent::Hole | BufferedContent::Zero) => {}
            None => {
                let mut filled = 0;
                for part in self.read(stream, block.offset(), BLOCK_BYTES).await? {
                    if let crate::ReadPart::Data(data) = &part {
                        whole[filled..filled + data.len()].copy_from_slice(data);
                    }
                    filled += part.len();
                }
                assert_eq!(filled, BLOCK_BYTES, "a read gives what it is asked for");
            }
        }
        Ok(whole)
    }

    /// Takes credits and space for `bytes` of a stream's data (WRITE-3).
    pub(crate) async fn admit(&self, stream: StreamId, bytes: usize) -> Result<Permit> {
        self.admit_credits(stream, charge(bytes), bytes as u64).await
    }

    /// Takes `credits`, and space for `bytes` of data (WRITE-3), of what is promised to a stream if that is the case.
    pub(crate) async fn admit_credits(
        &self,
        stream: StreamId,
        credits: u64,
        bytes: u64,
    ) -> Result<Permit> {
        self.check_writable()?; // READ-ONLY-1
        self.admit_space(stream, bytes).await?;
        let waits = self.admission.credits.data.would_wait(credits);
        if waits {
            self.admission.press();
            self.drain.request();
        }
        let credits = self.admission.credits.data.take(credits).await;
        self.check_open()?;
        self.hurry_drain();
        if waits {
            // What was free may have gone to others meanwhile; the credits count by now.
            self.admit_space(stream, 0).await?;
        }
        Ok(credits)
    }

    /// Numbers whole blocks and appends them to the lane (WRITE-1). The frame's release gives the credits back.
    fn push_write(
        &self,
        stream: StreamId,
        block: BlockIndex,
        data: BufSlice,
        credits: Permit,
    ) -> Result<Rc<JournalFrame>> {
        assert!(self.admission.credits.data.taken() > 0, "credits come before a record"); // WRITE-3
        self.check_open()?;
        let record = self.write_record(stream, block, data);
        let frame = self.lane().append(Rc::clone(&record));
        self.enter_blocks(&record, &frame);
        credits.keep();
        Ok(frame)
    }

    /// Numbers whole blocks (WRITE-1).
    pub(crate) fn write_record(
        &self,
        stream: StreamId,
        block: BlockIndex,
        data: BufSlice,
    ) -> Rc<JournalRecord> {
        assert!(data.len() <= RECORD_BYTES_MAX, "what is longer is cut before");
        assert!(!data.is_empty() && data.len().is_multiple_of(BLOCK_BYTES), "whole blocks");
        let (checksum, piece_checksums) = if data.len() == BLOCK_BYTES {
            (checksum64(&data), Vec::new())
        } else {
            let sums: Vec<u64> = data.chunks_exact(BLOCK_BYTES).map(checksum64).collect();
            (checksum_of_pieces(sums.iter().copied()), sums)
        };
        let header = RecordHeader {
            payload_len: u32::try_from(data.len()).expect("bounded by RECORD_BYTES_MAX"),
            offset_512: block.0 * BLOCK_UNITS,
            len_512: data.len() as u64 / ADDRESS_UNIT,
            payload_checksum: checksum,
            ..self.fresh_header(RecordKind::Write, stream)
        };
        Rc::new(JournalRecord { header, payload: data, piece_checksums, is_reserved: false })
    }

    /// Enters the blocks of a record in the write buffer, in the step in which it was appended (WRITE-1).
    pub(crate) fn enter_blocks(&self, record: &JournalRecord, frame: &Rc<JournalFrame>) {
        let RecordHeader { stream, wseq, payload_len, .. } = record.header;
        assert_eq!(record.payload.len(), payload_len as usize, "header and payload agree");
        let mut buffer = self.admission.buffer.borrow_mut();
        let first = first_block(&record.header);
        for (block, start) in
            first.until(BlockIndex::MAX).zip((0..record.payload.len()).step_by(BLOCK_BYTES))
        {
            let content = BufferedContent::Data(record.payload.slice(start..start + BLOCK_BYTES));
            let carrier = Carrier::Frame(Rc::clone(frame));
            buffer.insert(stream, block, BufferedBlock { wseq, carrier, content });
        }
        debug_assert!(
            buffer.newest(stream, first).is_some_and(|newest| newest.wseq == wseq),
            "no version is newer than the last one"
        ); // BUFFER-1
        self.counters.add_write(payload_len);
    }

    fn fresh_header(&self, kind: RecordKind, stream: StreamId) -> RecordHeader {
        let wseq = self.admission.fresh_wseq();
        RecordHeader {
            kind,
            class: 0,
            origin: RecordOrigin::Client,
            payload_len: 0,
            stream,
            wseq,
            offset_512: 0,
            len_512: 0,
            payload_checksum: 0,
            cut: CutNumber(0),
            connection: 0,
            request: 0,
        }
    }

    /// Makes whole blocks read as zeros and gives their space back. Parts of blocks at the ends of the range read as
    /// zeros as well if there is space for that, and else stay as they are: a trim is advice, and has to work on a full
    /// pool. Durable on return, whatever the length; costs O(1) before the answer.
    ///
    /// # Errors
    /// As [`Self::write`], but never for want of space.
    pub async fn trim(&self, stream: StreamId, range: ByteRange) -> Result<()> {
        checked_range(range.start, range.len())?;
        let (start, end) = (range.start.next_multiple_of(BLOCK), range.end / BLOCK * BLOCK);
        let parts = if start > end {
            vec![range] // Within one block.
        } else {
            self.clear(stream, ByteRange { start, end }, RecordKind::Trim).await?;
            let (head, tail) =
                (ByteRange { end: start, ..range }, ByteRange { start: end, ..range });
            vec![head, tail]
        };
        for part in parts {
            // Waiting for room is for those who must have it.
            if !part.is_empty() && self.takes_at_once(stream, BLOCK) {
                match self.clear(stream, part, RecordKind::Trim).await {
                    Err(Error::NoSpace { .. }) => {}
                    outcome => outcome?,
                }
            }
        }
        Ok(())
    }

    /// Makes bytes read as zeros; with `keep_allocated` they stay allocated in the eyes of the client. Durable on
    /// return.
    ///
    /// # Errors
    /// As [`Self::write`], but only parts of blocks at the ends need space.
    pub async fn write_zeroes(
        &self,
        stream: StreamId,
        range: ByteRange,
        keep_allocated: bool,
    ) -> Result<()> {
        let kind = if keep_allocated { RecordKind::Zero } else { RecordKind::Trim };
        self.clear(stream, range, kind).await
    }

    async fn clear(&self, stream: StreamId, range: ByteRange, kind: RecordKind) -> Result<()> {
        self.clear_range(stream, range, kind).await?;
        self.admission.cuts.wait_released(stream).await;
        Ok(())
    }

    async fn clear_range(
        &self,
        stream: StreamId,
        range: ByteRange,
        kind: RecordKind,
    ) -> Result<()> {
        self.check_open()?;
        if range.is_empty() {
            return Ok(());
        }
        checked_range(range.start, range.len())?;
        let start = ByteOffset(range.start);
        let (first, end) = (start.next_block(), ByteOffset(range.end).block());
        let (first_byte, end_byte) = (first.offset().0, end.offset().0);
        let mut last = None;
        let zeros = [0; BLOCK_BYTES];
        let part = |len: u64| &zeros[..usize::try_from(len).expect("less than a block")];
        if first > end {
            let within = start.within_block();
            let frame = self.write_part(stream, end, within, part(range.len())).await?;
            return self.wait_frame(&frame).await;
        }
        if range.start < first_byte {
            let (block, within) = (start.block(), start.within_block());
            let len = first_byte - range.start;
            last = Some(self.write_part(stream, block, within, part(len)).await?);
        }
        if first < end {
            last = Some(self.clear_whole(stream, first, end, kind).await?);
        }
        if range.end > end_byte {
            last = Some(self.write_part(stream, end, 0, part(range.end - end_byte)).await?);
        }
        match last.filter(|_| !planted(Bug::TrimBeforeDurable)) {
            Some(frame) => self.wait_frame(&frame).await,
            None => Ok(()),
        }
    }

    async fn clear_whole(
        &self,
        stream: StreamId,
        first: BlockIndex,
        end: BlockIndex,
        kind: RecordKind,
    ) -> Result<Rc<JournalFrame>> {
        let credits = self.admit_record().await?;
        self.admission.claims.wait(stream, first, end).await;
        self.check_open()?;
        assert!(self.admission.credits.records.taken() > 0, "credits come before a record"); // WRITE-3
        credits.keep();
        let record = Rc::new(self.clear_record(stream, first, end, kind));
        let frame = self.lane().append(Rc::clone(&record));
        self.enter_cleared(&record, &frame);
        Ok(frame)
    }

    /// Numbers a trim or zero of blocks `first .. end` (WRITE-1).
    pub(crate) fn clear_record(
        &self,
        stream: StreamId,
        first: BlockIndex,
        end: BlockIndex,
        kind: RecordKind,
    ) -> JournalRecord {
        assert!(first < end, "a range holds a block");
        let header = RecordHeader {
            offset_512: first.0 * BLOCK_UNITS,
            len_512: (end - first) * BLOCK_UNITS,
            ..self.fresh_header(kind, stream)
        };
        self.bare_record(header)
    }

    /// Enters a trim or zero in the write buffer, in the step in which it was appended (WRITE-1).
    pub(crate) fn enter_cleared(&self, record: &JournalRecord, frame: &Rc<JournalFrame>) {
        let RecordHeader { stream, wseq, len_512, kind, .. } = record.header;
        assert!(matches!(kind, RecordKind::Trim | RecordKind::Zero), "{kind:?} clears no blocks");
        let first = first_block(&record.header);
        let content =
            if kind == RecordKind::Zero { BufferedContent::Zero } else { BufferedContent::Hole };
        let pending = BufferedBlock { wseq, carrier: Carrier::Frame(Rc::clone(frame)), content };
        let end = first + len_512 / BLOCK_UNITS;
        let mut buffer = self.admission.buffer.borrow_mut();
        buffer.insert_range(stream, first, end, pending);
        debug_assert!(
            buffer.newest(stream, first).is_some_and(|newest| newest.wseq == wseq),
            "no version is newer than the last one"
        ); // BUFFER-1
    }

    fn bare_record(&self, header: RecordHeader) -> JournalRecord {
        assert_eq!(header.payload_len, 0, "header and payload agree");
        let payload = self.admission.no_payload();
        JournalRecord { header, payload, piece_checksums: Vec::new(), is_reserved: true }
    }

    /// Numbers a record with a payload of less than a block and no range, and appends it (WRITE-1). The caller has
    /// taken its credits.
    pub(crate) fn append_payload(
        &self,
        kind: RecordKind,
        stream: StreamId,
        payload: AlignedBuf,
    ) -> (WriteSeq, Rc<JournalFrame>) {
        let record = self.payload_record(kind, stream, payload);
        (record.header.wseq, self.lane().append(Rc::new(record)))
    }

    fn payload_record(
        &self,
        kind: RecordKind,
        stream: StreamId,
        payload: AlignedBuf,
    ) -> JournalRecord {
        assert!(payload.len() <= BLOCK_BYTES, "it is charged as a block"); // WRITE-3
        let header = RecordHeader {
            payload_len: u32::try_from(payload.len()).expect("less than a block"),
            payload_checksum: checksum64(&payload),
            ..self.fresh_header(kind, stream)
        };
        let payload = payload.freeze();
        JournalRecord { header, payload, piece_checksums: Vec::new(), is_reserved: true }
    }

    /// Numbers the new value of a key of the tree, or its deletion (WRITE-1).
    pub(crate) fn key_record(&self, key: &[u8], value: Option<&[u8]>) -> JournalRecord {
        let payload = KeyPayload { key, value: value.unwrap_or(&[]) };
        let mut bytes = AlignedBuf::zeroed(payload.encoded_len());
        payload.encode(&mut bytes);
        let kind = if value.is_some() { RecordKind::KeyPut } else { RecordKind::KeyDelete };
        self.payload_record(kind, StreamId::ZERO, bytes)
    }

    /// Takes credits for a record that needs no space for data: these have a reserve of their own.
    pub(crate) async fn admit_record(&self) -> Result<Permit> {
        self.admit_records(charge(0)).await
    }

    /// Refuses where what is written is not kept.
    fn check_writable(&self) -> Result<()> {
        if self.is_read_only() { Err(Error::ReadOnly) } else { Ok(()) }
    }

    /// As [`Self::admit_record`], for several records of which each is charged.
    pub(crate) async fn admit_records(&self, credits: u64) -> Result<Permit> {
        self.check_writable()?; // READ-ONLY-1
        if self.admission.credits.records.would_wait(credits) {
            self.admission.press();
            self.drain.request();
        }
        let credits = self.admission.credits.records.take(credits).await;
        self.check_open()?;
        self.hurry_drain();
        Ok(credits)
    }

    /// Forgets a stream and everything in it. Durable on return; its space comes back with the next mark pass.
    ///
    /// # Errors
    /// `Unavailable` when the shard closed.
    pub async fn drop_stream(&self, stream: StreamId) -> Result<()> {
        self.check_open()?;
        self.admit_record().await?.keep();
        let header = self.fresh_header(RecordKind::StreamDrop, stream);
        let frame = self.lane().append(Rc::new(self.bare_record(header)));
        self.mark.wanted.set(true);
        self.tell_names_gone();
        self.reduce.forget(stream);
        self.wait_frame(&frame).await?;
        if self.reservations.promises_to(stream) {
            self.release_reservation(stream).await?; // What a crash leaves of it is released when the pool is served.
        }
        Ok(())
    }

    /// Sets a key. Durable on return.
    ///
    /// # Errors
    /// `Invalid` when key and value together exceed half a page.
    pub async fn key_put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.change_key(key, Some(value)).await
    }

    /// Removes a key, if it is there. Durable on return.
    ///
    /// # Errors
    /// `Unavailable` when the shard closed.
    pub async fn key_delete(&self, key: &[u8]) -> Result<()> {
        self.change_key(key, None).await
    }

    async fn change_key(&self, key: &[u8], value: Option<&[u8]>) -> Result<()> {
        self.change_stored_key(crate::trees::user_key(key), value).await
    }

    /// Changes a key of the tree, whosever it is. Durable on return.
    pub(crate) async fn change_stored_key(&self, key: Vec<u8>, value: Option<&[u8]>) -> Result<()> {
        self.check_open()?;
        self.check_key(&key, value)?;
        self.admit_record().await?.keep();
        let record = self.key_record(&key, value);
        let wseq = record.header.wseq;
        let frame = self.lane().append(Rc::new(record));
        self.admission.pending_keys.borrow_mut().insert(key, wseq, &frame, value);
        self.wait_frame(&frame).await
    }

    /// Refuses what does not fit the key tree.
    pub(crate) fn check_key(&self, key: &[u8], value: Option<&[u8]>) -> Result<()> {
        self.trees.borrow().keys.check_entry(key, value.unwrap_or(&[])).map_err(|error| {
            let value = (error.key_len + error.value_len) as u64;
            Error::TooLarge {
                what: "bytes of key and value",
                value,
                limit: TREE_ENTRY_BYTES_MAX as u64,
            }
        })
    }
}

/// The bytes of a request, if streams reach that far.
fn checked_range(offset: u64, len: u64) -> Result<ByteRange> {
    match ByteRange::checked(offset, len) {
        Some(range) if range.end <= VOLUME_BYTES_MAX => Ok(range),
        _ => Err(Error::TooLarge {
            what: "end of the request",
            value: offset.saturating_add(len),
            limit: VOLUME_BYTES_MAX,
        }),
    }
}
