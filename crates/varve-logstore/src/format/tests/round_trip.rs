//! Whatever a writer can store is read back unchanged.

use proptest::prelude::*;
use varve_media::SegmentId;
use varve_types::limits::SEGMENT_BYTES_MAX;
use varve_types::{
    ChunkId, CutNumber, Generation, PoolId, SegmentNumber, ShardId, StreamId, WriteSeq,
};

use super::samples;
use crate::format::Features;
use crate::format::chunk::{CHUNK_STORED_MAX, ChunkEntry, MapSlot};
use crate::format::frame::{Frame, FrameHeader, LogPosition};
use crate::format::page::{PageHeader, PageKind};
use crate::format::pointer::{Location, PagePtr};
use crate::format::pool::{PoolRoot, ZoneOwner};
use crate::format::record::{KeyPayload, RecordHeader, RecordKind, RecordOrigin, payload_checksum};
use crate::format::record::{encode_cut, encode_grant};
use crate::format::reservation::ReservationRecord;
use crate::format::root::{ChainHead, ShardRoot, TreeRoot};
use crate::format::segment::{SegmentKind, StripHeader};
use crate::format::stream::StreamRecord;
use crate::format::summary::{Codec, ENTRY_BYTES, Fingerprint, SummaryEntry, Unit};
use crate::format::usage::UsageEntry;

fn id<T: std::fmt::Debug>(new: fn(u64) -> T) -> impl Strategy<Value = T> {
    prop_oneof![0..1000u64, 0..1u64 << 48, Just((1 << 48) - 1)].prop_map(new)
}

fn named_chunk() -> impl Strategy<Value = ChunkId> {
    (1..1u64 << 48).prop_map(ChunkId::new)
}

fn shard() -> impl Strategy<Value = ShardId> {
    (0..ShardId::COUNT_MAX).prop_map(ShardId)
}

fn segment_id() -> impl Strategy<Value = SegmentId> {
    (any::<u32>(), id(Generation::new))
        .prop_map(|(number, generation)| SegmentId { number: SegmentNumber(number), generation })
}

fn codec() -> impl Strategy<Value = Codec> {
    prop_oneof![Just(Codec::Raw), Just(Codec::Lz4), Just(Codec::Zstd)]
}

prop_compose! {
    fn lane_point()(position in 0..1u64 << 40, frame_seq: u64, chain: u64) -> LogPosition {
        LogPosition { position: position * 4096, frame_seq, chain }
    }
}

prop_compose! {
    fn location()(segment in segment_id(), offset_512: u16, stored_len in 1..=u32::MAX, checksum: u32) -> Location {
        Location { segment, offset_512, stored_len, checksum }
    }
}

prop_compose! {
    fn unit()(offset_512: u16, stored_len in 1..=u32::MAX, logical_512: u16, codec in codec(), checksum: u32) -> Unit {
        Unit { offset_512, stored_len, logical_512, codec, checksum }
    }
}

fn stored_page() -> impl Strategy<Value = PagePtr> {
    prop_oneof![id(ChunkId::new).prop_map(PagePtr::Chunk), location().prop_map(PagePtr::Location)]
}

fn tree_root() -> impl Strategy<Value = TreeRoot> {
    prop_oneof![
        Just(TreeRoot::default()),
        (stored_page(), 1u8..).prop_map(|(page, height)| TreeRoot { page, height })
    ]
}

fn fingerprint() -> impl Strategy<Value = Option<Fingerprint>> {
    any::<[u8; Fingerprint::LEN]>().prop_map(Fingerprint::new)
}

fn summary_entry() -> impl Strategy<Value = SummaryEntry> {
    let stream = || id(StreamId::new);
    let wseq = || id(WriteSeq::new);
    let block = || id(|block| block);
    let cut = || any::<u32>().prop_map(CutNumber);
    let chunk = || id(ChunkId::new);
    prop_oneof![
        (
            chunk(),
            stream(),
            block(),
            wseq(),
            cut(),
            any::<u8>(),
            any::<bool>(),
            unit(),
            fingerprint()
        )
            .prop_map(
                |(chunk, stream, block, wseq, cut, class, bypassed, unit, fingerprint)| {
                    SummaryEntry::Data {
                        chunk,
                        stream,
                        block,
                        wseq,
                        cut,
                        class,
                        bypassed,
                        unit,
                        fingerprint,
                    }
                }
            ),
        (chunk(), stream(), block(), wseq(), cut(), any::<u8>(), any::<bool>()).prop_map(
            |(chunk, stream, block, wseq, cut, class, bypassed)| SummaryEntry::Reference {
                chunk,
                stream,
                block,
                wseq,
                cut,
                class,
                bypassed
            }
        ),
        (shard(), chunk(), stream(), block(), wseq(), any::<u8>(), any::<bool>()).prop_map(
            |(home, chunk, stream, block, wseq, class, bypassed)| SummaryEntry::ForeignReference {
                home,
                chunk,
                stream,
                block,
                wseq,
                class,
                bypassed
            }
        ),
        (chunk(), block(), wseq()).prop_map(|(first, count, wseq)| SummaryEntry::Grant {
            first,
            count,
            wseq
        }),
        (stream(), block(), block(), wseq(), cut(), any::<bool>()).prop_map(
            |(stream, block, block_count, wseq, cut, bypassed)| SummaryEntry::Trim {
                stream,
                block,
                block_count,
                wseq,
                cut,
                bypassed
            }
        ),
        (stream(), block(), block(), wseq(), cut()).prop_map(
            |(stream, block, block_count, wseq, cut)| SummaryEntry::Zero {
                stream,
                block,
                block_count,
                wseq,
                cut
            }
        ),
        (wseq(), unit()).prop_map(|(wseq, unit)| SummaryEntry::KeyPut { wseq, unit }),
        (wseq(), unit()).prop_map(|(wseq, unit)| SummaryEntry::KeyDelete { wseq, unit }),
        (stream(), wseq()).prop_map(|(stream, wseq)| SummaryEntry::StreamDrop { stream, wseq }),
        (stream(), stream(), wseq(), chunk()).prop_map(|(source, copy, wseq, chunk_ceiling)| {
            SummaryEntry::Cut { source, copy, wseq, chunk_ceiling }
        }),
        (chunk(), segment_id(), any::<u16>(), unit(), fingerprint()).prop_map(
            |(chunk, from, from_offset_512, unit, fingerprint)| SummaryEntry::Move {
                chunk,
                from,
                from_offset_512,
                unit,
                fingerprint
            }
        ),
        (chunk(), unit()).prop_map(|(chunk, unit)| SummaryEntry::Page { chunk, unit }),
        (any::<u8>(), unit()).prop_map(|(level, unit)| SummaryEntry::TablePage { level, unit }),
        (chunk(), block()).prop_map(|(first, count)| SummaryEntry::FreedIds { first, count }),
        (chunk(), block()).prop_map(|(first, count)| SummaryEntry::Folded { first, count }),
        unit().prop_map(|unit| SummaryEntry::UsageBlob { unit }),
        unit().prop_map(|unit| SummaryEntry::DeathBlob { unit }),
        unit().prop_map(|unit| SummaryEntry::DeltaBlob { unit }),
    ]
}

prop_compose! {
    fn record_base()(
        class: u8,
        origin in prop_oneof![Just(RecordOrigin::Client), Just(RecordOrigin::Reclaim), Just(RecordOrigin::Import)],
        stream in id(StreamId::new),
        wseq in id(WriteSeq::new),
        cut: u32,
        connection: u32,
        request: u64,
    ) -> RecordHeader {
        RecordHeader {
            kind: RecordKind::StreamDrop,
            class,
            origin,
            payload_len: 0,
            stream,
            wseq,
            offset_512: 0,
            len_512: 0,
            payload_checksum: 0,
            cut: CutNumber(cut),
            connection,
            request,
        }
    }
}

/// A record of any kind and a payload that suits it.
fn record() -> impl Strategy<Value = (RecordHeader, Vec<u8>)> {
    let write = (0..1u64 << 46, prop::collection::vec(any::<u8>(), 1..20), 1..20usize).prop_map(
        |(offset_512, bytes, units)| {
            let payload: Vec<u8> = bytes.iter().copied().cycle().take(units * 512).collect();
            (RecordKind::Write, offset_512, units as u64, payload)
        },
    );
    let ranged = (any::<bool>(), 0..1u64 << 46, 1..=1u64 << 46).prop_map(|(trim, offset, len)| {
        (if trim { RecordKind::Trim } else { RecordKind::Zero }, offset, len, Vec::new())
    });
    let key = (any::<bool>(), key_and_value()).prop_map(|(put, (key, mut value))| {
        if !put {
            value.clear();
        }
        let payload = KeyPayload { key: &key, value: &value };
        let mut bytes = vec![0; payload.encoded_len()];
        payload.encode(&mut bytes);
        (if put { RecordKind::KeyPut } else { RecordKind::KeyDelete }, 0, 0, bytes)
    });
    let drop = Just((RecordKind::StreamDrop, 0, 0, Vec::new()));
    let cut = id(StreamId::new).prop_map(|copy| (RecordKind::Cut, 0, 0, encode_cut(copy).to_vec()));
    let reserved = prop_oneof![
        Just((RecordKind::Grant, 0, 0, encode_grant(&[ChunkId::new(7), ChunkId::new(9)]))),
        Just((RecordKind::LargeRef, 7, 9, vec![1; 40])),
    ];
    (record_base(), prop_oneof![write, ranged, key, drop, cut, reserved]).prop_map(
        |(base, (kind, offset_512, len_512, payload))| {
            let header = RecordHeader {
                kind,
                payload_len: u32::try_from(payload.len()).unwrap(),
                offset_512,
                len_512,
                payload_checksum: payload_checksum(&payload),
                ..base
            };
            (header, payload)
        },
    )
}

fn key_and_value() -> impl Strategy<Value = (Vec<u8>, Vec<u8>)> {
    let bytes = |max| prop::collection::vec(any::<u8>(), 0..max);
    (bytes(300), bytes(1000))
}

prop_compose! {
    fn frame_header()(
        pool: [u8; 16],
        shard in shard(),
        mount: u64,
        tail in lane_point(),
        ahead in 0..1u64 << 20,
        frame_seq: u64,
        witnesses: (u64, u64),
        previous_chain: u64,
    ) -> FrameHeader {
        FrameHeader {
            record_count: 0,
            frame_bytes: 4096,
            pool: PoolId(pool),
            shard,
            mount,
            position: tail.position + ahead * 4096,
            frame_seq,
            tail,
            data_witness: witnesses.0,
            reclaim_witness: witnesses.1,
            previous_chain,
        }
    }
}

prop_compose! {
    fn strip_header()(
        kind in prop_oneof![Just(SegmentKind::Metadata), Just(SegmentKind::Data), Just(SegmentKind::Reclaimed)],
        (data_strips, parity_strips, index) in (1u8.., any::<u8>(), any::<u16>()),
        (shard, pool) in (shard(), any::<[u8; 16]>()),
        (segment, next_slot) in (segment_id(), any::<u32>()),
        (mount, chain_seq, previous_checksum) in (any::<u64>(), 1u64.., any::<u64>()),
        (used_blocks, offset, entry_count) in (1..=SEGMENT_BYTES_MAX / 4096, any::<u32>(), any::<u32>()),
        (wseq_a, wseq_b) in (id(WriteSeq::new), id(WriteSeq::new)),
        (lane, lane_mount, witness) in (lane_point(), any::<u64>(), any::<u64>()),
        summary_checksum: u64,
    ) -> StripHeader {
        let used_bytes = used_blocks * 4096;
        let summary_offset = 4096 + offset % ((used_bytes - 4096) / 512 + 1) * 512;
        StripHeader {
            kind,
            data_strips,
            parity_strips,
            strip_index: u8::try_from(index % (u16::from(data_strips) + u16::from(parity_strips)).min(256)).unwrap(),
            shard,
            pool: PoolId(pool),
            slot: segment.number,
            generation: segment.generation,
            next_slot: SegmentNumber(next_slot),
            mount,
            chain_seq,
            previous_checksum,
            used_bytes,
            summary_offset,
            summary_entries: entry_count % ((used_bytes - summary_offset) / ENTRY_BYTES + 1),
            wseq_first: wseq_a.min(wseq_b),
            wseq_last: wseq_a.max(wseq_b),
            lane,
            lane_mount,
            witness,
            summary_checksum,
        }
    }
}

prop_compose! {
    fn page_header()(
        kind in prop_oneof![Just(PageKind::Map), Just(PageKind::Key), Just(PageKind::Table), Just(PageKind::Usage), Just(PageKind::Deaths), Just(PageKind::Deltas)],
        encoding: u8,
        level: u8,
        slot_width: u8,
        name in id(ChunkId::new),
        stream in id(StreamId::new),
        position: u64,
    ) -> PageHeader {
        PageHeader { kind, encoding, level, slot_width, name, stream, position }
    }
}

prop_compose! {
    fn chunk_entry()(
        segment in segment_id(),
        offset_512: u16,
        stored_len in 1..=CHUNK_STORED_MAX,
        codec in codec(),
        shared: bool,
        logical_512: u16,
        checksum: u32,
    ) -> ChunkEntry {
        ChunkEntry { segment, offset_512, stored_len, codec, shared, logical_512, checksum }
    }
}

fn map_slot() -> impl Strategy<Value = MapSlot> {
    prop_oneof![
        Just(MapSlot::Hole),
        Just(MapSlot::Zero),
        (shard(), named_chunk()).prop_map(|(shard, chunk)| MapSlot::Data { shard, chunk }),
        (shard(), named_chunk()).prop_map(|(shard, chunk)| MapSlot::Page { shard, chunk }),
    ]
}

prop_compose! {
    fn features()(compat: u64, ro_compat: u64) -> Features {
        Features { compat, ro_compat, incompat: 0 }
    }
}

fn chain_head() -> impl Strategy<Value = ChainHead> {
    (any::<u64>(), any::<u64>(), any::<u32>()).prop_map(|(seq, checksum, next_slot)| ChainHead {
        seq,
        checksum,
        next_slot: SegmentNumber(next_slot),
    })
}

prop_compose! {
    fn shard_root()(
        features in features(),
        (pool, shard) in (any::<[u8; 16]>(), shard()),
        (mount, checkpoint_seq) in any::<(u64, u64)>(),
        (applied_wseq, next_wseq) in (id(WriteSeq::new), id(WriteSeq::new)),
        (next_chunk, next_page) in (id(ChunkId::new), id(ChunkId::new)),
        next_generation in id(Generation::new),
        (lane, lane_mount) in (lane_point(), any::<u64>()),
        (data_chain, reclaim_chain) in (chain_head(), chain_head()),
        (table, keys) in (tree_root(), tree_root()),
        usage in prop::collection::vec(location(), 0..20),
        deaths in prop::collection::vec(location(), 0..20),
        highest_cut: u32,
        (data_chunks, data_bytes) in any::<(u64, u64)>(),
        deltas in prop::collection::vec(location(), 0..20),
        delta_limit: u64,
        copies in prop::collection::vec(any::<(u32, u32)>(), 0..20),
    ) -> ShardRoot {
        let copies = copies.into_iter().map(|(of, slot)| (SegmentNumber(of), SegmentNumber(slot)));
        let mut root = ShardRoot {
            features,
            pool: PoolId(pool),
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
            highest_cut: CutNumber(highest_cut),
            data_chunks,
            data_bytes,
            deltas,
            delta_limit,
            copies: Vec::new(),
        };
        root.name_copies(copies.collect(), u32::MAX);
        root
    }
}

fn zone_owner() -> impl Strategy<Value = ZoneOwner> {
    prop_oneof![
        Just(ZoneOwner::Free),
        Just(ZoneOwner::Withdrawn),
        shard().prop_map(ZoneOwner::Shard),
    ]
}

prop_compose! {
    fn pool_root()(
        features in features(),
        pool: [u8; 16],
        created_unix_ms: u64,
        segment_blocks in 1..=SEGMENT_BYTES_MAX / 4096,
        zone_segments in 1..=u32::MAX,
        next_stream in id(StreamId::new),
        placements in prop::collection::vec(1..=ShardId::COUNT_MAX, 1..=256),
        owners in prop::collection::vec(zone_owner(), 0..300),
        is_redundant: bool,
    ) -> PoolRoot {
        let incompat = if is_redundant { Features::WITHDRAWN_ZONES } else { 0 };
        let features = Features { incompat, ..features };
        let mut zone_owners = owners;
        zone_owners.retain(|owner| is_redundant || *owner != ZoneOwner::Withdrawn);
        while zone_owners.last() == Some(&ZoneOwner::Withdrawn) {
            zone_owners.pop();
        }
        PoolRoot {
            features,
            pool: PoolId(pool),
            created_unix_ms,
            segment_bytes: segment_blocks * 4096,
            zone_segments,
            next_stream,
            placements,
            zone_owners,
        }
    }
}

proptest! {
    #[test]
    fn frames(header in frame_header(), records in prop::collection::vec(record(), 0..12)) {
        let parts: Vec<_> = records.iter().map(|(header, payload)| (*header, payload.as_slice())).collect();
        let (header, mut bytes, chain) = samples::frame_of(header, &parts);
        bytes.extend_from_slice(b"what follows the frame");
        let frame = Frame::decode(&bytes).unwrap();
        prop_assert_eq!(frame.header, header);
        prop_assert_eq!(frame.chain, chain);
        let read: Vec<_> = frame.records().map(|r| r.unwrap()).map(|r| (r.header, r.payload)).collect();
        prop_assert_eq!(read, parts);
        frame.verify_payloads().unwrap();
    }

    #[test]
    fn key_payloads((key, value) in key_and_value()) {
        let payload = KeyPayload { key: &key, value: &value };
        let mut bytes = vec![0; payload.encoded_len()];
        payload.encode(&mut bytes);
        prop_assert_eq!(KeyPayload::decode(&bytes).unwrap(), payload);
    }

    #[test]
    fn strip_headers(header in strip_header()) {
        let mut bytes = vec![0xFF; StripHeader::LEN + 1];
        let checksum = header.encode(&mut bytes);
        prop_assert_eq!(StripHeader::decode(&bytes).unwrap(), (header, checksum));
    }

    #[test]
    fn summaries(list in prop::collection::vec(summary_entry(), 0..50)) {
        let mut bytes = vec![0xFF; list.len() * SummaryEntry::LEN];
        for (entry, out) in list.iter().zip(bytes.chunks_mut(SummaryEntry::LEN)) {
            entry.encode(out);
        }
        let read: Result<Vec<_>, _> = bytes.chunks(SummaryEntry::LEN).map(SummaryEntry::decode).collect();
        prop_assert_eq!(read.unwrap(), list);
    }

    #[test]
    fn pages(header in page_header(), payload in prop::collection::vec(any::<u8>(), 0..5000)) {
        let mut unit = vec![0xFF; PageHeader::LEN];
        unit.extend_from_slice(&payload);
        header.encode(&mut unit);
        prop_assert_eq!(PageHeader::decode(&unit).unwrap(), (header, &payload[..]));
    }

    #[test]
    fn pointers(location in location(), tree in tree_root()) {
        let mut bytes = [0xFF; Location::LEN];
        location.encode(&mut bytes);
        prop_assert_eq!(Location::decode(&bytes).unwrap(), location);
        let mut bytes = [0xFF; PagePtr::LEN];
        tree.page.encode(&mut bytes);
        prop_assert_eq!(PagePtr::decode(&bytes).unwrap(), tree.page);
    }

    #[test]
    fn chunk_entries(entry in chunk_entry(), a in id(ChunkId::new), b in id(ChunkId::new)) {
        let mut bytes = [0xFF; ChunkEntry::LEN];
        entry.encode(&mut bytes);
        prop_assert_eq!(ChunkEntry::decode(&bytes).unwrap(), entry);
        prop_assert_eq!(ChunkEntry::chunk_of_key(&ChunkEntry::key(a)).unwrap(), a);
        prop_assert_eq!(ChunkEntry::key(a).cmp(&ChunkEntry::key(b)), a.cmp(&b));
    }

    #[test]
    fn usage_entries(
        segment in segment_id(),
        sealed_at in id(WriteSeq::new),
        live_bytes: u32,
        has_pages: bool,
    ) {
        let entry = UsageEntry { segment, sealed_at, live_bytes, has_pages };
        let mut bytes = [0xFF; UsageEntry::LEN];
        entry.encode(&mut bytes);
        prop_assert_eq!(UsageEntry::decode(&bytes).unwrap(), entry);
    }

    #[test]
    fn map_slots(slot in map_slot()) {
        let mut bytes = [0xFF; MapSlot::LEN];
        slot.encode(&mut bytes);
        prop_assert_eq!(MapSlot::decode(&bytes).unwrap(), slot);
    }

    #[test]
    fn reservation_records(
        blocks in 0..=ReservationRecord::COUNT_MAX,
        pages in 0..=ReservationRecord::COUNT_MAX,
        floor in id(ChunkId::new),
    ) {
        let record = ReservationRecord { blocks, pages, floor };
        let mut bytes = [0xFF; ReservationRecord::LEN];
        record.encode(&mut bytes);
        prop_assert_eq!(ReservationRecord::decode(&bytes).unwrap(), record);
    }

    #[test]
    fn stream_records(
        tree in tree_root(),
        block_shift in 9u8..=16,
        page_ceiling in id(ChunkId::new),
        chunk_ceiling in id(ChunkId::new),
    ) {
        let record = StreamRecord {
            root: tree.page,
            height: tree.height,
            block_shift,
            slot_width: StreamRecord::SLOT_WIDTH,
            page_ceiling,
            chunk_ceiling,
        };
        let mut bytes = [0xFF; StreamRecord::LEN];
        record.encode(&mut bytes);
        prop_assert_eq!(StreamRecord::decode(&bytes).unwrap(), record);
    }

    #[test]
    fn roots(shard in shard_root(), pool in pool_root()) {
        prop_assert_eq!(ShardRoot::decode(&shard.encode()).unwrap(), shard);
        prop_assert_eq!(PoolRoot::decode(&pool.encode()).unwrap(), pool);
    }

    #[test]
    fn any_bytes_decode_to_a_value_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        drop(Frame::decode(&bytes));
        drop(RecordHeader::decode(&bytes));
        drop(KeyPayload::decode(&bytes));
        drop(StripHeader::decode(&bytes));
        drop(SummaryEntry::decode(&bytes));
        drop(PageHeader::decode(&bytes));
        drop(PagePtr::decode(&bytes));
        drop(ChunkEntry::decode(&bytes));
        drop(MapSlot::decode(&bytes));
        drop(ReservationRecord::decode(&bytes));
        drop(StreamRecord::decode(&bytes));
        drop(UsageEntry::decode(&bytes));
        drop(ShardRoot::decode(&bytes));
        drop(PoolRoot::decode(&bytes));
    }
}
