//! A pool on Ceph's RADOS: which one a data directory serves, how it is made, and how its threads open it.
//!
//! RADOS-1: the directory remembers the pool before the pool is made, with its identity: making it again goes on where
//!     it was cut off.
//! RADOS-2: a pool that is there gets no new journal: one whose drive is not mounted would be replaced by an empty one,
//!     and what was acknowledged lost.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use varve_client::{Failure, Result};
use varve_media::{
    CachedSegments, DriveOptions, DriveSpec, Media, NewDrive, PoolFiles, SegmentGeometry,
    SegmentStore,
};
use varve_media_rados::{
    Cluster, ClusterOptions, JournalPlace, LocalLane, Objects, RadosPool, RadosSpec,
};
use varve_reactor::Reactor;
use varve_register::Register;
use varve_types::{ByteCount, CellId, ErrorKind, PoolId, ShardId};

use crate::event_loop;
use crate::pool_media::ShardMedia;
use crate::rados_cache::RadosCache;
use crate::random::random_id;
use crate::remembered;

const FILE: &str = "rados.json";

/// Bytes of a segment on a drive that keeps a journal only: the least there is, as it has one and nothing writes it.
const JOURNAL_SEGMENT_BYTES: u32 = 4096;

/// Where a pool on RADOS is.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct RadosLocation {
    /// Path of Ceph's configuration, absolute.
    config: String,
    /// The user, such as `client.varve`.
    user: String,
    /// The pool of RADOS that keeps segments.
    data_pool: String,
    /// The pool of RADOS that keeps lanes and roots.
    meta_pool: String,
    /// Identity of Varve's pool.
    pool: String,
    /// The drive of this machine that keeps the journal, absolute; `None` where that is in RADOS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    journal: Option<PathBuf>,
}

impl RadosLocation {
    /// The home of a pool.
    pub fn new(
        options: ClusterOptions,
        data: &str,
        meta: &str,
        pool: PoolId,
        journal: Option<PathBuf>,
    ) -> Self {
        Self {
            config: options.config,
            user: options.user,
            data_pool: data.to_owned(),
            meta_pool: meta.to_owned(),
            pool: pool.to_string(),
            journal,
        }
    }

    /// The home that a data directory remembers; `None` when its pool is on drives, or not made yet.
    pub fn load(data: &Path) -> Result<Option<Self>> {
        let (path, mend) =
            (data.join(FILE), "remove it and name the pool again with `varve pool attach`");
        let home: Option<Self> = remembered::load(&path, mend)?;
        if let Some(home) = &home {
            home.pool().map_err(|error| {
                Failure::new(format!("{} is damaged: {error}", path.display())).hint(mend)
            })?;
        }
        Ok(home)
    }

    /// Remembers the home. Durable on return.
    pub(crate) fn remember(&self, data: &Path) -> Result<()> {
        remembered::remember(&data.join(FILE), self)
    }

    /// Lets a data directory know of no pool again. Durable on return.
    pub(crate) fn forget(data: &Path) -> Result<()> {
        remembered::forget(&data.join(FILE))
    }

    /// Identity of Varve's pool.
    pub fn pool(&self) -> Result<PoolId> {
        let pool = self.pool.parse();
        pool.map_err(|_| Failure::new(format!("{:?} is not the identity of a pool", self.pool)))
    }

    /// What is known of it to people.
    pub(crate) fn describe(&self) -> Vec<String> {
        let pools = [&self.data_pool, &self.meta_pool].map(|pool| format!("rados:{pool}"));
        let journal = self.local_journal().map(|_| self.journal());
        pools.into_iter().chain(journal).collect()
    }

    /// Where the journal is.
    pub fn journal(&self) -> String {
        match &self.journal {
            Some(path) => format!("local:{}", path.display()),
            None => format!("rados:{}", self.meta_pool),
        }
    }

    /// The drive that keeps the journal, if that is not in RADOS.
    pub(crate) fn local_journal(&self) -> Option<&Path> {
        self.journal.as_deref()
    }

    /// Looks whether a journal with so many lanes can be made without overwriting anything.
    pub(crate) fn check_journal(&self, lanes: u16) -> Result<()> {
        let Some(path) = &self.journal else { return Ok(()) };
        PoolFiles::check(&journal_drive(path), lanes).map_err(|error| explain_journal(path, &error))
    }

    pub(super) fn connect(&self) -> Result<Cluster> {
        let options = ClusterOptions { config: self.config.clone(), user: self.user.clone() };
        Cluster::connect(&options).map_err(|error| explain(&error))
    }

    /// What the record of a cell says of it. Blocks.
    pub(super) fn spec(&self, cluster: &Cluster, cell: CellId) -> Result<RadosSpec> {
        let pool = self.pool()?.of_cell(cell);
        let (at, connected) = (self.clone(), cluster.clone());
        let opened = on_loop(async move {
            let [data, meta] = at.objects(&connected)?;
            Ok(RadosPool::open(data, meta, pool).await?.spec().clone())
        })?;
        let spec = opened.map_err(|error: varve_media::Error| explain(&error))?;
        if spec.cell.cell != cell {
            let what = format!("pool {pool} is cell {} of a pool", spec.cell.cell.0);
            return Err(Failure::misuse(what).hint("name the pool that it is a cell of"));
        }
        Ok(spec)
    }

    /// The objects of the two pools of RADOS: for segments, and for everything else.
    pub(super) fn objects(&self, cluster: &Cluster) -> varve_media::Result<[Rc<dyn Objects>; 2]> {
        Ok([cluster.objects(&self.data_pool)?, cluster.objects(&self.meta_pool)?])
    }
}

/// An open pool on RADOS. Shared by threads.
pub struct RadosMedia {
    cluster: Cluster,
    home: RadosLocation,
    spec: RadosSpec,
    /// The drive with the lanes, where they are not in RADOS.
    journal: Option<PoolFiles>,
    cache: Option<Arc<RadosCache>>,
}

impl RadosMedia {
    /// Looks whether both pools of RADOS can be reached. Blocks.
    pub(crate) fn reach(home: &RadosLocation) -> Result<()> {
        let cluster = home.connect()?;
        home.objects(&cluster).map(drop).map_err(|error| explain(&error))
    }

    /// What a pool is to be, of what `spec` makes of the data pool's stripe and free bytes, and its journal made where
    /// that is on a drive; `None` when the pool is there. Nothing is in RADOS before. Blocks. Durable on return.
    ///
    /// `goes_on` says that a making was begun: a journal that was not made to its end is made anew.
    pub(crate) fn prepare(
        home: &RadosLocation,
        goes_on: bool,
        spec: impl FnOnce(u64, u64) -> RadosSpec,
    ) -> Result<Option<RadosSpec>> {
        let cluster = home.connect()?;
        let free_bytes = cluster.free_bytes(&home.data_pool).map_err(|error| explain(&error))?;
        let (at, pool) = (home.clone(), home.pool()?);
        let looked = on_loop(async move {
            let [data, meta] = at.objects(&cluster)?;
            let alignment = data.alignment();
            match RadosPool::open(data, meta, pool).await {
                Ok(_) => Ok((alignment, true)),
                Err(error) if error.kind() == ErrorKind::NotFound => Ok((alignment, false)),
                Err(error) => Err(error),
            }
        })?;
        let (alignment, is_there) = looked.map_err(|error: varve_media::Error| explain(&error))?;
        if is_there {
            return Ok(None); // RADOS-2
        }
        let spec = spec(alignment, free_bytes);
        if let Some(path) = &home.journal {
            make_journal(path, &spec, goes_on)?;
            open_journal(home, &spec)?; // One that was there already may be another pool's.
        }
        Ok(Some(spec))
    }

    /// Makes a pool that was prepared, or one cell of it, or goes on making it (RADOS-1). Blocks. Durable on return.
    pub(crate) fn make(home: &RadosLocation, spec: RadosSpec) -> Result<()> {
        let (cluster, home) = (home.connect()?, home.clone());
        let made = on_loop(async move {
            let [data, meta] = home.objects(&cluster)?;
            RadosPool::make(&data, &meta, &spec).await
        })?;
        made.map_err(|error| explain(&error))
    }

    /// Opens a pool, of several cells the first one; shards stay with whom they are. Blocks.
    pub(crate) fn open(home: RadosLocation) -> Result<Self> {
        Self::open_cell_of(home, CellId::FIRST)
    }

    /// Opens a cell of a pool; its shards stay with whom they are. Blocks.
    pub(crate) fn open_cell_of(home: RadosLocation, cell: CellId) -> Result<Self> {
        let cluster = home.connect()?;
        Self::open_cell(cluster, home, cell)
    }

    /// Opens another cell of the same pool, with the same cache. Blocks.
    pub(crate) fn cell(&self, cell: CellId) -> Result<Self> {
        let opened = Self::open_cell(self.cluster.clone(), self.home.clone(), cell)?;
        Ok(opened.with_cache(self.cache.clone()))
    }

    fn open_cell(cluster: Cluster, home: RadosLocation, cell: CellId) -> Result<Self> {
        let spec = home.spec(&cluster, cell)?;
        let journal = open_journal(&home, &spec)?;
        Ok(Self { cluster, home, spec, journal, cache: None })
    }

    /// The same pool, with what its threads read kept in the cache.
    pub(crate) fn with_cache(self, cache: Option<Arc<RadosCache>>) -> Self {
        Self { cache, ..self }
    }

    /// The address of this machine from which the cluster is reached.
    pub(crate) fn own_address(&self) -> Result<IpAddr> {
        self.cluster.own_address().map_err(|error| {
            Failure::new(format!("find the address of this machine: {error}"))
                .hint("set rados.listen to the address at which other machines reach this one")
        })
    }

    /// Whether the pool's making went to its end; its shards stay with whom they are. Blocks.
    pub(crate) fn has_root(&self) -> Result<bool> {
        let (cluster, home, pool) = (self.cluster.clone(), self.home.clone(), self.spec.pool);
        let looked = on_loop(async move {
            let [data, meta] = home.objects(&cluster)?;
            RadosPool::open(data, meta, pool).await?.has_root().await
        })?;
        looked.map_err(|error| explain(&error))
    }

    /// Pools of Varve in a metadata pool. Blocks.
    pub fn find(options: &ClusterOptions, meta: &str) -> Result<Vec<String>> {
        let cluster = Cluster::connect(options).map_err(|error| explain(&error))?;
        let meta = meta.to_owned();
        let found = on_loop(async move { RadosPool::find(&*cluster.objects(&meta)?).await })?;
        found.map_err(|error| explain(&error))
    }

    /// Identity of the pool that this is, or is a cell of.
    pub(crate) fn whole(&self) -> PoolId {
        self.spec.pool.whole(self.spec.cell.cell)
    }

    /// Figures of the pool, or of this cell.
    pub(crate) fn spec(&self) -> &RadosSpec {
        &self.spec
    }

    /// Sizes of its segment store.
    pub(crate) fn geometry(&self) -> SegmentGeometry {
        let RadosSpec { segment_bytes, segment_count, .. } = self.spec;
        SegmentGeometry { segment_bytes, segment_count }
    }

    /// The pool, for a thread of its own; its shards stay with whom they are.
    pub(crate) async fn pool(&self) -> Result<RadosPool> {
        let opened = async {
            let [data, meta] = self.home.objects(&self.cluster)?;
            RadosPool::open(data, meta, self.spec.pool).await
        };
        opened.await.map_err(|error| explain(&error))
    }

    /// Takes a shard over, and gives what its thread works with.
    pub(crate) async fn media(
        &self,
        reactor: &Reactor,
        shard: ShardId,
    ) -> varve_media::Result<ShardMedia> {
        let [data, meta] = self.home.objects(&self.cluster)?;
        let pool = RadosPool::open(data, meta, self.spec.pool).await?;
        let drive = self.journal.as_ref().map(|files| files.drive(reactor)).transpose()?;
        let lane = match &drive {
            Some(drive) => {
                let Media { journal, roots, .. } = drive.media(shard)?;
                Some(LocalLane { journal, roots, claim: claim_id()? })
            }
            None => None,
        };
        let (mut media, _) = pool.claim(reactor, shard, lane).await?;
        let register = pool.register().map(|store| Register::new(store, self.spec.cell.cell));
        let mut cache = None;
        if let Some(file) = &self.cache {
            let of_cell = u32::from(self.spec.cell.cell.0) * u32::from(self.spec.lane_count);
            let disk = file.disk(reactor, of_cell + u32::from(shard.0))?;
            let cached = Rc::new(CachedSegments::new(media.segments, reactor, disk));
            media.segments = Rc::clone(&cached) as Rc<dyn SegmentStore>;
            cache = Some(cached);
        }
        let disks = drive.and_then(|drive| drive.stats().cloned());
        Ok(ShardMedia { media, register, disks, cache, redundant: None })
    }
}

/// An identity for a claim.
fn claim_id() -> varve_media::Result<u128> {
    match random_id() {
        Ok(PoolId(id)) => Ok(u128::from_le_bytes(id)),
        Err(failure) => Err(varve_media::Error::Open {
            path: "the identity of a claim".to_owned(),
            reason: failure.to_string(),
        }),
    }
}

/// Makes a drive for the journal, unless it is there already: a making that was cut off behind it. One that was cut off
/// within is made anew when this goes on: then nothing was in RADOS, and the place was looked at before. Blocks.
/// Durable on return.
fn make_journal(path: &Path, spec: &RadosSpec, goes_on: bool) -> Result<()> {
    let is_there = match PoolFiles::open(&[path.to_owned()], DriveOptions::default()) {
        Ok(_) => true,
        Err(error) => matches!(error.kind(), ErrorKind::Conflict),
    };
    if is_there {
        return Ok(()); // Whose it is, its opening tells.
    }
    let drive = NewDrive { replace_pool: goes_on, ..journal_drive(path) };
    let lanes = DriveSpec {
        created_unix_ms: spec.created_unix_ms,
        segment_bytes: JOURNAL_SEGMENT_BYTES,
        lane_bytes: spec.lane_bytes,
        ..DriveSpec::new(spec.pool, spec.lane_count)
    };
    PoolFiles::create(&[drive], &lanes).map_err(|error| explain_journal(path, &error))
}

fn journal_drive(path: &Path) -> NewDrive {
    NewDrive {
        path: path.to_owned(),
        kind: None,
        capacity_bytes: Some(JOURNAL_SEGMENT_BYTES.into()),
        replace_pool: false,
    }
}

/// The drive that a pool's journal is on, if it is on one.
pub(super) fn journal_path<'a>(
    home: &'a RadosLocation,
    spec: &RadosSpec,
) -> Result<Option<&'a Path>> {
    match (spec.journal, &home.journal) {
        (JournalPlace::Rados, None) => Ok(None),
        (JournalPlace::Local, Some(path)) => Ok(Some(path)),
        (JournalPlace::Rados, Some(path)) => {
            Err(Failure::misuse(format!(
                "the journal of pool {} is in RADOS, not on {}",
                spec.pool,
                path.display()
            ))
            .hint("leave out --journal"))
        }
        (JournalPlace::Local, None) => {
            Err(Failure::misuse(format!(
                "the journal of pool {} is on a drive of the machine where it was made",
                spec.pool
            ))
            .hint("only there, or with that drive, it can be served: `varve pool attach --journal local:PATH`"))
        }
    }
}

/// Opens the journal where it is not in RADOS, and keeps others from it. Blocks.
fn open_journal(home: &RadosLocation, spec: &RadosSpec) -> Result<Option<PoolFiles>> {
    let Some(path) = journal_path(home, spec)? else { return Ok(None) };
    let files = PoolFiles::open(&[path.to_owned()], DriveOptions::default())
        .map_err(|error| explain_journal(path, &error))?;
    check_journal(path, spec, files.pool(), (files.lane_count(), files.lane_bytes()))?;
    Ok(Some(files))
}

/// Refuses the journal of another pool, and one that was begun with other figures.
pub(super) fn check_journal(
    path: &Path,
    spec: &RadosSpec,
    pool: PoolId,
    lanes: (u16, u64),
) -> Result<()> {
    let failure = |what: String| Failure::new(format!("{} {what}", path.display()));
    if pool != spec.pool {
        return Err(failure(format!("is the journal of pool {pool}, not of {}", spec.pool))
            .hint("name the drive that was made for this pool, or another one for a new pool"));
    }
    if lanes != (spec.lane_count, spec.lane_bytes) {
        let (lanes, bytes) = (lanes.0, ByteCount(lanes.1));
        return Err(failure(format!("was made with {lanes} lanes of {bytes}"))
            .hint("go on with the --shards and the --lane-size that the making of the pool was begun with"));
    }
    Ok(())
}

pub(super) fn explain_journal(path: &Path, error: &varve_media::Error) -> Failure {
    let failure = Failure::new(format!("journal on {}: {error}", path.display()));
    match error.kind() {
        ErrorKind::NotFound => failure.hint(
            "see whether the drive is there and mounted: it holds acknowledged writes that are nowhere else",
        ),
        ErrorKind::Exists => failure.hint("name a place where nothing is: no pool, no other data"),
        _ => failure,
    }
}

/// Runs something on a loop of its own.
pub(super) fn on_loop<T: 'static>(work: impl Future<Output = T> + 'static) -> Result<T> {
    let mut event_loop = event_loop::start()?;
    Ok(event_loop.run(work))
}

pub(super) fn explain(error: &varve_media::Error) -> Failure {
    let failure = Failure::new(format!("pool on RADOS: {error}"));
    match error.kind() {
        ErrorKind::NotFound => failure.hint(
            "see whether Ceph's configuration, the user's key and both pools are there, and `varve pool create` went to its end",
        ),
        _ => failure,
    }
}
