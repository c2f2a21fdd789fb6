//! Blocks that say which version of which block they are.

use varve_engine::{BLOCK_BYTES, ReadPart, Shard};
use varve_stdx::AlignedBuf;
use varve_types::{ByteOffset, StreamId};

const BLOCK: u64 = BLOCK_BYTES as u64;

/// A block as an index of a model of few.
pub(crate) fn index(block: u64) -> usize {
    usize::try_from(block).expect("few blocks")
}

/// Makes `out`, which is all zeros, a version of a block.
pub(crate) fn stamp(out: &mut [u8], block: u64, version: u64) {
    out[..8].copy_from_slice(&version.to_le_bytes());
    out[8..16].copy_from_slice(&block.to_le_bytes());
}

/// Writes a version of a block.
pub(crate) async fn write(shard: &Shard, stream: StreamId, block: u64, version: u64) {
    let mut data = AlignedBuf::zeroed(BLOCK_BYTES);
    stamp(&mut data, block, version);
    shard.write(stream, ByteOffset(block * BLOCK), data.freeze()).await.expect("write");
}

/// The version of a block that a stream has; 0 for a hole.
pub(crate) async fn read(shard: &Shard, stream: StreamId, block: u64) -> u64 {
    let parts = shard.read(stream, ByteOffset(block * BLOCK), BLOCK_BYTES).await.expect("read");
    match &parts[..] {
        [ReadPart::Zero(_)] => 0,
        [ReadPart::Data(data)] => {
            let word = |at: usize| u64::from_le_bytes(*data[at..].first_chunk().expect("8 bytes"));
            assert_eq!(word(8), block, "another block's bytes");
            word(0)
        }
        parts => panic!("{parts:?}"),
    }
}
