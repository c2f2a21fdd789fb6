//! Truncation at every length and a flip of every bit: checksummed structures refuse both, others never panic and never
//! decode to a value that encodes to other bytes.

use super::samples;
use crate::Error;
use crate::format::chunk::{ChunkEntry, MapSlot};
use crate::format::frame::{Frame, FrameHeader};
use crate::format::page::PageHeader;
use crate::format::pointer::{Location, PagePtr};
use crate::format::pool::PoolRoot;
use crate::format::record::{KeyPayload, RecordHeader};
use crate::format::reservation::ReservationRecord;
use crate::format::root::ShardRoot;
use crate::format::segment::StripHeader;
use crate::format::stream::StreamRecord;
use crate::format::summary::SummaryEntry;
use crate::format::usage::UsageEntry;
use varve_stdx::DecodeError;

/// Calls `check` with `bytes` after each single bit flip.
fn each_flip(bytes: &[u8], mut check: impl FnMut(usize, &[u8])) {
    let mut damaged = bytes.to_vec();
    for bit in 0..bytes.len() * 8 {
        damaged[bit / 8] ^= 1 << (bit % 8);
        check(bit, &damaged);
        damaged[bit / 8] ^= 1 << (bit % 8);
    }
}

fn every_truncation_is_refused<T: std::fmt::Debug>(
    bytes: &[u8],
    decode: impl Fn(&[u8]) -> Result<T, Error>,
) {
    decode(bytes).unwrap();
    for len in 0..bytes.len() {
        let outcome = decode(&bytes[..len]);
        assert!(outcome.is_err(), "{len} of {} bytes decode to {outcome:?}", bytes.len());
    }
}

fn every_flip_is_refused<T: std::fmt::Debug>(
    bytes: &[u8],
    decode: impl Fn(&[u8]) -> Result<T, Error>,
) {
    each_flip(bytes, |bit, damaged| {
        let outcome = decode(damaged);
        assert!(outcome.is_err(), "bit {bit} flipped decodes to {outcome:?}");
    });
}

/// For structures that another one's checksum covers: a flip decodes to an error or to exactly what now stands there.
fn every_flip_is_an_error_or_another_value<T: PartialEq + std::fmt::Debug>(
    bytes: &[u8],
    decode: impl Fn(&[u8]) -> Result<T, Error>,
    encode: impl Fn(&T, &mut [u8]),
) {
    let original = decode(bytes).unwrap();
    each_flip(bytes, |bit, damaged| {
        if let Ok(value) = decode(damaged) {
            assert_ne!(value, original, "bit {bit} is ignored");
            let mut again = vec![0; damaged.len()];
            encode(&value, &mut again);
            assert_eq!(again, damaged, "bit {bit} is not part of the value");
        }
    });
}

#[test]
fn frames() {
    let (header, bytes, _) = samples::frame();
    every_truncation_is_refused(&bytes, |bytes| Frame::decode(bytes).map(drop));
    let covered = header.header_bytes() as usize;
    each_flip(&bytes, |bit, damaged| {
        let outcome = Frame::decode(damaged);
        if bit / 8 < covered {
            assert!(outcome.is_err(), "bit {bit} of the header flipped decodes to {outcome:?}");
        }
    });
}

#[test]
fn payloads_of_frames() {
    let (_, bytes, _) = samples::frame();
    let frame = Frame::decode(&bytes).unwrap();
    frame.verify_payloads().unwrap();
    for record in frame.records() {
        let record = record.unwrap();
        let mut damaged = bytes.clone();
        for byte in record.payload_offset..record.payload_offset + record.payload.len() {
            damaged[byte] ^= 0x10;
            let outcome = Frame::decode(&damaged).unwrap().verify_payloads();
            assert!(matches!(outcome, Err(Error::BadChecksum { .. })), "byte {byte}");
            damaged[byte] ^= 0x10;
        }
    }
}

#[test]
fn frame_headers_alone() {
    let (_, bytes, _) = samples::frame();
    every_truncation_is_refused(&bytes[..FrameHeader::LEN], FrameHeader::decode);
    each_flip(&bytes[..FrameHeader::LEN], |_, damaged| drop(FrameHeader::decode(damaged)));
}

#[test]
fn record_descriptors() {
    let data = [0xDA; 512];
    let key = samples::key_payload();
    for record in [samples::write_record(&data), samples::trim_record(), samples::key_record(&key)]
    {
        let mut bytes = [0; RecordHeader::LEN];
        record.encode(&mut bytes);
        every_truncation_is_refused(&bytes, RecordHeader::decode);
        every_flip_is_an_error_or_another_value(&bytes, RecordHeader::decode, RecordHeader::encode);
    }
}

#[test]
fn key_payloads() {
    let bytes = samples::key_payload();
    for len in 0..10 {
        assert!(
            matches!(
                KeyPayload::decode(&bytes[..len]),
                Err(Error::Decode(DecodeError::Truncated { .. }))
            ),
            "{len}"
        );
    }
    each_flip(&bytes, |_, damaged| drop(KeyPayload::decode(damaged)));
}

#[test]
fn strip_headers() {
    let bytes = samples::strip_bytes();
    every_truncation_is_refused(&bytes, StripHeader::decode);
    every_flip_is_refused(&bytes, StripHeader::decode);
}

#[test]
fn summaries() {
    let (header, bytes) = (samples::strip_header(), samples::summary_bytes());
    header.check_summary(&bytes).unwrap();
    every_flip_is_refused(&bytes, |bytes| header.check_summary(bytes));
    for bytes in bytes.chunks(SummaryEntry::LEN) {
        every_truncation_is_refused(bytes, SummaryEntry::decode);
        every_flip_is_an_error_or_another_value(bytes, SummaryEntry::decode, SummaryEntry::encode);
    }
}

#[test]
fn pages() {
    let bytes = samples::page_bytes();
    every_truncation_is_refused(&bytes, |bytes| PageHeader::decode(bytes).map(drop));
    every_flip_is_refused(&bytes, |bytes| PageHeader::decode(bytes).map(drop));
}

#[test]
fn pointers_entries_and_slots() {
    let mut bytes = [0; Location::LEN];
    samples::location().encode(&mut bytes);
    every_truncation_is_refused(&bytes, Location::decode);
    every_flip_is_an_error_or_another_value(&bytes, Location::decode, Location::encode);

    for ptr in
        [PagePtr::Null, samples::stream_record().root, PagePtr::Location(samples::location())]
    {
        let mut bytes = [0; PagePtr::LEN];
        ptr.encode(&mut bytes);
        every_truncation_is_refused(&bytes, PagePtr::decode);
        every_flip_is_an_error_or_another_value(&bytes, PagePtr::decode, PagePtr::encode);
    }

    let mut bytes = [0; ChunkEntry::LEN];
    samples::chunk_entry().encode(&mut bytes);
    every_truncation_is_refused(&bytes, ChunkEntry::decode);
    every_flip_is_an_error_or_another_value(&bytes, ChunkEntry::decode, ChunkEntry::encode);

    let mut bytes = [0; MapSlot::LEN];
    samples::map_slot().encode(&mut bytes);
    every_truncation_is_refused(&bytes, MapSlot::decode);
    every_flip_is_an_error_or_another_value(&bytes, MapSlot::decode, MapSlot::encode);

    let mut bytes = [0; UsageEntry::LEN];
    samples::usage_entry().encode(&mut bytes);
    every_truncation_is_refused(&bytes, UsageEntry::decode);
    every_flip_is_an_error_or_another_value(&bytes, UsageEntry::decode, UsageEntry::encode);

    let mut bytes = [0; StreamRecord::LEN];
    samples::stream_record().encode(&mut bytes);
    every_truncation_is_refused(&bytes, StreamRecord::decode);
    every_flip_is_an_error_or_another_value(&bytes, StreamRecord::decode, StreamRecord::encode);

    let mut bytes = [0; ReservationRecord::LEN];
    samples::reservation_record().encode(&mut bytes);
    every_truncation_is_refused(&bytes, ReservationRecord::decode);
    every_flip_is_an_error_or_another_value(
        &bytes,
        ReservationRecord::decode,
        ReservationRecord::encode,
    );
}

#[test]
fn roots() {
    let bytes = samples::shard_root().encode();
    every_truncation_is_refused(&bytes, ShardRoot::decode);
    every_flip_is_refused(&bytes, ShardRoot::decode);
    let bytes = samples::pool_root().encode();
    every_truncation_is_refused(&bytes, PoolRoot::decode);
    every_flip_is_refused(&bytes, PoolRoot::decode);
}
