//! The check of a pool, cell by cell: what its drives have in common, its shards one by one, and what only all of them
//! together tell.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::panic::{AssertUnwindSafe, catch_unwind};

use varve_client::{Failure, Progress};
use varve_dataset::{CatalogueItem, volume_of};
use varve_dispatch::Placement;
use varve_engine::AuditReport;
use varve_logstore::format::pool::PoolRoot;
use varve_media::{PoolFigures, RootKey, RootSide, SuperblockCopy};
use varve_media_rados::PoolListing;
use varve_types::{ShardId, StreamId};

use crate::offline::{OfflinePlace, OfflinePool, ProbedPool, RedundantPlace};

use super::finding::{CheckFinding, FILE_MISSING, Severity};
use super::redundancy;
use super::register::{self, NamesOfCell};
use super::report::{CheckReport, ObjectSummary};
use super::shard::{ShardJob, ShardOutcome};

/// Version of the report's form.
const REPORT_VERSION: u32 = 1;

const KEEP: &str = "leave what is stored as it is and report this";
const PUT_BACK: &str =
    "put it back where it was, or restore the drive from a copy: the pool does not open without it";
const REWRITTEN: &str = "the next start of the daemon rewrites it; watch the drive";

/// What is to be checked, and how.
pub struct Check {
    /// Of one pool.
    pub cells: Vec<OfflinePool>,
    /// Metadata only.
    pub quick: bool,
    /// Most memory for what recovery writes.
    pub overlay_bytes_max: u64,
}

impl Check {
    /// Runs to the end, or until Ctrl-C.
    pub fn run(&self) -> CheckReport {
        let mut report =
            CheckReport { version: REPORT_VERSION, quick: self.quick, ..CheckReport::default() };
        let watch = Progress::start();
        let mut names = Vec::new();
        for cell in &self.cells {
            if watch.is_stopped() {
                break;
            }
            let mut of_cell = CheckReport::default();
            let found = CellCheck { pool: cell, of: self }.run(&watch, &mut of_cell);
            names.push(NamesOfCell { cell: cell.cell(), volumes: found });
            report.take_cell(of_cell, cell.cell());
        }
        if let Some(OfflinePlace::Rados(look)) = self.cells.first().map(|cell| &cell.place) {
            report.pool = Some(look.whole().to_string());
            if usize::from(look.cells()) == names.len() && !watch.is_stopped() {
                watch.say("names");
                register::judge(look.entries(), &names, &mut report);
            }
        }
        report.findings.sort_by_key(|finding| finding.severity);
        report.stopped = watch.is_stopped();
        report.taken = self.cells.iter().any(|cell| match &cell.place {
            OfflinePlace::Drives(_) | OfflinePlace::Redundant(_) => false,
            // Who cannot be asked any more may serve it as well.
            OfflinePlace::Rados(look) => look.was_taken().unwrap_or(true),
        });
        watch.end();
        report
    }
}

/// The check of a cell, which is the whole pool where that has no several.
struct CellCheck<'a> {
    pool: &'a OfflinePool,
    of: &'a Check,
}

impl CellCheck<'_> {
    /// What the pool lies on. `None` where nothing more can be checked.
    fn check_place(&self, watch: &Progress, report: &mut CheckReport) -> Option<()> {
        watch.say("superblocks");
        check_superblocks(&self.pool.superblock_copies().unwrap_or_default(), report);
        match &self.pool.place {
            OfflinePlace::Drives(inspection) => {
                for missing in inspection.missing_files() {
                    report.add(CheckFinding::error(FILE_MISSING, missing.to_string(), PUT_BACK));
                }
            }
            // CHECK-REDUNDANCY-1
            OfflinePlace::Redundant(place) => self.check_drives(place, watch, report)?,
            OfflinePlace::Rados(_) => {}
        }
        Some(())
    }

    /// The whole names of the volumes in it, where all are known.
    fn run(&self, watch: &Progress, report: &mut CheckReport) -> Option<BTreeSet<String>> {
        self.check_place(watch, report)?;
        let figures = match self.pool.figures() {
            Ok(figures) => figures,
            Err(error) => {
                let what = error.to_string();
                report.add(CheckFinding::error("superblock", what, KEEP));
                return None;
            }
        };
        report.pool = Some(figures.pool.to_string());
        if report.lacks_files() {
            return None; // What it lacks is no damage of what is there, and nothing can be opened.
        }
        watch.say("roots");
        let roots = self.pool.on_loop(self.of.overlay_bytes_max, |_, looked| {
            Box::pin(async move { read_roots(&looked, figures.lane_count).await })
        });
        let roots = roots.and_then(|roots| roots.map_err(|error| Failure::new(error.to_string())));
        let roots = match roots {
            Ok(roots) => roots,
            Err(failure) => {
                report.add(CheckFinding::error("drives", failure.what(), KEEP));
                return None;
            }
        };
        let mut pool_root = None;
        for (key, sides) in &roots {
            let newest = judge_root(*key, sides, report);
            if *key == RootKey::Pool {
                pool_root = newest.and_then(|bytes| judge_pool_root(&bytes, &figures, report));
            }
        }
        let pool_root = pool_root?;
        let shard_count = pool_root.placements.iter().copied().max().unwrap_or(0);
        let listing = self.list(shard_count, watch, report);
        let mut outcomes = Vec::new();
        // CHECK-1
        for shard in (0..shard_count).map(ShardId) {
            if watch.is_stopped() {
                break;
            }
            outcomes.push(self.check_shard(shard, &figures, listing.as_ref(), watch));
        }
        compare_shards(&mut outcomes, shard_count);
        watch.say("volumes");
        if !watch.is_stopped() {
            judge_volumes(&pool_root, &outcomes, report);
        }
        let names = volume_names(&outcomes);
        let volumes = all_volumes(&outcomes, shard_count);
        for outcome in outcomes {
            if let Some(objects) = &mut report.objects {
                objects.unused += outcome.unused_objects;
                objects.missing += outcome.missing_objects;
            }
            for mut finding in outcome.findings {
                finding.volume = finding.stream.and_then(|stream| names.get(&stream).cloned());
                report.add(finding);
            }
            report.shards.push(outcome.summary);
        }
        volumes
    }

    /// Judges drives, tables and journals of a redundant pool; `None` when the drives do not agree.
    fn check_drives(
        &self,
        place: &RedundantPlace,
        watch: &Progress,
        report: &mut CheckReport,
    ) -> Option<()> {
        watch.say("drives");
        match &place.surveyed {
            Ok(surveyed) => {
                redundancy::drive_findings(surveyed).into_iter().for_each(|it| report.add(it));
            }
            Err(error) => {
                report.pool = Some(place.inspection.pool().to_string());
                report.add(redundancy::survey_finding(error));
                return None;
            }
        }
        let found = self.pool.on_loop(self.of.overlay_bytes_max, |_, looked| {
            Box::pin(async move {
                let ProbedPool::Redundant(probe) = looked else { return Vec::new() };
                let mut found = redundancy::table_findings(probe.drives()).await;
                found.extend(redundancy::journal_findings(probe.drives()).await);
                found
            })
        });
        match found {
            Ok(found) => found.into_iter().for_each(|it| report.add(it)),
            Err(failure) => {
                report.add(CheckFinding::error("drives", failure.what(), KEEP));
                return None;
            }
        }
        Some(())
    }

    /// Lists the objects of a pool that is made of some, and judges those that are of no shard.
    fn list(
        &self,
        shard_count: u16,
        watch: &Progress,
        report: &mut CheckReport,
    ) -> Option<PoolListing> {
        let OfflinePlace::Rados(look) = &self.pool.place else { return None };
        watch.say("objects");
        let listing = match look.list() {
            Ok(listing) => listing,
            Err(failure) => {
                report.add(CheckFinding::error("objects", failure.what(), KEEP));
                return None;
            }
        };
        report.objects = Some(judge_objects(&listing, shard_count, report));
        Some(listing)
    }

    /// A panic of the code that is run on what is stored is a finding like others.
    fn check_shard(
        &self,
        shard: ShardId,
        figures: &PoolFigures,
        listing: Option<&PoolListing>,
        watch: &Progress,
    ) -> ShardOutcome {
        let config = self.pool.shard_config(figures, shard);
        let listed =
            listing.map(|listing| listing.segments.get(&shard).cloned().unwrap_or_default());
        let checked = catch_unwind(AssertUnwindSafe(|| {
            self.pool.on_loop(self.of.overlay_bytes_max, |reactor, looked| {
                let quick = self.of.quick;
                let job = ShardJob { reactor, looked, config, quick, listed };
                let watch = watch.clone();
                Box::pin(async move { job.run(watch).await })
            })
        }));
        let finding = match checked {
            Ok(Ok(outcome)) => return outcome,
            Ok(Err(failure)) => CheckFinding::error("drives", failure.what(), KEEP),
            Err(_) => CheckFinding::error(
                "panic",
                "the shard's own code panicked on what is stored; the message is on standard error",
                KEEP,
            ),
        };
        ShardOutcome::failed(shard, finding.in_shard(shard))
    }
}

fn check_superblocks(copies: &[&SuperblockCopy], report: &mut CheckReport) {
    for copy in copies.iter().copied() {
        let what = match &copy.content {
            Err(fault) => format!("copy {} of the superblock is damaged: {fault}", copy.copy),
            Ok(_) if !copy.agrees => {
                format!("copy {} of the superblock says something else than the others", copy.copy)
            }
            Ok(_) => continue,
        };
        let sound = |other: &&&SuperblockCopy| {
            other.path == copy.path && other.agrees && other.content.is_ok()
        };
        let mut finding = match copies.iter().filter(sound).count() {
            // Fewer than two may be wrong as well, and a start takes none.
            0 | 1 => CheckFinding::error("superblock_copy", what, KEEP),
            _ => CheckFinding::warning("superblock_copy", what, REWRITTEN),
        };
        finding.path = Some(copy.path.clone());
        finding.path_offset = Some(copy.offset);
        report.add(finding);
    }
}

/// What is there of no shard, and what every pool has and is not there.
fn judge_objects(
    listing: &PoolListing,
    shard_count: u16,
    report: &mut CheckReport,
) -> ObjectSummary {
    let at =
        |finding: CheckFinding, path: &str| CheckFinding { path: Some(path.to_owned()), ..finding };
    for path in &listing.unknown {
        let what = format!("nothing of the pool has the object {path}");
        let advice = "a newer version may know it; nothing else deletes it: `rados rm`";
        report.add(at(CheckFinding::warning("object_unknown", what, advice), path));
    }
    for path in &listing.missing {
        let what = format!("the object {path} is not there");
        report.add(at(CheckFinding::error("object_missing", what, KEEP), path));
    }
    let mut unused = 0;
    for (shard, slots) in listing.segments.range(ShardId(shard_count)..) {
        unused += slots.len() as u64;
        for slot in slots {
            let what = format!("nothing uses segment {slot} of a shard that does not exist");
            let advice = "nothing deletes it until there is such a shard: `rados rm`";
            let finding = CheckFinding::warning("object_unused", what, advice);
            report.add(finding.in_shard(*shard).in_segment(*slot, 0, 0));
        }
    }
    ObjectSummary {
        data_objects: listing.data_objects,
        meta_objects: listing.meta_objects,
        segments: listing.segments.values().map(|slots| slots.len() as u64).sum(),
        unused,
        unknown: listing.unknown.len() as u64,
        missing: listing.missing.len() as u64,
    }
}

/// Compares what shards name of each other with what they have, as far as all were looked at.
fn compare_shards(outcomes: &mut [ShardOutcome], shard_count: u16) {
    let take = |outcome: &mut ShardOutcome| Some((outcome.shard, outcome.audit.take()?));
    let mut audits: Vec<_> = outcomes.iter_mut().filter_map(take).collect();
    AuditReport::compare(&mut audits, shard_count);
    for (shard, audit) in audits {
        let of = |outcome: &&mut ShardOutcome| outcome.shard == shard;
        let outcome = outcomes.iter_mut().find(of).expect("it was taken from there");
        outcome.audit = Some(audit);
        outcome.take_audit();
    }
}

async fn read_roots(
    looked: &ProbedPool,
    lane_count: u16,
) -> varve_media::Result<Vec<(RootKey, Vec<RootSide>)>> {
    let shards = (0..lane_count).map(|shard| RootKey::Shard(ShardId(shard)));
    let mut roots = Vec::new();
    for key in std::iter::once(RootKey::Pool).chain(shards) {
        roots.push((key, looked.root_sides(key).await?));
    }
    Ok(roots)
}

/// Compares the sides of a root; returns the newest contents.
fn judge_root(key: RootKey, sides: &[RootSide], report: &mut CheckReport) -> Option<Vec<u8>> {
    let at = |finding: CheckFinding, side: &RootSide| CheckFinding {
        path: Some(side.path.clone()),
        path_offset: Some(side.offset),
        shard: match key {
            RootKey::Pool => None,
            RootKey::Shard(shard) => Some(shard.0),
        },
        ..finding
    };
    let readable = || sides.iter().filter_map(|side| side.content.as_ref().ok());
    let Some((newest, contents)) = readable().max_by_key(|(version, _)| *version) else {
        let faults = sides.iter().filter_map(|side| side.content.as_ref().err());
        let faults: Vec<_> = faults.map(String::as_str).collect();
        let what = format!("the root {key} cannot be read: {}", faults.join("; "));
        let finding = CheckFinding::error("root", what, KEEP);
        report.add(match sides.first() {
            Some(side) => at(finding, side),
            None => finding,
        });
        return None;
    };
    for side in sides {
        let finding = match &side.content {
            Err(fault) => {
                let number = side.side;
                let what = format!(
                    "side {number} of the root {key} is damaged: {fault}; the other holds version {newest}"
                );
                CheckFinding::warning("root_side", what, REWRITTEN)
            }
            Ok((version, bytes)) if version == newest && bytes != contents => {
                let what =
                    format!("the sides of the root {key} differ, and both are version {version}");
                CheckFinding::error("root_sides", what, KEEP)
            }
            Ok((version, _)) if version < newest => {
                let what =
                    format!("the sides of the root {key} are versions {version} and {newest}");
                let advice =
                    "nothing: a replacement was cut short, and the next start completes it";
                CheckFinding::new(Severity::Note, "root_sides", what, advice)
            }
            Ok(_) => continue,
        };
        report.add(at(finding, side));
    }
    Some(contents.clone())
}

fn judge_pool_root(
    bytes: &[u8],
    figures: &PoolFigures,
    report: &mut CheckReport,
) -> Option<PoolRoot> {
    let bad = |what: String| CheckFinding::error("pool_root", what, KEEP);
    if bytes.is_empty() {
        let advice = "start the daemon, which makes it";
        let what = "the pool was never finished: it has no root";
        report.add(CheckFinding::new(Severity::Note, "pool_root", what, advice));
        return None;
    }
    let root = match PoolRoot::decode(bytes) {
        Ok(root) => root,
        Err(error) => {
            report.add(bad(format!("the root of the pool cannot be used: {error}")));
            return None;
        }
    };
    let shard_count = root.placements.iter().copied().max().unwrap_or(0);
    let covered = root.zone_owners.len() as u64 * u64::from(root.zone_segments);
    if root.pool != figures.pool {
        report.add(bad(format!("its root belongs to pool {}", root.pool)));
    }
    if root.segment_bytes != figures.segment_bytes || covered > figures.segment_count {
        report.add(bad("the root of the pool describes other segments than there are".to_owned()));
    }
    if shard_count == 0 || shard_count > figures.lane_count {
        let lanes = figures.lane_count;
        report.add(bad(format!("the pool has {shard_count} shards and {lanes} lanes")));
        return None;
    }
    for (zone, owner) in root.zone_owners.iter().enumerate() {
        if let Some(owner) = owner.shard()
            && owner.0 >= shard_count
        {
            report.add(bad(format!("zone {zone} belongs to shard {owner}, which does not exist")));
        }
    }
    Some(root)
}

/// What the catalogues say together, and against what the shards hold.
fn judge_volumes(root: &PoolRoot, outcomes: &[ShardOutcome], report: &mut CheckReport) {
    let placement = Placement::new(root.placements.clone());
    let mut owners: HashMap<StreamId, String> = HashMap::new();
    for outcome in outcomes {
        for entry in &outcome.catalogue {
            let (name, stream) = (entry.name(), entry.route.stream);
            let bad = |what: String| {
                let advice = "export the volume, delete it and create it anew";
                CheckFinding::error("catalogue", what, advice).in_shard(outcome.shard)
            };
            if let Some(home) = entry.home(&placement).filter(|home| *home != outcome.shard) {
                report.add(bad(format!("the record of {name} belongs to shard {home}")));
            }
            if usize::from(entry.route.placement.generation) >= root.placements.len() {
                let generation = entry.route.placement.generation;
                let what = format!("{name} has placement {generation}, which does not exist");
                report.add(bad(what));
            }
            if stream >= root.next_stream {
                let next = root.next_stream;
                report.add(bad(format!("{name} is stream {stream}; the next is {next}")));
            }
            // An intent may stand beside the record that came of it.
            if let Some(other) = owners.insert(stream, name.to_owned())
                && other != name
            {
                report.add(bad(format!("{other} and {name} are both stream {stream}")));
            }
        }
    }
    if outcomes.iter().any(|outcome| !outcome.is_catalogue_known) {
        return; // What was not seen may own any stream.
    }
    for outcome in outcomes {
        let unowned: HashSet<_> =
            outcome.streams.iter().filter(|stream| !owners.contains_key(stream)).collect();
        let mut unowned: Vec<_> = unowned.into_iter().collect();
        unowned.sort_unstable();
        for stream in unowned {
            let what = format!("stream {stream} belongs to no volume or snapshot");
            let advice = "nothing: the next mark pass frees what was left of it";
            let finding = CheckFinding::new(Severity::Note, "stream_unowned", what, advice);
            report.add(finding.in_shard(outcome.shard));
        }
    }
}

/// The whole names of all volumes; `None` when there may be others.
fn all_volumes(outcomes: &[ShardOutcome], shard_count: u16) -> Option<BTreeSet<String>> {
    let is_known = outcomes.len() == usize::from(shard_count)
        && outcomes.iter().all(|outcome| outcome.is_catalogue_known);
    let entries = outcomes.iter().flat_map(|outcome| &outcome.catalogue);
    let volumes = entries.filter(|entry| matches!(entry.item, CatalogueItem::Volume(_)));
    let names: Option<_> = volumes.map(|entry| volume_of(entry.name()).ok()).collect();
    names.filter(|_| is_known)
}

fn volume_names(outcomes: &[ShardOutcome]) -> HashMap<u64, String> {
    let entries = outcomes.iter().flat_map(|outcome| &outcome.catalogue);
    entries.map(|entry| (entry.route.stream.get(), entry.name().to_owned())).collect()
}
