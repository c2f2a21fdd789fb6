//! Reading a shard that does not open, or whose parts are damaged, as far as anything is left: what `varve salvage`
//! copies out.
//!
//! ENGINE-SALVAGE-1. Nothing is replayed, and no task runs: what is read is what the last checkpoint says
//!     (`Shard::open_checkpoint`). Nothing is written.

use varve_logstore::chain_reader::{read_whole, unit_checksum};
use varve_stdx::BufSlice;
use varve_types::ChunkId;

use crate::{Error, Result, Shard};

impl Shard {
    /// The block that a chunk holds, read without what a shard that serves needs to know of its segment.
    ///
    /// # Errors
    /// `Corrupt` when the chunk, or what says where it is, is damaged or missing.
    pub async fn salvage_chunk(&self, chunk: ChunkId) -> Result<BufSlice> {
        let Some(place) = self.chunk_place(chunk).await? else {
            let (home, cause) = (self.config.shard, format!("chunk {chunk} does not exist"));
            return Err(Error::HomeDamaged { home, cause });
        };
        let at = place.location();
        let (segments, expected) = (&self.media.segments, place.checksum);
        let is_right = |bytes: &BufSlice| unit_checksum(bytes) == expected;
        let read = read_whole(segments, at.segment, at.offset(), place.stored_len, is_right).await;
        let bytes = read.map_err(varve_logstore::Error::from)?.bytes;
        let found = unit_checksum(&bytes);
        if found != expected {
            let (segment, offset) = (at.segment.number, at.offset());
            return Err(Error::ChunkCorrupt { chunk, segment, offset, expected, found });
        }
        self.restored(chunk, &place, bytes)
    }
}
