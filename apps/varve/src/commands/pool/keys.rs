//! `varve pool keys`: the key that secrets of S3 are sealed with, in the data directory of a daemon.

use std::path::PathBuf;

use clap::Subcommand;
use varve_client::Result;
use varve_daemon::sealing_key;

use crate::cli::Global;

/// Export, import or renew the key that S3 secrets and encrypted objects are sealed with
#[derive(Subcommand, Debug)]
pub(crate) enum Keys {
    /// Copy the key to a file that does not exist yet, readable by its owner only
    Export {
        /// File to write
        file: PathBuf,
    },
    /// Bring a lost key back from a file; the daemon must be stopped
    Import {
        /// File that was exported, or a copy of s3.key
        file: PathBuf,
    },
    /// Replace a key that is lost for good; the daemon must be stopped
    ///
    /// Its next start deletes the access keys that were sealed with the lost key: users, their policies and their
    /// buckets stay, and get new access keys by `varve user key create`. Objects that were encrypted with SSE-S3 or
    /// SSE-KMS stay unreadable. A key that is not lost is kept.
    Renew,
}

impl Keys {
    pub(crate) fn run(self, global: &Global) -> Result<String> {
        global.refuse_addr()?;
        let data = global.data();
        match self {
            Self::Export { file } => {
                sealing_key::export(&data, &file)?;
                Ok(format!("exported the sealing key to {}\n", file.display()))
            }
            Self::Import { file } => {
                sealing_key::import(&data, &file)?;
                Ok("imported the sealing key: the next start uses it\n".to_owned())
            }
            Self::Renew => {
                sealing_key::renew(&data)?;
                Ok("the next start renews the sealing key, if it is lost\n\
                    then: varve user key create USER, for each user\n"
                    .to_owned())
            }
        }
    }
}
