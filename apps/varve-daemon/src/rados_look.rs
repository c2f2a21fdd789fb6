//! A pool on RADOS, or a cell of one, that somebody only looks at, as `varve check` and `varve dump` do.
//!
//! RADOS-LOOK-1. Nothing is claimed and nothing changed: nobody loses the pool to who looks.
//! RADOS-LOOK-2. A pool that somebody may serve is refused, as what is read of it would not belong together: one of
//!     whose nodes is heard, and one that was not given back. That one may have been killed as well: who knows so says
//!     it. A journal on a drive tells by itself, as who serves the pool has it locked.
//! RADOS-LOOK-3. Who claims the pool meanwhile is seen afterwards; then nothing that was found counts.

use std::rc::Rc;
use std::thread;
use std::time::Duration;

use varve_client::{Failure, Result};
use varve_media::{
    Drive, Media, MediaPlace, OverlayMemory, PoolFigures, PoolInspection, RootKey, RootSide,
    overlay_media,
};
use varve_media_rados::{Cluster, EntryAsIs, PoolListing, RadosPool, RadosSpec, ShardHolder};
use varve_membership::NodeEntry;
use varve_reactor::Reactor;
use varve_register::Name;
use varve_types::{CellId, PoolId, SegmentNumber, ShardId};

use crate::rados::{RadosLocation, check_journal, explain, explain_journal, journal_path, on_loop};

/// How long who looks listens for nodes: each raises its beat twice a second.
const LISTEN: Duration = Duration::from_millis(1500);

/// See the module.
pub struct RadosProbe {
    cluster: Cluster,
    home: RadosLocation,
    spec: RadosSpec,
    /// The drive with the lanes, where they are not in RADOS.
    journal: Option<PoolInspection>,
    holdings: Vec<ShardHolder>,
}

impl RadosProbe {
    /// Opens the cells of a pool that nobody serves, or the one that is named; `is_unserved` says that this is known
    /// (RADOS-LOOK-2). Blocks.
    pub fn open(
        home: &RadosLocation,
        only: Option<CellId>,
        is_unserved: bool,
    ) -> Result<Vec<Self>> {
        let cluster = home.connect()?;
        let whole = home.spec(&cluster, CellId::FIRST)?;
        let cells = whole.cell.cells;
        if let Some(CellId(cell)) = only.filter(|only| only.0 >= cells) {
            let what = format!("pool {} has no cell {cell}", whole.pool);
            return Err(Failure::misuse(what).hint(format!("its cells are 0 to {}", cells - 1)));
        }
        let wanted = (0..cells).map(CellId).filter(|cell| only.is_none_or(|only| only == *cell));
        let looks = wanted.map(|cell| Self::open_cell(home, &cluster, cell));
        let looks: Vec<Self> = looks.collect::<Result<_>>()?;
        if let Some(first) = looks.first() {
            first.listen()?; // All cells have one table of nodes.
        }
        looks.iter().try_for_each(|look| look.check_given_back(is_unserved))?;
        Ok(looks)
    }

    fn open_cell(home: &RadosLocation, cluster: &Cluster, cell: CellId) -> Result<Self> {
        let (home, cluster) = (home.clone(), cluster.clone());
        let spec = home.spec(&cluster, cell)?;
        let journal = inspect_journal(&home, &spec)?;
        let mut look = Self { cluster, home, spec, journal, holdings: Vec::new() };
        look.holdings = look.ask(async |pool: RadosPool| pool.holdings().await)?;
        Ok(look)
    }

    /// Refuses a pool whose daemon has not given it back, unless that is known not to be there.
    fn check_given_back(&self, is_unserved: bool) -> Result<()> {
        let held = self.holdings.iter().find(|holding| holding.is_held);
        if let Some(holding) = held
            && self.journal.is_none()
            && !is_unserved
        {
            let (pool, shard) = (self.whole(), holding.shard);
            let of_cell =
                self.cell().map_or_else(String::new, |cell| format!(" of cell {}", cell.0));
            return Err(Failure::misuse(format!(
                "pool {pool} is in use: shard {shard}{of_cell} was not given back by the daemon that has it or had it last"
            ))
            .hint("end the daemon first (SIGTERM); if it was killed, start one and end it, or say --unserved if you know that none serves the pool"));
        }
        Ok(())
    }

    /// Which cell of several it is.
    pub fn cell(&self) -> Option<CellId> {
        (self.spec.cell.cells > 1).then_some(self.spec.cell.cell)
    }

    /// How many cells the pool has.
    pub fn cells(&self) -> u16 {
        self.spec.cell.cells
    }

    /// Identity of the pool that it is, or is a cell of.
    pub fn whole(&self) -> PoolId {
        self.spec.pool.whole(self.spec.cell.cell)
    }

    /// All entries of the pool's register of names. Blocks, for many for long.
    pub fn entries(&self) -> Result<Vec<(Name, EntryAsIs)>> {
        self.ask(async |pool: RadosPool| pool.entries().await)
    }

    /// Refuses a pool one of whose nodes lives: it serves the pool, or may begin to.
    fn listen(&self) -> Result<()> {
        let nodes = || -> Result<Vec<NodeEntry>> {
            // A table that makes no sense tells nothing.
            let table = self.ask(async |pool: RadosPool| Ok(pool.nodes().read().await))?;
            Ok(table.ok().flatten().map_or_else(Vec::new, |table| table.nodes))
        };
        let before = nodes()?;
        if before.is_empty() {
            return Ok(());
        }
        thread::sleep(LISTEN);
        match nodes()?.into_iter().find(|entry| !before.contains(entry)) {
            None => Ok(()),
            Some(NodeEntry { node, .. }) => Err(Failure::misuse(format!(
                "pool {} is in use: the daemon at {} serves it or stands by",
                self.whole(),
                node.place
            ))
            .hint("end all daemons of the pool first (SIGTERM)")),
        }
    }

    /// What the pool's record says of it.
    pub fn figures(&self) -> PoolFigures {
        PoolFigures {
            pool: self.spec.pool,
            lane_count: self.spec.lane_count,
            lane_bytes: self.spec.lane_bytes,
            segment_bytes: self.spec.segment_bytes,
            segment_count: self.spec.segment_count.into(),
        }
    }

    /// The pool's objects. Blocks, for a large pool for long.
    pub fn list(&self) -> Result<PoolListing> {
        self.ask(async |pool: RadosPool| pool.list().await)
    }

    /// Whether somebody claimed the pool since it was opened (RADOS-LOOK-3). Blocks.
    pub fn was_taken(&self) -> Result<bool> {
        Ok(self.ask(async |pool: RadosPool| pool.holdings().await)? != self.holdings)
    }

    /// The pool on the loop of this thread, over an overlay of its own: what is written to it is gone when it is
    /// dropped (RADOS-LOOK-1).
    pub fn look(
        &self,
        reactor: &Reactor,
        memory: &Rc<OverlayMemory>,
    ) -> impl Future<Output = varve_media::Result<ProbedRados>> + use<> {
        let (home, cluster, pool) = (self.home.clone(), self.cluster.clone(), self.spec.pool);
        let journal = self.journal.as_ref().map(|journal| journal.drive(reactor, memory));
        let (reactor, memory) = (reactor.clone(), Rc::clone(memory));
        async move {
            let (pool, journal) = (pool_of(&home, &cluster, pool).await?, journal.transpose()?);
            Ok(ProbedRados { pool, journal, reactor, memory })
        }
    }

    /// Asks something of the pool on a loop of its own.
    fn ask<T: 'static>(
        &self,
        question: impl AsyncFnOnce(RadosPool) -> varve_media::Result<T> + 'static,
    ) -> Result<T> {
        let (home, cluster, pool) = (self.home.clone(), self.cluster.clone(), self.spec.pool);
        let asked = on_loop(async move { question(pool_of(&home, &cluster, pool).await?).await })?;
        asked.map_err(|error| explain(&error))
    }
}

/// A pool that is looked at, on one thread.
pub struct ProbedRados {
    pool: RadosPool,
    journal: Option<Drive>,
    reactor: Reactor,
    memory: Rc<OverlayMemory>,
}

impl ProbedRados {
    /// What a shard is read with, over an overlay; each call makes one that knows nothing of others.
    pub fn media(&self, shard: ShardId) -> varve_media::Result<Media> {
        let lane = self.journal.as_ref().map(|drive| drive.media(shard)).transpose()?;
        let media = self.pool.look(&self.reactor, shard, lane.map(|lane| lane.journal))?;
        Ok(overlay_media(media, &self.memory))
    }

    /// A root as it is; RADOS keeps one side of it.
    pub async fn root_side(&self, key: RootKey) -> varve_media::Result<RootSide> {
        let shard = match key {
            RootKey::Pool => ShardId(0),
            RootKey::Shard(shard) => shard,
        };
        let roots = self.media(shard)?.roots;
        let MediaPlace { path, offset } = self.pool.root_place(key);
        let content = roots.read(key).await;
        let content = content.map(|(version, bytes)| (version.0, bytes));
        Ok(RootSide { path, side: 0, offset, content: content.map_err(|error| error.to_string()) })
    }

    /// Where a segment of a shard is, or would be.
    pub fn segment_place(&self, shard: ShardId, number: SegmentNumber) -> MediaPlace {
        self.pool.segment_place(shard, number)
    }
}

async fn pool_of(
    home: &RadosLocation,
    cluster: &Cluster,
    pool: PoolId,
) -> varve_media::Result<RadosPool> {
    let [data, meta] = home.objects(cluster)?;
    RadosPool::open(data, meta, pool).await
}

/// Opens the journal for reading where it is on a drive, and keeps daemons from it (RADOS-LOOK-2). Blocks.
fn inspect_journal(home: &RadosLocation, spec: &RadosSpec) -> Result<Option<PoolInspection>> {
    let Some(path) = journal_path(home, spec)? else { return Ok(None) };
    let opened = PoolInspection::open(&[path.to_owned()]).and_then(|inspection| {
        let figures = inspection.figures()?;
        Ok((inspection, figures))
    });
    let (inspection, figures) = opened.map_err(|error| match error {
        varve_media::Error::InUse { path } => {
            Failure::misuse(format!("{path} is in use: a daemon has the pool open"))
                .hint("`varve check --online`, or end the daemon first (SIGTERM): this command needs the pool to itself")
        }
        error => explain_journal(path, &error),
    })?;
    check_journal(path, spec, figures.pool, (figures.lane_count, figures.lane_bytes))?;
    Ok(Some(inspection))
}
