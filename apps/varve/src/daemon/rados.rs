//! A pool on Ceph's RADOS: which one a data directory serves, how it is made, and how its threads open it.
//!
//! R1: the directory remembers the pool before the pool is made, with its identity: making it again goes on where it was cut off.

use std::path::Path;
use std::rc::Rc;

use serde::{Deserialize, Serialize};
use varve_media::{Media, SegmentGeometry};
use varve_media_rados::{Cluster, ClusterOptions, Objects, RadosPool, RadosSpec};
use varve_reactor::{Loop, LoopConfig, Reactor};
use varve_types::{ErrorKind, PoolId, ShardId};

use crate::daemon::remembered;
use crate::failure::{Failure, Result};

const FILE: &str = "rados.json";

/// Where a pool on RADOS is.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct RadosHome {
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
}

impl RadosHome {
    /// The home of a pool.
    pub(crate) fn new(options: ClusterOptions, data: &str, meta: &str, pool: PoolId) -> Self {
        Self {
            config: options.config,
            user: options.user,
            data_pool: data.to_owned(),
            meta_pool: meta.to_owned(),
            pool: pool.to_string(),
        }
    }

    /// The home that a data directory remembers; `None` when its pool is on drives, or not made yet.
    pub(crate) fn load(data: &Path) -> Result<Option<Self>> {
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

    /// Identity of Varve's pool.
    pub(crate) fn pool(&self) -> Result<PoolId> {
        let pool = self.pool.parse();
        pool.map_err(|_| Failure::new(format!("{:?} is not the identity of a pool", self.pool)))
    }

    /// What is known of it to people.
    pub(crate) fn describe(&self) -> [String; 2] {
        [&self.data_pool, &self.meta_pool].map(|pool| format!("rados:{pool}"))
    }

    fn connect(&self) -> Result<Cluster> {
        let options = ClusterOptions { config: self.config.clone(), user: self.user.clone() };
        Cluster::connect(&options).map_err(|error| explain(&error))
    }

    /// The objects of the two pools of RADOS: for segments, and for everything else.
    fn objects(&self, cluster: &Cluster) -> varve_media::Result<[Rc<dyn Objects>; 2]> {
        Ok([cluster.objects(&self.data_pool)?, cluster.objects(&self.meta_pool)?])
    }
}

/// An open pool on RADOS. Shared by threads.
pub(crate) struct RadosMedia {
    cluster: Cluster,
    home: RadosHome,
    spec: RadosSpec,
}

impl RadosMedia {
    /// Looks whether both pools of RADOS can be reached. Blocks.
    pub(crate) fn reach(home: &RadosHome) -> Result<()> {
        let cluster = home.connect()?;
        home.objects(&cluster).map(drop).map_err(|error| explain(&error))
    }

    /// Makes a pool of what `spec` makes of the data pool's stripe and free bytes, or goes on making it (R1); says whether there was something
    /// to make. Blocks. Durable on return.
    pub(crate) fn make(
        home: &RadosHome,
        spec: impl FnOnce(u64, u64) -> RadosSpec + 'static,
    ) -> Result<bool> {
        let cluster = home.connect()?;
        let free_bytes = cluster.free_bytes(&home.data_pool).map_err(|error| explain(&error))?;
        let home = home.clone();
        let made = on_loop(async move {
            let [data, meta] = home.objects(&cluster)?;
            let spec = spec(data.alignment(), free_bytes);
            RadosPool::make(&data, &meta, &spec).await
        })?;
        match made {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == ErrorKind::Exists => Ok(false),
            Err(error) => Err(explain(&error)),
        }
    }

    /// Opens a pool; its shards stay with whom they are. Blocks.
    pub(crate) fn open(home: RadosHome) -> Result<Self> {
        let cluster = home.connect()?;
        let (pool, at, connected) = (home.pool()?, home.clone(), cluster.clone());
        let opened = on_loop(async move {
            let [data, meta] = at.objects(&connected)?;
            Ok(RadosPool::open(data, meta, pool).await?.spec().clone())
        })?;
        let spec = opened.map_err(|error| explain(&error))?;
        Ok(Self { cluster, home, spec })
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
    pub(crate) fn find(options: &ClusterOptions, meta: &str) -> Result<Vec<String>> {
        let cluster = Cluster::connect(options).map_err(|error| explain(&error))?;
        let meta = meta.to_owned();
        let found = on_loop(async move { RadosPool::find(&*cluster.objects(&meta)?).await })?;
        found.map_err(|error| explain(&error))
    }

    /// Figures of the pool.
    pub(crate) fn spec(&self) -> &RadosSpec {
        &self.spec
    }

    /// Sizes of its segment store.
    pub(crate) fn geometry(&self) -> SegmentGeometry {
        let RadosSpec { segment_bytes, segment_count, .. } = self.spec;
        SegmentGeometry { segment_bytes, segment_count }
    }

    /// Takes a shard over, and gives what its thread works with.
    pub(crate) async fn media(
        &self,
        reactor: &Reactor,
        shard: ShardId,
    ) -> varve_media::Result<Media> {
        let [data, meta] = self.home.objects(&self.cluster)?;
        let pool = RadosPool::open(data, meta, self.spec.pool).await?;
        Ok(pool.claim(reactor, shard).await?.0)
    }
}

/// Runs something on a loop of its own.
fn on_loop<T: 'static>(work: impl Future<Output = T> + 'static) -> Result<T> {
    let mut event_loop = Loop::new(LoopConfig::default())
        .map_err(|error| Failure::new(format!("start a loop: {error}")))?;
    Ok(event_loop.run(work))
}

fn explain(error: &varve_media::Error) -> Failure {
    let failure = Failure::new(format!("pool on RADOS: {error}"));
    match error.kind() {
        ErrorKind::NotFound => failure.hint(
            "see whether Ceph's configuration, the user's key and both pools are there, and `varve pool create` went to its end",
        ),
        _ => failure,
    }
}
