//! `varve pool rados-caps`: what the user of a pool on RADOS may do.

use clap::Args;
use varve_client::{Failure, Result};

use super::RadosPools;

/// Print the command that gives the Ceph user the capabilities a pool needs, and no others
#[derive(Args, Debug)]
pub(crate) struct RadosCaps {
    #[command(flatten)]
    pools: RadosPools,
}

impl RadosCaps {
    pub(crate) fn run(&self) -> Result<String> {
        let RadosPools { data_pool, meta_pool, user } = &self.pools;
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        for name in [data_pool, meta_pool, user] {
            if name.is_empty() || !name.bytes().all(is_plain) {
                let what = format!("{name:?} would have to be quoted for a shell");
                return Err(Failure::misuse(what)
                    .hint("letters, digits, dots, dashes and underscores need no quotes"));
            }
        }
        let osd = format!("allow rw pool={data_pool}, allow rw pool={meta_pool}");
        Ok(format!("ceph auth get-or-create {user} mon 'allow r' osd '{osd}'\n"))
    }
}
