//! `varve pool attach`: lets a data directory serve a pool that is on RADOS already.

use clap::Args;
use varve_client::{Failure, Result};
use varve_types::PoolId;

use super::{RadosArguments, RadosPools};
use crate::cli::Global;

/// Use a data directory to serve an existing pool on Ceph's RADOS
///
/// The daemon that starts next takes the pool over; the one that served it until then exits.
#[derive(Args, Debug)]
pub(crate) struct Attach {
    #[command(flatten)]
    rados: RadosArguments,

    /// Identity of the pool [default: that of the only one there]
    #[arg(long, value_name = "ID", value_parser = identity)]
    pool: Option<PoolId>,
}

fn identity(text: &str) -> std::result::Result<PoolId, String> {
    text.parse().map_err(|_| format!("`{text}` is not the identity of a pool"))
}

impl Attach {
    pub(crate) fn run(self, global: &Global) -> Result<String> {
        global.refuse_addr()?;
        let options = self.rados.options()?;
        let RadosPools { data_pool, meta_pool, .. } = &self.rados.pools;
        let pool = match self.pool {
            Some(pool) => pool,
            None => only(&varve_daemon::RadosMedia::find(&options, meta_pool)?, meta_pool)?,
        };
        let home = varve_daemon::RadosLocation::new(
            options,
            data_pool,
            meta_pool,
            pool,
            self.rados.journal.0,
        );
        varve_daemon::attach_rados_pool(&global.data(), &home)?;
        let data = global.data();
        Ok(format!("pool {pool} attached\nserve it with `varve serve --data {}`\n", data.display()))
    }
}

fn only(found: &[String], meta_pool: &str) -> Result<PoolId> {
    match found {
        [pool] => pool.parse().map_err(|_| {
            Failure::new(format!("{pool:?} in {meta_pool} is not the identity of a pool"))
        }),
        [] => Err(Failure::new(format!("no pool of Varve in {meta_pool}"))
            .hint("create one with `varve pool create`")),
        pools => Err(Failure::misuse(format!("{} pools of Varve in {meta_pool}", pools.len()))
            .hint(format!("name one with --pool: {}", pools.join(", ")))),
    }
}
