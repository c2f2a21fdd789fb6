//! The check of one shard: recovery, audit, catalogue, segments, and whose the damage is.
//!
//! CHECK-SHARD-1. What can still be checked is, whatever was found before: one damaged page hides no other.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::ops::ControlFlow;
use std::rc::Rc;

use futures_util::future::{Either, select};
use serde::Serialize;
use varve_client::Progress;
use varve_dataset::{CatalogueEntry, is_bucket_content, is_intent_head};
use varve_engine::{
    AuditReport, Damage, DamagedPart, MapItem, OpenPool, Shard, ShardConfig, StoredKey,
    VerifyEvent, VerifyReport, verify_slot,
};
use varve_media::SegmentId;
use varve_reactor::Reactor;
use varve_types::{BlockIndex, ByteCount, ChunkId, Generation, SegmentNumber, ShardId, StreamId};

use crate::offline::{ProbedPool, open_shard};

use super::finding::{CheckFinding, FINDINGS_MAX, Severity};
use super::redundancy;

/// A record of the catalogue that cannot be used: what it says is of something that is there.
const BAD_RECORD: &str = "catalogue";

/// How often a check looks whether it should end, in ns.
const STOP_POLL_NS: u64 = 50_000_000;

/// After so long an opened shard has told the media what its recovery gave back.
const SETTLE_NS: u64 = 1_000_000;

/// Bytes at a segment's begin that are all zero only where there is none.
const HEAD_BYTES: u32 = 64;

const KEEP: &str = "leave what is stored as it is and report this";
const LANE_LOST: &str = "keep what is stored as it is and bring back the journal that the pool wrote last; if it is gone, start the daemon once with --accept-lost-journal, which gives up what only the journal held, on other shards too";
const DATA_LOST: &str = "reads of it fail; write it again or restore it from a copy";
const NOT_NEEDED: &str = "nothing needs these bytes; watch the drive";
const COPIED: &str =
    "nothing is lost: the pool reads it from its second copy and writes it anew; watch the drive";
const RESTORE: &str = "restore the volumes from copies; what can still be read is right";

/// A shard to be checked.
pub(super) struct ShardJob {
    pub(super) reactor: Reactor,
    pub(super) looked: ProbedPool,
    pub(super) config: ShardConfig,
    pub(super) quick: bool,
    /// Slots of the shard that take room by being there, where they do.
    pub(super) listed: Option<Vec<SegmentNumber>>,
}

/// Sums of a shard, for the report.
#[derive(Serialize, Clone, Default, Debug)]
pub(super) struct ShardSummary {
    /// Of several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cell: Option<u16>,
    /// Its number.
    pub(super) shard: u16,
    /// Whether it recovered.
    pub(super) opened: bool,
    pub(super) streams: u64,
    pub(super) chunks: u64,
    pub(super) pages: u64,
    pub(super) live_bytes: u64,
    /// Chunks and pages that wait for the next mark pass.
    pub(super) unreachable: u64,
    pub(super) segments_verified: u64,
    pub(super) bytes_verified: u64,
    pub(super) units_verified: u64,
}

/// What the check of a shard came to.
pub(super) struct ShardOutcome {
    pub(super) shard: ShardId,
    pub(super) summary: ShardSummary,
    pub(super) findings: Vec<CheckFinding>,
    pub(super) catalogue: Vec<CatalogueEntry>,
    /// Streams that have anything on the shard.
    pub(super) streams: Vec<StreamId>,
    /// Whether the pool has other shards, which may name its shared chunks.
    pub(super) has_others: bool,
    pub(super) audit: Option<AuditReport>,
    /// Whether every volume of the shard's catalogue was seen.
    pub(super) is_catalogue_known: bool,
    /// Segments that are there and that nothing uses, where they take room by being there.
    pub(super) unused_objects: u64,
    /// Segments in use that are not there.
    pub(super) missing_objects: u64,
}

impl ShardOutcome {
    fn new(shard: ShardId) -> Self {
        Self {
            shard,
            summary: ShardSummary { shard: shard.0, ..ShardSummary::default() },
            findings: Vec::new(),
            catalogue: Vec::new(),
            streams: Vec::new(),
            has_others: false,
            audit: None,
            is_catalogue_known: false,
            unused_objects: 0,
            missing_objects: 0,
        }
    }

    /// Whether a chunk may be held by what other shards have: these are not looked through for it.
    fn may_be_named_elsewhere(&self, chunk: ChunkId) -> bool {
        self.has_others && self.audit.as_ref().is_none_or(|audit| audit.is_shared(chunk))
    }

    /// Takes over what the audit found, once it was compared with other shards'.
    pub(super) fn take_audit(&mut self) {
        let Some(report) = self.audit.take() else { return };
        self.summary.chunks = report.chunks;
        self.summary.pages = report.pages + report.table_pages;
        self.summary.live_bytes = report.live_bytes;
        self.summary.unreachable = report.unreachable;
        for difference in &report.differences {
            let finding = CheckFinding::error("audit", difference.clone(), KEEP);
            self.findings.push(finding.in_shard(self.shard));
        }
        let left_out = report.difference_count - report.differences.len() as u64;
        if left_out > 0 {
            let what = format!("the accounts contradict each other in {left_out} more places");
            let finding = CheckFinding::error("audit", what, KEEP).in_shard(self.shard);
            self.findings.push(finding);
        }
    }

    /// The outcome of a shard that could not be checked at all.
    pub(super) fn failed(shard: ShardId, finding: CheckFinding) -> Self {
        Self { findings: vec![finding], ..Self::new(shard) }
    }
}

impl fmt::Display for ShardSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(cell) = self.cell {
            write!(f, "cell {cell}, ")?;
        }
        write!(f, "shard {}: ", self.shard)?;
        if !self.opened {
            return f.write_str("does not open");
        }
        write!(
            f,
            "{} streams, {} chunks, {} pages, {} live",
            self.streams,
            self.chunks,
            self.pages,
            ByteCount(self.live_bytes)
        )?;
        if self.unreachable > 0 {
            write!(f, ", {} chunks and pages wait for mark", self.unreachable)?;
        }
        if self.segments_verified > 0 {
            let bytes = ByteCount(self.bytes_verified);
            write!(f, ", {bytes} in {} segments verified", self.segments_verified)?;
        }
        Ok(())
    }
}

/// Damage that somebody needs, until it is known who.
#[derive(Default)]
struct NeededDamage {
    damage: Vec<Damage>,
    /// Index into `damage`.
    of_chunk: HashMap<ChunkId, usize>,
    more: u64,
}

impl ShardJob {
    /// Checks until it is done or stopped.
    pub(super) async fn run(self, watch: Progress) -> ShardOutcome {
        let outcome = Rc::new(RefCell::new(ShardOutcome::new(self.config.shard)));
        let reactor = self.reactor.clone();
        let stopped = watch.clone();
        let stopped = Box::pin(async move {
            while !stopped.is_stopped() {
                reactor.sleep(STOP_POLL_NS).await;
            }
        });
        let work = Box::pin(self.check(Rc::clone(&outcome), watch));
        match select(work, stopped).await {
            Either::Left(_) | Either::Right(_) => {}
        }
        let empty = ShardOutcome::new(outcome.borrow().shard);
        outcome.replace(empty)
    }

    async fn check(self, outcome: Rc<RefCell<ShardOutcome>>, watch: Progress) {
        let id = self.config.shard;
        let add = |finding: CheckFinding| outcome.borrow_mut().findings.push(finding.in_shard(id));
        watch.say(format!("shard {id}: recovery"));
        let media = match self.looked.media(id) {
            Ok(media) => media,
            Err(error) => return add(CheckFinding::error("media", error.to_string(), KEEP)),
        };
        let pool = match OpenPool::open(&media).await {
            Ok(pool) => pool,
            Err(error) => return add(recovery_finding(&error)),
        };
        outcome.borrow_mut().has_others = pool.placements().iter().any(|shards| *shards > 1);
        // What a shard names of others is compared when all have been looked at.
        let opened =
            open_shard(&self.reactor, media.clone(), &pool, self.config.clone(), None).await;
        let shard = match opened {
            Ok(shard) => shard,
            Err(error) => {
                add(recovery_finding(&error));
                if !self.quick {
                    self.verify_slots(&pool, &media, &outcome, &watch).await; // CHECK-SHARD-1
                }
                return;
            }
        };
        outcome.borrow_mut().summary.opened = true;
        if let Some(listed) = &self.listed {
            self.compare_listed(&shard, &media, listed, &outcome).await;
        }
        watch.say(format!("shard {id}: audit"));
        let audited = shard.audit().await;
        let is_audited = audited.is_ok();
        match audited {
            Ok(report) => outcome.borrow_mut().audit = Some(report),
            Err(error) => add(CheckFinding::error("audit", error.to_string(), RESTORE)),
        }
        watch.say(format!("shard {id}: keys"));
        match shard.streams().await {
            Ok(streams) => {
                outcome.borrow_mut().summary.streams = streams.len() as u64;
                outcome.borrow_mut().streams = streams;
            }
            Err(error) => add(CheckFinding::error("streams", error.to_string(), RESTORE)),
        }
        check_keys(&shard, &outcome).await;
        let mut needed = NeededDamage::default();
        if !self.quick {
            watch.say(format!("shard {id}: segments"));
            watch.expect_bytes(shard.verify_bytes_max());
            let verified = self.verify(&shard, &outcome, &watch, &mut needed).await;
            if let Some(report) = verified {
                let mut outcome = outcome.borrow_mut();
                outcome.summary.segments_verified = report.segments;
                outcome.summary.bytes_verified = report.bytes_read;
                outcome.summary.units_verified = report.units;
            }
            if let ProbedPool::Redundant(probe) = &self.looked {
                watch.say(format!("shard {id}: strips"));
                let mut add = |finding: CheckFinding| add(finding);
                redundancy::strip_findings(probe.drives(), &shard, &watch, &mut add).await;
            }
        }
        if !is_audited || !needed.damage.is_empty() {
            watch.say(format!("shard {id}: owners of damage"));
            self.find_owners(&shard, needed, &outcome).await;
        }
    }

    /// Compares the slots that are there with those that the shard uses.
    async fn compare_listed(
        &self,
        shard: &Shard,
        media: &varve_media::Media,
        listed: &[SegmentNumber],
        outcome: &RefCell<ShardOutcome>,
    ) {
        // Where nothing was put by now, in the overlay or below.
        let is_empty = async |id: SegmentId| {
            let head = media.segments.get(id, 0, HEAD_BYTES).await;
            head.is_ok_and(|head| head.iter().all(|byte| *byte == 0))
        };
        let unused: Vec<_> =
            listed.iter().copied().filter(|number| shard.is_segment_unused(*number)).collect();
        self.reactor.sleep(SETTLE_NS).await;
        let mut unused_count = 0;
        for number in unused {
            // What recovery itself gave back was in use until then, and is deleted in the overlay.
            if is_empty(SegmentId { number, generation: Generation::ZERO }).await {
                continue;
            }
            unused_count += 1;
            let what = format!("nothing uses segment {number}");
            let advice = "nothing: the next start of the daemon deletes it";
            let finding = CheckFinding::new(Severity::Note, "object_unused", what, advice);
            outcome.borrow_mut().findings.push(self.at_segment(finding, number, 0, 0));
        }
        let listed: HashSet<_> = listed.iter().copied().collect();
        let mut missing = 0;
        for id in shard.segments_to_verify() {
            // Recovery may have made it, in the overlay.
            if !listed.contains(&id.number) && is_empty(id).await {
                missing += 1;
                let what = format!("segment {} is in use, and is not there", id.number);
                let finding = CheckFinding::error("object_missing", what, RESTORE);
                outcome.borrow_mut().findings.push(self.at_segment(finding, id.number, 0, 0));
            }
        }
        let mut outcome = outcome.borrow_mut();
        outcome.unused_objects = unused_count;
        outcome.missing_objects = missing;
    }

    async fn verify(
        &self,
        shard: &Rc<Shard>,
        outcome: &RefCell<ShardOutcome>,
        watch: &Progress,
        needed: &mut NeededDamage,
    ) -> Option<VerifyReport> {
        let mut observe = |event| {
            match event {
                VerifyEvent::Read(bytes) => watch.did_bytes(bytes),
                VerifyEvent::Damage(damage) => {
                    let chunk = match damage.part {
                        DamagedPart::Chunk(chunk) | DamagedPart::Page(chunk) => Some(chunk),
                        _ => None,
                    };
                    match chunk {
                        // Told already: a segment may be verified a second time, from the table.
                        Some(chunk) if needed.of_chunk.contains_key(&chunk) => {}
                        Some(chunk) if damage.is_needed && needed.damage.len() < FINDINGS_MAX => {
                            needed.of_chunk.insert(chunk, needed.damage.len());
                            needed.damage.push(damage);
                        }
                        Some(_) if damage.is_needed => needed.more += 1,
                        _ => {
                            let finding = self.damage_finding(&damage);
                            outcome.borrow_mut().findings.push(finding);
                        }
                    }
                }
            }
            if watch.is_stopped() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        match shard.verify(&mut observe).await {
            Ok(report) => Some(report),
            Err(error) => {
                let finding = CheckFinding::error("verify", error.to_string(), KEEP);
                outcome.borrow_mut().findings.push(finding.in_shard(self.config.shard));
                None
            }
        }
    }

    fn damage_finding(&self, damage: &Damage) -> CheckFinding {
        let (code, part, advice) = match damage.part {
            DamagedPart::Header => ("header_damaged", "header".to_owned(), RECLAIM_STOPS),
            DamagedPart::Summary => ("summary_damaged", "summary".to_owned(), RECLAIM_STOPS),
            DamagedPart::Range => ("range_unreadable", "range".to_owned(), NOT_NEEDED),
            DamagedPart::Chunk(chunk) => ("chunk_damaged", format!("chunk {chunk}"), DATA_LOST),
            DamagedPart::Page(page) => ("page_damaged", format!("metadata page {page}"), RESTORE),
            DamagedPart::TablePage => {
                ("page_damaged", "page of the chunk table".to_owned(), RESTORE)
            }
            DamagedPart::UsageBlob => ("page_damaged", "account of segments".to_owned(), RESTORE),
            DamagedPart::DeathBlob => ("page_damaged", "account of deaths".to_owned(), RESTORE),
            DamagedPart::DeltaBlob => {
                ("page_damaged", "account of waiting map updates".to_owned(), RESTORE)
            }
            DamagedPart::KeyRecord => ("record_damaged", "key record".to_owned(), NOT_NEEDED),
            DamagedPart::Copy(of) => {
                ("copy_damaged", format!("second copy of segment {of}"), NOT_NEEDED)
            }
        };
        let what = format!("{part} is damaged: {}", damage.reason);
        let finding = if damage.is_needed {
            CheckFinding::error(code, what, advice)
        } else if damage.is_copied {
            CheckFinding::warning(code, what, COPIED)
        } else {
            CheckFinding::warning(code, what, NOT_NEEDED) // CHECK-2
        };
        self.at_segment(finding, damage.segment.number, damage.offset, damage.len)
    }

    fn at_segment(
        &self,
        finding: CheckFinding,
        number: SegmentNumber,
        offset: u32,
        len: u32,
    ) -> CheckFinding {
        let place = self.looked.segment_place(self.config.shard, number);
        finding
            .in_shard(self.config.shard)
            .in_segment(number, offset, len)
            .at(place, u64::from(offset))
    }

    /// Says which blocks are lost with damaged chunks and pages.
    async fn find_owners(
        &self,
        shard: &Rc<Shard>,
        needed: NeededDamage,
        outcome: &RefCell<ShardOutcome>,
    ) {
        let mut owners: Vec<Option<(StreamId, BlockIndex)>> = vec![None; needed.damage.len()];
        let mut is_hidden = false;
        let streams = outcome.borrow().streams.clone();
        for stream in streams {
            let mut found = Vec::new();
            let mut visit = |item: MapItem| {
                match item {
                    MapItem::Data { block, home, chunk } if home == self.config.shard => {
                        if let Some(index) = needed.of_chunk.get(&chunk) {
                            owners[*index] = Some((stream, block));
                        }
                    }
                    MapItem::Unreadable { blocks, error, .. } => found.push((blocks, error)),
                    MapItem::Data { .. } | MapItem::Page { .. } => {}
                }
                if found.len() < FINDINGS_MAX {
                    ControlFlow::Continue(())
                } else {
                    ControlFlow::Break(())
                }
            };
            let walked = shard.walk_map(stream, BlockIndex::ZERO, &mut visit).await;
            is_hidden |= walked.is_err() || !found.is_empty();
            let mut outcome = outcome.borrow_mut();
            if let Err(error) = walked {
                let finding = CheckFinding::error("stream", error.to_string(), RESTORE);
                outcome.findings.push(finding.in_shard(self.config.shard));
            }
            for (blocks, error) in found {
                let count = blocks.end - blocks.start;
                let finding = CheckFinding::error("map_unreadable", error.to_string(), RESTORE)
                    .in_shard(self.config.shard)
                    .in_stream(stream, blocks.start, count);
                outcome.findings.push(finding);
            }
        }
        let mut outcome = outcome.borrow_mut();
        for (damage, owner) in needed.damage.iter().zip(owners) {
            let finding = self.damage_finding(damage);
            let is_own = |chunk| !outcome.may_be_named_elsewhere(chunk);
            let is_data = matches!(damage.part, DamagedPart::Chunk(chunk) if is_own(chunk));
            outcome.findings.push(match owner {
                Some((stream, block)) => finding.in_stream(stream, block, 1),
                // No map names it, and all maps that could were seen: it waits for mark.
                None if is_data && !is_hidden => {
                    CheckFinding { severity: Severity::Warning, advice: NOT_NEEDED, ..finding }
                }
                None => finding,
            });
        }
        if needed.more > 0 {
            let what = format!("{} more chunks are damaged", needed.more);
            let finding = CheckFinding::error("chunk_damaged", what, DATA_LOST);
            outcome.findings.push(finding.in_shard(self.config.shard));
        }
    }

    /// What can be said of the segments of a shard that does not open: which of them are needed is unknown.
    async fn verify_slots(
        &self,
        pool: &OpenPool,
        media: &varve_media::Media,
        outcome: &RefCell<ShardOutcome>,
        watch: &Progress,
    ) {
        let zones = match pool.zones_of(self.config.shard).await {
            Ok(zones) => zones,
            Err(error) => {
                let finding = CheckFinding::error("pool_root", error.to_string(), KEEP);
                outcome.borrow_mut().findings.push(finding.in_shard(self.config.shard));
                return;
            }
        };
        let segment_bytes = u64::from(media.segments.geometry().segment_bytes);
        let count: u64 = zones.iter().map(|zone| u64::from(zone.count)).sum();
        watch.say(format!("shard {}: segments", self.config.shard));
        watch.expect_bytes(count * segment_bytes);
        let numbers = zones.iter().flat_map(|zone| zone.first.0..zone.first.0 + zone.count);
        for number in numbers.map(SegmentNumber) {
            let advice = "the shard does not open, so it is unknown whether anything needs it";
            match verify_slot(media, &self.config, number).await {
                Ok(found) => {
                    for damage in found {
                        let finding = self.damage_finding(&damage);
                        let severity = Severity::Warning;
                        let finding = CheckFinding { severity, advice, ..finding };
                        outcome.borrow_mut().findings.push(finding);
                    }
                }
                Err(error) => {
                    let finding =
                        CheckFinding::warning("range_unreadable", error.to_string(), advice);
                    let finding = self.at_segment(finding, number, 0, 0);
                    outcome.borrow_mut().findings.push(finding);
                }
            }
            watch.did_bytes(segment_bytes);
        }
    }
}

const RECLAIM_STOPS: &str =
    "the segment's space cannot be reclaimed; move its volumes elsewhere and delete them here";

/// Reads the whole key tree; every record in it must decode.
async fn check_keys(shard: &Shard, outcome: &RefCell<ShardOutcome>) {
    let id = outcome.borrow().shard;
    let (mut from, mut is_known) = (Vec::new(), true);
    loop {
        let (entries, next) = match shard.stored_keys(&from).await {
            Ok(read) => read,
            Err(error) => {
                let what =
                    format!("the key tree cannot be read from {}: {error}", from.escape_ascii());
                let finding = CheckFinding::error("keys", what, RESTORE).in_shard(id);
                outcome.borrow_mut().findings.push(finding);
                return;
            }
        };
        for (key, value) in entries {
            let mut outcome = outcome.borrow_mut();
            if let Some(finding) = take_key(&key, &value, &mut outcome) {
                is_known &= finding.code != BAD_RECORD;
                outcome.findings.push(finding.in_shard(id));
            }
        }
        match next {
            Some(next) => from = next,
            None => break,
        }
    }
    outcome.borrow_mut().is_catalogue_known = is_known;
}

fn take_key(key: &[u8], value: &[u8], outcome: &mut ShardOutcome) -> Option<CheckFinding> {
    match Shard::stored_key_name(key) {
        StoredKey::Stream(stream) => {
            let error = varve_logstore::format::stream::StreamRecord::decode(value).err()?;
            let what = format!("the record of stream {stream} cannot be used: {error}");
            Some(CheckFinding::error("stream_record", what, RESTORE))
        }
        StoredKey::Reservation(stream) => {
            let error =
                varve_logstore::format::reservation::ReservationRecord::decode(value).err()?;
            let what = format!("what is reserved for stream {stream} cannot be read: {error}");
            Some(CheckFinding::error("reservation_record", what, KEEP))
        }
        StoredKey::User(user) => match CatalogueEntry::decode(user, value) {
            Some(Ok(entry)) => {
                outcome.catalogue.push(entry);
                None
            }
            Some(Err(error)) => Some(CheckFinding::error(BAD_RECORD, error.to_string(), KEEP)),
            None if is_intent_head(user) || is_bucket_content(user) => None,
            None => {
                let what = format!("key \"{}\" is of no kind that is known", user.escape_ascii());
                Some(CheckFinding::warning(
                    "key_unknown",
                    what,
                    "check the pool with a newer version",
                ))
            }
        },
        StoredKey::Unknown(key) => {
            let what = format!("key \"{}\" has an unknown owner", key.escape_ascii());
            Some(CheckFinding::error("key_unknown", what, KEEP))
        }
    }
}

/// Why a shard does not open, by cause.
fn recovery_finding(error: &varve_engine::Error) -> CheckFinding {
    use varve_engine::Error as Engine;
    use varve_logstore::Error as Log;
    let (code, advice) = match error {
        Engine::Log(Log::LaneDamaged { .. }) => ("lane_damaged", LANE_LOST),
        Engine::Log(Log::LaneLost { .. } | Log::LaneEndLost { .. }) => ("lane_lost", LANE_LOST),
        Engine::Log(Log::ChainBroken { .. }) => ("chain_broken", KEEP),
        Engine::Log(Log::Media(varve_media::Error::OverlayFull { .. })) => {
            ("overlay_full", "give it more memory with --overlay")
        }
        Engine::Log(Log::Media(_)) => {
            ("media", "see whether the drive works; copy it before it fails")
        }
        Engine::PageCorrupt { .. } => ("page_damaged", KEEP),
        Engine::SegmentDamaged { .. } | Engine::ChunkCorrupt { .. } => ("segment_damaged", KEEP),
        Engine::BadRoot { .. } | Engine::BadPoolRoot { .. } | Engine::NoPool => ("root", KEEP),
        _ => ("recovery", KEEP),
    };
    CheckFinding::error(code, format!("the shard does not open: {error}"), advice)
}
