//! Goal: a shard that is opened for reading only is read as it is, what only its journal held included, and admits no
//! change. Method: a pool on a memory disk; its first life is cut off with records in the journal.

use std::rc::Rc;

use crate::pool::{CROWDED, Shape, disk_for, format, open_configured, open_media};
use crate::versions::{read, write};
use varve_engine::{BLOCK_BYTES, Error, Shard, ShardConfig};
use varve_reactor::SimLoop;
use varve_stdx::AlignedBuf;
use varve_types::{ByteOffset, ByteRange, ErrorKind, StreamId};

const STREAM: StreamId = StreamId::new(1);
const BLOCKS: u64 = 40;
const BLOCK: u64 = BLOCK_BYTES as u64;

const SMALL: Shape = Shape { segments: 64, segment_bytes: 128 << 10, ..CROWDED };

async fn refusals(shard: &Rc<Shard>) -> Vec<Error> {
    let data = AlignedBuf::zeroed(BLOCK_BYTES).freeze();
    let range = ByteRange { start: 0, end: BLOCK };
    let answers = [
        shard.write(STREAM, ByteOffset(0), data.clone()).await,
        shard.write(STREAM, ByteOffset(512), data.slice(0..512)).await,
        shard.trim(STREAM, range).await,
        shard.key_put(b"key", b"value").await,
        shard.key_delete(b"key").await,
        shard.drop_stream(STREAM).await,
    ];
    answers.into_iter().map(|answer| answer.expect_err("it is a change")).collect()
}

#[test]
fn a_shard_for_reading_only_admits_no_change() {
    let mut sim = SimLoop::new(5);
    let reactor = sim.handle();
    let media = sim.run_until(async move {
        let (media, made) = format(&disk_for(SMALL, 1), SMALL, 1).await;
        made.expect("format the pool");
        let shard = open_media(&reactor, media.clone(), SMALL).await.remove(0);
        for block in 0..BLOCKS {
            write(&shard, STREAM, block, block + 1).await;
        }
        media
    });
    drop(sim); // Cut off: what was written last is in the journal alone.
    let mut sim = SimLoop::new(6);
    let reactor = sim.handle();
    sim.run_until(async move {
        let change = |config: &mut ShardConfig| config.is_read_only = true;
        let shard = open_configured(&reactor, media, SMALL, |_| None, change).await.remove(0);
        for refusal in refusals(&shard).await {
            assert!(matches!(refusal, Error::ReadOnly), "{refusal}");
            assert_eq!(refusal.kind(), ErrorKind::Denied);
        }
        for block in 0..BLOCKS {
            assert_eq!(read(&shard, STREAM, block).await, block + 1);
        }
        assert!(!shard.has_failed(), "it goes on");
    });
}
