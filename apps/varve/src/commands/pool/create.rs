//! `varve pool create`: makes a pool on RADOS. Pools on drives are made by the first start of `varve serve`.

use clap::Args;
use serde_json::json;
use varve_client::Result;
use varve_daemon::NewRadosPool;
use varve_daemon::config::Settings;
use varve_types::{ByteCount, parse_size};

use super::{RadosArguments, RadosPools};
use crate::cli::{Format, Global};

/// Create a pool on Ceph's RADOS, for the data directory to serve
///
/// A pool on drives needs no such command: `varve serve` creates it at its first start. If it is interrupted, run it
/// again to continue.
#[derive(Args, Debug)]
pub(crate) struct PoolCreate {
    #[command(flatten)]
    rados: RadosArguments,

    /// Maximum size of the pool; space is taken from RADOS as data are written [default: the free space of the data
    /// pool]
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
        let settings = Settings {
            data: global.data(),
            shards: self.shards,
            lane: self.lane_size,
            ..Settings::default()
        };
        let RadosPools { data_pool, meta_pool, .. } = &self.rados.pools;
        let new = NewRadosPool {
            options: self.rados.options()?,
            data_pool: data_pool.clone(),
            meta_pool: meta_pool.clone(),
            size_bytes: self.size.map(|size| size.0),
            cells: self.cells,
            journal: self.rados.journal.0.clone(),
        };
        let (made, journal) = varve_daemon::create_rados_pool(&settings, new)?;
        let of_cell = u64::from(made.segment_bytes) * u64::from(made.segment_count);
        let size_bytes = of_cell * u64::from(made.cell.cells);
        if self.format.json {
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
}
