//! The tables of one moment: where each strip is, and on which drives. Immutable, and shared by all threads of a pool;
//! whoever changes a table makes another view, which shares what did not change.
//!
//! VIEW-1. A view's tables agree: rows name classes and drives that the drive table has, have as many places as their
//!     class has strips, and no class survives more lost drives than the drive table drops.
//! VIEW-2. The tenancy of a zone never falls from one view to the next, and a place that comes in has one above the
//!     row's before, so labels of an earlier row do not count again.
//! VIEW-3. What counts up never falls from one view to the next, a drive that failed never lives again, no drive gets
//!     smaller, and a class and the sizes of zones stay what they are.

use std::cmp::Ordering;
use std::sync::Arc;

use varve_media::planted::{Bug, planted};
use varve_types::{PoolId, SegmentNumber};

use crate::class::{Class, ClassId, MediumKind, StripGeometry, StripeShape};
use crate::format::{
    DriveState, DriveTable, JournalCopy, JournalPlaceKind, JournalRecord, LayoutPage, MoveReason,
    Row, RowState, StripForm, StripLabel, StripPlace, StripSet,
};
use crate::ids::{DriveNumber, ZoneIndex};

mod fault;

pub use fault::ViewFault;

/// Pages that are copied together when one of them changes, some 4 KiB of references.
const GROUP_PAGES: u32 = 512;

type PageGroup = Vec<Option<Arc<LayoutPage>>>;

/// A slot by its zone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ZoneSlot {
    /// The zone.
    pub zone: ZoneIndex,
    /// Which slot of it.
    pub slot: u32,
}

/// One strip of a slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StripLocation {
    /// Its index.
    pub strip: u8,
    /// Where its zone's strips of this index are.
    pub place: StripPlace,
    /// The number that their drive had before it returned.
    pub former: Option<DriveNumber>,
    /// Where it begins, in bytes behind the beginning of the drive's space: its label, or its bytes where it has none.
    pub offset: u64,
    /// Sizes, and the class.
    pub geometry: StripGeometry,
    /// Whether it has a label.
    pub has_label: bool,
}

impl StripLocation {
    /// What of a label says that the strip behind it is not the one of `slot` that belongs here. Which contents of the
    /// slot it is of, the caller compares.
    #[must_use]
    pub fn misfit(
        &self,
        pool: PoolId,
        slot: SegmentNumber,
        label: &StripLabel,
    ) -> Option<&'static str> {
        let Self { strip, place, former, geometry, .. } = *self;
        let expected = [
            ("pool", label.pool == pool),
            // A label of a history that was given up names a drive that is none of these.
            ("drive", label.drive == place.drive || Some(label.drive) == former),
            ("slot", label.slot == slot),
            ("place", label.place == place.place),
            // PLACE-1: a place that was another zone's, or this one's before, still has its labels.
            ("tenancy", label.tenancy == place.tenancy || planted(Bug::TenancyIgnored)),
            ("class", label.shape == geometry.shape),
            ("strip", label.strip == strip),
            ("used_bytes", label.used_bytes <= geometry.segment_bytes),
            ("data_bytes", label.data_bytes == geometry.data_bytes(strip, label.used_bytes)),
        ];
        expected.iter().find(|(_, holds)| !holds).map(|(field, _)| *field)
    }
}

/// The view.
#[derive(Clone, Debug)]
pub struct LayoutView {
    drives: Arc<DriveTable>,
    groups: Vec<Option<Arc<PageGroup>>>,
    journals: Vec<Arc<JournalRecord>>,
}

impl LayoutView {
    /// The view of tables that were read; zones of pages that are not there have no row.
    ///
    /// # Errors
    /// [`ViewFault`].
    pub fn new(
        drives: DriveTable,
        pages: impl IntoIterator<Item = LayoutPage>,
        journals: impl IntoIterator<Item = JournalRecord>,
    ) -> Result<Self, ViewFault> {
        let mut view = Self { drives: Arc::new(drives), groups: Vec::new(), journals: Vec::new() };
        view.check_new_zones()?;
        for page in pages {
            view.check_pool(page.pool)?;
            for (zone, row) in (page.first_zone().0..).map(ZoneIndex).zip(page.rows.iter()) {
                view.check_row(zone, row)?;
            }
            let number = page.page;
            *view.page_mut(number) = Some(Arc::new(page));
        }
        for journal in journals {
            view.insert_journal(journal)?;
        }
        Ok(view)
    }

    /// The drive table.
    #[must_use]
    pub fn drives(&self) -> &DriveTable {
        &self.drives
    }

    /// The records of journals, by shard.
    pub fn journals(&self) -> impl Iterator<Item = &JournalRecord> {
        self.journals.iter().map(|journal| &**journal)
    }

    /// The row of a zone. O(1).
    #[must_use]
    pub fn row(&self, zone: ZoneIndex) -> &Row {
        const EMPTY: &Row = &Row::EMPTY;
        let page = LayoutPage::of(zone);
        let group = self.groups.get(index(page / GROUP_PAGES)).and_then(Option::as_ref);
        let page = group.and_then(|group| group.get(index(page % GROUP_PAGES)));
        let Some(page) = page.and_then(Option::as_ref) else { return EMPTY };
        page.rows.get(index(zone.0 % LayoutPage::ROWS)).unwrap_or(EMPTY)
    }

    /// Pages of zones that have, or had, a row, in order.
    pub fn pages(&self) -> impl Iterator<Item = &LayoutPage> {
        self.groups.iter().flatten().flat_map(|group| group.iter().flatten()).map(|page| &**page)
    }

    /// Zones that have places, with their rows, in order.
    pub fn rows(&self) -> impl Iterator<Item = (ZoneIndex, &Row)> {
        let rows = self
            .pages()
            .flat_map(|page| (page.first_zone().0..).map(ZoneIndex).zip(page.rows.iter()));
        rows.filter(|(_, row)| row.state != RowState::Empty)
    }

    /// Strips that the class of a row can lose, of the rows that can lose most. O(zones).
    #[must_use]
    pub fn parity_of_rows(&self) -> u8 {
        let sets = self.rows().flat_map(|(_, row)| row.sets());
        sets.map(|set| self.class_of(set).shape.parity()).max().unwrap_or(0)
    }

    /// The zone of a slot; `None` behind the last zone.
    #[must_use]
    pub fn zone_of(&self, slot: SegmentNumber) -> Option<ZoneSlot> {
        let zone = ZoneIndex(slot.0 / self.drives.zone_segments);
        let slot = slot.0 % self.drives.zone_segments;
        (zone.0 < self.drives.zones_max).then_some(ZoneSlot { zone, slot })
    }

    /// The class of a set of places.
    ///
    /// # Panics
    /// When the set is not one of this view's.
    #[must_use]
    pub fn class_of(&self, set: &StripSet) -> &Class {
        self.drives.class_of(set.class).expect("VIEW-1")
    }

    /// Where the strips of one slot of a zone are: of a set of this view, by index.
    pub fn locate(&self, set: &StripSet, slot: u32) -> impl Iterator<Item = StripLocation> {
        let geometry = self.drives.geometry(self.class_of(set).shape);
        let form = set.form;
        set.places.iter().enumerate().filter_map(move |(index, place)| {
            let offset_of = |slot: u32| {
                place.place.offset() + u64::from(slot) * u64::from(geometry.segment_bytes)
            };
            let (index, offset) = match (form, index) {
                (StripForm::Striped, _) => (index, geometry.slot_offset(place.place, slot)),
                (StripForm::Slots { split }, 0) if slot < u32::from(split) => (0, offset_of(slot)),
                (StripForm::Slots { split }, 1) if slot >= u32::from(split) => {
                    (0, offset_of(slot - u32::from(split)))
                }
                (StripForm::Slots { .. }, _) => return None,
            };
            let strip = u8::try_from(index).expect("at most 16 strips");
            let has_label = form == StripForm::Striped;
            let former = self.drives.drive(place.drive).and_then(|drive| drive.former);
            Some(StripLocation { strip, place: *place, former, offset, geometry, has_label })
        })
    }

    /// The same with another drive table.
    ///
    /// # Errors
    /// [`ViewFault`] when it cannot follow the one that is there, or rows or journals name what it does not have.
    /// O(zones).
    pub fn with_drives(&self, drives: DriveTable) -> Result<Self, ViewFault> {
        self.check_pool(drives.pool)?;
        self.check_next(&drives)?;
        let view = Self { drives: Arc::new(drives), ..self.clone() };
        view.check_new_zones()?;
        view.rows().try_for_each(|(zone, row)| view.check_row(zone, row))?;
        view.journals().try_for_each(|journal| view.check_journal(journal))?;
        Ok(view)
    }

    /// The same as if drives had failed: for what follows from that, and not to be stored.
    #[must_use]
    pub(crate) fn without(&self, lost: &[DriveNumber]) -> Self {
        let mut table = DriveTable::clone(&self.drives);
        let records = table.drives.iter_mut().filter(|it| lost.contains(&it.number));
        for record in records.filter(|it| it.state.is_readable()) {
            record.state = DriveState::Failed;
        }
        Self { drives: Arc::new(table), ..self.clone() }
    }

    /// The same as if a drive were of another kind: for what follows from that, and not to be stored.
    #[must_use]
    pub(crate) fn with_kind(&self, drive: DriveNumber, kind: MediumKind) -> Self {
        let mut table = DriveTable::clone(&self.drives);
        let records = table.drives.iter_mut().filter(|it| it.number == drive);
        records.for_each(|record| record.kind = kind);
        Self { drives: Arc::new(table), ..self.clone() }
    }

    /// The same with another row of a zone. Copies a page and a group of references.
    ///
    /// # Errors
    /// [`ViewFault`].
    pub fn with_row(&self, zone: ZoneIndex, row: Row) -> Result<Self, ViewFault> {
        self.check_row(zone, &row)?;
        self.check_tenancies(zone, &row)?;
        let (mut view, number) = (self.clone(), LayoutPage::of(zone));
        let pool = view.drives.pool;
        let page = view.page_mut(number);
        let page = page.get_or_insert_with(|| Arc::new(LayoutPage::empty(pool, number)));
        let rows = &mut Arc::make_mut(page).rows;
        *rows.get_mut(index(zone.0 % LayoutPage::ROWS)).expect("one of the page's rows") = row;
        Ok(view)
    }

    /// The same with another record of a shard's journal.
    ///
    /// # Errors
    /// [`ViewFault`].
    pub fn with_journal(&self, journal: JournalRecord) -> Result<Self, ViewFault> {
        let before = self.journals().find(|known| known.shard == journal.shard);
        if before.is_some_and(|before| journal.journal_epoch < before.journal_epoch) {
            let (shard, found) = (journal.shard.0, journal.journal_epoch);
            return Err(ViewFault::JournalEpoch { shard, found }); // VIEW-3
        }
        let mut view = self.clone();
        view.insert_journal(journal)?;
        Ok(view)
    }

    /// The page that holds a zone's row, to be stored.
    #[must_use]
    pub fn page_of(&self, zone: ZoneIndex) -> LayoutPage {
        let mut page = LayoutPage::empty(self.drives.pool, LayoutPage::of(zone));
        let zones = (page.first_zone().0..).map(ZoneIndex);
        for (zone, row) in zones.zip(page.rows.iter_mut()) {
            row.clone_from(self.row(zone));
        }
        page
    }

    fn page_mut(&mut self, number: u32) -> &mut Option<Arc<LayoutPage>> {
        let (group, within) = (index(number / GROUP_PAGES), index(number % GROUP_PAGES));
        if self.groups.len() <= group {
            self.groups.resize(group + 1, None);
        }
        let group = self.groups.get_mut(group).expect("there since the line before");
        let group = Arc::make_mut(group.get_or_insert_default());
        if group.len() <= within {
            group.resize(within + 1, None);
        }
        group.get_mut(within).expect("there since the line before")
    }

    fn insert_journal(&mut self, journal: JournalRecord) -> Result<(), ViewFault> {
        self.check_journal(&journal)?;
        self.check_lanes(&journal)?;
        match self.journals.binary_search_by_key(&journal.shard, |known| known.shard) {
            Ok(at) => *self.journals.get_mut(at).expect("it was found") = Arc::new(journal),
            Err(at) => self.journals.insert(at, Arc::new(journal)),
        }
        Ok(())
    }

    fn check_pool(&self, found: PoolId) -> Result<(), ViewFault> {
        if found == self.drives.pool { Ok(()) } else { Err(ViewFault::Pool { found }) }
    }

    /// VIEW-3, of a drive table.
    fn check_next(&self, next: &DriveTable) -> Result<(), ViewFault> {
        let table = &*self.drives;
        if next.epoch < table.epoch {
            return Err(ViewFault::Epoch { found: next.epoch });
        }
        let sizes =
            |table: &DriveTable| [table.segment_bytes, table.zone_segments, table.zones_max];
        if sizes(next) != sizes(table) {
            return Err(ViewFault::Geometry);
        }
        if next.next_drive < table.next_drive {
            return Err(ViewFault::NextDrive { found: next.next_drive });
        }
        for class in &next.classes {
            let before = table.class_of(class.id).map_or(class.shape, |before| before.shape);
            let (id, found) = (class.id.get(), class.shape);
            if found != before {
                return Err(ViewFault::Shape { class: id, before, found });
            }
        }
        for drive in &next.drives {
            let before = table.drive(drive.number);
            if before.is_some_and(|before| !before.state.may_become(drive.state)) {
                return Err(ViewFault::GivenUp { drive: drive.number });
            }
            if before.is_some_and(|before| drive.units < before.units) {
                return Err(ViewFault::Smaller { drive: drive.number });
            }
        }
        Ok(())
    }

    /// VIEW-1, of the class of new zones.
    fn check_new_zones(&self) -> Result<(), ViewFault> {
        let class = self.drives.class_of(self.drives.class);
        class.map_or(Ok(()), |class| self.check_parity(class.id, class.shape))
    }

    fn check_parity(&self, class: ClassId, shape: StripeShape) -> Result<(), ViewFault> {
        let drops_max = self.drives.drops_max;
        if shape.parity() <= drops_max {
            return Ok(());
        }
        Err(ViewFault::Parity { class: class.get(), drops_max })
    }

    /// VIEW-2, of a row that this view knows the classes of.
    fn check_tenancies(&self, zone: ZoneIndex, row: &Row) -> Result<(), ViewFault> {
        let before = self.row(zone);
        if row.tenancy < before.tenancy {
            return Err(ViewFault::Tenancy { zone, found: row.tenancy.get() });
        }
        // What a drive brings that returned keeps its labels.
        let is_catch_up = match &row.state {
            RowState::Moving { why, .. } => *why == MoveReason::CatchUp,
            RowState::Empty | RowState::Still(_) => false,
        };
        let target = row.target().filter(|_| !is_catch_up);
        for set in row.source().into_iter().chain(target) {
            let shape = self.class_of(set).shape;
            let is_alike =
                |other: &&StripSet| other.form == set.form && self.class_of(other).shape == shape;
            for (strip, place) in set.places.iter().enumerate() {
                let mut alike = before.sets().filter(is_alike);
                let stays = alike.any(|other| other.places.get(strip) == Some(place));
                if !stays && place.tenancy <= before.tenancy {
                    let (drive, found) = (place.drive, place.tenancy.get());
                    return Err(ViewFault::PlaceTenancy { zone, drive, found });
                }
            }
        }
        Ok(())
    }

    /// VIEW-1, of a row.
    fn check_row(&self, zone: ZoneIndex, row: &Row) -> Result<(), ViewFault> {
        if zone.0 >= self.drives.zones_max {
            return Err(ViewFault::Zone { zone });
        }
        for set in row.sets() {
            let class = self.drives.class_of(set.class);
            let class = class.ok_or(ViewFault::Class { zone, class: set.class.get() })?;
            self.check_parity(class.id, class.shape)?;
            let expected = self.places_of(zone, set.form, class)?;
            let found = set.places.len();
            if found != expected {
                return Err(ViewFault::Strips { zone, expected, found });
            }
            let unknown = set.places.iter().find(|it| self.drives.drive(it.drive).is_none());
            if let Some(StripPlace { drive, .. }) = unknown {
                return Err(ViewFault::Drive { zone, drive: *drive });
            }
        }
        match &row.state {
            RowState::Empty | RowState::Still(_) => Ok(()),
            RowState::Moving { from, to, .. } => self.check_shared(zone, from, to),
        }
    }

    /// Places that a set in a form has.
    fn places_of(
        &self,
        zone: ZoneIndex,
        form: StripForm,
        class: &Class,
    ) -> Result<usize, ViewFault> {
        let StripForm::Slots { split } = form else { return Ok(class.shape.strips()) };
        if class.shape != StripeShape::NONE {
            return Err(ViewFault::SlotClass { zone, class: class.id.get() });
        }
        match u32::from(split).cmp(&self.drives.zone_segments) {
            Ordering::Less => Ok(2),
            Ordering::Equal => Ok(1),
            Ordering::Greater => Err(ViewFault::Split { zone, split }),
        }
    }

    /// Sets of one shape may share places; the rest of what those must have in common the page says.
    fn check_shared(
        &self,
        zone: ZoneIndex,
        from: &StripSet,
        to: &StripSet,
    ) -> Result<(), ViewFault> {
        if self.class_of(from).shape == self.class_of(to).shape {
            return Ok(());
        }
        let is_shared = |place: &&StripPlace| from.places.iter().any(|other| other.is_at(**place));
        match to.places.iter().find(is_shared) {
            None => Ok(()),
            Some(place) => Err(ViewFault::Shared { zone, drive: place.drive }),
        }
    }

    /// VIEW-1, of a journal record.
    fn check_journal(&self, journal: &JournalRecord) -> Result<(), ViewFault> {
        self.check_pool(journal.pool)?;
        let shard = journal.shard.0;
        let unknown = journal.copies.iter().find(|it| self.drives.drive(it.drive).is_none());
        if let Some(copy) = unknown {
            return Err(ViewFault::JournalDrive { shard, drive: copy.drive });
        }
        Ok(())
    }

    /// VIEW-1: no lane of a drive is two shards'. Places are compared where units are given out.
    fn check_lanes(&self, journal: &JournalRecord) -> Result<(), ViewFault> {
        let others = self.journals().filter(|other| other.shard != journal.shard);
        for other in others.flat_map(|other| &other.copies) {
            let is_same =
                |copy: &&JournalCopy| copy.drive == other.drive && copy.place == other.place;
            let same = journal.copies.iter().find(is_same);
            if let Some(JournalCopy { drive, place: JournalPlaceKind::Lane(lane), .. }) = same {
                let shard = journal.shard.0;
                return Err(ViewFault::Lane { shard, drive: *drive, lane: *lane });
            }
        }
        Ok(())
    }
}

fn index(number: u32) -> usize {
    usize::try_from(number).expect("a usize has 32 bits or more")
}

#[cfg(test)]
mod tests;
