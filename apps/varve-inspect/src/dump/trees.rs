//! Maps and keys, as the daemon would see them after recovery.

use std::cell::RefCell;
use std::ops::ControlFlow;
use std::rc::Rc;

use serde_json::json;
use varve_client::{Failure, Result, table};
use varve_dataset::{BucketOwner, CatalogueEntry, CatalogueItem, SnapshotInfo, VolumeInfo};
use varve_dispatch::Route;
use varve_engine::{MapItem, OpenPool, Shard, StoredKey};
use varve_logstore::format::chunk::ChunkEntry;
use varve_logstore::format::reservation::ReservationRecord;
use varve_logstore::format::stream::StreamRecord;
use varve_media::PoolFigures;
use varve_types::{BlockIndex, ChunkId, ShardId, StreamId};

use crate::offline::{OfflinePool, open_shard};

use super::OVERLAY_BYTES_MAX;
use super::output::Output;

/// Map items looked up at once.
const ITEMS_MAX: usize = 4096;

/// Bytes of a block.
const BLOCK_BYTES: u64 = varve_engine::BLOCK_BYTES as u64;

/// Opens shard after shard and lets `work` print of each.
fn each_shard<W>(
    pool: &OfflinePool,
    figures: &PoolFigures,
    mut out: Output,
    work: W,
) -> Result<Output>
where
    W: AsyncFn(&Shard, ShardId, &mut Output) + Clone + 'static,
{
    let mut shard = ShardId(0);
    let mut shard_count = 1;
    while shard.0 < shard_count && !out.is_closed() {
        let config = pool.shard_config(figures, shard);
        let work = work.clone();
        let printed = pool.on_loop(OVERLAY_BYTES_MAX, |reactor, looked| {
            Box::pin(async move {
                let media = match looked.media(shard) {
                    Ok(media) => media,
                    Err(error) => {
                        out.unreadable(format_args!("shard {shard}"), error);
                        return (out, 0);
                    }
                };
                let root = match OpenPool::open(&media).await {
                    Ok(root) => root,
                    Err(error) => {
                        out.unreadable("pool root", error);
                        return (out, 0);
                    }
                };
                match open_shard(&reactor, media, &root, config, None).await {
                    Ok(opened) => work(&opened, shard, &mut out).await,
                    Err(error) => out.unreadable(format_args!("shard {shard}"), error),
                }
                (out, root.shard_count())
            })
        })?;
        (out, shard_count) = printed;
        shard = ShardId(shard.0 + 1);
    }
    Ok(out)
}

/// Every key, shard by shard.
pub fn keys(pool: &OfflinePool, figures: &PoolFigures, out: Output) -> Result<Output> {
    each_shard(pool, figures, out, async |shard: &Shard, id: ShardId, out: &mut Output| {
        let mut from = Vec::new();
        while !out.is_closed() {
            let (entries, next) = match shard.stored_keys(&from).await {
                Ok(read) => read,
                Err(error) => {
                    let from = from.escape_ascii();
                    return out
                        .unreadable(format_args!("keys of shard {id} from \"{from}\""), error);
                }
            };
            for (key, value) in entries {
                show_key(id, &key, &value, out);
            }
            let Some(next) = next else { return };
            from = next;
        }
    })
}

fn show_key(shard: ShardId, key: &[u8], value: &[u8], out: &mut Output) {
    let raw = |key: &[u8], out: &mut Output| {
        let (key, value) = (key.escape_ascii().to_string(), value.escape_ascii().to_string());
        out.row(
            || json!({ "shard": shard.0, "kind": "key", "key": key, "value": value }),
            || format!("shard {shard} key \"{key}\" value \"{value}\""),
        );
    };
    match Shard::stored_key_name(key) {
        StoredKey::Stream(stream) => match StreamRecord::decode(value) {
            Ok(record) => out.row(
                || {
                    json!({
                        "shard": shard.0, "kind": "stream", "stream": stream.get(),
                        "height": record.height, "root": record.root.to_string(),
                    })
                },
                || {
                    let (height, root) = (record.height, record.root);
                    format!("shard {shard} stream {stream} height {height} root {root}")
                },
            ),
            Err(error) => out.unreadable(format_args!("shard {shard} stream {stream}"), error),
        },
        StoredKey::Reservation(stream) => match ReservationRecord::decode(value) {
            Ok(record) => out.row(
                || {
                    let ReservationRecord { blocks, pages, floor } = record;
                    json!({
                        "shard": shard.0, "kind": "reservation", "stream": stream.get(),
                        "blocks": blocks, "pages": pages, "floor": floor.get(),
                    })
                },
                || format!("shard {shard} reservation stream {stream} {record}"),
            ),
            Err(error) => out.unreadable(format_args!("shard {shard} reservation {stream}"), error),
        },
        StoredKey::User(user) => match CatalogueEntry::decode(user, value) {
            Some(Ok(entry)) => show_entry(shard, &entry, out),
            Some(Err(error)) => {
                out.unreadable(
                    format_args!("shard {shard} key \"{}\"", user.escape_ascii()),
                    error,
                );
            }
            None => raw(user, out),
        },
        StoredKey::Unknown(key) => raw(key, out),
    }
}

fn show_entry(shard: ShardId, entry: &CatalogueEntry, out: &mut Output) {
    match &entry.item {
        CatalogueItem::Volume(volume) => show_volume(shard, volume, entry.route, out),
        CatalogueItem::Snapshot(snapshot) => {
            show_snapshot(shard, "snapshot", snapshot, entry.route, out);
        }
        CatalogueItem::Intent(snapshot) => {
            show_snapshot(shard, "intent", snapshot, entry.route, out);
        }
        CatalogueItem::Bucket(bucket) => show_bucket(shard, bucket, out),
    }
}

fn show_bucket(shard: ShardId, bucket: &BucketOwner, out: &mut Output) {
    let (name, stream) = (&bucket.name, bucket.stream.get());
    out.row(
        || json!({ "shard": shard.0, "kind": "bucket", "bucket": name, "stream": stream }),
        || format!("shard {shard} bucket \"{name}\" stream {stream}"),
    );
}

fn show_volume(shard: ShardId, volume: &VolumeInfo, route: Route, out: &mut Output) {
    let (seed, generation) = (route.placement.seed, route.placement.generation);
    out.row(
        || {
            json!({
                "shard": shard.0, "kind": "volume", "volume": volume.name, "namespace": volume.namespace,
                "stream": volume.id, "size_bytes": volume.size_bytes, "block_size_bytes": volume.block_size_bytes,
                "created_unix_ms": volume.created_unix_ms, "dedup": volume.dedup.word(),
                "compression": volume.compression.to_string(), "placement": generation, "seed": seed,
                "quota_bytes": volume.quota_bytes, "reserved_bytes": volume.reserved_bytes, "exclusive": volume.exclusive, "origin": volume.origin, "receiving": volume.receiving.map(|identity| identity.to_string()),
            })
        },
        || {
            let (name, id, size) = (&volume.name, volume.id, volume.size_bytes);
            let (block, created) = (volume.block_size_bytes, volume.created_unix_ms);
            let (dedup, compression) = (volume.dedup, volume.compression);
            let origin = volume.origin.as_ref().map(|origin| format!(" origin {origin}"));
            let receiving = volume.receiving.map(|identity| format!(" receiving {identity}"));
            let (origin, receiving) = (origin.unwrap_or_default(), receiving.unwrap_or_default());
            let quota = volume.quota_bytes.map(|quota| format!(" quota {quota} B"));
            let quota = quota.unwrap_or_default();
            let reserved = if volume.reserved_bytes.is_some() { " reserved" } else { "" };
            let exclusive = if volume.exclusive { " exclusive" } else { "" };
            format!(
                "shard {shard} volume {name} stream {id} size {size} B block {block} B created_unix_ms {created} \
                 dedup {dedup} compression {compression} placement {generation} seed {seed:#018x}{quota}{reserved}{exclusive}{origin}{receiving}"
            )
        },
    );
}

/// A snapshot's record, or one that a group is to get.
fn show_snapshot(
    shard: ShardId,
    kind: &str,
    snapshot: &SnapshotInfo,
    route: Route,
    out: &mut Output,
) {
    let (seed, generation) = (route.placement.seed, route.placement.generation);
    out.row(
        || {
            json!({
                "shard": shard.0, "kind": kind, "snapshot": snapshot.name, "stream": snapshot.id,
                "identity": snapshot.identity.to_string(), "size_bytes": snapshot.size_bytes,
                "block_size_bytes": snapshot.block_size_bytes, "created_unix_ms": snapshot.created_unix_ms,
                "protected": snapshot.protected, "placement": generation, "seed": seed,
            })
        },
        || {
            let SnapshotInfo { name, id, identity, size_bytes, .. } = snapshot;
            let (created, protected) = (snapshot.created_unix_ms, table::on_off(snapshot.protected));
            format!(
                "shard {shard} {kind} {name} stream {id} size {size_bytes} B created_unix_ms {created} \
                 identity {identity} protected {protected} placement {generation} seed {seed:#018x}"
            )
        },
    );
}

/// Where the blocks of a volume lie, shard by shard.
pub fn map(pool: &OfflinePool, figures: &PoolFigures, volume: &str, out: Output) -> Result<Output> {
    let stream = match volume.strip_prefix("stream:") {
        Some(id) => {
            let id = id.parse().ok().and_then(StreamId::from_untrusted);
            id.ok_or_else(|| Failure::misuse(format!("`{volume}` is not a volume or stream")))?
        }
        None => find_volume(pool, figures, volume)?,
    };
    each_shard(pool, figures, out, async move |shard: &Shard, id: ShardId, out: &mut Output| {
        let mut run: Option<BlockRun> = None;
        let mut items = Vec::new();
        let mut from = BlockIndex::ZERO;
        // Items are gathered first: the map must not be walked while chunks are looked up.
        loop {
            items.clear();
            let mut next = None;
            let mut visit = |item: MapItem| {
                let begins = match &item {
                    MapItem::Data { block, .. } => *block,
                    MapItem::Unreadable { blocks, .. } => blocks.start,
                    MapItem::Page { .. } => return ControlFlow::Continue(()),
                };
                if begins < from {
                    return ControlFlow::Continue(());
                }
                if items.len() == ITEMS_MAX {
                    next = Some(begins);
                    return ControlFlow::Break(());
                }
                items.push(item);
                ControlFlow::Continue(())
            };
            if let Err(error) = shard.walk_map(stream, from, &mut visit).await {
                out.unreadable(format_args!("stream {stream} on shard {id}"), error);
            }
            for item in items.drain(..) {
                show_item(shard, id, item, &mut run, out).await;
            }
            match next {
                Some(next) if !out.is_closed() => from = next,
                _ => break,
            }
        }
        if let Some(run) = run {
            run.print(id, out);
        }
    })
}

fn find_volume(pool: &OfflinePool, figures: &PoolFigures, name: &str) -> Result<StreamId> {
    let found = Rc::new(RefCell::new((None, String::new())));
    let seen = Rc::clone(&found);
    let wanted = name.to_owned();
    let quiet = Output::new(false);
    each_shard(pool, figures, quiet, async move |shard: &Shard, _: ShardId, _: &mut Output| {
        let mut from = Vec::new();
        loop {
            match shard.stored_keys(&from).await {
                Ok((entries, next)) => {
                    for (key, value) in entries {
                        let StoredKey::User(user) = Shard::stored_key_name(&key) else { continue };
                        if let Some(Ok(entry)) = CatalogueEntry::decode(user, &value)
                            && entry.name() == wanted
                            && !matches!(entry.item, CatalogueItem::Intent(_))
                        {
                            seen.borrow_mut().0 = Some(entry.route.stream);
                        }
                    }
                    let Some(next) = next else { return };
                    from = next;
                }
                Err(error) => {
                    seen.borrow_mut().1 = format!(", and a catalogue cannot be read: {error}");
                    return;
                }
            }
        }
    })?;
    let (stream, trouble) = found.take();
    stream.ok_or_else(|| {
        Failure::new(format!("no volume {name}{trouble}"))
            .hint("`varve dump keys` lists volumes and streams; a stream is named stream:ID")
    })
}

/// Blocks side by side whose chunks lie side by side.
struct BlockRun {
    block: BlockIndex,
    count: u64,
    chunk: ChunkId,
    place: ChunkEntry,
}

impl BlockRun {
    fn is_followed_by(&self, block: BlockIndex, chunk: ChunkId, place: &ChunkEntry) -> bool {
        let bytes = u64::from(self.place.location().offset()) + self.count * BLOCK_BYTES;
        self.block + self.count == block
            && self.chunk.get() + self.count == chunk.get()
            && self.place.segment == place.segment
            && u64::from(place.stored_len) == BLOCK_BYTES
            && u64::from(self.place.stored_len) == BLOCK_BYTES
            && u64::from(place.location().offset()) == bytes
    }

    fn print(self, shard: ShardId, out: &mut Output) {
        let Self { block, count, chunk, place } = self;
        let location = place.location();
        let (segment, generation) = (location.segment.number, location.segment.generation);
        out.row(
            || {
                json!({
                    "shard": shard.0, "block": block.0, "block_count": count, "chunk": chunk.get(),
                    "segment": segment.0, "generation": generation.get(), "offset": location.offset(),
                    "stored_bytes": u64::from(location.stored_len) * count,
                })
            },
            || {
                let offset = location.offset();
                format!(
                    "shard {shard} block {block} + {count} chunk {chunk} segment {segment} generation {generation} at {offset}"
                )
            },
        );
    }
}

async fn show_item(
    shard: &Shard,
    id: ShardId,
    item: MapItem,
    run: &mut Option<BlockRun>,
    out: &mut Output,
) {
    let (block, chunk) = match item {
        MapItem::Data { block, home, chunk } if home != id => {
            if let Some(run) = run.take() {
                run.print(id, out);
            }
            return out.row(
                || {
                    json!({
                        "shard": id.0, "block": block.0, "block_count": 1, "chunk": chunk.get(),
                        "home": home.0,
                    })
                },
                || format!("shard {id} block {block} + 1 chunk {chunk} of shard {home}"),
            );
        }
        MapItem::Data { block, chunk, .. } => (block, chunk),
        MapItem::Page { .. } => return,
        MapItem::Unreadable { blocks, error, .. } => {
            if let Some(run) = run.take() {
                run.print(id, out);
            }
            let count = blocks.end - blocks.start;
            return out
                .unreadable(format_args!("shard {id} block {} + {count}", blocks.start), error);
        }
    };
    let place = match shard.chunk_place(chunk).await {
        Ok(Some(place)) => Ok(place),
        Ok(None) => Err("the chunk table does not know it".to_owned()),
        Err(error) => Err(error.to_string()),
    };
    match place {
        Ok(place) => match run {
            Some(before) if before.is_followed_by(block, chunk, &place) => before.count += 1,
            _ => {
                if let Some(before) = run.replace(BlockRun { block, count: 1, chunk, place }) {
                    before.print(id, out);
                }
            }
        },
        Err(reason) => {
            if let Some(run) = run.take() {
                run.print(id, out);
            }
            out.unreadable(format_args!("shard {id} block {block} chunk {chunk}"), reason);
        }
    }
}
