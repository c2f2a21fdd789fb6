//! Damages what redundant drives hold, aimed by the tables on them: strips, labels, journals, roots and tables.
//!
//! ROT-1. Of each segment at most as many strips are damaged as its class has of parity, of each position of a journal
//!     and of each root at most so many copies: so nothing may show.
//! ROT-2. Only what is settled is damaged: a power cut may take what is cached from one side of a root.

use std::ops::Range;

use varve_media::{DriveSpec, RootKey, SidedRoot, SimMedium};
use varve_media_redundancy::format::{JournalPlaceKind, JournalRecord, StripSet};
use varve_media_redundancy::{LABEL_BYTES, StripLocation, UnitNumber};
use varve_stdx::Rng;
use varve_types::ShardId;

use crate::drives::{DriveUnits, SimDrive};
use crate::media::MediaPart;
use crate::raw_tables::{RawLayout, is_alike};
use crate::world::World;

/// Bytes of a side of a root that decay: its header, and what it holds.
const DECAY_BYTES: u64 = 1024;

/// Bits that are inverted in a strip or a journal at most.
const FLIPS_MAX: u64 = 40;

/// What is in the place of a strip once it is damaged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum StripDamage {
    /// Its label with a bit inverted.
    LabelFlipped,
    /// Its bytes with some bits inverted.
    BytesFlipped,
    /// Zeros.
    Erased,
    /// Zeros behind its label.
    BytesErased,
    /// Another strip of its segment.
    OtherStrip,
    /// A strip of another slot.
    OtherSlot,
    /// What was there before.
    Older,
}

impl StripDamage {
    const ALL: [Self; 7] = [
        Self::LabelFlipped,
        Self::BytesFlipped,
        Self::Erased,
        Self::BytesErased,
        Self::OtherStrip,
        Self::OtherSlot,
        Self::Older,
    ];
}

/// Inverts bits between two lives where none of it shows, and the next opening mends it: on one side of roots and
/// tables of each drive, and in two copies of its superblock at most.
pub(crate) fn decay_drives(world: &World, rng: &mut Rng) {
    let media = world.redundant();
    for drive in media.drives().iter().filter(|drive| drive.meta().is_settled()) {
        for root in roots_of(world, drive) {
            if rng.chance(1, 2) && is_alike(drive, world.config.pool(), &root) {
                flip_side(drive, &root, rng.index(2), rng);
            }
        }
        let copies = DriveSpec::superblock_copies();
        let first = drive.meta().visible(copies[0].clone());
        if copies.iter().all(|copy| drive.meta().visible(copy.clone()) == first) {
            for _ in 0..rng.below(3) {
                let copy = copies[rng.index(copies.len())].clone();
                flip(drive.meta(), rng, copy);
            }
        }
    }
}

/// Everything on a drive that has two sides.
fn roots_of(world: &World, drive: &SimDrive) -> Vec<SidedRoot> {
    let superblock = drive.superblock();
    let mut roots = vec![superblock.drive_table()];
    roots.extend(copied_roots(world, drive));
    roots
}

/// The same without the drive table: of those other drives have copies.
fn copied_roots(world: &World, drive: &SimDrive) -> Vec<SidedRoot> {
    let superblock = drive.superblock();
    let pages = (0..world.redundancy().layout_pages).map(|page| superblock.layout_page(page));
    let shards = || (0..world.config.shards).map(ShardId);
    let journals = shards().filter_map(|shard| superblock.journal_record(shard).ok());
    let keys = std::iter::once(RootKey::Pool).chain(shards().map(RootKey::Shard));
    let roots = keys.filter_map(|key| superblock.root(key).ok());
    pages.chain(journals).chain(roots).collect()
}

fn flip_side(drive: &SimDrive, root: &SidedRoot, side: usize, rng: &mut Rng) {
    let start = root.sides[side];
    flip(drive.meta(), rng, start..start + DECAY_BYTES);
}

fn flip(medium: &SimMedium, rng: &mut Rng, range: Range<u64>) {
    let bit = u8::try_from(rng.below(8)).expect("below 8");
    medium.flip_bit(range.start + rng.below(range.end - range.start), bit);
}

/// Damages as much as the pool survives (ROT-1); returns how many strips. `older` has the units of each drive as they
/// were after an earlier life.
pub(crate) fn rot(world: &World, older: Option<&[MediaPart]>, rng: &mut Rng) -> u64 {
    world.all_media().for_each(|medium| medium.crash(rng)); // ROT-2
    let config = &world.config;
    let media = world.redundant();
    let Some(layout) = RawLayout::read(media, config.pool(), config.shards, None) else { return 0 };
    let damage = RotDamage { world, layout: &layout, older };
    for journal in layout.view.journals() {
        damage.rot_journal(journal, rng);
    }
    damage.rot_roots(rng);
    let mut strips = 0;
    for (_, row) in layout.view.rows() {
        let Some(set) = row.target() else { continue };
        for slot in 0..layout.view.drives().zone_segments {
            strips += damage.rot_slot(set, slot, rng);
        }
    }
    strips
}

struct RotDamage<'a> {
    world: &'a World,
    layout: &'a RawLayout,
    older: Option<&'a [MediaPart]>,
}

impl RotDamage<'_> {
    fn units(&self, location: &StripLocation) -> Option<DriveUnits<'_>> {
        let drive = self.layout.drive(self.world.redundant(), location.place.drive)?;
        Some(drive.units())
    }

    /// Damages strips of a slot, so that with those that are missing at most the parity is gone.
    fn rot_slot(&self, set: &StripSet, slot: u32, rng: &mut Rng) -> u64 {
        let mut there: Vec<_> = self.layout.view.locate(set, slot).collect();
        let strips = there.len();
        there.retain(|location| self.units(location).is_some());
        let parity = self.world.redundancy().survives();
        let spare = parity.saturating_sub(strips - there.len());
        let count = rng.index(spare + 1);
        for _ in 0..count {
            let location = there.swap_remove(rng.index(there.len()));
            self.spoil(set, slot, &location, rng);
        }
        count as u64
    }

    fn spoil(&self, set: &StripSet, slot: u32, location: &StripLocation, rng: &mut Rng) {
        let Some(DriveUnits { medium, start }) = self.units(location) else { return };
        let begin = start + location.offset;
        let (behind, end) =
            (begin + u64::from(LABEL_BYTES), begin + location.geometry.slot_stride());
        match StripDamage::ALL[rng.index(StripDamage::ALL.len())] {
            StripDamage::LabelFlipped => flip(medium, rng, begin..behind),
            StripDamage::BytesFlipped => {
                for _ in 0..1 + rng.below(FLIPS_MAX) {
                    flip(medium, rng, behind..end);
                }
            }
            StripDamage::Erased => medium.erase(begin..end),
            StripDamage::BytesErased => medium.erase(behind..end),
            StripDamage::OtherStrip => self.transplant(set, slot, location, rng),
            StripDamage::OtherSlot => {
                let slots = self.layout.view.drives().zone_segments;
                let other = u32::try_from(rng.below(slots.into())).expect("below a u32");
                self.transplant(set, other, location, rng);
            }
            StripDamage::Older => {
                let Some(drive) = self.layout.drive(self.world.redundant(), location.place.drive)
                else {
                    return;
                };
                let drives = self.world.redundant().drives();
                let at = drives.iter().position(|other| std::ptr::eq(other, drive));
                let older = at.and_then(|at| self.older?.get(at));
                if let Some(MediaPart { medium: older, start }) = older {
                    medium.transplant(begin..end, older, start + location.offset);
                }
            }
        }
    }

    /// Puts any strip of a slot in the place of another one.
    fn transplant(&self, set: &StripSet, from_slot: u32, to: &StripLocation, rng: &mut Rng) {
        let others: Vec<_> = self.layout.view.locate(set, from_slot).collect();
        let from = others[rng.index(others.len())];
        let (Some(source), Some(target)) = (self.units(&from), self.units(to)) else { return };
        let begin = target.start + to.offset;
        let range = begin..begin + to.geometry.slot_stride();
        target.medium.transplant(range, source.medium, source.start + from.offset);
    }

    /// Damages copies of a journal, where each has all that is in it: of others it is not known here what they alone
    /// have.
    fn rot_journal(&self, journal: &JournalRecord, rng: &mut Rng) {
        let first = journal.copies.first().map(|copy| copy.since);
        if journal.copies.iter().any(|copy| Some(copy.since) != first || !copy.is_current()) {
            return;
        }
        let mut copies: Vec<_> = journal.copies.iter().collect();
        let count = rng.index(copies.len().min(self.world.redundancy().survives() + 1));
        for _ in 0..count {
            let copy = copies.swap_remove(rng.index(copies.len()));
            let (JournalPlaceKind::Units(place), Some(drive)) =
                (copy.place, self.layout.drive(self.world.redundant(), copy.drive))
            else {
                continue;
            };
            let units = drive.units();
            let range = journal_range(&units, place, journal.lane_bytes);
            match rng.below(3) {
                0 => units.medium.erase(range),
                1 => {
                    units.medium.erase(range.start..range.start + journal.lane_bytes / 8192 * 4096)
                }
                _ => (0..1 + rng.below(FLIPS_MAX))
                    .for_each(|_| flip(units.medium, rng, range.clone())),
            }
        }
    }

    /// Damages both sides of roots, pages and journal records on as many drives as may be lost, and one side elsewhere.
    fn rot_roots(&self, rng: &mut Rng) {
        let media = self.world.redundant();
        let mut drives: Vec<_> = media.drives().iter().collect();
        let pool = self.world.config.pool();
        for _ in 0..rng.index(media.spare() + 1) {
            let drive = drives.swap_remove(rng.index(drives.len()));
            for root in copied_roots(self.world, drive) {
                if rng.chance(1, 2) {
                    [0, 1].into_iter().for_each(|side| flip_side(drive, &root, side, rng));
                }
            }
        }
        for drive in drives {
            for root in roots_of(self.world, drive) {
                if rng.chance(1, 2) && is_alike(drive, pool, &root) {
                    flip_side(drive, &root, rng.index(2), rng);
                }
            }
        }
    }
}

fn journal_range(units: &DriveUnits<'_>, place: UnitNumber, lane_bytes: u64) -> Range<u64> {
    let start = units.start + place.offset();
    start..start + lane_bytes
}
