//! The worked examples: `docs/format-examples/logstore.md` is what this code says, text beside bytes, and `fuzz/seeds`
//! holds the same bytes for the fuzzer to start from.
//!
//! After a change of the format on purpose: `VARVE_UPDATE_SNAPSHOTS=1 cargo test -p varve-logstore examples` writes the
//! files anew.

use std::fmt::{Display, Write};

use varve_stdx::compare_file;

use super::samples;
use crate::format::chunk::{ChunkEntry, MapSlot};
use crate::format::frame::Frame;
use crate::format::page::PageHeader;
use crate::format::pointer::{Location, PagePtr};
use crate::format::record::{KeyPayload, RecordHeader};
use crate::format::reservation::ReservationRecord;
use crate::format::segment::StripHeader;
use crate::format::stream::StreamRecord;
use crate::format::summary::SummaryEntry;
use crate::format::usage::UsageEntry;

const PATH: &str = "docs/format-examples/logstore.md";

const INTRODUCTION: &str = "\
# Worked examples: the log store

One value of each structure of sections 4 to 7 of [format.md](../format.md) that `varve-logstore` stores: as `varve` prints
it, and as bytes (`hexdump -C`; `*` stands for repeated rows). A test of `varve-logstore` compares this page with the
encoders.
";

/// As `hexdump -C` prints it.
fn hex_dump(bytes: &[u8]) -> String {
    let mut out = String::new();
    let mut previous: Option<&[u8]> = None;
    let mut repeated = false;
    for (index, row) in bytes.chunks(16).enumerate() {
        let last = (index + 1) * 16 >= bytes.len();
        if previous == Some(row) && !last {
            if !repeated {
                out.push_str("*\n");
            }
            repeated = true;
            continue;
        }
        repeated = false;
        previous = Some(row);
        let mut hex = String::new();
        for (i, byte) in row.iter().enumerate() {
            let gap = if i == 8 { "  " } else { " " };
            write!(hex, "{gap}{byte:02x}").unwrap();
        }
        let text: String = row
            .iter()
            .map(|b| if b.is_ascii_graphic() || *b == b' ' { char::from(*b) } else { '.' })
            .collect();
        writeln!(out, "{:08x} {hex:<49}  |{text}|", index * 16).unwrap();
    }
    out
}

fn example(out: &mut String, title: &str, value: impl Display, bytes: &[u8]) {
    write!(out, "\n## {title}\n\n```text\n{value}\n```\n\n```text\n{}```\n", hex_dump(bytes))
        .unwrap();
}

fn page() -> String {
    let mut out = INTRODUCTION.to_owned();
    let (_, bytes, _) = samples::frame();
    example(&mut out, "Frame", Frame::decode(&bytes).unwrap(), &bytes);
    let bytes = samples::key_payload();
    example(&mut out, "Key payload", KeyPayload::decode(&bytes).unwrap(), &bytes);
    let bytes = samples::strip_bytes();
    example(&mut out, "Strip header", StripHeader::decode(&bytes).unwrap().0, &bytes);
    let entries: Vec<String> = samples::summary().iter().map(SummaryEntry::to_string).collect();
    example(&mut out, "Summary", entries.join("\n"), &samples::summary_bytes());
    let bytes = samples::page_bytes();
    example(&mut out, "Page unit", PageHeader::decode(&bytes).unwrap().0, &bytes);

    let mut bytes = [0; Location::LEN];
    samples::location().encode(&mut bytes);
    example(&mut out, "Location", samples::location(), &bytes);
    for ptr in
        [PagePtr::Null, samples::stream_record().root, PagePtr::Location(samples::location())]
    {
        let mut bytes = [0; PagePtr::LEN];
        ptr.encode(&mut bytes);
        example(&mut out, &format!("Page pointer: {}", title_of(ptr)), ptr, &bytes);
    }
    let mut bytes = [0; ChunkEntry::LEN];
    samples::chunk_entry().encode(&mut bytes);
    example(&mut out, "Chunk entry", samples::chunk_entry(), &bytes);
    let mut bytes = [0; MapSlot::LEN];
    samples::map_slot().encode(&mut bytes);
    example(&mut out, "Map slot", samples::map_slot(), &bytes);
    let mut bytes = [0; UsageEntry::LEN];
    samples::usage_entry().encode(&mut bytes);
    example(&mut out, "Usage entry", samples::usage_entry(), &bytes);
    let mut bytes = [0; StreamRecord::LEN];
    samples::stream_record().encode(&mut bytes);
    example(&mut out, "Stream record", samples::stream_record(), &bytes);
    let mut bytes = [0; ReservationRecord::LEN];
    samples::reservation_record().encode(&mut bytes);
    example(&mut out, "Reservation record", samples::reservation_record(), &bytes);
    example(&mut out, "Shard root", samples::shard_root(), &samples::shard_root().encode());
    example(&mut out, "Pool root", samples::pool_root(), &samples::pool_root().encode());
    out
}

fn title_of(ptr: PagePtr) -> &'static str {
    match ptr {
        PagePtr::Null => "null",
        PagePtr::Chunk(_) => "chunk",
        PagePtr::Location(_) => "location",
        PagePtr::Memory(_) => "memory",
    }
}

#[test]
fn the_document_shows_what_is_stored() {
    compare_file(PATH, page().as_bytes());
}

/// Fuzz target and input; trailing zeros that a target adds by itself are left out.
fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    let fixed = |len: usize, encode: &dyn Fn(&mut [u8])| {
        let mut bytes = vec![0; len];
        encode(&mut bytes);
        bytes
    };
    let (frame_header, mut frame, _) = samples::frame();
    frame.truncate(frame_header.header_bytes() as usize + 1024);
    let mut strip = samples::strip_bytes();
    strip.truncate(168);
    let record = samples::write_record(&[0xDA; 512]);
    vec![
        ("deaths", samples::death_blob()),
        ("deltas", samples::delta_blob()),
        ("chunk", fixed(ChunkEntry::LEN, &|out| samples::chunk_entry().encode(out))),
        ("frame", frame),
        ("key_payload", samples::key_payload()),
        ("map_slot", fixed(MapSlot::LEN, &|out| samples::map_slot().encode(out))),
        ("page", samples::page_bytes()),
        ("pointer", fixed(PagePtr::LEN, &|out| PagePtr::Location(samples::location()).encode(out))),
        ("pool_root", samples::pool_root().encode()),
        ("record", fixed(RecordHeader::LEN, &|out| record.encode(out))),
        (
            "reservation_record",
            fixed(ReservationRecord::LEN, &|out| samples::reservation_record().encode(out)),
        ),
        ("shard_root", samples::shard_root().encode()),
        ("stream_record", fixed(StreamRecord::LEN, &|out| samples::stream_record().encode(out))),
        ("strip_header", strip),
        ("summary", samples::summary_bytes()),
        ("usage", fixed(UsageEntry::LEN, &|out| samples::usage_entry().encode(out))),
    ]
}

#[test]
fn fuzzing_starts_from_what_is_stored() {
    for (target, bytes) in seeds() {
        compare_file(&format!("fuzz/seeds/{target}/sample"), &bytes);
    }
}
