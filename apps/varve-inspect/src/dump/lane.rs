//! A journal lane: the frames that stand in it, of whatever lap and mount, or one with its records.

use serde_json::json;
use varve_client::{Failure, Result};
use varve_logstore::format::frame::{FRAME_ALIGN, Frame, FrameHeader};
use varve_logstore::format::root::ShardRoot;
use varve_media::{JournalStore, RootKey};
use varve_types::ShardId;

use crate::offline::ProbedPool;

use super::output::Output;
use super::roots;

/// Bytes read at a time.
const WINDOW_BYTES: u64 = 1 << 20;

/// One line a frame, in the order of the ring; and where replay begins.
pub async fn lane(looked: ProbedPool, shard: ShardId, mut out: Output) -> Result<Output> {
    let media = lane_media(&looked, shard)?;
    let capacity = media.capacity();
    let mut position = 0;
    while position < capacity && !out.is_closed() {
        let window = WINDOW_BYTES.min(capacity - position);
        let len = u32::try_from(window).expect("1 MiB");
        let bytes = match media.read(position, len).await {
            Ok(bytes) => bytes,
            Err(error) => {
                out.unreadable(format!("{window} bytes at {position}"), error);
                position += window;
                continue;
            }
        };
        let mut at = 0;
        while at < window {
            let start = usize::try_from(at).expect("inside the window");
            at += match FrameHeader::decode(&bytes[start..]) {
                Ok(header) => show(&*media, position + at, &header, &mut out).await,
                Err(_) => u64::from(FRAME_ALIGN),
            };
        }
        position += at;
    }
    show_replay(&looked, shard, &mut out).await;
    Ok(out)
}

/// Prints a frame's line; returns how far the next can begin.
async fn show(
    media: &dyn JournalStore,
    position: u64,
    header: &FrameHeader,
    out: &mut Output,
) -> u64 {
    let least = u64::from(header.header_bytes().next_multiple_of(FRAME_ALIGN));
    let len = u64::from(header.frame_bytes);
    if header.position % media.capacity() != position || len > media.capacity() - position {
        return u64::from(FRAME_ALIGN); // Payload that looks like a header, or another lane's.
    }
    let state = match media.read(position, header.frame_bytes).await {
        Err(error) => Err(error.to_string()),
        Ok(bytes) => match Frame::decode(&bytes) {
            Err(error) => Err(error.to_string()),
            Ok(frame) => frame.verify_payloads().map_err(|error| error.to_string()),
        },
    };
    let FrameHeader { frame_seq, mount, record_count, frame_bytes, .. } = *header;
    let intact = state.is_ok();
    if let Err(reason) = &state {
        out.unreadable(format_args!("frame {frame_seq} at {position}"), reason);
        // Its later part may have been written over by the next lap.
        return least;
    }
    out.row(
        || {
            json!({
                "position": position, "frame_seq": frame_seq, "mount": mount, "records": record_count,
                "frame_bytes": frame_bytes, "lane_position": header.position, "intact": intact,
            })
        },
        || format!("frame {frame_seq} at {position} mount {mount} records {record_count} {frame_bytes} B"),
    );
    len
}

async fn show_replay(looked: &ProbedPool, shard: ShardId, out: &mut Output) {
    let key = RootKey::Shard(shard);
    let sides = match looked.root_sides(key).await {
        Ok(sides) => sides,
        Err(error) => return out.unreadable(format!("root {key}"), error),
    };
    let root = match roots::newest(&sides).map(ShardRoot::decode) {
        Some(Ok(root)) => root,
        Some(Err(error)) => return out.unreadable(format!("root {key}"), error),
        None => return out.unreadable(format!("root {key}"), "neither side can be read"),
    };
    let (lane, mount) = (root.lane, root.lane_mount);
    out.row(
        || {
            json!({
                "checkpoint_frame_seq": lane.frame_seq, "checkpoint_lane_position": lane.position,
                "checkpoint_mount": mount,
            })
        },
        || format!("the checkpoint ends before {lane}, mount {mount}"),
    );
}

/// A frame with its records.
pub async fn frame(
    looked: ProbedPool,
    shard: ShardId,
    position: u64,
    mut out: Output,
) -> Result<Output> {
    let media = lane_media(&looked, shard)?;
    if !position.is_multiple_of(u64::from(FRAME_ALIGN)) {
        return Err(Failure::misuse(format!("no frame begins at {position}"))
            .hint(format!("frames begin at multiples of {FRAME_ALIGN}; see `varve dump lane`")));
    }
    let within = position % media.capacity();
    let what = format!("frame at {within}");
    let failed = |error: varve_media::Error| Failure::new(format!("{what}: {error}"));
    let first = media.read(within, FRAME_ALIGN).await.map_err(failed)?;
    let header = match FrameHeader::decode(&first) {
        Ok(header) => header,
        Err(error) => {
            out.unreadable(&what, error);
            return Ok(out);
        }
    };
    if u64::from(header.frame_bytes) > media.capacity() - within {
        out.line(header);
        out.unreadable(&what, "it is longer than the rest of the lane");
        return Ok(out);
    }
    let bytes = media.read(within, header.frame_bytes).await.map_err(failed)?;
    match Frame::decode(&bytes) {
        Ok(frame) => {
            out.line(&frame);
            if let Err(error) = frame.verify_payloads() {
                out.unreadable(&what, error);
            }
        }
        Err(error) => {
            out.line(header);
            out.unreadable(&what, error);
        }
    }
    Ok(out)
}

fn lane_media(looked: &ProbedPool, shard: ShardId) -> Result<std::rc::Rc<dyn JournalStore>> {
    match looked.media(shard) {
        Ok(media) => Ok(media.journal),
        Err(error) => {
            Err(Failure::misuse(error.to_string())
                .hint("`varve dump pool` shows how many there are"))
        }
    }
}
