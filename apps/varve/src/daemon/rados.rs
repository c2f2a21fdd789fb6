//! A pool on Ceph's RADOS: which one a data directory serves, how it is made, and how its threads open it.
//!
//! R1: the directory remembers the pool before the pool is made, with its identity: making it again goes on where it was cut off.

use std::fs;
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};
use varve_media::{Media, SegmentGeometry};
use varve_media_rados::{Cluster, ClusterOptions, RadosPool, RadosSpec};
use varve_reactor::{Loop, LoopConfig, Reactor};
use varve_types::{ErrorKind, PoolId, ShardId};

use crate::daemon::lock::replace_durably;
use crate::failure::{Failure, Result};

const FILE: &str = "rados.json";
const VERSION: u32 = 1;

/// Where a pool on RADOS is.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct RadosHome {
    version: u32,
    /// Path of Ceph's configuration, absolute.
    pub(crate) config: String,
    /// The user, such as `client.varve`.
    pub(crate) user: String,
    /// The pool of RADOS that keeps segments.
    pub(crate) data_pool: String,
    /// The pool of RADOS that keeps lanes and roots.
    pub(crate) meta_pool: String,
    /// Identity of Varve's pool.
    pool: String,
}

impl RadosHome {
    /// The home of a pool.
    pub(crate) fn new(options: ClusterOptions, data: &str, meta: &str, pool: PoolId) -> Self {
        Self {
            version: VERSION,
            config: options.config,
            user: options.user,
            data_pool: data.to_owned(),
            meta_pool: meta.to_owned(),
            pool: pool.to_string(),
        }
    }

    /// The home that a data directory remembers; `None` when its pool is on drives, or not made yet.
    pub(crate) fn load(data: &Path) -> Result<Option<Self>> {
        let path = data.join(FILE);
        let text = match fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(Failure::new(format!("read {}: {error}", path.display()))),
        };
        let damaged = |reason: String| {
            Failure::new(format!("{} is damaged: {reason}", path.display()))
                .hint("remove it and name the pool again with `varve pool attach`")
        };
        let home: Self =
            serde_json::from_slice(&text).map_err(|error| damaged(error.to_string()))?;
        if home.version != VERSION {
            return Err(Failure::new(format!("{} has version {}", path.display(), home.version))
                .hint("serve this data directory with the version of varve that wrote it"));
        }
        home.pool().map_err(|error| damaged(error.to_string()))?;
        Ok(Some(home))
    }

    /// Remembers the home. Durable on return.
    pub(crate) fn remember(&self, data: &Path) -> Result<()> {
        let text = serde_json::to_vec_pretty(self).expect("names are plain JSON");
        let path = data.join(FILE);
        replace_durably(&path, &text)
            .map_err(|error| Failure::new(format!("write {}: {error}", path.display())))
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
        let mut pools = [&home.data_pool, &home.meta_pool].into_iter();
        pools.try_for_each(|pool| cluster.objects(pool).map(drop)).map_err(|error| explain(&error))
    }

    /// Makes a pool of what `spec` makes of the data pool's stripe and free bytes, or goes on making it (R1); says whether there was something
    /// to make. Blocks. Durable on return.
    pub(crate) fn make(
        home: &RadosHome,
        spec: impl FnOnce(u64, u64) -> RadosSpec + 'static,
    ) -> Result<bool> {
        let cluster = home.connect()?;
        let free_bytes = cluster.free_bytes(&home.data_pool).map_err(|error| explain(&error))?;
        let (data, meta) = (home.data_pool.clone(), home.meta_pool.clone());
        let made = on_loop(async move |_| {
            let (data, meta) = (cluster.objects(&data)?, cluster.objects(&meta)?);
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
        let (pool, names) = (home.pool()?, (home.data_pool.clone(), home.meta_pool.clone()));
        let connected = cluster.clone();
        let opened = on_loop(async move |_| {
            let (data, meta) = (connected.objects(&names.0)?, connected.objects(&names.1)?);
            Ok(RadosPool::open(data, meta, pool).await?.spec().clone())
        })?;
        let spec = opened.map_err(|error| explain(&error))?;
        Ok(Self { cluster, home, spec })
    }

    /// Pools of Varve in a metadata pool. Blocks.
    pub(crate) fn find(options: &ClusterOptions, meta: &str) -> Result<Vec<String>> {
        let cluster = Cluster::connect(options).map_err(|error| explain(&error))?;
        let meta = meta.to_owned();
        let found = on_loop(async move |_| RadosPool::find(&*cluster.objects(&meta)?).await)?;
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
        let objects = |pool: &str| self.cluster.objects(pool);
        let (data, meta) = (objects(&self.home.data_pool)?, objects(&self.home.meta_pool)?);
        let pool = RadosPool::open(data, meta, self.spec.pool).await?;
        Ok(pool.claim(reactor, shard).await?.0)
    }
}

/// Runs something on a loop of its own.
fn on_loop<T: 'static>(work: impl AsyncFnOnce(Reactor) -> T + 'static) -> Result<T> {
    let mut event_loop = Loop::new(LoopConfig::default())
        .map_err(|error| Failure::new(format!("start a loop: {error}")))?;
    let reactor = event_loop.handle();
    Ok(event_loop.run(work(reactor)))
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
