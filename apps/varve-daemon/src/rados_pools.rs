//! Pools on RADOS made, and attached to a data directory, while no daemon serves it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use varve_client::age::now_unix_ms;
use varve_client::{Failure, Result};
use varve_media_rados::{CellOf, ClusterOptions, JournalPlace, RadosSpec};

use crate::config::Settings;
use crate::drives;
use crate::engine_stack::make_roots;
use crate::files::{check_memory, shard_count};
use crate::lock::DataLock;
use crate::pool_media::PoolMedia;
use crate::rados::{RadosLocation, RadosMedia};
use crate::random::random_id;

/// Bytes of a segment, as far as the stripes of the data pool go into them: Ceph's own size of objects.
const SEGMENT_BYTES: u32 = 4 << 20;

/// Most bytes of a root.
const ROOT_BYTES_MAX: u32 = 1 << 20;

/// A pool on RADOS to be made.
pub struct NewRadosPool {
    /// How the cluster is reached.
    pub options: ClusterOptions,
    /// Pool of Ceph for segments.
    pub data_pool: String,
    /// Pool of Ceph for everything else.
    pub meta_pool: String,
    /// Most bytes of segments; `None` for what the data pool has free.
    pub size_bytes: Option<u64>,
    /// Cells that it is to have.
    pub cells: u16,
    /// The drive of this machine that is to keep the journal, absolute; `None` for the metadata pool.
    pub journal: Option<PathBuf>,
}

/// Makes a pool, or goes on making it, and lets the data directory remember it; tells where its journal is, too.
/// Blocks. Durable on return.
pub fn create(settings: &Settings, new: NewRadosPool) -> Result<(RadosSpec, String)> {
    let _lock = DataLock::take(&settings.data)?;
    // Cells are spread over threads as shards are.
    let shards = if new.cells > 1 { settings.shards.max(1) } else { shard_count(settings) };
    check_memory(settings, shards, new.cells)?;
    let (home, goes_on) = home_of(settings, &new)?;
    let pool = home.pool()?;
    let (lane_bytes, size_bytes) = (settings.lane.0, new.size_bytes);
    let created_unix_ms = now_unix_ms();
    let journal = if new.journal.is_some() { JournalPlace::Local } else { JournalPlace::Rados };
    let prepared = RadosMedia::prepare(&home, goes_on, |alignment, free_bytes| {
        // A stripe that no segment has is refused by the pool's making.
        let segment_bytes =
            RadosSpec::segment_bytes_for(alignment, SEGMENT_BYTES).unwrap_or(SEGMENT_BYTES);
        let segments = size_bytes.unwrap_or(free_bytes) / u64::from(segment_bytes);
        RadosSpec {
            pool,
            created_unix_ms,
            segment_bytes,
            segment_count: u32::try_from(segments).unwrap_or(u32::MAX),
            lane_bytes,
            lane_count: shards,
            root_bytes_max: ROOT_BYTES_MAX,
            journal,
            cell: CellOf::WHOLE,
        }
    });
    if prepared.is_err() && !goes_on {
        RadosLocation::forget(&settings.data)?; // Nothing was made: another place may be named.
    }
    let prepared = prepared?;
    let journal = home.journal();
    let Some(spec) = prepared else {
        let first = Arc::new(RadosMedia::open(home)?);
        let spec = first.spec().clone();
        if first.has_root()? {
            return Err(taken(&settings.data)); // Its shards stay with whom they are.
        }
        make_roots(&PoolMedia::Rados(first))?;
        return Ok((spec, journal));
    };
    // The first one last: the pool is there once that has its root.
    for cell in spec.in_cells(new.cells).rev() {
        let number = cell.cell.cell;
        RadosMedia::make(&home, cell)?;
        let made = RadosMedia::open_cell_of(home.clone(), number)?;
        make_roots(&PoolMedia::Rados(Arc::new(made)))?;
    }
    Ok((RadosMedia::open(home)?.spec().clone(), journal))
}

/// Where the pool is to be: where the directory remembers one that was cut off, or a new place that can be reached; and
/// whether it is the former.
fn home_of(settings: &Settings, new: &NewRadosPool) -> Result<(RadosLocation, bool)> {
    let home = |pool| {
        let (data, meta) = (&new.data_pool, &new.meta_pool);
        RadosLocation::new(new.options.clone(), data, meta, pool, new.journal.clone())
    };
    match RadosLocation::load(&settings.data)? {
        Some(known) if home(known.pool()?) == known => Ok((known, true)),
        Some(_) => Err(taken(&settings.data)),
        None => {
            refuse_drives(&settings.data)?;
            let home = home(random_id()?);
            RadosMedia::reach(&home)?;
            home.check_journal(shard_count(settings))?;
            home.remember(&settings.data)?;
            Ok((home, false))
        }
    }
}

/// Lets a data directory remember a pool. Blocks. Durable on return.
pub fn attach(data: &Path, home: &RadosLocation) -> Result<()> {
    let _lock = DataLock::take(data)?;
    match RadosLocation::load(data)? {
        Some(known) if known == *home => {}
        Some(_) => return Err(taken(data)),
        None => refuse_drives(data)?,
    }
    RadosMedia::open(home.clone())?;
    home.remember(data)
}

fn refuse_drives(data: &Path) -> Result<()> {
    if drives::load(data)?.is_some() || data.join(drives::EMBEDDED_DRIVE).exists() {
        return Err(taken(data));
    }
    Ok(())
}

fn taken(data: &Path) -> Failure {
    Failure::misuse(format!("data directory {} has a pool already", data.display()))
        .hint("`varve serve` serves it; choose another --data for another pool")
}
