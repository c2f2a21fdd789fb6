//! Rules that a round trip does not show: what is refused, by which error, and what chains and checksums cover.

use varve_stdx::{DecodeError, checksum64, checksum64_seeded};
use varve_types::limits::{ADDRESS_UNIT, VOLUME_BYTES_MAX};
use varve_types::{ChunkId, ErrorKind, PoolId, SegmentNumber, ShardId};

use super::samples::{self, MOUNT, POOL, SHARD};
use crate::Error;
use crate::format::Features;
use crate::format::chunk::MapSlot;
use crate::format::frame::{Frame, FrameHeader, chain_seed};
use crate::format::pointer::PagePtr;
use crate::format::pool::{PoolRoot, ZoneOwner};
use crate::format::record::{
    GRANTED_MAX, PIECE_BYTES, RecordHeader, RecordKind, checksum_of_pieces, decode_grant,
    encode_grant, payload_checksum,
};
use crate::format::root::ShardRoot;
use crate::format::segment::StripHeader;
use crate::format::summary::SummaryEntry;

/// Puts the checksum of a root right after its bytes were changed.
fn reseal(bytes: &mut [u8]) {
    let (covered, last) = bytes.split_last_chunk_mut::<8>().unwrap();
    *last = checksum64(covered).to_le_bytes();
}

#[test]
fn a_chain_value_depends_on_everything_that_places_a_frame() {
    let (header, bytes, chain) = samples::frame();
    let record = |h: FrameHeader| {
        let mut bytes = bytes.clone();
        h.encode(&mut bytes)
    };
    assert_eq!(record(header), chain);
    for other in [
        FrameHeader { previous_chain: header.previous_chain + 1, ..header },
        FrameHeader { mount: header.mount + 1, ..header },
        FrameHeader { frame_seq: header.frame_seq + 1, ..header },
        FrameHeader { position: header.position + 4096, ..header },
        FrameHeader { pool: PoolId([9; 16]), ..header },
        FrameHeader { shard: ShardId(9), ..header },
    ] {
        assert_ne!(record(other), chain, "{other:?}");
    }
}

#[test]
fn chain_seeds_differ_by_pool_shard_and_mount() {
    let seed = chain_seed(POOL, SHARD, MOUNT);
    assert_ne!(seed, chain_seed(PoolId([9; 16]), SHARD, MOUNT));
    assert_ne!(seed, chain_seed(POOL, ShardId(9), MOUNT));
    assert_ne!(seed, chain_seed(POOL, SHARD, MOUNT + 1));
}

#[test]
fn misplaced_frames_and_strips_show() {
    let header = samples::frame_header();
    header.check_place(POOL, SHARD, header.position).unwrap();
    assert!(header.check_place(PoolId([9; 16]), SHARD, header.position).is_err());
    assert!(header.check_place(POOL, ShardId(9), header.position).is_err());
    assert!(header.check_place(POOL, SHARD, header.position + 4096).is_err());
    let header = samples::strip_header();
    header.check_place(POOL, header.slot).unwrap();
    assert!(header.check_place(PoolId([9; 16]), header.slot).is_err());
    assert!(header.check_place(POOL, SegmentNumber(1)).is_err());
}

#[test]
fn payload_checksums_are_folded_from_pieces() {
    assert_eq!(payload_checksum(&[]), 0);
    let payload: Vec<u8> = (0..PIECE_BYTES * 2 + 100).map(|i| i.to_le_bytes()[0]).collect();
    assert_eq!(payload_checksum(&payload[..PIECE_BYTES]), checksum64(&payload[..PIECE_BYTES]));
    let pieces: Vec<u64> = payload.chunks(PIECE_BYTES).map(checksum64).collect();
    let two = checksum64_seeded(&pieces[1].to_le_bytes(), pieces[0]);
    let three = checksum64_seeded(&pieces[2].to_le_bytes(), two);
    assert_eq!(payload_checksum(&payload), three);
    assert_eq!(checksum_of_pieces(pieces.iter().copied()), three);
    assert_ne!(checksum_of_pieces(pieces.iter().rev().copied()), three, "order counts");
}

#[test]
fn a_frame_without_its_whole_length_is_refused() {
    let (header, mut bytes, _) = samples::frame();
    let longer = FrameHeader { frame_bytes: header.frame_bytes + 4096, ..header };
    bytes.resize(longer.frame_bytes as usize, 0);
    longer.encode(&mut bytes);
    let error = Frame::decode(&bytes).unwrap_err();
    assert!(
        matches!(error, Error::Decode(DecodeError::BadField { field: "frame_bytes", .. })),
        "{error}"
    );
}

#[test]
fn reserved_record_kinds_decode_and_are_not_supported() {
    let mut bytes = [0; RecordHeader::LEN];
    RecordHeader { kind: RecordKind::LargeRef, ..samples::trim_record() }.encode(&mut bytes);
    let record = RecordHeader::decode(&bytes).unwrap();
    assert_eq!(record.kind.check_supported().unwrap_err().kind(), ErrorKind::Unsupported);
    RecordKind::Write.check_supported().unwrap();
}

#[test]
fn ranges_past_the_largest_stream_are_refused() {
    let mut bytes = [0; RecordHeader::LEN];
    samples::write_record(&[0; 512]).encode(&mut bytes);
    let end = VOLUME_BYTES_MAX / ADDRESS_UNIT;
    for (offset, len, field) in [
        (0, 1 << 55, "len_512"), // found by fuzzing: 2^64 bytes
        (0, end + 1, "len_512"),
        (end, 1, "offset_512"),
        (u64::MAX, 1, "offset_512"),
    ] {
        bytes[24..32].copy_from_slice(&u64::to_le_bytes(offset));
        bytes[32..40].copy_from_slice(&u64::to_le_bytes(len));
        let error = RecordHeader::decode(&bytes).unwrap_err();
        assert!(
            matches!(error, Error::Decode(DecodeError::BadField { field: f, .. }) if f == field),
            "{error}"
        );
    }
    let last = RecordHeader { offset_512: end - 1, ..samples::write_record(&[0; 512]) };
    last.encode(&mut bytes);
    assert_eq!(RecordHeader::decode(&bytes).unwrap(), last);
}

#[test]
fn unknown_kinds_are_refused() {
    let mut bytes = [0; RecordHeader::LEN];
    samples::trim_record().encode(&mut bytes);
    for kind in [0, 10, 255] {
        bytes[0] = kind;
        let error = RecordHeader::decode(&bytes).unwrap_err();
        assert!(
            matches!(error, Error::Decode(DecodeError::UnknownKind { kind: found, .. }) if found == kind)
        );
    }
    let mut bytes = samples::summary_bytes();
    for kind in [0, 19, 255] {
        bytes[0] = kind;
        assert!(matches!(
            SummaryEntry::decode(&bytes),
            Err(Error::Decode(DecodeError::UnknownKind { .. }))
        ));
    }
    assert!(matches!(
        MapSlot::from_bits(4 << 60 | 1),
        Err(Error::Decode(DecodeError::UnknownKind { kind: 4, .. }))
    ));
    assert!(matches!(
        MapSlot::from_bits(1),
        Err(Error::Decode(DecodeError::ReservedNotZero { .. }))
    ));
    assert!(matches!(
        MapSlot::from_bits(2 << 60),
        Err(Error::Decode(DecodeError::BadField { .. }))
    ));
}

#[test]
fn flags_of_entries_are_known_and_used_by_their_kind() {
    for entry in samples::summary() {
        let mut bytes = [0; SummaryEntry::LEN];
        entry.encode(&mut bytes);
        let may_bypass = matches!(
            entry,
            SummaryEntry::Data { .. }
                | SummaryEntry::Reference { .. }
                | SummaryEntry::ForeignReference { .. }
                | SummaryEntry::Trim { .. }
        );
        for flags in [1, 2, 3, 128] {
            bytes[2] = flags;
            let decoded = SummaryEntry::decode(&bytes);
            if may_bypass && flags == 1 {
                let decoded = decoded.unwrap();
                assert!(decoded.wseq().is_some() && decoded.lane_wseq().is_none());
            } else {
                assert!(
                    matches!(decoded, Err(Error::Decode(DecodeError::ReservedNotZero { .. }))),
                    "{entry}: {flags}"
                );
            }
        }
    }
}

#[test]
fn homes_that_no_map_can_name_are_refused() {
    let is_foreign = |entry: &SummaryEntry| matches!(entry, SummaryEntry::ForeignReference { .. });
    let entry = samples::summary().into_iter().find(is_foreign).unwrap();
    let mut bytes = [0; SummaryEntry::LEN];
    entry.encode(&mut bytes);
    for (home, is_whole) in [(0, true), (4095, true), (4096, false), (65535, false), (65536, false)]
    {
        bytes[28..32].copy_from_slice(&u32::to_le_bytes(home));
        match SummaryEntry::decode(&bytes) {
            Ok(SummaryEntry::ForeignReference { home: found, .. }) => {
                assert!(is_whole && u32::from(found.0) == home, "{home}");
            }
            Err(Error::Decode(DecodeError::BadField { field: "home", .. })) => {
                assert!(!is_whole, "{home}")
            }
            other => panic!("{home}: {other:?}"),
        }
    }
}

#[test]
fn ciphertext_is_not_handed_out() {
    let mut bytes = samples::summary_bytes();
    bytes[44] = 1; // key id
    assert!(matches!(SummaryEntry::decode(&bytes), Err(Error::Unsupported { flags: 1, .. })));
    let mut bytes = samples::strip_bytes();
    bytes[88] = 1; // key id
    reseal(&mut bytes);
    assert!(matches!(StripHeader::decode(&bytes), Err(Error::Unsupported { flags: 1, .. })));
}

#[test]
fn a_newer_version_is_unsupported_and_not_corrupt() {
    let mut bytes = samples::shard_root().encode();
    bytes[8] = 2;
    reseal(&mut bytes);
    let error = ShardRoot::decode(&bytes).unwrap_err();
    assert!(
        matches!(error, Error::Decode(DecodeError::BadVersion { found: 2, known: 1, .. })),
        "{error}"
    );
    assert_eq!(error.kind(), ErrorKind::Unsupported);
}

#[test]
fn reserved_bytes_of_roots_are_checked() {
    let mut bytes = samples::shard_root().encode();
    bytes[58] = 1;
    reseal(&mut bytes);
    assert!(matches!(
        ShardRoot::decode(&bytes),
        Err(Error::Decode(DecodeError::ReservedNotZero { .. }))
    ));
}

#[test]
fn unknown_incompat_flags_stop_reading_and_ro_compat_flags_stop_writing() {
    let mut root = samples::shard_root();
    root.features = Features { compat: u64::MAX, ro_compat: 0, incompat: 1 << 40 };
    let error = ShardRoot::decode(&root.encode()).unwrap_err();
    assert!(matches!(error, Error::Unsupported { flags, .. } if flags == 1 << 40), "{error}");

    let incompat = Features::PAGE_COPIES;
    root.features = Features { compat: u64::MAX, ro_compat: 4, incompat };
    let root = ShardRoot::decode(&root.encode()).unwrap();
    let error = root.features.check_writable("shard root").unwrap_err();
    assert!(matches!(error, Error::Unsupported { flags: 4, .. }), "{error}");
    samples::pool_root().features.check_writable("pool root").unwrap();
}

#[test]
fn zones_are_withdrawn_in_redundant_pools_alone_and_before_the_last_one() {
    let mut root = samples::pool_root();
    root.features.incompat = Features::WITHDRAWN_ZONES;
    root.zone_owners = vec![ZoneOwner::Free, ZoneOwner::Withdrawn, ZoneOwner::Shard(SHARD)];
    let bytes = root.encode();
    assert_eq!(PoolRoot::decode(&bytes).unwrap(), root);
    let of_zones = bytes.len() - 8 - 6..bytes.len() - 8;
    assert_eq!(bytes[of_zones.clone()][..4], [0xFF, 0xFF, 0xFE, 0xFF]);
    let refused = |change: &dyn Fn(&mut [u8])| {
        let mut bytes = bytes.clone();
        change(&mut bytes);
        reseal(&mut bytes);
        PoolRoot::decode(&bytes).unwrap_err().to_string()
    };
    let without_flag = refused(&|bytes| bytes[32] = 0);
    assert!(without_flag.contains("zone_owner"), "{without_flag}");
    let last =
        refused(&|bytes| bytes[of_zones.end - 2..of_zones.end].copy_from_slice(&[0xFE, 0xFF]));
    assert!(last.contains("zone_count"), "{last}");
}

#[test]
fn copies_are_named_as_far_as_there_is_room_and_behind_their_feature() {
    let mut root = samples::shard_root();
    let copies: Vec<_> = (0..10).map(|of| (SegmentNumber(of), SegmentNumber(of + 10))).collect();
    root.name_copies(Vec::new(), u32::MAX);
    let without = u32::try_from(root.encode().len()).unwrap();
    assert_eq!(root.features.incompat & Features::PAGE_COPIES, 0);

    root.name_copies(copies.clone(), without + 8 * 4 + 7);
    assert_eq!(root.copies, copies[..4]);
    assert_eq!(ShardRoot::decode(&root.encode()).unwrap(), root);
    root.features.incompat &= !Features::PAGE_COPIES;
    let error = ShardRoot::decode(&root.encode()).unwrap_err();
    assert!(
        matches!(error, Error::Decode(DecodeError::BadField { field: "copy_count", value: 4, .. })),
        "{error}"
    );

    root.name_copies(copies, without - 1);
    assert_eq!((root.copies.len(), root.encode().len()), (0, without as usize));
}

#[test]
#[should_panic(expected = "stored before what points to it")]
fn a_page_in_memory_is_never_stored() {
    PagePtr::Memory(3).encode(&mut [0; PagePtr::LEN]);
}

#[test]
#[should_panic(expected = "payload_len of a Write record")]
fn a_write_whose_payload_is_not_its_range_is_not_encoded() {
    let record = RecordHeader { len_512: 3, ..samples::write_record(&[0; 512]) };
    record.encode(&mut [0; RecordHeader::LEN]);
}

#[test]
fn errors_name_what_and_values() {
    let text = ShardRoot::decode(b"nothing of the kind").unwrap_err().to_string();
    assert_eq!(text, "not a shard root: magic is 0x20676e6968746f6e");
    let text = SummaryEntry::decode(&[1, 2]).unwrap_err().to_string();
    assert_eq!(text, "summary entry needs 64 bytes, and 2 are there");
}

#[test]
fn a_grant_names_chunks_and_no_more_than_fit() {
    let chunks: Vec<_> = (1..=GRANTED_MAX as u64).map(ChunkId::new).collect();
    assert_eq!(decode_grant(&encode_grant(&chunks)).unwrap(), chunks);
    assert_eq!(decode_grant(&encode_grant(&chunks[..1])).unwrap(), chunks[..1]);
    assert!(decode_grant(&[&encode_grant(&chunks)[..], &[0; 8]].concat()).is_err(), "too many");
    assert!(decode_grant(&[0; 7]).is_err(), "cut off");
    assert!(decode_grant(&[0xFF; 8]).is_err(), "no id");
    assert!(decode_grant(&[0; 8]).is_err(), "names nothing");
}
