//! A layout page: the rows of 14 zones. A row says on which drives, and where on them, the strips of a zone's segments
//! are.

use varve_media::planted::{Bug, planted};
use varve_stdx::Writer;
use varve_types::PoolId;

use super::fault::{FormatFault, check};
use super::fields::{FieldReader, seal};
use crate::class::{ClassId, STRIPS_MAX};
use crate::ids::{DriveNumber, Tenancy, UnitNumber, ZoneIndex};

const MAGIC: [u8; 8] = *b"VARVZONE";
const VERSION: u16 = 1;
const ROW_COUNT: usize = LayoutPage::ROWS as usize;
const NO_DRIVE: u8 = DriveNumber::COUNT;
const KIND_NONE: u8 = 0;
const KIND_STRIPED: u8 = 1;
const KIND_SLOTS: u8 = 2;

/// Drives over which a zone of an earlier format can lie: where one drive ends, the next one goes on.
const SLOT_PARTS_MAX: usize = 2;

/// Where a strip of a zone is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StripPlace {
    /// The drive.
    pub drive: DriveNumber,
    /// That of the row by which it came.
    pub tenancy: Tenancy,
    /// The first unit of the place.
    pub place: UnitNumber,
}

impl StripPlace {
    /// Whether it begins where another place does.
    #[must_use]
    pub fn is_at(self, other: Self) -> bool {
        self.drive == other.drive && self.place == other.place
    }
}

/// What stands in the places of a set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StripForm {
    /// Strips with labels, one place for each.
    Striped,
    /// Slots as a drive of an earlier format has them.
    Slots {
        /// Slots in the first place; the others are in the second.
        split: u16,
    },
}

/// Places of all strips of a zone.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StripSet {
    /// Of which class.
    pub class: ClassId,
    /// In which form.
    pub form: StripForm,
    /// Where, by the strip's index.
    pub places: Box<[StripPlace]>,
}

impl StripSet {
    /// Whether one of its places is on `drive`.
    #[must_use]
    pub fn has_drive(&self, drive: DriveNumber) -> bool {
        self.places.iter().any(|place| place.drive == drive)
    }
}

/// Why a row moves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MoveReason {
    /// A drive failed.
    Rebuild,
    /// A drive leaves.
    Drain,
    /// A drive is fuller than others.
    Rebalance,
    /// The zone gets another class.
    Conversion,
    /// A drive is slower than others.
    SlowDrive,
    /// A drive came back with what it has.
    CatchUp,
}

impl MoveReason {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 6] = [
        Self::Rebuild,
        Self::Drain,
        Self::Rebalance,
        Self::Conversion,
        Self::SlowDrive,
        Self::CatchUp,
    ];

    const fn number(self) -> u8 {
        match self {
            Self::Rebuild => 1,
            Self::Drain => 2,
            Self::Rebalance => 3,
            Self::Conversion => 4,
            Self::SlowDrive => 5,
            Self::CatchUp => 6,
        }
    }
}

/// Where the strips of a zone are, and go.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RowState {
    /// Nowhere: nobody leases the zone.
    Empty,
    /// In one set.
    Still(StripSet),
    /// In one set, or in the other already.
    Moving {
        /// Where they were.
        from: StripSet,
        /// Where they go, and whatever is put meanwhile.
        to: StripSet,
        /// For what reason.
        why: MoveReason,
    },
}

/// The row of a zone.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Row {
    /// Raised when a place comes in, and kept while there is none: labels of an earlier row never count again. While
    /// the row moves it rises by two for places that take those of lost ones (MOVER-7).
    pub tenancy: Tenancy,
    /// The strips.
    pub state: RowState,
}

impl Row {
    /// Bytes in a page.
    pub const LEN: usize = 16 + 2 * STRIPS_MAX * 8;
    /// That of a zone that never had one.
    pub const EMPTY: Self = Self { tenancy: Tenancy::ZERO, state: RowState::Empty };

    /// Whether a place of `to` took that of a lost one while the row moved: what was put to that before is not at this
    /// one (MOVER-7). A move begins with places of the row's tenancy, which rises by two with each that comes in later.
    #[must_use]
    pub fn is_replaced(&self, place: &StripPlace) -> bool {
        let RowState::Moving { from, to, .. } = &self.state else { return false };
        // Of a row that was turned around, `to` has places from before.
        let is_newer = from.places.iter().all(|other| place.tenancy > other.tenancy);
        let came_later = !self.tenancy.get().abs_diff(place.tenancy.get()).is_multiple_of(2);
        to.places.contains(place) && is_newer && came_later
    }

    /// The row on its way to `to`, in which the places that come in have the row's next tenancy. One that moves stays
    /// on its way from where it came. `None` without places, or where it was moved too often.
    pub(crate) fn moved_to(self, to: StripSet, why: MoveReason) -> Option<Self> {
        let came_in = self.tenancy.next()?;
        let (tenancy, from, why) = match self.state {
            RowState::Empty => return None,
            RowState::Still(from) => (came_in, from, why),
            RowState::Moving { from, why, .. } if planted(Bug::ReplacedUntold) => {
                (came_in, from, why)
            }
            RowState::Moving { from, why, .. } => (came_in.next()?, from, why), // MOVER-7
        };
        Some(Self { tenancy, state: RowState::Moving { from, to, why } })
    }

    /// Where puts go, and where strips will be once nothing moves.
    #[must_use]
    pub fn target(&self) -> Option<&StripSet> {
        match &self.state {
            RowState::Empty => None,
            RowState::Still(set) | RowState::Moving { to: set, .. } => Some(set),
        }
    }

    /// The set that a move leaves.
    #[must_use]
    pub fn source(&self) -> Option<&StripSet> {
        match &self.state {
            RowState::Empty | RowState::Still(_) => None,
            RowState::Moving { from, .. } => Some(from),
        }
    }

    /// All sets: the one that a move leaves, and the target.
    pub fn sets(&self) -> impl Iterator<Item = &StripSet> {
        self.source().into_iter().chain(self.target())
    }

    /// Relations between the fields.
    pub(crate) fn check(&self) -> Result<(), FormatFault> {
        for set in self.sets() {
            check_set(set, self.tenancy)?;
        }
        match &self.state {
            RowState::Empty | RowState::Still(_) => Ok(()),
            // Slots have no labels that would say what was filled already.
            RowState::Moving { from, to, .. } => {
                check("kind", KIND_SLOTS, to.form == StripForm::Striped)?;
                check_shared(from, to)
            }
        }
    }

    fn write(&self, w: &mut Writer<'_>) {
        let (first, to, why) = match &self.state {
            RowState::Empty => (None, None, 0),
            RowState::Still(set) => (Some(set), None, 0),
            RowState::Moving { from, to, why } => (Some(from), Some(to), why.number()),
        };
        let (kind, split) = match first.map(|set| set.form) {
            None => (KIND_NONE, 0),
            Some(StripForm::Striped) => (KIND_STRIPED, 0),
            Some(StripForm::Slots { split }) => (KIND_SLOTS, split),
        };
        w.u8(kind);
        w.u8(first.map_or(0, |set| set.class.get()));
        w.u8(to.map_or(0, |set| set.class.get()));
        w.u8(why);
        w.u32(self.tenancy.get());
        w.u16(split);
        w.zeros(6);
        for set in [first, to] {
            let places = set.map_or(&[][..], |set| &set.places);
            for place in places {
                w.u8(place.drive.get());
                w.u24(place.tenancy.get());
                w.u32(place.place.0);
            }
            for _ in places.len()..STRIPS_MAX {
                w.u8(if set.is_some() { NO_DRIVE } else { 0 });
                w.zeros(7);
            }
        }
    }

    fn read(fields: &mut FieldReader<'_>) -> Result<Self, FormatFault> {
        let (kind, class, to_class, why) = (fields.u8()?, fields.u8()?, fields.u8()?, fields.u8()?);
        let (tenancy, split) = (fields.tenancy()?, fields.u16()?);
        fields.zeros(6)?;
        let bad = |field, value: u8| FormatFault::Field { field, value: value.into() };
        let form = match kind {
            KIND_NONE => None,
            KIND_STRIPED => Some(StripForm::Striped),
            KIND_SLOTS => Some(StripForm::Slots { split }),
            _ => return Err(bad("kind", kind)),
        };
        check("split", split, kind == KIND_SLOTS || split == 0)?;
        let from = read_set(fields, class, form)?;
        let to = read_set(fields, to_class, (to_class != 0).then_some(StripForm::Striped))?;
        let reason = MoveReason::ALL.into_iter().find(|known| known.number() == why);
        let state = match (from, to, reason) {
            (None, None, None) if why == 0 => RowState::Empty,
            (Some(set), None, None) if why == 0 => RowState::Still(set),
            (Some(from), Some(to), Some(why)) => RowState::Moving { from, to, why },
            _ => return Err(bad("why", why)),
        };
        let row = Self { tenancy, state };
        row.check()?;
        Ok(row)
    }
}

/// One of the two sets of a row; zeros where it has none.
fn read_set(
    fields: &mut FieldReader<'_>,
    class: u8,
    form: Option<StripForm>,
) -> Result<Option<StripSet>, FormatFault> {
    let Some(form) = form else {
        check("class", class, class == 0)?;
        fields.zeros(STRIPS_MAX * 8)?;
        return Ok(None);
    };
    let class = ClassId::new(class).ok_or(FormatFault::Field { field: "class", value: 0 })?;
    let mut places = Vec::with_capacity(STRIPS_MAX);
    for index in 0..STRIPS_MAX {
        let (number, tenancy, place) = (fields.u8()?, fields.u24()?, fields.u32()?);
        let Some(drive) = DriveNumber::new(number) else {
            check("place", place, tenancy == 0 && place == 0)?;
            continue;
        };
        check("drive", number, places.len() == index)?;
        let tenancy = Tenancy::new(tenancy).expect("three bytes");
        places.push(StripPlace { drive, tenancy, place: UnitNumber(place) });
    }
    Ok(Some(StripSet { class, form, places: places.into() }))
}

fn check_set(set: &StripSet, tenancy: Tenancy) -> Result<(), FormatFault> {
    let count = set.places.len();
    let (most, split) = match set.form {
        StripForm::Striped => (STRIPS_MAX, 1),
        StripForm::Slots { split } => (SLOT_PARTS_MAX, split),
    };
    check("strips", count as u64, (1..=most).contains(&count))?;
    check("split", split, split > 0)?;
    for (index, place) in set.places.iter().enumerate() {
        let came = place.tenancy;
        check("tenancy", came.get(), came > Tenancy::ZERO && came <= tenancy)?;
        // PLACE-2
        let is_distinct = set.places.iter().take(index).all(|other| other.drive != place.drive);
        check("drive", place.drive.get(), is_distinct)?;
    }
    Ok(())
}

/// A place of both sets of a row is the same strip's, with the same labels: else a put to one would be over what is
/// read of the other. That both have as many strips, the drive table says.
fn check_shared(from: &StripSet, to: &StripSet) -> Result<(), FormatFault> {
    for (strip, place) in to.places.iter().enumerate() {
        let is_apart_or_stays = |index: usize, other: &StripPlace| {
            let stays = index == strip && other == place && from.form == to.form;
            stays || !other.is_at(*place)
        };
        let mut others = from.places.iter().enumerate();
        let are_sound = others.all(|(index, other)| is_apart_or_stays(index, other));
        check("place", place.place.0, are_sound)?;
    }
    Ok(())
}

/// The page.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LayoutPage {
    /// Which pool it is of.
    pub pool: PoolId,
    /// Its number: it begins with the row of zone `14 x page`.
    pub page: u32,
    /// The rows.
    pub rows: Box<[Row; ROW_COUNT]>,
}

impl LayoutPage {
    /// Bytes.
    pub const LEN: usize = 4032;
    /// Rows of a page.
    pub const ROWS: u32 = 14;
    /// Most pages: the owners of all their zones fit the pool's root.
    pub const PAGES_MAX: u32 = 1 << 19;

    /// A page without rows.
    #[must_use]
    pub fn empty(pool: PoolId, page: u32) -> Self {
        Self { pool, page, rows: Box::new([Row::EMPTY; ROW_COUNT]) }
    }

    /// The page that has a zone's row.
    #[must_use]
    pub const fn of(zone: ZoneIndex) -> u32 {
        zone.0 / Self::ROWS
    }

    /// The zone of the page's first row.
    #[must_use]
    pub const fn first_zone(&self) -> ZoneIndex {
        ZoneIndex(self.page * Self::ROWS)
    }

    /// The bytes that are stored.
    ///
    /// # Panics
    /// When it is not sound.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        self.check().expect("a layout page is sound when it is stored");
        let mut bytes = vec![0; Self::LEN];
        seal(&mut bytes, MAGIC, VERSION, |w| {
            w.u16(0);
            w.u32(self.page);
            w.array(self.pool.0);
            w.u32(self.first_zone().0);
            w.u32(Self::ROWS);
            w.zeros(16);
            self.rows.iter().for_each(|row| row.write(w));
            w.zeros(160);
        });
        bytes
    }

    /// The page of `pool` that bytes hold.
    ///
    /// # Errors
    /// [`FormatFault`].
    pub fn decode(pool: PoolId, page: u32, bytes: &[u8]) -> Result<Self, FormatFault> {
        let mut fields = FieldReader::open(bytes, MAGIC, VERSION)?;
        fields.zeros(2)?;
        if fields.u32()? != page {
            return Err(FormatFault::Misplaced { owner: "page" });
        }
        fields.pool(pool)?;
        let mut decoded = Self::empty(pool, page);
        check("page", page, page < Self::PAGES_MAX)?;
        let (first_zone, rows) = (fields.u32()?, fields.u32()?);
        check("first_zone", first_zone, first_zone == decoded.first_zone().0)?;
        check("rows", rows, rows == Self::ROWS)?;
        fields.zeros(16)?;
        for row in decoded.rows.iter_mut() {
            *row = Row::read(&mut fields)?;
        }
        fields.zeros(160)?;
        fields.end()?;
        Ok(decoded)
    }

    fn check(&self) -> Result<(), FormatFault> {
        check("page", self.page, self.page < Self::PAGES_MAX)?;
        self.rows.iter().try_for_each(Row::check)
    }
}
