//! Changes of rows and of journal records: the keeper finds the places, or compares what was expected.

use std::sync::Arc;

use varve_media::planted::{Bug, planted};
use varve_media::{Error, Result};
use varve_types::ShardId;

use super::{Keeper, refused, unsound};
use crate::class::{Class, ClassId};
use crate::exposure::is_readable;
use crate::format::{
    DriveState, JournalCopy, JournalCopyState, JournalRecord, LayoutPage, MoveReason, Row,
    RowState, StripForm, StripPlace, StripSet,
};
use crate::ids::{DriveNumber, ZoneIndex};
use crate::plan::{Occupancy, PlaceRequest, choose, choose_journal};
use crate::rebalance::StripMove;
use crate::table_store::StoredRoot;
use crate::view::ViewFault;

/// A zone that is to be moved.
pub(super) struct MoveRequest {
    pub(super) zone: ZoneIndex,
    pub(super) why: MoveReason,
    pub(super) class: Option<ClassId>,
    pub(super) avoid: Vec<DriveNumber>,
    pub(super) prefer: Option<DriveNumber>,
}

/// A copy of a journal that another one takes the place of.
pub(super) struct SubstituteRequest {
    pub(super) shard: ShardId,
    pub(super) expected: u64,
    pub(super) without: DriveNumber,
    pub(super) until: u64,
}

/// The strip that a move for more even drives takes from one to another.
fn strip_move(request: &MoveRequest) -> Option<StripMove> {
    let (MoveReason::Rebalance, [from]) = (request.why, &*request.avoid) else { return None };
    Some(StripMove { zone: request.zone, from: *from, to: request.prefer? })
}

impl Keeper {
    pub(super) async fn place(&mut self, zone: ZoneIndex) -> Result<()> {
        self.check_zone(zone)?;
        let row = self.view.row(zone);
        if row.state != RowState::Empty {
            return Ok(());
        }
        let table = self.table();
        let class = *table.class_of(table.class).expect("a table has the class of new zones");
        let request = PlaceRequest { zone, class: &class, kept: &[], avoid: &[], prefer: None };
        let set = self.set_for(&request)?;
        let tenancy = self.view.row(zone).tenancy.next().ok_or_else(|| moved_too_often(zone))?;
        self.set_row(zone, Row { tenancy, state: RowState::Still(set) }).await
    }

    pub(super) async fn move_zone(&mut self, request: &MoveRequest) -> Result<()> {
        self.check_zone(request.zone)?;
        let row = self.view.row(request.zone).clone();
        let Some(target) = row.target() else {
            return Err(refused(&format!("zone {} has no row that could be moved", request.zone)));
        };
        let class = match request.class {
            None => *self.view.class_of(target),
            Some(id) => *self.table().class_of(id).ok_or_else(|| refused("unknown class"))?,
        };
        let is_moving = matches!(row.state, RowState::Moving { .. });
        if is_moving && class.id != target.class {
            // What was put to `to` would be in neither set.
            return Err(refused(&format!("zone {} is on its way to another class", request.zone)));
        }
        let step = strip_move(request).filter(|_| !is_moving);
        if let Some(step) = step.filter(|step| !step.is_gain(&self.view)) {
            let key = format!("of how full drives {} and {} are", step.from, step.to);
            let epoch = self.table().epoch.0;
            return Err(Error::RootConflict { key, expected: epoch, found: epoch }); // REBALANCE-1
        }
        let kept = if is_moving {
            self.readable_places(target)
        } else {
            self.kept_places(target, &class, request)
        };
        if kept.iter().all(Option::is_some) {
            return Err(refused(&format!("zone {} has nothing to be moved", request.zone)));
        }
        let MoveRequest { zone, why, ref avoid, prefer, .. } = *request;
        let to = self.set_for(&PlaceRequest { zone, class: &class, kept: &kept, avoid, prefer })?;
        if step.is_some_and(|step| !to.has_drive(step.to)) {
            return Err(self.no_room()); // Elsewhere it would gain nothing.
        }
        let row = row.moved_to(to, why).ok_or_else(|| moved_too_often(zone))?;
        self.set_row(zone, row).await
    }

    /// By the strip's index, places that stay: on live drives that are not to be left, where strips are of one form and
    /// shape. A drive of a kind that the class does not have is left by a conversion alone: what lacks strips waits for
    /// no room but theirs.
    fn kept_places(
        &self,
        set: &StripSet,
        class: &Class,
        request: &MoveRequest,
    ) -> Vec<Option<StripPlace>> {
        let may_stay = set.class == class.id && request.why != MoveReason::Conversion;
        let is_alike =
            set.form == StripForm::Striped && self.view.class_of(set).shape == class.shape;
        let stays = |place: &StripPlace| {
            let record = self.table().drive(place.drive);
            let fits = record.is_some_and(|it| {
                it.state == DriveState::Live && (may_stay || class.kinds.has(it.kind))
            });
            is_alike && fits && !request.avoid.contains(&place.drive)
        };
        let places = set.places.iter().map(|place| Some(*place).filter(&stays));
        let mut kept: Vec<_> = places.collect();
        kept.resize(class.shape.strips(), None);
        kept
    }

    /// By the strip's index, places of the target of a row that moves: what was put meanwhile is there alone, so all
    /// stay that can be read. Drives that leave are left once the row is still.
    fn readable_places(&self, target: &StripSet) -> Vec<Option<StripPlace>> {
        let stays = |place: &StripPlace| is_readable(self.table(), place.drive);
        target.places.iter().map(|place| Some(*place).filter(stays)).collect()
    }

    fn set_for(&self, request: &PlaceRequest<'_>) -> Result<StripSet> {
        let places = choose(&self.view, self.occupancy()?, request);
        let places = places.ok_or_else(|| self.no_room())?;
        Ok(StripSet { class: request.class.id, form: StripForm::Striped, places: places.into() })
    }

    fn no_room(&self) -> Error {
        Error::NoSpace { path: format!("the drives of pool {}", self.table().pool) }
    }

    fn check_zone(&self, zone: ZoneIndex) -> Result<()> {
        if zone.0 < self.table().zones_max {
            return Ok(());
        }
        Err(refused(&format!("there is no zone {zone}")))
    }

    pub(super) async fn replace_row(
        &mut self,
        zone: ZoneIndex,
        expected: &Row,
        new: Row,
    ) -> Result<()> {
        self.check_zone(zone)?;
        let found = self.view.row(zone);
        if found != expected && !planted(Bug::RowUnchecked) {
            let key = format!("of the row of zone {zone}");
            let (expected, found) = (expected.tenancy.get().into(), found.tenancy.get().into());
            return Err(Error::RootConflict { key, expected, found }); // KEEPER-3
        }
        self.set_row(zone, new).await
    }

    /// Stores a row: durable on all drives that hold the layout table, and what only the row before had is free, when
    /// this returns.
    async fn set_row(&mut self, zone: ZoneIndex, row: Row) -> Result<()> {
        row.check().map_err(unsound)?;
        let fault = |fault: ViewFault| refused(&fault.to_string());
        let next = self.view.with_row(zone, row.clone()).map_err(fault)?;
        let view = Arc::clone(&self.view);
        let occupancy = self.occupancy.as_mut();
        let occupancy = occupancy.ok_or_else(|| refused("places of the layout table overlap"))?;
        let taken = occupancy.replace_row(&view, zone, &row);
        taken.map_err(|fault| refused(&fault.to_string()))?;
        let epoch = view.drives().epoch;
        let page = next.page_of(zone);
        self.store(StoredRoot::Page(LayoutPage::of(zone)), page.encode()).await?;
        // Drives may have failed meanwhile, which the row knows nothing of.
        let next = self.view.with_row(zone, row).map_err(|it| self.end(fault(it)))?;
        if next.drives().epoch != epoch {
            self.occupancy = Occupancy::of(&next).ok();
        }
        self.publish(next);
        Ok(())
    }

    fn journal(&self, shard: ShardId, expected: u64) -> Result<JournalRecord> {
        let mut journals = self.view.journals();
        let Some(record) = journals.find(|journal| journal.shard == shard) else {
            return Err(refused(&format!("there is no journal of shard {shard}")));
        };
        if record.journal_epoch == expected {
            return Ok(record.clone());
        }
        let key = format!("of the journal record of shard {shard}");
        Err(Error::RootConflict { key, expected, found: record.journal_epoch }) // KEEPER-3
    }

    pub(super) async fn replace_copies(
        &mut self,
        shard: ShardId,
        expected: u64,
        copies: Vec<JournalCopy>,
    ) -> Result<()> {
        let mut record = self.journal(shard, expected)?;
        record.copies = copies;
        self.set_journal(record).await
    }

    pub(super) async fn substitute(&mut self, request: &SubstituteRequest) -> Result<()> {
        let SubstituteRequest { shard, expected, without, until } = *request;
        let mut record = self.journal(shard, expected)?;
        let is_read = is_readable(self.table(), without);
        record.copies.retain_mut(|copy| {
            if copy.drive != without || !copy.is_current() {
                return true;
            }
            copy.state = JournalCopyState::Former { until };
            // Of a drive that failed nothing is read. Of another one a write may land yet, whatever it proves: whoever
            // appends knows when its place may have another use (JOURNAL-COPIES-4).
            is_read
        });
        let place = choose_journal(&self.view, self.occupancy()?, &record, &[without]);
        let place = place.ok_or_else(|| self.no_room())?;
        record.copies.push(JournalCopy {
            drive: place.drive,
            place: place.place,
            since: until,
            state: JournalCopyState::Current,
        });
        self.set_journal(record).await
    }

    /// Stores a journal record under the next epoch.
    async fn set_journal(&mut self, mut record: JournalRecord) -> Result<()> {
        record.journal_epoch += 1;
        record.check().map_err(unsound)?;
        let fault = |fault: ViewFault| refused(&fault.to_string());
        self.view.with_journal(record.clone()).map_err(fault)?;
        let view = Arc::clone(&self.view);
        let occupancy = self.occupancy.as_mut();
        let occupancy = occupancy.ok_or_else(|| refused("places of the layout table overlap"))?;
        let taken = occupancy.replace_journal(&view, &record);
        taken.map_err(|fault| refused(&fault.to_string()))?;
        let epoch = view.drives().epoch;
        self.store(StoredRoot::Journal(record.shard), record.encode()).await?;
        let next = self.view.with_journal(record).map_err(|it| self.end(fault(it)))?;
        if next.drives().epoch != epoch {
            self.occupancy = Occupancy::of(&next).ok();
        }
        self.publish(next);
        Ok(())
    }
}

fn moved_too_often(zone: ZoneIndex) -> Error {
    refused(&format!("zone {zone} was moved too often"))
}
