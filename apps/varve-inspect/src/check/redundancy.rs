//! The check of what a redundant pool has beside that of others: which of its drives are there, whether their tables,
//! roots and journals agree, which zones are exposed, and whether every strip of every segment in use is right.
//!
//! CHECK-REDUNDANCY-1. Drives are judged as they are, below the overlay on which shards recover.
//! CHECK-REDUNDANCY-2. What other drives have is a warning; what is lost with drives is an error, zone by zone.

use std::collections::BTreeMap;
use std::rc::Rc;

use varve_client::Progress;
use varve_engine::Shard;
use varve_logstore::format::frame::{FRAME_ALIGN, Frame, FrameHeader};
use varve_logstore::lane::FRAMES_IN_FLIGHT_MAX;
use varve_media::{Error, MediaPlace};
use varve_media_redundancy::format::{DriveTable, JournalCopy, JournalRecord};
use varve_media_redundancy::{
    DriveSide, Exposure, RedundantLook, StoredRoot, StripDefect, StripLocation, SurveyedPool,
    UnusableDrive, is_readable,
};
use varve_types::{SegmentNumber, ShardId};

use super::finding::{CheckFinding, Severity};

/// Zones that a finding names; of more it says how many.
const ZONES_NAMED: usize = 8;

/// Bytes of a journal that are read at a time.
const WINDOW_BYTES: u64 = 1 << 20;

const KEEP: &str = "leave what is stored as it is and report this";
const CONNECT: &str =
    "connect it again, or have the daemon rebuild what it had: `varve drive replace`";
const REPLACE: &str = "the pool goes on without it, and writes nothing to it; give it another one: `varve drive replace`";
const CONNECT_MORE: &str = "connect as many of the missing drives as are needed; what can be read without them `varve salvage` copies";
const CONNECT_NEWER: &str =
    "connect the missing drives: data that were written after these drives left are on them alone";
const NOT_READ: &str = "it is not read; it can be added as a new drive: `varve drive add`";
const NEXT_START: &str = "the next start of the daemon brings it up";
const CHOOSE: &str =
    "start the daemon with --history ID to keep one; the other drives can then be added as new";
const SCRUBBED: &str = "nothing is lost: other strips give it, and `varve drive scrub` has it written anew; watch the drive";
const REPAIRED: &str = "the daemon rebuilds it once it serves, where there is room";

/// Why drives do not agree on tables.
pub(super) fn survey_finding(error: &Error) -> CheckFinding {
    let what = error.to_string();
    match error {
        Error::HistorySplit { .. } => CheckFinding::error("history_split", what, CHOOSE),
        Error::Corrupt { what: "layout table", .. } => CheckFinding::error("row", what, KEEP),
        Error::TooFewDrives { .. } => CheckFinding::error("drive_missing", what, CONNECT_MORE),
        _ => CheckFinding::error("drive_table", what, KEEP),
    }
}

/// What the tables say of drives and zones.
pub(super) fn drive_findings(pool: &SurveyedPool) -> Vec<CheckFinding> {
    let mut found = Vec::new();
    for error in &pool.errors {
        let what = format!("a drive cannot be looked at: {error}");
        found.push(CheckFinding::warning("drive_missing", what, CONNECT));
    }
    for UnusableDrive { reason, .. } in &pool.unusable {
        let what = format!("a drive cannot be used: {reason}");
        found.push(CheckFinding::warning("drive_missing", what, REPLACE));
    }
    for drive in &pool.missing {
        let name = pool.view.drives().drive(*drive).map(|it| it.name.clone());
        let what = format!("drive {drive} ({}) is not there", name.unwrap_or_default());
        found.push(CheckFinding::warning("drive_missing", what, CONNECT));
    }
    if let Some(age) = pool.may_be_older {
        let what =
            format!("the drives that are there may be older than those that are missing: {age}");
        found.push(CheckFinding::warning("maybe_old", what, CONNECT_NEWER));
    }
    for path in &pool.stale {
        let what = "a drive failed, left or went apart, and what it holds does not count";
        let place = MediaPlace { path: path.clone(), offset: 0 };
        let finding = CheckFinding::warning("drive_stale", what, NOT_READ);
        found.push(finding.at(Some(place), 0));
    }
    if let Err(fault) = pool.check_places() {
        found.push(CheckFinding::error("row", format!("places overlap: {fault}"), KEEP));
    }
    found.extend(exposure_findings(pool));
    found
}

/// Zones that can lose less than their class says, or are lost.
fn exposure_findings(pool: &SurveyedPool) -> Vec<CheckFinding> {
    let mut zones: BTreeMap<Exposure, Vec<u32>> = BTreeMap::new();
    let queue = pool.exposures();
    let lacking = queue.items().filter(|item| {
        let row = pool.present.row(item.zone);
        let mut places = row.sets().flat_map(|set| &set.places);
        places.any(|place| !is_readable(pool.present.drives(), place.drive))
    });
    for item in lacking {
        let exposure = if item.has_lost_set { Exposure::Lost } else { item.exposure };
        zones.entry(exposure).or_default().push(item.zone.0);
    }
    let finding = |(exposure, mut zones): (Exposure, Vec<u32>)| {
        zones.sort_unstable();
        let names = named(&zones);
        match exposure {
            Exposure::Lost => {
                let missing: Vec<_> = pool.missing.iter().map(ToString::to_string).collect();
                let without = match missing.as_slice() {
                    [] => "of drives that failed".to_owned(),
                    missing => format!("without the drives {}", missing.join(", ")),
                };
                let what = format!("{names}: more strips lack than the class survives, {without}");
                CheckFinding::error("exposed", what, CONNECT_MORE) // CHECK-REDUNDANCY-2
            }
            Exposure::Survives(count) => {
                let what = format!("{names}: strips lack, and {count} more drives may be lost");
                CheckFinding::warning("exposed", what, REPAIRED)
            }
        }
    };
    zones.into_iter().map(finding).collect()
}

fn named(zones: &[u32]) -> String {
    let first: Vec<_> = zones.iter().take(ZONES_NAMED).map(ToString::to_string).collect();
    let more = zones.len().saturating_sub(ZONES_NAMED);
    match (zones.len(), more) {
        (1, _) => format!("zone {}", first.join("")),
        (_, 0) => format!("zones {}", first.join(", ")),
        _ => format!("zones {} and {more} more", first.join(", ")),
    }
}

/// Every copy of every table on every drive that is read. Roots are compared where those of other pools are.
pub(super) async fn table_findings(look: &RedundantLook) -> Vec<CheckFinding> {
    let view = look.view();
    let mut found = drive_table_findings(look).await;
    let journals: Vec<_> = view.journals().map(|it| StoredRoot::Journal(it.shard)).collect();
    let pages = view.pages().map(|page| StoredRoot::Page(page.page));
    for which in journals.into_iter().chain(pages) {
        let sides = look.sides(which).await;
        let versions = sides.iter().filter_map(|it| it.side.content.as_ref().ok());
        let newest = versions.max_by_key(|(version, _)| *version);
        for it in &sides {
            let code = if matches!(which, StoredRoot::Page(_)) { "row" } else { "journal_copy" };
            let finding = match (&it.side.content, newest) {
                (Err(fault), _) => {
                    let what = format!("the {which} on drive {} is damaged: {fault}", it.drive);
                    CheckFinding::warning(code, what, NEXT_START)
                }
                (Ok(held), Some(newest)) if held.0 == newest.0 && held != newest => {
                    let what =
                        format!("copies of the {which} differ, and all are version {}", held.0);
                    CheckFinding::error(code, what, KEEP)
                }
                (Ok((version, _)), Some((newest, _))) if version < newest => {
                    let drive = it.drive;
                    let what =
                        format!("the {which} on drive {drive} is version {version}, not {newest}");
                    CheckFinding::new(Severity::Note, code, what, NEXT_START)
                }
                _ => continue,
            };
            found.push(at_side(finding, it));
        }
    }
    found
}

/// Each drive numbers versions of its drive table by itself: what they say is compared.
async fn drive_table_findings(look: &RedundantLook) -> Vec<CheckFinding> {
    let table = look.view().drives();
    let mut found = Vec::new();
    for it in look.sides(StoredRoot::DriveTable).await {
        let drive = it.drive;
        let decoded = it.side.content.as_ref().map_err(Clone::clone).and_then(|(_, bytes)| {
            DriveTable::decode(table.pool, bytes).map_err(|fault| fault.to_string())
        });
        let finding = match decoded {
            Err(fault) => {
                let what = format!("the drive table on drive {drive} is damaged: {fault}");
                CheckFinding::warning("drive_table", what, NEXT_START)
            }
            Ok(held) if held != *table => {
                let (held, counts) = (held.epoch, table.epoch);
                let what =
                    format!("the drive table on drive {drive} has epoch {held}, not {counts}");
                CheckFinding::new(Severity::Note, "drive_table", what, NEXT_START)
            }
            Ok(_) => continue,
        };
        found.push(at_side(finding, &it));
    }
    found
}

fn at_side(finding: CheckFinding, side: &DriveSide) -> CheckFinding {
    let place = MediaPlace { path: side.side.path.clone(), offset: side.side.offset };
    finding.at(Some(place), 0)
}

/// Frames of a journal that one of its copies has and another one lacks, although it was written since.
pub(super) async fn journal_findings(look: &RedundantLook) -> Vec<CheckFinding> {
    let mut found = Vec::new();
    for journal in look.view().journals() {
        let copies = journal.copies.iter().filter(|copy| look.has_drive(copy.drive));
        let mut rings = Vec::new();
        for copy in copies {
            match Ring::read(look, journal, copy).await {
                Ok(ring) => rings.push((copy, ring)),
                Err(error) => {
                    let what = format!("the copy on drive {} cannot be read: {error}", copy.drive);
                    let finding = CheckFinding::warning("journal_copy", what, SCRUBBED);
                    found.push(finding.in_shard(journal.shard));
                }
            }
        }
        found.extend(compare_rings(journal.shard, &rings));
    }
    found
}

fn compare_rings(shard: ShardId, rings: &[(&JournalCopy, Ring)]) -> Vec<CheckFinding> {
    let all = || rings.iter().flat_map(|(_, ring)| ring.frames.values());
    let Some(newest) = all().max_by_key(|frame| (frame.mount, frame.frame_seq)) else {
        return Vec::new();
    };
    let is_needed = |frame: &&FrameHeader| {
        frame.mount == newest.mount && frame.frame_seq >= newest.tail.frame_seq
    };
    let needed: BTreeMap<u64, &FrameHeader> =
        all().filter(is_needed).map(|frame| (frame.frame_seq, frame)).collect();
    let mut found = Vec::new();
    for (copy, ring) in rings {
        let lacks = |frame: &&&FrameHeader| {
            copy.has(frame.position) && ring.frames.get(&frame.frame_seq) != Some(**frame)
        };
        let lacking: Vec<u64> = needed.values().filter(lacks).map(|it| it.frame_seq).collect();
        let Some(first) = lacking.first() else { continue };
        let what = format!(
            "the copy on drive {} lacks {} of {} frames that are needed, from {first} on",
            copy.drive,
            lacking.len(),
            needed.len()
        );
        let is_under_way = first + FRAMES_IN_FLIGHT_MAX as u64 > newest.frame_seq;
        let severity = if is_under_way { Severity::Note } else { Severity::Warning };
        found.push(CheckFinding::new(severity, "journal_copy", what, NEXT_START).in_shard(shard));
    }
    found
}

/// The frames that stand whole in a copy of a journal, by number.
struct Ring {
    frames: BTreeMap<u64, FrameHeader>,
}

impl Ring {
    async fn read(
        look: &RedundantLook,
        journal: &JournalRecord,
        copy: &JournalCopy,
    ) -> varve_media::Result<Self> {
        let mut frames: BTreeMap<u64, FrameHeader> = BTreeMap::new();
        let capacity = journal.lane_bytes;
        let mut position = 0;
        while position < capacity {
            let window = usize::try_from(WINDOW_BYTES.min(capacity - position)).expect("1 MiB");
            let bytes = look.read_journal(copy, position, window).await?;
            let mut at = 0;
            while at < window {
                let begins = position + at as u64;
                let header = bytes.get(at..).and_then(|bytes| FrameHeader::decode(bytes).ok());
                let is_here = |header: &FrameHeader| {
                    let len = u64::from(header.frame_bytes);
                    header.shard == journal.shard
                        && header.position % capacity == begins
                        && len <= capacity - begins
                };
                if let Some(header) = header.filter(is_here)
                    && is_whole(look, copy, begins, &header).await?
                {
                    // Of a number that a mount after a loss used again, the newer one counts.
                    let known = frames.get(&header.frame_seq);
                    if known.is_none_or(|known| known.mount < header.mount) {
                        frames.insert(header.frame_seq, header);
                    }
                }
                at += FRAME_ALIGN as usize;
            }
            position += window as u64;
        }
        Ok(Self { frames })
    }
}

async fn is_whole(
    look: &RedundantLook,
    copy: &JournalCopy,
    begins: u64,
    header: &FrameHeader,
) -> varve_media::Result<bool> {
    let bytes = look.read_journal(copy, begins, header.frame_bytes as usize).await?;
    Ok(Frame::decode(&bytes).is_ok_and(|frame| frame.verify_payloads().is_ok()))
}

/// Every strip of every segment that a shard holds.
pub(super) async fn strip_findings(
    look: &RedundantLook,
    shard: &Rc<Shard>,
    watch: &Progress,
    add: &mut dyn FnMut(CheckFinding),
) {
    let contents = shard.zone_contents();
    let table = look.view().drives();
    let each = table.zone_segments;
    for (zone, _) in look.view().rows() {
        let first = SegmentNumber(zone.0 * each);
        let held = contents.held(first, each).unwrap_or_default();
        for held in held.iter().filter(|held| held.is_put) {
            if watch.is_stopped() {
                return;
            }
            let Some(strips) = look.check_segment(held).await else { continue };
            for StripDefect { location, fault } in &strips.defects {
                let code = if fault.is_label() { "label" } else { "strip_damaged" };
                let what = format!("strip {} does not count: {fault}", location.strip);
                let finding = CheckFinding::warning(code, what, SCRUBBED);
                add(at_strip(look, finding, held.id.number, location));
            }
            for location in &strips.parity_wrong {
                let strip = location.strip;
                let what = format!("strip {strip} is not what follows from the data");
                let finding = CheckFinding::warning("parity_wrong", what, SCRUBBED);
                add(at_strip(look, finding, held.id.number, location));
            }
        }
    }
}

fn at_strip(
    look: &RedundantLook,
    finding: CheckFinding,
    number: SegmentNumber,
    location: &StripLocation,
) -> CheckFinding {
    let place = look.place(location.place.drive, location.offset);
    finding.in_segment(number, 0, 0).at(place, 0)
}
