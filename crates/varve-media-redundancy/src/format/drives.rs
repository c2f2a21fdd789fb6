//! The drive table: all drives of a pool and their states, its classes, and the history of the table itself.
//!
//! Every change raises the epoch. Which of several tables counts is told from epochs and histories.

use varve_stdx::Writer;
use varve_types::PoolId;
use varve_types::limits::{MEDIA_ALIGN, SEGMENT_BYTES_MAX};

use super::fault::{FormatFault, check, check_counter};
use super::fields::{FieldReader, seal};
use super::page::LayoutPage;
use crate::class::{Class, ClassId, MediumKind, MediumKinds, StripGeometry, StripeShape};
use crate::ids::{DriveId, DriveNumber, Epoch, HistoryId, UnitNumber};

const MAGIC: [u8; 8] = *b"VARVDRVS";
const VERSION: u16 = 1;
const HEADER_BYTES: usize = 128;
const EARLIER_BYTES: usize = 24;
const CLASS_BYTES: usize = 16;
const RECORD_BYTES: usize = 128;
const CHECKSUM_BYTES: usize = 8;
const FLAG_SLOW: u8 = 1;
const FLAG_REMOVED: u8 = 2;
const NO_DRIVE: u8 = DriveNumber::COUNT;
const NO_SUCCESSOR: u8 = 0;

/// Three words of feature flags, with the meaning that they have in roots.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FeatureWords {
    /// Whoever does not know a flag may read and write, and keeps it.
    pub compat: u64,
    /// Whoever does not know a flag may read, and must not write.
    pub ro_compat: u64,
    /// Whoever does not know a flag must not even read.
    pub incompat: u64,
}

impl FeatureWords {
    /// Flags of `ro_compat` that this version knows.
    pub const RO_COMPAT_KNOWN: u64 = 0;
    /// Flags of `incompat` that this version knows.
    pub const INCOMPAT_KNOWN: u64 = 0;

    /// Whether this version may write a pool with these flags.
    #[must_use]
    pub const fn is_writable(self) -> bool {
        self.ro_compat & !Self::RO_COMPAT_KNOWN == 0
    }
}

/// A history that the table's own one followed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EarlierHistory {
    /// Which.
    pub history: HistoryId,
    /// Its last epoch.
    pub ended: Epoch,
}

/// What a drive is to the pool.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum DriveState {
    /// It is read and written.
    Live,
    /// Tables and roots are being written to it.
    Joining,
    /// It is read, and what it has is moved elsewhere.
    Leaving,
    /// It is not read any more, whatever it holds.
    Failed,
    /// It left, or failed and nothing names it any more.
    Gone,
}

impl DriveState {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 5] = [Self::Live, Self::Joining, Self::Leaving, Self::Failed, Self::Gone];

    const fn number(self) -> u8 {
        match self {
            Self::Live => 1,
            Self::Joining => 2,
            Self::Leaving => 3,
            Self::Failed => 4,
            Self::Gone => 5,
        }
    }

    /// Whether a drive in this state may be in `next` by a later table: one that failed or left never lives again.
    #[must_use]
    pub const fn may_become(self, next: Self) -> bool {
        match (self, next) {
            (Self::Live | Self::Joining | Self::Leaving, _)
            | (Self::Failed, Self::Failed)
            | (Self::Failed | Self::Gone, Self::Gone) => true,
            (Self::Failed | Self::Gone, _) => false,
        }
    }

    /// Whether strips on such a drive count.
    #[must_use]
    pub const fn is_readable(self) -> bool {
        match self {
            Self::Live | Self::Leaving => true,
            Self::Joining | Self::Failed | Self::Gone => false,
        }
    }
}

/// What a drive is used for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DriveRoles(u8);

impl DriveRoles {
    /// Strips of segments.
    pub const SEGMENTS: Self = Self(1);
    /// Copies of journals.
    pub const JOURNALS: Self = Self(2);
    /// Copies of roots.
    pub const ROOTS: Self = Self(4);
    /// All of them.
    pub const ALL: Self = Self(7);

    /// Those whose bits are set.
    #[must_use]
    pub const fn new(bits: u8) -> Option<Self> {
        if bits & !Self::ALL.0 == 0 { Some(Self(bits)) } else { None }
    }

    /// The bits.
    #[must_use]
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// These and `roles`.
    #[must_use]
    pub const fn with(self, roles: Self) -> Self {
        Self(self.0 | roles.0)
    }

    /// These but for `roles`.
    #[must_use]
    pub const fn without(self, roles: Self) -> Self {
        Self(self.0 & !roles.0)
    }

    /// Whether all of `roles` are among them.
    #[must_use]
    pub const fn has(self, roles: Self) -> bool {
        self.0 & roles.0 == roles.0
    }
}

/// What was asked for of a drive that is to go: once nothing names it any more, it is gone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DriveRemoval {
    /// The drive that takes its place: it gets its strips where it can.
    pub successor: Option<DriveNumber>,
}

/// Units that hold the tables and roots of a drive of an earlier format; of others they lie before the units.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HeldUnits {
    /// The first.
    pub first: UnitNumber,
    /// How many; 0 for none.
    pub count: u32,
}

impl HeldUnits {
    /// None.
    pub const NONE: Self = Self { first: UnitNumber(0), count: 0 };
}

/// A drive of the pool.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DriveRecord {
    /// Its number.
    pub number: DriveNumber,
    /// Its identity.
    pub id: DriveId,
    /// What it is to the pool.
    pub state: DriveState,
    /// What it is used for.
    pub roles: DriveRoles,
    /// What it is made of.
    pub kind: MediumKind,
    /// Whether it gets no new places, as it is slower than its peers.
    pub is_slow: bool,
    /// That it is to go; of drives that leave, failed or are gone.
    pub removal: Option<DriveRemoval>,
    /// The number that it had before it returned: what it brought has labels with it.
    pub former: Option<DriveNumber>,
    /// Its units.
    pub units: u32,
    /// Of those, the ones that no place may have.
    pub held: HeldUnits,
    /// Since when it is in its state.
    pub since_epoch: Epoch,
    /// The same, in ms since 1970.
    pub since_unix_ms: u64,
    /// Model and serial number, at most 64 B without control characters, for people.
    pub name: String,
}

/// The table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DriveTable {
    /// What a version must know.
    pub features: FeatureWords,
    /// Which pool it is of.
    pub pool: PoolId,
    /// Raised with each change.
    pub epoch: Epoch,
    /// The line of tables that it is of.
    pub history: HistoryId,
    /// Histories before this one, the newest first.
    pub lineage: Vec<EarlierHistory>,
    /// Classes of the pool.
    pub classes: Vec<Class>,
    /// The class of new zones.
    pub class: ClassId,
    /// Drives, by number.
    pub drives: Vec<DriveRecord>,
    /// Most drives that may be dropped between two tables that are durable everywhere.
    pub drops_max: u8,
    /// Number that the next drive gets; 255 when all were used.
    pub next_drive: u8,
    /// Bytes of a segment's slot.
    pub segment_bytes: u32,
    /// Slots of a zone.
    pub zone_segments: u32,
    /// Zones that there can be.
    pub zones_max: u32,
    /// When the last loss was, of a drive or of a strip that was found bad; 0 for never.
    pub loss_epoch: Epoch,
    /// `loss_epoch` that the last whole walk began with.
    pub walked_epoch: Epoch,
    /// Epoch of the last table that is known to be durable on all drives that it called live, joining or leaving.
    pub settled_epoch: Epoch,
    /// Kinds of drives that copies of journals are to be on, while enough of them are there.
    pub journal_kinds: MediumKinds,
}

impl DriveTable {
    /// Most earlier histories.
    pub const LINEAGE_MAX: usize = 16;
    /// Most classes.
    pub const CLASSES_MAX: usize = 16;
    /// Most slots of a zone: a row counts them in two bytes.
    pub const ZONE_SEGMENTS_MAX: u32 = u16::MAX as u32;
    /// Bytes of a table without lineage, classes and drives.
    pub const LEN_MIN: usize = HEADER_BYTES + CHECKSUM_BYTES;
    /// Most bytes.
    pub const LEN_MAX: usize = Self::LEN_MIN
        + Self::LINEAGE_MAX * EARLIER_BYTES
        + Self::CLASSES_MAX * CLASS_BYTES
        + DriveNumber::COUNT as usize * RECORD_BYTES;

    /// The record of a drive.
    #[must_use]
    pub fn drive(&self, number: DriveNumber) -> Option<&DriveRecord> {
        let at = self.drives.binary_search_by_key(&number, |drive| drive.number).ok()?;
        self.drives.get(at)
    }

    /// A class by its number.
    #[must_use]
    pub fn class_of(&self, id: ClassId) -> Option<&Class> {
        self.classes.iter().find(|class| class.id == id)
    }

    /// Kinds of drives that new zones may use.
    #[must_use]
    pub fn zone_kinds(&self) -> MediumKinds {
        self.class_of(self.class).map_or(MediumKinds::ALL, |class| class.kinds)
    }

    /// Sizes of strips in zones of a shape.
    #[must_use]
    pub fn geometry(&self, shape: StripeShape) -> StripGeometry {
        let Self { segment_bytes, zone_segments, .. } = *self;
        StripGeometry { shape, segment_bytes, zone_segments }
    }

    /// The bytes that are stored.
    ///
    /// # Panics
    /// When it is not sound.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        self.check().expect("a table is sound when it is stored");
        let len = Self::LEN_MIN
            + self.lineage.len() * EARLIER_BYTES
            + self.classes.len() * CLASS_BYTES
            + self.drives.len() * RECORD_BYTES;
        let mut bytes = vec![0; len];
        seal(&mut bytes, MAGIC, VERSION, |w| {
            w.u16(0);
            w.u32(u32::try_from(len).expect("at most 33 KiB"));
            w.u64(self.features.compat);
            w.u64(self.features.ro_compat);
            w.u64(self.features.incompat);
            w.array(self.pool.0);
            w.u64(self.epoch.0);
            w.array(self.history.0);
            w.u16(u16::try_from(self.lineage.len()).expect("checked"));
            w.u8(count(self.classes.len()));
            w.u8(self.class.get());
            w.u8(count(self.drives.len()));
            w.u8(self.drops_max);
            w.u8(self.next_drive);
            w.u8(self.journal_kinds.bits());
            w.u32(self.segment_bytes);
            w.u32(self.zone_segments);
            w.u32(self.zones_max);
            w.u32(0);
            w.u64(self.loss_epoch.0);
            w.u64(self.walked_epoch.0);
            w.u64(self.settled_epoch.0);
            for earlier in &self.lineage {
                w.array(earlier.history.0);
                w.u64(earlier.ended.0);
            }
            for class in &self.classes {
                w.u8(class.id.get());
                w.u8(class.shape.data());
                w.u8(class.shape.parity());
                w.u8(class.kinds.bits());
                w.zeros(12);
            }
            for drive in &self.drives {
                drive.write(w);
            }
        });
        bytes
    }

    /// The table of `pool` that bytes hold.
    ///
    /// # Errors
    /// [`FormatFault`].
    pub fn decode(pool: PoolId, bytes: &[u8]) -> Result<Self, FormatFault> {
        let mut fields = FieldReader::open(bytes, MAGIC, VERSION)?;
        fields.zeros(2)?;
        fields.length(bytes.len())?;
        let features = FeatureWords {
            compat: fields.u64()?,
            ro_compat: fields.u64()?,
            incompat: fields.u64()?,
        };
        let flags = features.incompat & !FeatureWords::INCOMPAT_KNOWN;
        if flags != 0 {
            return Err(FormatFault::Features { flags });
        }
        fields.pool(pool)?;
        let (epoch, history) = (Epoch(fields.u64()?), HistoryId(fields.array()?));
        let (lineage_count, class_count) = (fields.u16()?, fields.u8()?);
        let (class, drive_count) = (read_class_id(&mut fields)?, fields.u8()?);
        let (drops_max, next_drive) = (fields.u8()?, fields.u8()?);
        let journal_kinds = read_kinds(&mut fields)?;
        let (segment_bytes, zone_segments, zones_max) =
            (fields.u32()?, fields.u32()?, fields.u32()?);
        fields.zeros(4)?;
        let (loss_epoch, walked_epoch) = (Epoch(fields.u64()?), Epoch(fields.u64()?));
        let settled_epoch = Epoch(fields.u64()?);
        let lineage = (0..lineage_count).map(|_| read_earlier(&mut fields));
        let lineage = lineage.collect::<Result<_, _>>()?;
        let classes = (0..class_count).map(|_| read_class(&mut fields));
        let classes = classes.collect::<Result<_, _>>()?;
        let drives = (0..drive_count).map(|_| DriveRecord::read(&mut fields));
        let drives = drives.collect::<Result<_, _>>()?;
        fields.end()?;
        let table = Self {
            features,
            pool,
            epoch,
            history,
            lineage,
            classes,
            class,
            drives,
            drops_max,
            next_drive,
            segment_bytes,
            zone_segments,
            zones_max,
            loss_epoch,
            walked_epoch,
            settled_epoch,
            journal_kinds,
        };
        table.check()?;
        Ok(table)
    }

    /// Relations between the fields.
    pub(crate) fn check(&self) -> Result<(), FormatFault> {
        let align = u32::try_from(MEDIA_ALIGN).expect("4096");
        let Self { epoch, segment_bytes, zone_segments, zones_max, .. } = *self;
        let is_size = (align..=SEGMENT_BYTES_MAX).contains(&segment_bytes);
        check("segment_bytes", segment_bytes, is_size && segment_bytes.is_multiple_of(align))?;
        let is_zone = (1..=Self::ZONE_SEGMENTS_MAX).contains(&zone_segments);
        check("zone_segments", zone_segments, is_zone)?;
        let is_paged = zones_max > 0 && zones_max.is_multiple_of(LayoutPage::ROWS);
        let are_slots = u64::from(zones_max) * u64::from(zone_segments) <= u64::from(u32::MAX);
        let is_bounded = zones_max / LayoutPage::ROWS <= LayoutPage::PAGES_MAX;
        check("zones_max", zones_max, is_paged && are_slots && is_bounded)?;
        // All other epochs of the table are at most this one.
        check_counter("epoch", epoch.0)?;
        check("settled_epoch", self.settled_epoch.0, self.settled_epoch <= epoch)?;
        check("walked_epoch", self.walked_epoch.0, self.walked_epoch <= self.loss_epoch)?;
        check("loss_epoch", self.loss_epoch.0, self.loss_epoch <= epoch)?;
        check("drops_max", self.drops_max, self.drops_max <= StripeShape::PARITY_MAX)?;
        self.check_lineage()?;
        check("class_count", self.classes.len() as u64, self.classes.len() <= Self::CLASSES_MAX)?;
        for (index, class) in self.classes.iter().enumerate() {
            let is_new = self.classes.iter().take(index).all(|before| before.id != class.id);
            check("class", class.id.get(), is_new)?;
        }
        check("class", self.class.get(), self.class_of(self.class).is_some())?;
        self.check_drives()
    }

    fn check_lineage(&self) -> Result<(), FormatFault> {
        let lineage = &self.lineage;
        check("lineage_count", lineage.len() as u64, lineage.len() <= Self::LINEAGE_MAX)?;
        let mut later = self.epoch;
        for (index, earlier) in lineage.iter().enumerate() {
            check("lineage", earlier.ended.0, earlier.ended < later)?;
            let is_other = |other: &EarlierHistory| other.history != earlier.history;
            let is_new =
                self.history != earlier.history && lineage.iter().take(index).all(is_other);
            check("lineage", index as u64, is_new)?;
            later = earlier.ended;
        }
        Ok(())
    }

    fn check_drives(&self) -> Result<(), FormatFault> {
        let most = usize::from(DriveNumber::COUNT);
        check("drive_count", self.drives.len() as u64, (1..=most).contains(&self.drives.len()))?;
        let mut least = 0;
        for (index, drive) in self.drives.iter().enumerate() {
            let number = drive.number.get();
            check("drive", number, number >= least && number < self.next_drive)?;
            least = number + 1;
            let is_new = self.drives.iter().take(index).all(|before| before.id != drive.id);
            check("drive_id", number, is_new)?;
            let since_max = match drive.state {
                DriveState::Failed => self.loss_epoch,
                DriveState::Live | DriveState::Joining | DriveState::Leaving | DriveState::Gone => {
                    self.epoch
                }
            };
            check("since_epoch", drive.since_epoch.0, drive.since_epoch <= since_max)?;
            if let Some(former) = drive.former {
                let is_former = former < drive.number && self.is_given_up(former);
                check("former", former.get(), is_former)?;
            }
            drive.check_removal(self.next_drive)?;
            let HeldUnits { first, count } = drive.held;
            let is_within = first.0.checked_add(count).is_some_and(|end| end <= drive.units);
            check("held_units", count, is_within && (count > 0 || first.0 == 0))?;
            let is_name = drive.name.len() <= DriveRecord::NAME_BYTES_MAX;
            check("name", number, is_name && !drive.name.contains(char::is_control))?;
        }
        Ok(())
    }

    /// Whether no drive is written under a number any more.
    fn is_given_up(&self, number: DriveNumber) -> bool {
        self.drive(number).is_none_or(|drive| !drive.state.may_become(DriveState::Live))
    }
}

impl DriveRecord {
    /// Most bytes of a name.
    pub const NAME_BYTES_MAX: usize = 64;
    /// Bytes of a record in the table.
    pub const LEN: usize = RECORD_BYTES;

    /// The drive that gets its strips where it can.
    #[must_use]
    pub fn successor(&self) -> Option<DriveNumber> {
        self.removal?.successor
    }

    fn check_removal(&self, next_drive: u8) -> Result<(), FormatFault> {
        let Some(DriveRemoval { successor }) = self.removal else { return Ok(()) };
        let goes = match self.state {
            DriveState::Leaving | DriveState::Failed | DriveState::Gone => true,
            DriveState::Live | DriveState::Joining => false,
        };
        check("flags", FLAG_REMOVED, goes)?;
        let Some(successor) = successor else { return Ok(()) };
        // Who takes a place joined later, so none has the number 0.
        let joined_later = successor > self.number && successor.get() < next_drive;
        check("successor", successor.get(), joined_later)
    }

    fn write(&self, w: &mut Writer<'_>) {
        w.u8(self.number.get());
        w.u8(self.state.number());
        w.u8(self.roles.bits());
        w.u8(self.kind.bit());
        let slow = if self.is_slow { FLAG_SLOW } else { 0 };
        w.u8(slow | self.removal.map_or(0, |_| FLAG_REMOVED));
        w.u8(self.former.map_or(NO_DRIVE, DriveNumber::get));
        w.u8(self.successor().map_or(NO_SUCCESSOR, DriveNumber::get));
        w.zeros(1);
        w.array(self.id.0);
        w.u32(self.units);
        w.u32(0);
        w.u64(self.since_epoch.0);
        w.u64(self.since_unix_ms);
        w.bytes(self.name.as_bytes());
        w.zeros(Self::NAME_BYTES_MAX - self.name.len());
        w.u32(self.held.first.0);
        w.u32(self.held.count);
        w.u64(0);
    }

    fn read(fields: &mut FieldReader<'_>) -> Result<Self, FormatFault> {
        let number = fields.drive()?;
        let (state, roles, kind, flags) = (fields.u8()?, fields.u8()?, fields.u8()?, fields.u8()?);
        let bad = |field, value: u8| FormatFault::Field { field, value: value.into() };
        let state = DriveState::ALL
            .into_iter()
            .find(|known| known.number() == state)
            .ok_or(bad("state", state))?;
        let kind = MediumKind::ALL
            .into_iter()
            .find(|known| known.bit() == kind)
            .ok_or(bad("kind", kind))?;
        let roles = DriveRoles::new(roles).ok_or(bad("roles", roles))?;
        check("flags", flags, flags & !(FLAG_SLOW | FLAG_REMOVED) == 0)?;
        let former = DriveNumber::new(fields.u8()?);
        let removal = read_removal(flags & FLAG_REMOVED != 0, fields.u8()?)?;
        fields.zeros(1)?;
        let (id, units) = (DriveId(fields.array()?), fields.u32()?);
        fields.zeros(4)?;
        let (since_epoch, since_unix_ms) = (Epoch(fields.u64()?), fields.u64()?);
        let name = read_name(fields.array()?)?;
        let held = HeldUnits { first: UnitNumber(fields.u32()?), count: fields.u32()? };
        fields.zeros(8)?;
        let is_slow = flags & FLAG_SLOW != 0;
        Ok(Self {
            number,
            id,
            state,
            roles,
            kind,
            is_slow,
            removal,
            former,
            units,
            held,
            since_epoch,
            since_unix_ms,
            name,
        })
    }
}

/// Whether a drive is to go, and which one takes its place.
fn read_removal(is_removed: bool, successor: u8) -> Result<Option<DriveRemoval>, FormatFault> {
    let known = DriveNumber::new(successor).filter(|it| it.get() != NO_SUCCESSOR);
    let is_number = successor == NO_SUCCESSOR || known.is_some();
    check("successor", successor, is_number && (is_removed || known.is_none()))?;
    Ok(is_removed.then_some(DriveRemoval { successor: known }))
}

/// A name with zeros behind it.
fn read_name(bytes: [u8; DriveRecord::NAME_BYTES_MAX]) -> Result<String, FormatFault> {
    let text = std::str::from_utf8(&bytes)
        .map_err(|error| FormatFault::Field { field: "name", value: error.valid_up_to() as u64 })?;
    Ok(text.trim_end_matches('\0').to_owned())
}

fn read_class_id(fields: &mut FieldReader<'_>) -> Result<ClassId, FormatFault> {
    let id = fields.u8()?;
    ClassId::new(id).ok_or(FormatFault::Field { field: "class", value: id.into() })
}

fn read_class(fields: &mut FieldReader<'_>) -> Result<Class, FormatFault> {
    let id = read_class_id(fields)?;
    let (data, parity) = (fields.u8()?, fields.u8()?);
    let bad = FormatFault::Field { field: "data_strips", value: data.into() };
    let shape = StripeShape::new(data, parity).ok_or(bad)?;
    let kinds = read_kinds(fields)?;
    fields.zeros(12)?;
    Ok(Class { id, shape, kinds })
}

fn read_kinds(fields: &mut FieldReader<'_>) -> Result<MediumKinds, FormatFault> {
    let bits = fields.u8()?;
    MediumKinds::new(bits).ok_or(FormatFault::Field { field: "kinds", value: bits.into() })
}

fn read_earlier(fields: &mut FieldReader<'_>) -> Result<EarlierHistory, FormatFault> {
    Ok(EarlierHistory { history: HistoryId(fields.array()?), ended: Epoch(fields.u64()?) })
}

fn count(len: usize) -> u8 {
    u8::try_from(len).expect("checked before it is stored")
}
