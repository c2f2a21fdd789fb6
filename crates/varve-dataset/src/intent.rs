//! Groups of snapshots whose records appear all or not at all: an intent with the whole list on one home, then the
//! records, then the intent is removed. Described in `docs/format.md`.
//!
//! ```text
//!  key    "i" + id (8 B) + number of the part (4 B)      value   length of the name (2 B), whole name, snapshot record
//!         "i" + id (8 B) + 0xFFFFFFFF                            number of parts (4 B)
//! ```
//!
//! INTENT-1. The head, with the last number, is stored when all parts are durable: from then on the group exists,
//!     before that it does not.
//! INTENT-2. Records are stored while the head is there; the head goes before the parts do, so parts without a head are
//!     of no use.
//! INTENT-3. Who began an intent settles it before others may change the names in it, or keeps all from changing names
//!     until it is settled (SETTLED-1). After a start all intents are settled before names are served
//!     at all: nothing that was changed since is put back.

use futures_util::future::{join_all, try_join_all};
use varve_dispatch::Dispatch;
use varve_stdx::{Reader, Writer};
use varve_types::{ShardId, StreamId};

use crate::catalog::{SCAN_MAX, find_snapshot, put, remove, store_snapshot};
use crate::in_flight::StreamsInFlight;
use crate::name::SnapshotName;
use crate::snapshot_record::SnapshotRecord;
use crate::{Error, Result};

/// First byte of keys of intents.
const PREFIX: u8 = b'i';

const KEY_LEN: usize = 13;

/// The number of the head.
const HEAD: u32 = u32::MAX;

/// Pause before a shard that failed is asked again, in ns.
const RETRY_PAUSE_NS: u64 = 500_000_000;

/// A snapshot that a group is to hold.
pub(crate) type Part = (SnapshotName, SnapshotRecord);

/// An intent: which shard keeps it, and its id, which is never used again.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Intent {
    pub(crate) home: ShardId,
    pub(crate) id: StreamId,
}

pub(crate) fn encode_part((name, record): &Part) -> Vec<u8> {
    let (full, record) = (name.full(), record.encode());
    let mut bytes = vec![0; 2 + full.len() + record.len()];
    let mut out = Writer::new(&mut bytes);
    out.u16(u16::try_from(full.len()).expect("names are a few hundred bytes"));
    out.bytes(full.as_bytes());
    out.bytes(&record);
    bytes
}

/// The snapshot in a part of an intent; `None` for other keys, the head's too.
pub(crate) fn decode_part(key: &[u8], value: &[u8]) -> Option<Result<Part>> {
    let (_, number) = decode_key(key)?;
    if number == HEAD {
        return None;
    }
    let mut fields = Reader::new("part of an intent", value);
    let mut full = || fields.u16().and_then(|len| fields.bytes(usize::from(len)));
    let bad = |cause| Error::BadRecord { name: key.escape_ascii().to_string(), cause };
    Some(full().map_err(bad).and_then(|full| crate::catalog::decode_snapshot(full, fields.rest())))
}

/// Whether a key is the head of an intent.
#[must_use]
pub fn is_intent_head(key: &[u8]) -> bool {
    matches!(decode_key(key), Some((_, HEAD)))
}

fn decode_key(key: &[u8]) -> Option<(StreamId, u32)> {
    let (&[PREFIX, ref id @ ..], number) = key.split_at_checked(KEY_LEN - 4)? else { return None };
    let id = u64::from_be_bytes(id.try_into().ok()?);
    Some((StreamId::from_untrusted(id)?, u32::from_be_bytes(number.try_into().ok()?)))
}

impl Intent {
    fn prefix(self) -> Vec<u8> {
        [&[PREFIX][..], &self.id.get().to_be_bytes()].concat()
    }

    fn key(self, number: u32) -> Vec<u8> {
        [self.prefix(), number.to_be_bytes().to_vec()].concat()
    }

    /// Stores the parts. Durable on return.
    pub(crate) async fn write_parts(self, dispatch: &Dispatch, parts: &[Part]) -> Result<()> {
        let stored = (0..).zip(parts).map(|(number, part)| {
            assert!(number < HEAD, "a group has fewer parts");
            put(dispatch, self.home, self.key(number), encode_part(part))
        });
        // To the end, also after one has failed: what is settled afterwards is then all there is.
        join_all(stored).await.into_iter().collect()
    }

    /// Stores the head, once all parts are durable (INTENT-1). Durable on return; after an error the group may exist,
    /// which [`Self::settle`] finds out.
    pub(crate) async fn write_head(self, dispatch: &Dispatch, parts: usize) -> Result<()> {
        let count = u32::try_from(parts).expect("numbers of parts are 32 bits");
        put(dispatch, self.home, self.key(HEAD), count.to_le_bytes().to_vec()).await
    }

    /// Stores the records of a group that exists, and removes the intent; tells whether it existed. May be repeated.
    async fn try_settle(self, dispatch: &Dispatch) -> Result<bool> {
        let head = dispatch.key_get(self.home, self.key(HEAD)).await?;
        let mut parts = self.scan(dispatch).await?;
        parts.retain(|(key, _)| !is_intent_head(key));
        if head.is_some() {
            let decoded = parts.iter().filter_map(|(key, value)| decode_part(key, value));
            let decoded: Vec<Part> = decoded
                .filter_map(|part| {
                    let lost =
                        |error: &Error| tracing::error!(%error, "a snapshot of a group is lost");
                    part.inspect_err(lost).ok()
                })
                .collect();
            let stored = decoded.iter().map(|(name, record)| store_part(dispatch, name, record));
            try_join_all(stored).await?;
            remove(dispatch, self.home, self.key(HEAD)).await?; // INTENT-2
        }
        let removed = parts.into_iter().map(|(key, _)| remove(dispatch, self.home, key));
        try_join_all(removed).await?;
        Ok(head.is_some())
    }

    async fn scan(self, dispatch: &Dispatch) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
        scan(dispatch, self.home, self.prefix()).await
    }

    /// The same, until it has happened: shards that reopen are waited for (INTENT-3).
    ///
    /// # Errors
    /// When the pool ends, a shard is damaged or does not open for long, or what is stored is damaged.
    pub(crate) async fn settle(self, dispatch: &Dispatch) -> Result<bool> {
        loop {
            match self.try_settle(dispatch).await {
                Err(error @ Error::Dispatch(varve_dispatch::Error::ShardClosed { .. })) => {
                    return Err(error);
                }
                Err(error) if error.kind() == varve_types::ErrorKind::Unavailable => {
                    tracing::warn!(%error, "a group of snapshots waits to be stored");
                    dispatch.reactor().sleep(RETRY_PAUSE_NS).await;
                }
                outcome => return outcome,
            }
        }
    }
}

/// Stores a record unless another snapshot took the name, when the group waited to be settled for longer than names
/// were held.
async fn store_part(
    dispatch: &Dispatch,
    name: &SnapshotName,
    record: &SnapshotRecord,
) -> Result<()> {
    match find_snapshot(dispatch, name).await? {
        Some(other) if other.route.stream != record.route.stream => {
            tracing::warn!(name = name.display(), "a snapshot of a group lost its name to another");
            Ok(())
        }
        _ => store_snapshot(dispatch, name, record).await,
    }
}

async fn scan(
    dispatch: &Dispatch,
    shard: ShardId,
    prefix: Vec<u8>,
) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
    let mut all: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
    loop {
        let after = all.last().map(|(key, _)| key.clone());
        let found = dispatch.key_scan(shard, prefix.clone(), after, SCAN_MAX).await?;
        let more = found.len() == SCAN_MAX;
        all.extend(found);
        if !more {
            return Ok(all);
        }
    }
}

/// Streams that intents name, those of groups that never came to be included, and how many parts cannot be read.
pub(crate) async fn streams(dispatch: &Dispatch) -> Result<(Vec<StreamId>, usize)> {
    let (mut streams, mut unreadable) = (Vec::new(), 0);
    for shard in dispatch.placement().shards() {
        for (key, value) in scan(dispatch, shard, vec![PREFIX]).await? {
            match decode_part(&key, &value) {
                Some(Ok((_, record))) => streams.push(record.route.stream),
                Some(Err(error)) => {
                    tracing::warn!(%error, "a part of a group of snapshots cannot be read");
                    unreadable += 1;
                }
                None => {}
            }
        }
    }
    Ok((streams, unreadable))
}

/// Settles every intent that was left (INTENT-3), but for those of groups under way; how many groups were completed.
pub(crate) async fn settle_all(dispatch: &Dispatch, under_way: &StreamsInFlight) -> Result<usize> {
    let mut left = Vec::new();
    for home in dispatch.placement().shards() {
        let keys = scan(dispatch, home, vec![PREFIX]).await?;
        let ids = keys.iter().filter_map(|(key, _)| decode_key(key));
        left.extend(ids.map(|(id, _)| Intent { home, id }));
    }
    left.sort_unstable();
    left.dedup();
    let under_way = under_way.now(); // A group is registered before its intent is stored (IN-FLIGHT-1).
    left.retain(|intent| !under_way.contains(&intent.id));
    let mut completed = 0;
    for intent in left {
        completed += usize::from(intent.try_settle(dispatch).await?);
    }
    Ok(completed)
}

#[cfg(test)]
mod tests {
    use varve_dispatch::{Route, StreamPlacement};
    use varve_types::{Reduction, SnapshotIdentity};

    use super::*;

    fn part() -> Part {
        let placement = StreamPlacement { seed: 5, generation: 0 };
        let record = SnapshotRecord {
            route: Route { stream: StreamId::new(9), placement },
            size_bytes: 1 << 20,
            block_bytes: 4096,
            created_unix_ms: 77,
            identity: SnapshotIdentity([3; 16]),
            reduction: Reduction::default(),
            protected: false,
        };
        (SnapshotName::parse("lab/v@s").unwrap(), record)
    }

    #[test]
    fn parts_round_trip_and_bad_ones_are_refused() {
        let intent = Intent { home: ShardId(1), id: StreamId::new(0x0102_0304) };
        let (key, value) = (intent.key(7), encode_part(&part()));
        assert_eq!(decode_part(&key, &value).unwrap().unwrap(), part());
        assert_eq!(decode_key(&key), Some((intent.id, 7)));
        for len in 0..value.len() {
            assert!(decode_part(&key, &value[..len]).unwrap().is_err(), "{len}");
        }
        for at in [0, 1, 2] {
            let mut bad = value.clone();
            bad[at] ^= 0x80;
            assert!(decode_part(&key, &bad).unwrap().is_err(), "byte {at}");
        }
        assert!(is_intent_head(&intent.key(HEAD)) && !is_intent_head(&key));
        for other in [&b"i"[..], b"vdefault/a", b"sdefault/a@bb", &[PREFIX; 14], &[0xFF; 13]] {
            assert!(decode_part(other, &value).is_none(), "{other:?}");
        }
    }
}
