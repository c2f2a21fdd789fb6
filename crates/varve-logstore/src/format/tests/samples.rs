//! One value of each structure with every field set to something telling, and the frames and segments made of them.

use varve_media::SegmentId;
use varve_stdx::{checksum32, checksum64};
use varve_types::{
    ChunkId, CutNumber, Generation, PoolId, SegmentNumber, ShardId, StreamId, WriteSeq,
};

use crate::format::Features;
use crate::format::chunk::{ChunkEntry, MapSlot};
use crate::format::deltas::{Delta, encode};
use crate::format::frame::{
    FrameHeader, LogPosition, chain_seed, descriptor_offset, frame_bytes, header_bytes,
    payload_bytes,
};
use crate::format::page::{PageHeader, PageKind};
use crate::format::pointer::{Location, PagePtr};
use crate::format::pool::{PoolRoot, ZoneOwner};
use crate::format::record::{KeyPayload, RecordHeader, RecordKind, RecordOrigin, payload_checksum};
use crate::format::reservation::ReservationRecord;
use crate::format::root::{ChainHead, ShardRoot, TreeRoot};
use crate::format::segment::{SegmentKind, StripHeader};
use crate::format::stream::StreamRecord;
use crate::format::summary::{Codec, Fingerprint, SummaryEntry, Unit};
use crate::format::usage::UsageEntry;

pub(super) const POOL: PoolId =
    PoolId(*b"\x01\x23\x45\x67\x89\xab\xcd\xef\xfe\xdc\xba\x98\x76\x54\x32\x10");
pub(super) const SHARD: ShardId = ShardId(3);
pub(super) const MOUNT: u64 = 7;

pub(super) fn lane_point() -> LogPosition {
    LogPosition { position: 0x10_0000, frame_seq: 41, chain: 0xC4A1_0000_0000_0029 }
}

pub(super) fn write_record(payload: &[u8]) -> RecordHeader {
    RecordHeader {
        kind: RecordKind::Write,
        class: 2,
        origin: RecordOrigin::Client,
        payload_len: u32::try_from(payload.len()).unwrap(),
        stream: StreamId::new(11),
        wseq: WriteSeq::new(1001),
        offset_512: 64,
        len_512: payload.len() as u64 / 512,
        payload_checksum: payload_checksum(payload),
        cut: CutNumber(1),
        connection: 5,
        request: 77,
    }
}

pub(super) fn trim_record() -> RecordHeader {
    RecordHeader {
        kind: RecordKind::Trim,
        payload_len: 0,
        payload_checksum: 0,
        wseq: WriteSeq::new(1002),
        len_512: 4096,
        connection: 0,
        request: 0,
        ..write_record(&[0; 512])
    }
}

pub(super) fn key_record(payload: &[u8]) -> RecordHeader {
    RecordHeader {
        kind: RecordKind::KeyPut,
        stream: StreamId::ZERO,
        wseq: WriteSeq::new(1003),
        offset_512: 0,
        len_512: 0,
        cut: CutNumber(0),
        ..write_record(payload)
    }
}

pub(super) fn key_payload() -> Vec<u8> {
    let payload = KeyPayload { key: b"volume/a", value: b"\x00\x01two" };
    let mut bytes = vec![0; payload.encoded_len()];
    payload.encode(&mut bytes);
    bytes
}

pub(super) fn frame_header() -> FrameHeader {
    FrameHeader {
        record_count: 0,
        frame_bytes: 4096,
        pool: POOL,
        shard: SHARD,
        mount: MOUNT,
        position: 0x20_0000,
        frame_seq: 43,
        tail: lane_point(),
        data_witness: 17,
        reclaim_witness: 4,
        previous_chain: chain_seed(POOL, SHARD, MOUNT),
    }
}

/// A frame of these records, and its chain value.
pub(super) fn frame_of(
    header: FrameHeader,
    records: &[(RecordHeader, &[u8])],
) -> (FrameHeader, Vec<u8>, u64) {
    let record_count = u32::try_from(records.len()).unwrap();
    let start = header_bytes(record_count);
    let payloads = records.iter().map(|(record, _)| payload_bytes(record.payload_len)).sum();
    let frame_bytes = frame_bytes(start, payloads);
    let mut bytes = vec![0; frame_bytes as usize];
    let mut offset = start as usize;
    for (index, (record, payload)) in records.iter().enumerate() {
        record.encode(&mut bytes[descriptor_offset(index)..]);
        bytes[offset..offset + payload.len()].copy_from_slice(payload);
        offset += payload.len().next_multiple_of(512);
    }
    let header = FrameHeader { record_count, frame_bytes, ..header };
    let chain = header.encode(&mut bytes);
    (header, bytes, chain)
}

pub(super) fn frame() -> (FrameHeader, Vec<u8>, u64) {
    let (data, key) = ([0xDA; 512], key_payload());
    frame_of(
        frame_header(),
        &[(write_record(&data), &data), (trim_record(), &[]), (key_record(&key), &key)],
    )
}

pub(super) fn segment_id() -> SegmentId {
    SegmentId { number: SegmentNumber(42), generation: Generation::new(900) }
}

pub(super) fn unit() -> Unit {
    Unit {
        offset_512: 8,
        stored_len: 4096,
        logical_512: 8,
        codec: Codec::Raw,
        checksum: checksum32(&[0xDA; 4096]),
    }
}

pub(super) fn summary() -> Vec<SummaryEntry> {
    let (stream, wseq, cut) = (StreamId::new(11), WriteSeq::new(1001), CutNumber(1));
    let small = Unit { offset_512: 16, stored_len: 15, logical_512: 0, ..unit() };
    let chunk = ChunkId::new(5000);
    vec![
        SummaryEntry::Data {
            chunk,
            stream,
            block: 8,
            wseq,
            cut,
            class: 2,
            bypassed: true,
            unit: unit(),
            fingerprint: Fingerprint::new([0xF1; 16]),
        },
        SummaryEntry::Reference { chunk, stream, block: 9, wseq, cut, class: 2, bypassed: false },
        SummaryEntry::Trim { stream, block: 8, block_count: 512, wseq, cut, bypassed: false },
        SummaryEntry::Zero { stream, block: 520, block_count: 1, wseq, cut },
        SummaryEntry::KeyPut { wseq, unit: small },
        SummaryEntry::KeyDelete { wseq, unit: small },
        SummaryEntry::StreamDrop { stream, wseq },
        SummaryEntry::Cut { source: stream, copy: StreamId::new(12), wseq, chunk_ceiling: chunk },
        SummaryEntry::Move {
            chunk,
            from: segment_id(),
            from_offset_512: 24,
            unit: unit(),
            fingerprint: None,
        },
        SummaryEntry::Page { chunk, unit: small },
        SummaryEntry::TablePage { level: 2, unit: small },
        SummaryEntry::FreedIds { first: chunk, count: 64 },
        SummaryEntry::UsageBlob { unit: small },
        SummaryEntry::DeathBlob { unit: small },
        SummaryEntry::DeltaBlob { unit: small },
        SummaryEntry::Folded { first: chunk, count: 6000 },
        SummaryEntry::ForeignReference {
            home: ShardId(3),
            chunk,
            stream,
            block: 10,
            wseq,
            class: 2,
            bypassed: false,
        },
        SummaryEntry::Grant { first: chunk, count: 16, wseq },
    ]
}

pub(super) fn summary_bytes() -> Vec<u8> {
    let mut bytes = vec![0; summary().len() * SummaryEntry::LEN];
    for (entry, out) in summary().iter().zip(bytes.chunks_mut(SummaryEntry::LEN)) {
        entry.encode(out);
    }
    bytes
}

pub(super) fn strip_header() -> StripHeader {
    StripHeader {
        kind: SegmentKind::Data,
        data_strips: 1,
        parity_strips: 0,
        strip_index: 0,
        shard: SHARD,
        pool: POOL,
        slot: segment_id().number,
        generation: segment_id().generation,
        next_slot: SegmentNumber(43),
        mount: MOUNT,
        chain_seq: 18,
        previous_checksum: 0x9E57_0000_0000_0011,
        used_bytes: 16_384,
        summary_offset: 8704,
        summary_entries: u32::try_from(summary().len()).unwrap(),
        wseq_first: WriteSeq::new(1001),
        wseq_last: WriteSeq::new(1003),
        lane: lane_point(),
        lane_mount: MOUNT,
        witness: 16,
        summary_checksum: checksum64(&summary_bytes()),
    }
}

pub(super) fn strip_bytes() -> Vec<u8> {
    let mut bytes = vec![0xFF; StripHeader::LEN];
    strip_header().encode(&mut bytes);
    bytes
}

pub(super) fn page_header() -> PageHeader {
    PageHeader {
        kind: PageKind::Map,
        encoding: 1,
        level: 0,
        slot_width: 8,
        name: ChunkId::new(5001),
        stream: StreamId::new(11),
        position: 512,
    }
}

pub(super) fn page_bytes() -> Vec<u8> {
    let mut bytes = vec![0; PageHeader::LEN];
    bytes.extend_from_slice(b"a payload");
    page_header().encode(&mut bytes);
    bytes
}

pub(super) fn location() -> Location {
    Location { segment: segment_id(), offset_512: 32, stored_len: 1500, checksum: 0xC0FF_EE11 }
}

pub(super) fn chunk_entry() -> ChunkEntry {
    ChunkEntry {
        segment: segment_id(),
        offset_512: 8,
        stored_len: 4096,
        codec: Codec::Lz4,
        shared: true,
        logical_512: 8,
        checksum: unit().checksum,
    }
}

pub(super) fn map_slot() -> MapSlot {
    MapSlot::Data { shard: SHARD, chunk: ChunkId::new(5000) }
}

pub(super) fn reservation_record() -> ReservationRecord {
    ReservationRecord { blocks: 16384, pages: 33, floor: ChunkId::new(0x12_3456_789A) }
}

pub(super) fn stream_record() -> StreamRecord {
    StreamRecord {
        root: PagePtr::Chunk(ChunkId::new(5001)),
        height: 2,
        block_shift: 12,
        slot_width: StreamRecord::SLOT_WIDTH,
        page_ceiling: ChunkId::new(5002),
        chunk_ceiling: ChunkId::new(4000),
    }
}

pub(super) fn usage_entry() -> UsageEntry {
    UsageEntry {
        segment: segment_id(),
        sealed_at: WriteSeq::new(1003),
        live_bytes: 12_288,
        has_pages: true,
    }
}

pub(super) fn death_blob() -> Vec<u8> {
    let mut ids = [5, 6, 200, 70_000, 1 << 40].into_iter().map(ChunkId::new).peekable();
    let mut blob = Vec::new();
    crate::format::deaths::encode(&mut ids, &mut blob, 4096);
    blob
}

pub(super) fn delta_blob() -> Vec<u8> {
    let delta = |stream, block, chunk| Delta {
        stream: StreamId::new(stream),
        block,
        chunk: ChunkId::new(chunk),
    };
    let deltas = [delta(3, 5, 700), delta(3, 511, 650), delta(3, 512, 640), delta(9, 1 << 20, 900)];
    let mut blob = Vec::new();
    encode(&mut deltas.into_iter().peekable(), &mut blob, 4096);
    blob
}

pub(super) fn shard_root() -> ShardRoot {
    ShardRoot {
        features: Features { compat: 2, ro_compat: 0, incompat: Features::PAGE_COPIES },
        pool: POOL,
        shard: SHARD,
        mount: MOUNT,
        checkpoint_seq: 12,
        applied_wseq: WriteSeq::new(1000),
        next_wseq: WriteSeq::new(1004),
        next_chunk: ChunkId::new(6000),
        next_page: ChunkId::new((1 << 47) + 200),
        next_generation: Generation::new(901),
        lane: lane_point(),
        lane_mount: MOUNT - 1,
        data_chain: ChainHead {
            seq: 17,
            checksum: 0x9E57_0000_0000_0011,
            next_slot: SegmentNumber(42),
        },
        reclaim_chain: ChainHead {
            seq: 4,
            checksum: 0x9E57_0000_0000_0004,
            next_slot: SegmentNumber(50),
        },
        table: TreeRoot { page: PagePtr::Location(location()), height: 3 },
        keys: TreeRoot { page: PagePtr::Chunk(ChunkId::new(5002)), height: 1 },
        usage: vec![location(), Location { offset_512: 40, ..location() }],
        deaths: vec![Location { offset_512: 48, ..location() }],
        highest_cut: CutNumber(1),
        data_chunks: 3_000,
        data_bytes: 9_000_000,
        deltas: vec![Location { offset_512: 56, ..location() }],
        delta_limit: 40_000,
        copies: vec![(SegmentNumber(7), SegmentNumber(61))],
    }
}

pub(super) fn pool_root() -> PoolRoot {
    PoolRoot {
        features: Features { compat: 0, ro_compat: 0, incompat: 0 },
        pool: POOL,
        created_unix_ms: 1_790_000_000_000,
        segment_bytes: 4 << 20,
        zone_segments: 64,
        next_stream: StreamId::new(1024),
        placements: vec![2, 8],
        zone_owners: vec![ZoneOwner::Shard(ShardId(0)), ZoneOwner::Shard(SHARD), ZoneOwner::Free],
    }
}
