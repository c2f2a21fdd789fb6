//! `varve volume set`: changes how a volume's new data are reduced, how much it may hold, and whether space is reserved for it, also while clients have it open.

use clap::Args;
use hyper::Method;
use varve_access_admin::v1::{self, ChangeVolume, Reservation};
use varve_types::{ByteCount, Compression};

use crate::cli::{self, Format};
use crate::client::{Client, volume_path};
use crate::failure::{Failure, Result};

/// Change how new data of a volume are deduplicated and compressed, how much it may hold, and whether space is reserved for it, also while it is open
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

    /// The most data that the volume may hold, in blocks that hold any; snapshots do not count; none takes the bound away
    #[arg(long, value_parser = cli::quota, value_name = "SIZE|none")]
    quota: Option<ByteCount>,

    /// Whether all of the volume can always be written, whatever others write; it is written without deduplication and
    /// compression then
    #[arg(long, value_parser = cli::reservation, value_name = "full|none")]
    reservation: Option<Reservation>,

    #[command(flatten)]
    format: Format,
}

impl Set {
    pub(crate) fn run(self, client: &Client) -> Result<String> {
        let Self { name, dedup, compression, quota, reservation, format } = self;
        let quota_bytes = quota.map(|quota| quota.0);
        let change = ChangeVolume {
            dedup,
            compression,
            quota_bytes,
            reservation,
            ..ChangeVolume::default()
        };
        if change.is_empty() {
            return Err(Failure::misuse(format!("nothing to change in volume `{name}`"))
                .hint("say --dedup on|off, --compression off|lz4|zstd[:LEVEL], --quota SIZE|none, --reservation full|none, or several"));
        }
        let answer = client.send::<v1::Volume>(Method::PATCH, &volume_path(&name), &change)?;
        Ok(answer.print(format.json, |volume| {
            let v1::Volume { name, dedup, compression, quota_bytes, reserved_bytes, .. } = volume;
            if reserved_bytes.is_some() {
                return format!("space is reserved for all of volume {name}, which writes with dedup off, compression off now\n");
            }
            let dedup = cli::on_off(dedup);
            let quota = quota_bytes.map_or_else(String::new, |quota| {
                format!(", and holds {} at most", ByteCount(quota))
            });
            format!(
                "volume {name} writes with dedup {dedup}, compression {compression}{quota} now\n"
            )
        }))
    }
}
