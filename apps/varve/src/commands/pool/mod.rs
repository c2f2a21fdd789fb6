//! `varve pool`: the pool that the daemon serves, and pools on RADOS.

mod attach;
mod create;
mod keys;
mod migrate;
mod rados_caps;
mod set;
mod show;
mod upgrade;

use std::path::PathBuf;

use clap::{Args, Subcommand};
use varve_client::{Failure, Result};
use varve_media_rados::ClusterOptions;

use crate::cli::Global;

/// Show and change the pool; create one on drives or on Ceph's RADOS; move volumes and buckets to another
#[derive(Subcommand, Debug)]
pub(crate) enum PoolCommand {
    Create(create::PoolCreate),
    Attach(attach::Attach),
    RadosCaps(rados_caps::RadosCaps),
    Migrate(migrate::Migrate),
    #[command(subcommand)]
    Keys(keys::Keys),
    Show(show::PoolShow),
    Set(set::PoolSet),
    Upgrade(upgrade::PoolUpgrade),
}

impl PoolCommand {
    pub(crate) fn run(self, global: &Global) -> Result<String> {
        match self {
            Self::Create(command) => command.run(global),
            Self::Attach(command) => command.run(global),
            Self::RadosCaps(command) => command.run(),
            Self::Migrate(command) => command.run(global.client()),
            Self::Keys(command) => command.run(global),
            Self::Show(command) => command.run(&global.client()),
            Self::Set(command) => command.run(&global.client()),
            Self::Upgrade(command) => command.run(global),
        }
    }
}

/// RADOS pools and the Ceph user.
#[derive(Args, Debug)]
struct RadosPools {
    /// RADOS pool for segments, erasure-coded or replicated
    #[arg(long, value_name = "POOL")]
    data_pool: String,

    /// Replicated RADOS pool for journals and roots
    #[arg(long, value_name = "POOL")]
    meta_pool: String,

    /// Ceph user
    #[arg(long, value_name = "NAME", default_value = "client.varve")]
    user: String,
}

/// Pools of RADOS, and how to reach them.
#[derive(Args, Debug)]
struct RadosArguments {
    /// Ceph configuration file: monitors and the user's key
    #[arg(long, value_name = "CEPH.CONF")]
    rados: String,

    #[command(flatten)]
    pools: RadosPools,

    /// Where the journal is: `rados`, in the metadata pool, or `local:PATH`, on a device, file or directory of this
    /// machine
    ///
    /// A local one makes writes several times as fast. It keeps what was acknowledged until segments hold it, in one
    /// copy: with its drive those writes are lost, and only a machine that has the drive can serve the pool. It stays
    /// for the pool's life.
    #[arg(long, value_name = "PLACE", default_value = "rados", value_parser = journal)]
    journal: Journal,
}

/// Where the journal of a pool on RADOS is.
#[derive(Clone, Debug)]
struct Journal(Option<PathBuf>);

fn journal(text: &str) -> std::result::Result<Journal, String> {
    match text.split_once(':') {
        None if text == "rados" => Ok(Journal(None)),
        Some(("local", path)) if !path.is_empty() => std::path::absolute(path)
            .map(|path| Journal(Some(path)))
            .map_err(|error| format!("{path}: {error}")),
        _ => Err(format!("`{text}` is neither `rados` nor `local:PATH`")),
    }
}

impl RadosArguments {
    /// How to reach the cluster, from any directory.
    fn options(&self) -> Result<ClusterOptions> {
        let config = std::path::absolute(&self.rados)
            .map_err(|error| Failure::misuse(format!("{}: {error}", self.rados)))?;
        let config = config.display().to_string();
        Ok(ClusterOptions { config, user: self.pools.user.clone() })
    }
}
