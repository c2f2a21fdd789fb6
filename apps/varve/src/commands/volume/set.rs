//! `varve volume set`: changes how a volume's new data are reduced, also while clients have it open.

use clap::Args;
use hyper::Method;
use varve_access_admin::v1::{self, ChangeVolume};
use varve_types::Compression;

use crate::cli::{self, Format};
use crate::client::{Client, volume_path};
use crate::failure::{Failure, Result};

/// Change how new data of a volume are deduplicated and compressed, also while it is open
#[derive(Args, Debug)]
#[command(
    after_help = "What is written from then on follows the change; what is stored stays as it is."
)]
pub(crate) struct Set {
    /// Name of the volume
    name: String,

    /// Whether blocks that are stored already are stored only once
    #[arg(long, value_parser = cli::switch())]
    dedup: Option<bool>,

    /// How blocks are compressed: off, lz4, zstd or zstd:LEVEL, with a level from 1 to 19, 3 if not said
    #[arg(long)]
    compression: Option<Compression>,

    #[command(flatten)]
    format: Format,
}

impl Set {
    pub(crate) fn run(self, client: &Client) -> Result<String> {
        let Self { name, dedup, compression, format } = self;
        let change = ChangeVolume { dedup, compression, ..ChangeVolume::default() };
        if change.is_empty() {
            return Err(Failure::misuse(format!("nothing to change in volume `{name}`"))
                .hint("say --dedup on|off, --compression off|lz4|zstd[:LEVEL], or both"));
        }
        let answer = client.send::<v1::Volume>(Method::PATCH, &volume_path(&name), &change)?;
        Ok(answer.print(format.json, |volume| {
            let v1::Volume { name, dedup, compression, .. } = volume;
            let dedup = cli::on_off(dedup);
            format!("volume {name} writes with dedup {dedup}, compression {compression} now\n")
        }))
    }
}
