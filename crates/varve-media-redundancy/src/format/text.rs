//! The tables as text, for `varve dump` and `varve check`: one fact a line.

use std::fmt::{Display, Formatter, Result};

use crate::class::MediumKinds;

use super::{
    DriveRecord, DriveTable, JournalCopy, JournalCopyState, JournalPlaceKind, JournalRecord,
    LayoutPage, Row, RowState, StripForm, StripLabel, StripSet,
};

impl Display for DriveTable {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let Self { features, pool, epoch, history, .. } = self;
        write!(f, "drive table of pool {pool}, epoch {epoch} of history {history}")?;
        write!(f, "\n  features           compat {:#x}", features.compat)?;
        write!(f, " ro_compat {:#x} incompat {:#x}", features.ro_compat, features.incompat)?;
        for earlier in &self.lineage {
            write!(f, "\n  earlier history    {} to epoch {}", earlier.history, earlier.ended)?;
        }
        for class in &self.classes {
            let (id, kinds) = (class.id.get(), class.kinds.bits());
            write!(f, "\n  class {id:<12} {} kinds {kinds:#x}", class.shape)?;
        }
        write!(f, "\n  class of new zones {}", self.class.get())?;
        if self.journal_kinds != MediumKinds::ALL {
            write!(f, "\n  kinds for journals {:#x}", self.journal_kinds.bits())?;
        }
        write!(f, "\n  drops_max          {}", self.drops_max)?;
        write!(f, "\n  next_drive         {}", self.next_drive)?;
        write!(f, "\n  segment_bytes      {}", self.segment_bytes)?;
        write!(f, "\n  zone_segments      {}", self.zone_segments)?;
        write!(f, "\n  zones_max          {}", self.zones_max)?;
        write!(f, "\n  loss_epoch         {}", self.loss_epoch)?;
        write!(f, "\n  walked_epoch       {}", self.walked_epoch)?;
        write!(f, "\n  settled_epoch      {}", self.settled_epoch)?;
        self.drives.iter().try_for_each(|drive| write!(f, "\n  {drive}"))
    }
}

impl Display for DriveRecord {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let Self { number, id, state, roles, kind, units, held, .. } = self;
        write!(
            f,
            "drive {number} {id} {state:?} {kind:?} roles {:#x} units {units}",
            roles.bits()
        )?;
        if held.count > 0 {
            write!(f, " held {} from {}", held.count, held.first)?;
        }
        if self.is_slow {
            f.write_str(" slow")?;
        }
        if self.removal.is_some() {
            f.write_str(" removed")?;
        }
        if let Some(successor) = self.successor() {
            write!(f, " succeeded by {successor}")?;
        }
        if let Some(former) = self.former {
            write!(f, " formerly {former}")?;
        }
        write!(f, " since epoch {} ({} ms)", self.since_epoch, self.since_unix_ms)?;
        write!(f, " name {:?}", self.name)
    }
}

impl Display for JournalRecord {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let Self { pool, shard, journal_epoch, lane_bytes, .. } = self;
        write!(f, "journal of shard {shard} of pool {pool}, epoch {journal_epoch}")?;
        write!(f, "\n  lane_bytes         {lane_bytes}")?;
        self.copies.iter().try_for_each(|copy| write!(f, "\n  {copy}"))
    }
}

impl Display for JournalCopy {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "copy on drive {}", self.drive)?;
        match self.place {
            JournalPlaceKind::Units(first) => write!(f, " from unit {first}")?,
            JournalPlaceKind::Lane(lane) => write!(f, " in lane {lane}")?,
        }
        write!(f, " since {}", self.since)?;
        match self.state {
            JournalCopyState::Current => Ok(()),
            JournalCopyState::Former { until } => write!(f, " until {until}"),
        }
    }
}

impl Display for LayoutPage {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "layout page {} of pool {}", self.page, self.pool)?;
        for (zone, row) in (self.first_zone().0..).zip(self.rows.iter()) {
            write!(f, "\n  zone {zone}: {row}")?;
        }
        Ok(())
    }
}

impl Display for Row {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "tenancy {}", self.tenancy.get())?;
        match &self.state {
            RowState::Empty => f.write_str(", empty"),
            RowState::Still(set) => write!(f, ", {set}"),
            RowState::Moving { from, to, why } => write!(f, ", {why:?} from {from} to {to}"),
        }
    }
}

impl Display for StripSet {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "class {}", self.class.get())?;
        if let StripForm::Slots { split } = self.form {
            write!(f, " slots {split}")?;
        }
        self.places.iter().try_for_each(|place| {
            write!(f, " {}:{}@{}", place.drive, place.place, place.tenancy.get())
        })
    }
}

impl Display for StripLabel {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let Self { shape, strip, pool, slot, generation, .. } = self;
        write!(f, "strip {strip} of {shape}, slot {slot} generation {generation} of pool {pool}")?;
        write!(f, "\n  drive              {}", self.drive)?;
        write!(f, "\n  place              {}", self.place)?;
        write!(f, "\n  tenancy            {}", self.tenancy.get())?;
        write!(f, "\n  epoch              {}", self.epoch)?;
        write!(f, "\n  used_bytes         {}", self.used_bytes)?;
        write!(f, "\n  data_bytes         {}", self.data_bytes)?;
        self.strip_checksums
            .iter()
            .enumerate()
            .try_for_each(|(index, sum)| write!(f, "\n  checksum {index:<9} {sum:#018x}"))
    }
}
