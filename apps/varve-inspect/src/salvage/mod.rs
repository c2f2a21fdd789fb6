//! What `varve salvage` does: opens every shard as far as it can be, and copies what the volumes hold, past damage.
//!
//! SALVAGE-1. The pool is only read: shards recover over an overlay in memory, or are read as their last checkpoint has
//!     them.
//! SALVAGE-2. Whatever cannot be read is said, with the range of each volume that it takes away; everything else is
//!     copied.

mod bucket;
mod image;
mod peers;
mod report;
mod unreadable;

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder};
use std::io::{self, ErrorKind};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use varve_client::{Failure, Result};
use varve_dataset::{CatalogueEntry, CatalogueItem, NAME_PREFIXES, volume_of};
use varve_dispatch::{Placement, Route};
use varve_engine::{OpenPool, Peers, PoolZones, Shard, ShardConfig, ShardParts};
use varve_reactor::Reactor;
use varve_types::{ShardId, StreamId};

use crate::offline::{OfflinePool, ProbedPool, open_shard};

use self::bucket::BucketTarget;
use self::image::Image;
use self::peers::ReadablePeers;
pub use self::report::SalvageReport;

/// Most memory for what the recovery of the shards writes, in bytes.
const OVERLAY_BYTES_MAX: u64 = 4 << 30;

/// Names read at once: those beside one that cannot be read are lost with it.
const NAMES_AT_ONCE: usize = 16;

/// What is to be copied; everything if it names nothing.
#[derive(Default, Debug)]
pub struct Selection {
    /// Volumes, with their snapshots.
    pub volumes: Vec<String>,
    /// Buckets, with what they hold.
    pub buckets: Vec<String>,
}

impl Selection {
    fn has_volume(&self, name: &str) -> bool {
        let is_it = |volume: &String| volume_of(volume).ok() == volume_of(name).ok();
        self.is_all() || self.volumes.iter().any(is_it)
    }

    fn has_bucket(&self, name: &str) -> bool {
        self.is_all() || self.buckets.iter().any(|bucket| bucket == name)
    }

    fn is_all(&self) -> bool {
        self.volumes.is_empty() && self.buckets.is_empty()
    }
}

/// What the catalogues name.
#[derive(Default)]
struct Targets {
    volumes: BTreeMap<String, SalvageTarget>,
    buckets: BTreeMap<StreamId, BucketTarget>,
}

/// A volume or snapshot that is to be copied.
struct SalvageTarget {
    name: String,
    size_bytes: u64,
    route: Route,
}

/// The pool, as far as it opened.
struct OpenedPool {
    placement: Placement,
    shards: Vec<Option<Rc<Shard>>>,
}

/// Copies volumes, snapshots and buckets into a directory; those of `only`, if it names any. Blocks.
pub fn run(pool: &OfflinePool, to: &Path, only: Selection) -> Result<SalvageReport> {
    let figures = pool.figures().map_err(|error| {
        Failure::misuse(error.to_string())
            .hint("nothing can be found without two superblocks that agree: `varve dump superblock` shows every copy")
    })?;
    prepare(to)?;
    let configs: Vec<_> =
        (0..figures.lane_count).map(|shard| pool.shard_config(&figures, ShardId(shard))).collect();
    let to = to.to_owned();
    pool.on_loop(OVERLAY_BYTES_MAX, |reactor, looked| {
        Box::pin(async move { copy(reactor, looked, configs, to, only).await })
    })?
}

/// Creates the directory, for its owner alone as it will hold what the pool does, or takes an empty one: nothing is
/// overwritten.
fn prepare(to: &Path) -> Result<()> {
    let failed = |error| Failure::misuse(format!("directory {}: {error}", to.display()));
    match DirBuilder::new().mode(0o700).create(to) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
        created => return created.map_err(failed),
    }
    if fs::read_dir(to).map_err(failed)?.next().is_some() {
        return Err(Failure::misuse(format!("directory {} is not empty", to.display()))
            .hint("name one that is empty, or does not exist"));
    }
    Ok(())
}

/// Why a file of the copies cannot be written.
fn failed(path: &Path, error: &io::Error) -> Failure {
    Failure::new(format!("write {}: {error}", path.display()))
        .hint("the copies need as much room as the volumes and objects hold")
}

async fn copy(
    reactor: Reactor,
    looked: ProbedPool,
    configs: Vec<ShardConfig>,
    to: PathBuf,
    only: Selection,
) -> Result<SalvageReport> {
    let mut report = SalvageReport::default();
    let opened = open(&reactor, &looked, configs, &mut report).await?;
    let Targets { volumes, buckets } = targets(&opened, &only, &mut report).await;
    for target in volumes.into_values() {
        let mut image = match Image::create(&to, &target) {
            Ok(image) => image,
            Err(failure) => {
                report.note(format!("{}: {}", target.name, failure.what())); // SALVAGE-2
                continue;
            }
        };
        opened.copy(&target, &mut image).await?;
        report.add(image.end()?);
    }
    for target in buckets.into_values() {
        opened.copy_bucket(&reactor, &target, &to, &mut report).await?;
    }
    Ok(report)
}

/// Opens all shards: through recovery where that works, else at their last checkpoint (SALVAGE-1).
async fn open(
    reactor: &Reactor,
    looked: &ProbedPool,
    configs: Vec<ShardConfig>,
    report: &mut SalvageReport,
) -> Result<OpenedPool> {
    let failed = |error: &dyn std::fmt::Display| {
        Failure::new(format!("root of the pool: {error}"))
            .hint("without it nothing says which segments belong to which shard")
    };
    let first = looked.media(ShardId(0)).map_err(|error| failed(&error))?;
    let pool = OpenPool::open(&first).await.map_err(|error| failed(&error))?;
    let peers = ReadablePeers::new(pool.shard_count());
    let others = || Some(Rc::clone(&peers) as Rc<dyn Peers>);
    let mut shards = Vec::new();
    for config in configs.into_iter().take(usize::from(pool.shard_count())) {
        let shard = config.shard;
        let media = looked.media(shard).map_err(|error| failed(&error))?;
        let mut opened = open_shard(reactor, media.clone(), &pool, config.clone(), others()).await;
        if let Err(varve_engine::Error::Log(error)) = &opened
            && error.is_lane_lost()
        {
            report.note(format!("writes that the journal of shard {shard} alone held: {error}"));
            let config = ShardConfig { accept_lost_journal: true, ..config.clone() };
            opened = open_shard(reactor, media, &pool, config, others()).await;
        }
        let error = match opened {
            Ok(opened) => {
                shards.push(Some(opened));
                continue;
            }
            Err(error) => error,
        };
        let at_checkpoint = async {
            let parts = ShardParts {
                reactor: reactor.clone(),
                media: looked.media(shard)?,
                config,
                zones: Rc::new(PoolZones::new(Rc::clone(&pool), shard)),
                owned: pool.zones_of(shard).await?,
                peers: others(),
            };
            Shard::open_checkpoint(parts).await
        };
        let at_checkpoint = at_checkpoint.await;
        report.note(match &at_checkpoint {
            Ok((_, None)) => format!("shard {shard} does not open: {error}; it is read as its last checkpoint has it, without what was written later"),
            Ok((_, Some(worse))) => format!("shard {shard} does not open: {error}; it is read as its last checkpoint has it, without what was written later and some of what was written just before: {worse}"),
            Err(worse) => format!("shard {shard} cannot be read: {error}; {worse}"),
        });
        shards.push(at_checkpoint.ok().map(|(shard, _)| shard));
    }
    peers.enter(&shards);
    Ok(OpenedPool { placement: Placement::new(pool.placements()), shards })
}

/// What the catalogues of all shards name.
async fn targets(opened: &OpenedPool, only: &Selection, report: &mut SalvageReport) -> Targets {
    let mut found = Targets::default();
    for (id, shard) in opened.shards.iter().enumerate() {
        let Some(shard) = shard else { continue };
        for prefix in NAME_PREFIXES {
            // Each for itself, as what lies between them may be damaged.
            if let Err((from, error)) = names(shard, prefix, only, &mut found, report).await {
                let from = from.escape_ascii();
                report.note(format!(
                    "names of shard {id} from \"{from}\" on cannot be read: {error}"
                ));
            }
        }
    }
    for name in only.volumes.iter().filter(|name| !found.has_volume(name)) {
        report.note(format!("volume {name}: no such name can be read"));
    }
    for name in only.buckets.iter().filter(|name| !found.has_bucket(name)) {
        report.note(format!("bucket {name}: no such name can be read"));
    }
    found
}

/// Takes the names whose keys begin with a letter; where it ends when they cannot be read.
async fn names(
    shard: &Shard,
    prefix: u8,
    only: &Selection,
    found: &mut Targets,
    report: &mut SalvageReport,
) -> std::result::Result<(), (Vec<u8>, varve_engine::Error)> {
    let (mut from, end) = (vec![prefix], [prefix + 1]);
    loop {
        let entries = match shard.key_range(&from, Some(&end), NAMES_AT_ONCE).await {
            Ok(entries) => entries,
            Err(error) => return Err((from, error)),
        };
        let Some((last, _)) = entries.last() else { return Ok(()) };
        from = [last.as_slice(), &[0]].concat();
        for (key, value) in &entries {
            match CatalogueEntry::decode(key, value) {
                Some(Ok(entry)) => found.take(entry, only),
                Some(Err(error)) => {
                    report.note(format!("a name of shard {}: {error}", shard.id()));
                }
                None => {}
            }
        }
    }
}

impl Targets {
    fn has_volume(&self, name: &str) -> bool {
        self.volumes.keys().any(|found| volume_of(found).ok() == volume_of(name).ok())
    }

    fn has_bucket(&self, name: &str) -> bool {
        self.buckets.values().any(|found| found.name == name)
    }

    fn take(&mut self, entry: CatalogueEntry, only: &Selection) {
        let (volume, size_bytes) = match &entry.item {
            CatalogueItem::Volume(volume) => (&volume.name, volume.size_bytes),
            CatalogueItem::Snapshot(snapshot) => (&snapshot.volume, snapshot.size_bytes),
            CatalogueItem::Intent(_) => return,
            CatalogueItem::Bucket(bucket) => {
                // One without a name holds what belongs to no bucket.
                if !bucket.name.is_empty() && only.has_bucket(&bucket.name) {
                    let (name, stream) = (bucket.name.clone(), bucket.stream);
                    self.buckets.insert(stream, BucketTarget { name, stream });
                }
                return;
            }
        };
        if only.has_volume(volume) {
            let name = entry.name().to_owned();
            let target = SalvageTarget { name: name.clone(), size_bytes, route: entry.route };
            self.volumes.insert(name, target);
        }
    }
}
