//! `varve pool`: the pool that the daemon serves, and pools on RADOS.

mod attach;
mod create;
mod rados_caps;
mod show;

use clap::{Args, Subcommand};
use varve_media_rados::ClusterOptions;

use crate::cli::Global;
use crate::failure::{Failure, Result};

/// Look at the pool; make one on Ceph's RADOS
#[derive(Subcommand, Debug)]
pub(crate) enum Pool {
    Create(create::Create),
    Attach(attach::Attach),
    RadosCaps(rados_caps::RadosCaps),
    Show(show::Show),
}

impl Pool {
    pub(crate) fn run(self, global: &Global) -> Result<String> {
        match self {
            Self::Create(command) => command.run(global),
            Self::Attach(command) => command.run(global),
            Self::RadosCaps(command) => command.run(),
            Self::Show(command) => command.run(&global.client()),
        }
    }
}

/// Pools of RADOS, and who may use them.
#[derive(Args, Debug)]
struct RadosPools {
    /// Pool of RADOS for segments, erasure-coded or replicated
    #[arg(long, value_name = "POOL")]
    data_pool: String,

    /// Replicated pool of RADOS for journals and roots
    #[arg(long, value_name = "POOL")]
    meta_pool: String,

    /// User of Ceph
    #[arg(long, value_name = "NAME", default_value = "client.varve")]
    user: String,
}

/// Pools of RADOS, and how to reach them.
#[derive(Args, Debug)]
struct RadosArguments {
    /// Ceph's configuration: where its monitors are, and the user's key
    #[arg(long, value_name = "CEPH.CONF")]
    rados: String,

    #[command(flatten)]
    pools: RadosPools,
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
