//! `varve pool create`: makes a pool on RADOS, or on drives of this machine, which the first start of `varve serve`
//! makes too.

use clap::Args;
use serde_json::json;
use varve_client::{Failure, Result};
use varve_daemon::NewRadosPool;
use varve_daemon::config::{DriveSetting, Settings};
use varve_media_redundancy::{MediumKind, Protection};
use varve_types::{ByteCount, parse_size};

use super::{Journal, RadosArguments, RadosPools, journal};
use crate::cli::{Format, Global};
use crate::commands::serve::drive;
use crate::local_pool::LocalPool;

/// Create a pool on drives of this machine or on Ceph's RADOS, for the data directory to serve
///
/// With --drive it says what the pool will hold and how many lost drives it survives, and asks before it creates it;
/// `varve serve` creates the same at its first start. If it is interrupted, run it again to continue.
#[derive(Args, Debug)]
pub(crate) struct PoolCreate {
    /// Drive of the pool: block device, file or directory, repeatable
    #[arg(
        long,
        value_name = "PATH[=SIZE]",
        value_parser = drive,
        conflicts_with_all = ["rados", "data_pool", "meta_pool", "size", "cells", "journal", "user"]
    )]
    drive: Vec<DriveSetting>,

    /// How data are kept over drives: none, mirror:N or ec:K+M [default: by their number: 1 none, 2 or 3 mirror:2,
    /// 4 ec:2+1, 5 ec:3+1, 6 and more ec:4+2]
    #[arg(long, value_name = "CLASS", requires = "drive")]
    protect: Option<Protection>,

    /// What the drives are, where the system does not know that: nvme, ssd or hdd
    #[arg(long, requires = "drive")]
    class: Option<MediumKind>,

    /// Create it without asking
    #[arg(long, requires = "drive")]
    yes: bool,

    /// Ceph configuration file: monitors and the user's key
    #[arg(long, value_name = "CEPH.CONF", required_unless_present = "drive")]
    rados: Option<String>,

    /// RADOS pool for segments, erasure-coded or replicated
    #[arg(long, value_name = "POOL", required_unless_present = "drive")]
    data_pool: Option<String>,

    /// Replicated RADOS pool for journals and roots
    #[arg(long, value_name = "POOL", required_unless_present = "drive")]
    meta_pool: Option<String>,

    /// Ceph user
    #[arg(long, value_name = "NAME", default_value = "client.varve")]
    user: String,

    /// Where the journal of a pool on RADOS is: `rados`, in the metadata pool, or `local:PATH`, on a device, file or
    /// directory of this machine
    ///
    /// A local one makes writes several times as fast. It keeps what was acknowledged until segments hold it, in one
    /// copy: with its drive those writes are lost, and only a machine that has the drive can serve the pool. It stays
    /// for the pool's life.
    #[arg(long, value_name = "PLACE", default_value = "rados", value_parser = journal)]
    journal: Journal,

    /// Maximum size of a pool on RADOS; space is taken from RADOS as data are written [default: the free space of the
    /// data pool]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    size: Option<ByteCount>,

    /// Shards, of each cell, 0 to 256; 0 is one for two cores as far as memory.budget suffices, and one for each of
    /// several cells
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u16).range(0..=256))]
    shards: u16,

    /// Parts of the pool that different nodes may serve at the same time, 1 to 256; a volume is in one of them, with
    /// its snapshots and clones
    ///
    /// Blocks are deduplicated within a cell, and each has its part of the pool's size: one cell unless several nodes
    /// are to serve the pool, then some four for each node. Their number is fixed.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    cells: u16,

    /// Journal of each shard
    #[arg(long, value_name = "SIZE", value_parser = parse_size, default_value = "256MiB")]
    lane_size: ByteCount,

    #[command(flatten)]
    format: Format,
}

impl PoolCreate {
    pub(crate) fn run(self, global: &Global) -> Result<String> {
        global.refuse_addr()?;
        match (self.rados, self.data_pool, self.meta_pool) {
            (Some(_), ..) if self.protect.is_some() || self.class.is_some() || self.yes => {
                Err(Failure::misuse("--protect, --class and --yes are for pools on drives")
                    .hint("name drives with --drive, or leave them out: RADOS keeps copies by the rules of its pools"))
            }
            (Some(rados), Some(data_pool), Some(meta_pool)) => {
                let pools = RadosPools { data_pool, meta_pool, user: self.user };
                let rados = RadosArguments { rados, pools, journal: self.journal };
                let sizes = RadosSizes {
                    size: self.size,
                    shards: self.shards,
                    cells: self.cells,
                    lane_size: self.lane_size,
                };
                on_rados(global, &rados, &sizes, self.format)
            }
            // The parser wants drives where it does not want all of these.
            _ => LocalPool {
                drives: self.drive,
                protect: self.protect,
                class: self.class,
                shards: self.shards,
                lane_size: self.lane_size,
                is_agreed: self.yes,
                format: self.format,
            }
            .create(global),
        }
    }
}

/// How large a pool on RADOS is to be.
struct RadosSizes {
    size: Option<ByteCount>,
    shards: u16,
    cells: u16,
    lane_size: ByteCount,
}

fn on_rados(
    global: &Global,
    rados: &RadosArguments,
    sizes: &RadosSizes,
    format: Format,
) -> Result<String> {
    let settings = Settings {
        data: global.data(),
        shards: sizes.shards,
        lane: sizes.lane_size,
        ..Settings::default()
    };
    let RadosPools { data_pool, meta_pool, .. } = &rados.pools;
    let new = NewRadosPool {
        options: rados.options()?,
        data_pool: data_pool.clone(),
        meta_pool: meta_pool.clone(),
        size_bytes: sizes.size.map(|size| size.0),
        cells: sizes.cells,
        journal: rados.journal.0.clone(),
    };
    let (made, journal) = varve_daemon::create_rados_pool(&settings, new)?;
    let of_cell = u64::from(made.segment_bytes) * u64::from(made.segment_count);
    let size_bytes = of_cell * u64::from(made.cell.cells);
    if format.json {
        let json = json!({
            "id": made.pool.to_string(),
            "cells": made.cell.cells,
            "shards": made.lane_count,
            "segment_size_bytes": made.segment_bytes,
            "size_bytes": size_bytes,
            "lane_size_bytes": made.lane_bytes,
            "journal": journal,
        });
        return Ok(format!("{json:#}\n"));
    }
    let (id, size) = (made.pool, ByteCount(size_bytes));
    let serve = format!("serve it with `varve serve --data {}`", settings.data.display());
    Ok(format!("pool {id} made: up to {size} in {data_pool}, journal in {journal}\n{serve}\n"))
}
