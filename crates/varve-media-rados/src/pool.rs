//! A pool of Varve on two pools of RADOS: made, found, opened, and its shards claimed.

use std::collections::BTreeSet;
use std::rc::Rc;

use futures_util::stream::{self, StreamExt, TryStreamExt};
use varve_media::{Error, JournalStore, Media, Result, RootKey, SegmentGeometry};
use varve_membership::TableStore;
use varve_reactor::Reactor;
use varve_register::NameStore;
use varve_stdx::BufSlice;
use varve_types::limits::{MEDIA_ALIGN, SEGMENT_BYTES_MAX};
use varve_types::{CellId, PoolId, ShardId};

use crate::claim::{EPOCH, PARTS_AT_ONCE, ShardClaim, encode, number};
use crate::failure;
use crate::lane::RadosJournal;
use crate::layout::{ObjectNames, decode_record, encode_record, lane_parts};
use crate::local_lane::LocalLane;
use crate::name_table::NameTable;
use crate::nodes::NodeTable;
use crate::objects::{ObjectChange, Objects, Refusal, Write};
use crate::roots::{self, Roots, VERSION};
use crate::segments::Segments;

/// Bytes read of a record: more than it has, so that a longer one is told.
const RECORD_BYTES_MAX: usize = 4096;

/// Where the lanes of a pool are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum JournalPlace {
    /// In the metadata pool: whoever reaches the cluster can take a shard over.
    Rados,
    /// Elsewhere, on a drive of one machine: only who has that drive can serve the pool.
    Local,
}

/// Which part of a pool this is: most pools have one cell, which is all of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CellOf {
    /// This one.
    pub cell: CellId,
    /// How many there are.
    pub cells: u16,
}

impl CellOf {
    /// All of a pool.
    pub const WHOLE: Self = Self { cell: CellId::FIRST, cells: 1 };
}

/// Figures of a new pool, or of one of its cells. They stay for its life.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RadosSpec {
    /// Identity; random, never used before. Of a cell: that which it goes by ([`PoolId::of_cell`]).
    pub pool: PoolId,
    /// Which cell of how many.
    pub cell: CellOf,
    /// Wall clock of its making, in ms since 1970.
    pub created_unix_ms: u64,
    /// Bytes of a segment: a multiple of 4 KiB and of the data pool's stripe, at most 32 MiB.
    pub segment_bytes: u32,
    /// Segments at most.
    pub segment_count: u32,
    /// Bytes of each lane: a multiple of 4 KiB.
    pub lane_bytes: u64,
    /// Lanes: one for each shard that the pool can have.
    pub lane_count: u16,
    /// Most bytes of a root.
    pub root_bytes_max: u32,
    /// Where the lanes are.
    pub journal: JournalPlace,
}

impl RadosSpec {
    /// Checks every figure.
    ///
    /// # Errors
    /// [`Error::Spec`] names the first that makes no sense.
    pub fn validate(&self) -> Result<()> {
        let align = MEDIA_ALIGN as u64;
        let check = |field, value: u64, min: u64, max: u64, multiple: u64| {
            let is_sane = (min..=max).contains(&value) && value.is_multiple_of(multiple);
            if is_sane { Ok(()) } else { Err(Error::Spec { field, value }) }
        };
        check("segment_bytes", self.segment_bytes.into(), align, SEGMENT_BYTES_MAX.into(), align)?;
        check("segment_count", self.segment_count.into(), 1, u32::MAX.into(), 1)?;
        check("lane_bytes", self.lane_bytes, align, 1 << 36, align)?;
        check("lane_count", self.lane_count.into(), 1, 4096, 1)?;
        check("root_bytes_max", self.root_bytes_max.into(), 1, 16 << 20, 1)?;
        let CellOf { cell, cells } = self.cell;
        check("cells", cells.into(), 1, CellId::COUNT_MAX.into(), 1)?;
        check("cell", cell.0.into(), 0, u64::from(cells) - 1, 1)?;
        // A lane on a drive of one machine binds its cell to that machine.
        let is_bound = self.journal == JournalPlace::Local;
        check("cells", cells.into(), 1, if is_bound { 1 } else { u64::MAX }, 1)
    }

    /// What each cell of such a pool is to be, if that has `cells`. They share its size.
    ///
    /// # Panics
    /// When there is none, or this is a cell already.
    pub fn in_cells(&self, cells: u16) -> impl DoubleEndedIterator<Item = Self> {
        assert!(cells > 0 && self.cell == CellOf::WHOLE, "a whole pool is made of cells");
        (0..cells).map(CellId).map(move |cell| Self {
            pool: self.pool.of_cell(cell),
            cell: CellOf { cell, cells },
            segment_count: self.segment_count / u32::from(cells),
            ..self.clone()
        })
    }

    /// The largest segment of at most `bytes` whose stripes are full on a data pool with that alignment.
    #[must_use]
    pub fn segment_bytes_for(alignment: u64, bytes: u32) -> Option<u32> {
        let align = MEDIA_ALIGN as u64;
        let stripes = (1..=align).find(|stripes| (stripes * alignment).is_multiple_of(align))?;
        let unit = stripes * alignment;
        u32::try_from(u64::from(bytes) / unit * unit).ok().filter(|bytes| *bytes > 0)
    }
}

/// An open pool, on one thread.
pub struct RadosPool {
    pub(crate) data: Rc<dyn Objects>,
    pub(crate) meta: Rc<dyn Objects>,
    pub(crate) names: ObjectNames,
    pub(crate) spec: RadosSpec,
}

impl RadosPool {
    /// Makes a pool: empty roots and lanes first, then the records. Durable on return; cut off, there is no pool, and
    /// making it again goes on, with size and time of the record that is there.
    ///
    /// # Errors
    /// [`Error::Spec`], also where segments would leave stripes of the data pool half full; [`Error::Open`] for one
    /// that was begun with other figures; [`Error::PoolExists`]; what RADOS refuses.
    pub async fn make(
        data: &Rc<dyn Objects>,
        meta: &Rc<dyn Objects>,
        spec: &RadosSpec,
    ) -> Result<()> {
        spec.validate()?;
        if !u64::from(spec.segment_bytes).is_multiple_of(data.alignment()) {
            return Err(Error::Spec { field: "segment_bytes", value: spec.segment_bytes.into() });
        }
        if meta.alignment() != 1 {
            let reason = "lanes and roots need a replicated pool".to_owned();
            return Err(Error::Open { path: format!("rados:{}", meta.pool()), reason });
        }
        let names = ObjectNames::new(spec.pool);
        let begun = begun(&**data, &names.record(), spec).await?;
        let spec = begun.as_ref().unwrap_or(spec);
        make(&**meta, &names.root(RootKey::Pool), roots::empty()).await?;
        for shard in (0..spec.lane_count).map(ShardId) {
            make(&**meta, &names.root(RootKey::Shard(shard)), roots::empty()).await?;
            let parts = (0..lane_parts(spec)).map(|part| {
                let (meta, object) = (Rc::clone(meta), names.lane_part(shard, part));
                async move { make(&*meta, &object, empty_lane_part()).await }
            });
            stream::iter(parts).buffer_unordered(PARTS_AT_ONCE).try_collect::<Vec<_>>().await?;
        }
        // In the data pool too, so that another one is not taken for it.
        if begun.is_none() {
            put_record(&**data, &names.record(), spec).await?;
        }
        put_record(&**meta, &names.record(), spec).await
    }

    /// Pools of Varve that a metadata pool holds.
    ///
    /// # Errors
    /// What RADOS refuses.
    pub async fn find(meta: &dyn Objects) -> Result<Vec<String>> {
        let names = meta.list().await;
        let names = names.map_err(|refusal| failure::of("list", meta, "", 0, 0, refusal))?;
        let (mut pools, mut unread, mut cells) = (Vec::new(), Vec::new(), BTreeSet::new());
        for name in names {
            let pool = name.strip_prefix("varve.").and_then(|name| name.strip_suffix(".pool"));
            let Some(pool) = pool.filter(|pool| !pool.contains('.')) else { continue };
            let Ok(spec) = get_record(meta, &name).await else {
                unread.push(pool.to_owned());
                continue;
            };
            if spec.cell.cell == CellId::FIRST {
                pools.push(pool.to_owned());
            }
            let whole = spec.pool.whole(spec.cell.cell);
            cells.extend((1..spec.cell.cells).map(|cell| whole.of_cell(CellId(cell)).to_string()));
        }
        // A cell is found by the first one of its pool. What cannot be read is a pool all the same, unless it is a cell
        // of one.
        pools.extend(unread.into_iter().filter(|pool| !cells.contains(pool)));
        pools.sort();
        Ok(pools)
    }

    /// Opens a pool.
    ///
    /// # Errors
    /// [`Error::NoPool`], [`Error::Corrupt`], [`Error::Unsupported`], what RADOS refuses.
    pub async fn open(data: Rc<dyn Objects>, meta: Rc<dyn Objects>, pool: PoolId) -> Result<Self> {
        let names = ObjectNames::new(pool);
        let spec = get_record(&*meta, &names.record()).await?;
        let of_data = get_record(&*data, &names.record()).await?;
        if spec.pool != pool || of_data != spec {
            let reason = format!("it is the record of {}, and of another making", of_data.pool);
            let path = format!("rados:{}/{}", data.pool(), names.record());
            return Err(Error::Corrupt { what: "the pool's record", path, reason });
        }
        Ok(Self { data, meta, names, spec })
    }

    /// Its figures.
    #[must_use]
    pub fn spec(&self) -> &RadosSpec {
        &self.spec
    }

    /// The pools of RADOS that it is on: for segments, and for everything else.
    #[must_use]
    pub fn objects(&self) -> (&Rc<dyn Objects>, &Rc<dyn Objects>) {
        (&self.data, &self.meta)
    }

    /// Whether its root was ever written: then shards may be served. Claims nothing.
    ///
    /// # Errors
    /// What RADOS refuses.
    pub async fn has_root(&self) -> Result<bool> {
        Ok(number(&*self.meta, &self.names.root(RootKey::Pool), VERSION).await? != 0)
    }

    /// The identity of the pool that this is, or is a cell of.
    #[must_use]
    pub fn whole(&self) -> PoolId {
        self.spec.pool.whole(self.spec.cell.cell)
    }

    /// Where the table of the pool's nodes lies, one for all of its cells; nothing is there before the first one joins.
    #[must_use]
    pub fn nodes(&self) -> Rc<dyn TableStore> {
        let object = ObjectNames::new(self.whole()).nodes();
        Rc::new(NodeTable { objects: Rc::clone(&self.meta), object })
    }

    /// Where the register of names lies, one for all cells; `None` in a pool of one, which needs none.
    #[must_use]
    pub fn register(&self) -> Option<Rc<dyn NameStore>> {
        let (pool, names) = (self.whole(), ObjectNames::new(self.whole()));
        let (cells, objects) = (self.spec.cell.cells, Rc::clone(&self.meta));
        (cells > 1).then(|| Rc::new(NameTable { pool, cells, objects, names }) as Rc<dyn NameStore>)
    }

    /// Takes over a shard from whoever has it, and gives what its thread works with. Takes
    /// [`LEASE_NS`](crate::LEASE_NS) and some longer where nobody gave it back. Where lanes are not in RADOS, `local`
    /// is the shard's, which nobody else has open: its appends do not demand the claim.
    ///
    /// # Errors
    /// [`Error::NoLane`]; [`Error::Open`] when a lane is missing, was given to a pool whose lanes are in RADOS, or
    /// lacks what the last claim acknowledged; [`Error::Fenced`] when another claim came right behind; what RADOS
    /// refuses.
    pub async fn claim(
        &self,
        reactor: &Reactor,
        shard: ShardId,
        local: Option<LocalLane>,
    ) -> Result<(Media, Rc<ShardClaim>)> {
        self.check_lane(shard, local.as_ref().map(|lane| &*lane.journal))?;
        let parts = lane_parts(&self.spec);
        let claim =
            ShardClaim::take(reactor, &self.meta, &self.names, shard, parts, local.as_ref())
                .await?;
        Ok((self.media(&claim, local.map(|lane| lane.journal)), claim))
    }

    pub(crate) fn media(
        &self,
        claim: &Rc<ShardClaim>,
        local_journal: Option<Rc<dyn JournalStore>>,
    ) -> Media {
        let RadosSpec { lane_count, lane_bytes, root_bytes_max, .. } = self.spec;
        let lane_in_rados = || -> Rc<dyn JournalStore> {
            Rc::new(RadosJournal {
                objects: Rc::clone(&self.meta),
                names: self.names.clone(),
                claim: Rc::clone(claim),
                capacity: lane_bytes,
            })
        };
        Media {
            segments: Rc::new(Segments {
                objects: Rc::clone(&self.data),
                names: self.names.clone(),
                claim: Rc::clone(claim),
                geometry: SegmentGeometry {
                    segment_bytes: self.spec.segment_bytes,
                    segment_count: self.spec.segment_count,
                },
            }),
            journal: local_journal.unwrap_or_else(lane_in_rados),
            roots: Rc::new(Roots {
                objects: Rc::clone(&self.meta),
                names: self.names.clone(),
                claim: Rc::clone(claim),
                lane_count,
                bytes_max: root_bytes_max,
            }),
            fence: Rc::clone(claim) as Rc<dyn varve_media::Fence>,
        }
    }

    /// Refuses a lane that does not exist, one where there is to be none, none where there is to be one, and one of
    /// another size.
    pub(crate) fn check_lane(
        &self,
        shard: ShardId,
        local: Option<&dyn JournalStore>,
    ) -> Result<()> {
        if shard.0 >= self.spec.lane_count {
            return Err(Error::NoLane { shard, lanes: self.spec.lane_count });
        }
        let reason = match (self.spec.journal, local) {
            (JournalPlace::Rados, None) => return Ok(()),
            (JournalPlace::Local, Some(lane)) if lane.capacity() == self.spec.lane_bytes => {
                return Ok(());
            }
            (JournalPlace::Rados, Some(_)) => "it is in RADOS".to_owned(),
            (JournalPlace::Local, None) => "it is on a drive that was not given".to_owned(),
            (JournalPlace::Local, Some(lane)) => {
                format!("it has {} bytes, not {}", lane.capacity(), self.spec.lane_bytes)
            }
        };
        let path = format!("the journal of shard {shard} of pool {}", self.spec.pool);
        Err(Error::Open { path, reason })
    }
}

async fn put_record(objects: &dyn Objects, object: &str, spec: &RadosSpec) -> Result<()> {
    let record = encode_record(spec);
    let change = ObjectChange {
        creates: true,
        write: Some(Write::Whole(BufSlice::copy_from(&record))),
        ..ObjectChange::default()
    };
    match objects.change(object, change).await {
        Ok(()) => Ok(()),
        Err(Refusal::EXISTS) => {
            Err(Error::PoolExists { path: format!("rados:{}/{object}", objects.pool()) })
        }
        Err(refusal) => Err(failure::of("write", objects, object, 0, record.len(), refusal)),
    }
}

/// The record of a pool whose making was cut off when it was in the data pool only.
async fn begun(data: &dyn Objects, object: &str, spec: &RadosSpec) -> Result<Option<RadosSpec>> {
    let begun = match get_record(data, object).await {
        Ok(begun) => begun,
        Err(Error::NoPool { .. }) => return Ok(None),
        Err(error) => return Err(error),
    };
    let RadosSpec { created_unix_ms, segment_count, .. } = begun;
    if begun != (RadosSpec { created_unix_ms, segment_count, ..spec.clone() }) {
        let reason =
            format!("its making was begun with {}, not {}: go on with these", of(&begun), of(spec));
        return Err(Error::Open { path: format!("rados:{}/{object}", data.pool()), reason });
    }
    Ok(Some(begun))
}

/// What has to be the same where a making goes on.
fn of(spec: &RadosSpec) -> String {
    let RadosSpec { lane_count, lane_bytes, segment_bytes, root_bytes_max, .. } = spec;
    let CellOf { cell, cells } = spec.cell;
    let journal = match spec.journal {
        JournalPlace::Rados => "in RADOS",
        JournalPlace::Local => "on a drive",
    };
    format!(
        "{lane_count} lanes of {lane_bytes} bytes {journal}, segments of {segment_bytes} bytes, roots of at most {root_bytes_max} bytes, as cell {cell} of {cells}"
    )
}

async fn get_record(objects: &dyn Objects, object: &str) -> Result<RadosSpec> {
    let path = format!("rados:{}/{object}", objects.pool());
    match objects.read(object, 0, RECORD_BYTES_MAX).await {
        Ok(record) => decode_record(&path, &record),
        Err(Refusal::NOT_FOUND) => Err(Error::NoPool { path }),
        Err(refusal) => Err(failure::of("read", objects, object, 0, RECORD_BYTES_MAX, refusal)),
    }
}

/// Makes an object; does nothing if it is there already.
async fn make(objects: &dyn Objects, object: &str, change: ObjectChange) -> Result<()> {
    match objects.change(object, change).await {
        Ok(()) | Err(Refusal::EXISTS) => Ok(()),
        Err(refusal) => Err(failure::of("write", objects, object, 0, 0, refusal)),
    }
}

/// A part of a lane that was never written.
fn empty_lane_part() -> ObjectChange {
    ObjectChange { creates: true, sets: vec![(EPOCH, encode(0))], ..ObjectChange::default() }
}
