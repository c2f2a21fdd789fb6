//! The root of a shard: where its last checkpoint is and where replay begins. Replaced whole at each checkpoint and
//! open.
//!
//! FORMAT-ROOT-1. What a root names is durable before the root is.
//! FORMAT-ROOT-2. `next_chunk`, `next_generation` and `next_wseq` are reservations: nothing at or above them was ever
//!     used, so a restart may begin there.

use varve_stdx::{DecodeError, Reader, Writer, checksum64};
use varve_types::{ChunkId, CutNumber, Generation, PoolId, SegmentNumber, ShardId, WriteSeq};

use super::checks::verify;
use super::features::Features;
use super::frame::LogPosition;
use super::pointer::{Location, PagePtr};
use crate::error::Result;

const WHAT: &str = "shard root";

/// The newest segment of a chain that a checkpoint covers, and where the next one is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ChainHead {
    /// `chain_seq` of the newest segment; 0 when the chain is empty.
    pub seq: u64,
    /// Its header checksum; 0 when the chain is empty.
    pub checksum: u64,
    /// Slot that the next segment takes.
    pub next_slot: SegmentNumber,
}

impl ChainHead {
    fn write(&self, out: &mut Writer<'_>) {
        out.u64(self.seq);
        out.u64(self.checksum);
        out.u32(self.next_slot.0);
        out.u32(0);
    }

    fn read(fields: &mut Reader<'_>) -> Result<Self> {
        let head = Self {
            seq: fields.u64()?,
            checksum: fields.u64()?,
            next_slot: SegmentNumber(fields.u32()?),
        };
        fields.zeros(4)?;
        Ok(head)
    }
}

/// A tree of a shard.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TreeRoot {
    /// Root page.
    pub page: PagePtr,
    /// Levels: 0 for an empty tree, 1 when the root is a leaf.
    pub height: u8,
}

/// What a shard starts from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ShardRoot {
    /// Feature flags.
    pub features: Features,
    /// The pool it belongs to.
    pub pool: PoolId,
    /// The shard it belongs to.
    pub shard: ShardId,
    /// Open counter: raised, and made durable, before the first write of each open.
    pub mount: u64,
    /// Number of the checkpoint.
    pub checkpoint_seq: u64,
    /// Records of the lane up to this are in the trees.
    pub applied_wseq: WriteSeq,
    /// No record has this number or a higher one, the lane aside (FORMAT-ROOT-2).
    pub next_wseq: WriteSeq,
    /// No chunk has this id or a higher one, newer summaries aside (FORMAT-ROOT-2).
    pub next_chunk: ChunkId,
    /// No map or key page has this id or a higher one, newer summaries aside (FORMAT-ROOT-2). Ids of pages are the
    /// upper half of all ids.
    pub next_page: ChunkId,
    /// No segment has this generation or a higher one, newer summaries aside (FORMAT-ROOT-2).
    pub next_generation: Generation,
    /// Where replay of the lane may begin.
    pub lane: LogPosition,
    /// The mount whose frames stand there; an earlier one until recovery has drained them.
    pub lane_mount: u64,
    /// The chain of data segments.
    pub data_chain: ChainHead,
    /// The chain of reclaimed segments.
    pub reclaim_chain: ChainHead,
    /// The chunk table.
    pub table: TreeRoot,
    /// The key tree.
    pub keys: TreeRoot,
    /// Live bytes of segments, in order.
    pub usage: Vec<Location>,
    /// Chunks of the table that were overwritten, in order.
    pub deaths: Vec<Location>,
    /// Highest cut of any stream.
    pub highest_cut: CutNumber,
    /// Chunks of data in the table.
    pub data_chunks: u64,
    /// Bytes of segments that these take, their entries in summaries included.
    pub data_bytes: u64,
    /// Map updates that wait, in the order of streams and blocks.
    pub deltas: Vec<Location>,
    /// As many may wait until the next root; 0 while none do that come now. Replay goes by it, whatever the
    /// configuration says.
    pub delta_limit: u64,
    /// Segments with pages, and where their second copies lie. A unit there is whole if its checksum says so; the
    /// segment may hold something else by now.
    pub copies: Vec<(SegmentNumber, SegmentNumber)>,
}

impl ShardRoot {
    /// First bytes of every shard root.
    pub const MAGIC: [u8; 8] = *b"VARVSHRD";
    /// Version of the structure.
    pub const VERSION: u16 = 1;
    /// Encoded length in bytes without blobs.
    pub const LEN_MIN: usize = 304;

    /// Bytes that a copy adds.
    const COPY_LEN: usize = 8;

    /// Encoded length in bytes; each blob adds [`Location::LEN`], and each copy 8.
    #[must_use]
    pub fn encoded_len(&self) -> usize {
        let blobs = self.usage.len() + self.deaths.len() + self.deltas.len();
        Self::LEN_MIN + blobs * Location::LEN + self.copies.len() * Self::COPY_LEN
    }

    /// Names copies, as many as leave the root within `bytes_max`, and sets the feature that says so.
    pub fn name_copies(&mut self, copies: Vec<(SegmentNumber, SegmentNumber)>, bytes_max: u32) {
        self.copies = copies;
        let over = self.encoded_len().saturating_sub(bytes_max as usize);
        let named = self.copies.len().saturating_sub(over.div_ceil(Self::COPY_LEN));
        self.copies.truncate(named);
        self.features.incompat &= !Features::PAGE_COPIES;
        if !self.copies.is_empty() {
            self.features.incompat |= Features::PAGE_COPIES;
        }
        assert!(self.copies.is_empty() || self.encoded_len() <= bytes_max as usize);
    }

    /// The root as bytes.
    ///
    /// # Panics
    /// When a tree's root is in memory only (FORMAT-ROOT-1).
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.encoded_len()];
        let length = u32::try_from(bytes.len()).expect("a root is far below 4 GiB");
        let (covered, last) = bytes.split_last_chunk_mut::<8>().expect("a root is longer");
        let mut out = Writer::new(covered);
        out.array(Self::MAGIC);
        out.u16(Self::VERSION);
        out.u16(0);
        out.u32(length);
        self.features.write(&mut out);
        out.bytes(&self.pool.0);
        out.u16(self.shard.0);
        out.zeros(6);
        out.u64(self.mount);
        out.u64(self.checkpoint_seq);
        out.u64(self.applied_wseq.get());
        out.u64(self.next_wseq.get());
        out.u64(self.next_chunk.get());
        out.u64(self.next_page.get());
        out.u64(self.next_generation.get());
        out.u64(self.lane.position);
        out.u64(self.lane.frame_seq);
        out.u64(self.lane.chain);
        out.u64(self.lane_mount);
        self.data_chain.write(&mut out);
        self.reclaim_chain.write(&mut out);
        for tree in [&self.table, &self.keys] {
            assert_eq!(tree.page == PagePtr::Null, tree.height == 0, "an empty tree has no levels");
            let mut page = [0; PagePtr::LEN];
            tree.page.encode(&mut page);
            out.array(page);
        }
        out.u8(self.table.height);
        out.u8(self.keys.height);
        out.zeros(2);
        out.u32(u32::try_from(self.deaths.len()).expect("a root is far below 4 GiB"));
        out.u32(self.highest_cut.0);
        out.u32(u32::try_from(self.usage.len()).expect("a root is far below 4 GiB"));
        out.u64(self.data_chunks);
        out.u64(self.data_bytes);
        out.u64(self.delta_limit);
        out.u32(u32::try_from(self.deltas.len()).expect("a root is far below 4 GiB"));
        out.u32(u32::try_from(self.copies.len()).expect("a root is far below 4 GiB"));
        for location in self.usage.iter().chain(&self.deaths).chain(&self.deltas) {
            let mut bytes = [0; Location::LEN];
            location.encode(&mut bytes);
            out.array(bytes);
        }
        for (of, slot) in &self.copies {
            out.u32(of.0);
            out.u32(slot.0);
        }
        assert_eq!(out.position(), length as usize - 8, "the length is the sum of the fields");
        *last = checksum64(covered).to_le_bytes();
        bytes
    }

    /// Verifies and reads a root. `bytes` may be longer than it.
    ///
    /// # Errors
    /// Whatever keeps `bytes` from starting with a shard root that this version may read.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let covered = envelope(WHAT, Self::MAGIC, Self::VERSION, bytes)?;
        let mut fields = Reader::new(WHAT, covered);
        fields.bytes(ENVELOPE_LEN)?;
        let features = Features::read(&mut fields, WHAT)?;
        let pool = PoolId(fields.array()?);
        let shard = ShardId(fields.u16()?);
        fields.zeros(6)?;
        let mount = fields.u64()?;
        let checkpoint_seq = fields.u64()?;
        let applied_wseq = fields.id("applied_wseq", WriteSeq::from_untrusted)?;
        let next_wseq = fields.id("next_wseq", WriteSeq::from_untrusted)?;
        let next_chunk = fields.id("next_chunk", ChunkId::from_untrusted)?;
        let next_page = fields.id("next_page", ChunkId::from_untrusted)?;
        let next_generation = fields.id("next_generation", Generation::from_untrusted)?;
        let lane =
            LogPosition { position: fields.u64()?, frame_seq: fields.u64()?, chain: fields.u64()? };
        let lane_mount = fields.u64()?;
        let data_chain = ChainHead::read(&mut fields)?;
        let reclaim_chain = ChainHead::read(&mut fields)?;
        let table_page = PagePtr::decode(fields.bytes(PagePtr::LEN)?)?;
        let keys_page = PagePtr::decode(fields.bytes(PagePtr::LEN)?)?;
        let table = TreeRoot { page: table_page, height: fields.u8()? };
        let keys = TreeRoot { page: keys_page, height: fields.u8()? };
        for (field, tree) in [("table_height", table), ("keys_height", keys)] {
            if (tree.page == PagePtr::Null) != (tree.height == 0) {
                return Err(fields.bad(field, u64::from(tree.height)).into());
            }
        }
        fields.zeros(2)?;
        let death_count = fields.u32()?;
        let highest_cut = CutNumber(fields.u32()?);
        let usage_count = fields.u32()?;
        let (data_chunks, data_bytes) = (fields.u64()?, fields.u64()?);
        let (delta_limit, delta_count, copy_count) = (fields.u64()?, fields.u32()?, fields.u32()?);
        let mut locations = |count: u32| -> Result<Vec<Location>> {
            let bytes = fields.bytes((count as usize).saturating_mul(Location::LEN))?;
            bytes.chunks(Location::LEN).map(Location::decode).collect()
        };
        let (usage, deaths) = (locations(usage_count)?, locations(death_count)?);
        let deltas = locations(delta_count)?;
        let copies = read_copies(&mut fields, copy_count, features)?;
        fields.end()?;
        Ok(Self {
            features,
            pool,
            shard,
            mount,
            checkpoint_seq,
            applied_wseq,
            next_wseq,
            next_chunk,
            next_page,
            next_generation,
            lane,
            lane_mount,
            data_chain,
            reclaim_chain,
            table,
            keys,
            usage,
            deaths,
            highest_cut,
            data_chunks,
            data_bytes,
            deltas,
            delta_limit,
            copies,
        })
    }
}

/// The pairs of segments and copies, which the feature announces.
fn read_copies(
    fields: &mut Reader<'_>,
    count: u32,
    features: Features,
) -> Result<Vec<(SegmentNumber, SegmentNumber)>> {
    if count > 0 && features.incompat & Features::PAGE_COPIES == 0 {
        return Err(fields.bad("copy_count", u64::from(count)).into());
    }
    let pair = |_| Ok((SegmentNumber(fields.u32()?), SegmentNumber(fields.u32()?)));
    (0..count).map(pair).collect()
}

/// Bytes of magic, version and length, which every root begins with.
pub(super) const ENVELOPE_LEN: usize = 16;

/// Checks magic, version, length and checksum of a root; returns what the checksum covers.
pub(super) fn envelope<'a>(
    what: &'static str,
    magic: [u8; 8],
    version: u16,
    bytes: &'a [u8],
) -> Result<&'a [u8]> {
    let mut fields = Reader::new(what, bytes);
    fields.magic(magic)?;
    fields.version(version)?;
    fields.zeros(2)?;
    let length = fields.u32()? as usize;
    let truncated = DecodeError::Truncated { what, need: length, have: bytes.len() };
    let root = bytes.get(..length).ok_or(truncated)?;
    let Some((covered, stored)) =
        root.split_last_chunk::<8>().filter(|(covered, _)| covered.len() >= ENVELOPE_LEN)
    else {
        return Err(fields.bad("length", length as u64).into());
    };
    verify(what, u64::from_le_bytes(*stored), checksum64(covered))?;
    Ok(covered)
}
