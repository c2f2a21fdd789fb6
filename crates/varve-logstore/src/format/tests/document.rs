//! `docs/format.md` against the code: the tables of each structure have no gap and no overlap, and add up to its
//! length.

use crate::format::chunk::{ChunkEntry, MapSlot};
use crate::format::frame::FrameHeader;
use crate::format::page::PageHeader;
use crate::format::pointer::{Location, PagePtr};
use crate::format::pool::PoolRoot;
use crate::format::record::RecordHeader;
use crate::format::reservation::ReservationRecord;
use crate::format::root::ShardRoot;
use crate::format::segment::StripHeader;
use crate::format::stream::StreamRecord;
use crate::format::summary::SummaryEntry;
use crate::format::usage::UsageEntry;

const DOCUMENT: &str = include_str!("../../../../../docs/format.md");

const LENGTHS: [(&str, usize); 13] = [
    ("Pool root", PoolRoot::LEN_MIN),
    ("Shard root", ShardRoot::LEN_MIN),
    ("Frame header", FrameHeader::LEN),
    ("Record descriptor", RecordHeader::LEN),
    ("Strip header", StripHeader::LEN),
    ("Summary entry", SummaryEntry::LEN),
    ("Page header", PageHeader::LEN),
    ("Location", Location::LEN),
    ("Page pointer", PagePtr::LEN),
    ("Chunk entry", ChunkEntry::LEN),
    ("Usage entry", UsageEntry::LEN),
    ("Stream record", StreamRecord::LEN),
    ("Reservation record", ReservationRecord::LEN),
];

/// Title, length and table rows of every `### Title (N B)`.
fn sections() -> Vec<(&'static str, usize, Vec<[&'static str; 2]>)> {
    DOCUMENT
        .split("\n### ")
        .skip(1)
        .map(|section| {
            let (heading, body) = section.split_once('\n').unwrap();
            let (title, length) = heading.split_once(" (").unwrap();
            let length = length.strip_suffix(" B)").unwrap().parse().unwrap();
            let rows = body.lines().skip_while(|line| !line.starts_with("| offset |"));
            let rows = rows.skip(2).take_while(|line| line.starts_with('|'));
            let cells = rows.map(|row| {
                let mut cells = row.split('|').skip(1).map(str::trim);
                [cells.next().unwrap(), cells.next().unwrap()]
            });
            (title, length, cells.collect())
        })
        .collect()
}

#[test]
fn lengths_are_those_of_the_code() {
    let sections = sections();
    for (title, expected) in LENGTHS {
        let (_, length, _) = sections.iter().find(|(found, ..)| *found == title).unwrap();
        assert_eq!(*length, expected, "{title}");
    }
    let (_, length, _) = sections.iter().find(|(title, ..)| *title == "Map slot").unwrap();
    assert_eq!(*length, MapSlot::LEN);
}

#[test]
fn fields_follow_each_other_and_add_up() {
    for (title, length, rows) in sections() {
        if title == "Map slot" {
            continue; // bits, not bytes
        }
        let (mut end, mut variable) = (0, 0);
        for [offset, size] in rows {
            match (offset.parse::<usize>(), size.parse::<usize>()) {
                (Ok(offset), Ok(size)) => {
                    assert_eq!(offset, end, "{title}: field at {offset}");
                    end += size;
                }
                (Ok(offset), Err(_)) => {
                    assert_eq!(offset, end, "{title}: field at {offset}");
                    variable += 1;
                }
                (Err(_), Err(_)) => variable += 1,
                (Err(_), Ok(size)) => {
                    assert!(variable > 0 && offset == "length - 8", "{title}: field at {offset}");
                    end += size;
                }
            }
        }
        assert_eq!(end, length, "{title}");
    }
}
