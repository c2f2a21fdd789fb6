//! `varve volume set`: changes how a volume's new data are reduced, how much it may hold, whether space is reserved for
//! it, and whether it is exclusive, also while clients have it open.

use clap::Args;
use hyper::Method;
use varve_access_admin::v1::{self, ChangeVolume, Reservation};
use varve_access_admin::volume_path;
use varve_client::{Client, Failure, Result};
use varve_types::ByteCount;

use crate::cli::{self, Format, ReductionChange};

/// Change a volume's dedup, compression, quota, reservation or exclusive access, even while clients use it
#[derive(Args, Debug)]
#[command(after_help = "The change applies to new writes; stored data is not rewritten.")]
pub(crate) struct VolumeSet {
    /// Name of the volume
    name: String,

    #[command(flatten)]
    reduction: ReductionChange,

    /// Maximum data in the volume, counted in allocated blocks, without snapshots; none removes the limit
    #[arg(long, value_parser = cli::quota, value_name = "SIZE|none")]
    quota: Option<ByteCount>,

    /// Guarantee space for the whole volume (full), or not (none); a volume with reserved space is stored without
    /// deduplication and compression then
    #[arg(long, value_parser = cli::reservation(), hide_possible_values = true, value_name = "full|none")]
    reservation: Option<Reservation>,

    /// Serve it to one NBD connection at a time (on); refused while it has several
    #[arg(long, value_parser = cli::switch())]
    exclusive: Option<bool>,

    #[command(flatten)]
    format: Format,
}

impl VolumeSet {
    pub(crate) fn run(self, client: &Client) -> Result<String> {
        let Self { name, reduction, quota, reservation, exclusive, format } = self;
        let ReductionChange { dedup, compression } = reduction;
        let quota_bytes = quota.map(|quota| quota.0);
        let change = ChangeVolume {
            dedup,
            compression,
            quota_bytes,
            reservation,
            exclusive,
            ..ChangeVolume::default()
        };
        if change.is_empty() {
            return Err(Failure::misuse(format!("nothing to change in volume `{name}`"))
                .hint("say --dedup auto|on|off, --compression off|lz4|zstd[:LEVEL], --quota SIZE|none, --reservation full|none, --exclusive on|off, or several"));
        }
        let answer = client.send::<v1::Volume>(Method::PATCH, &volume_path(&name), &change)?;
        Ok(answer.print(format.json, |volume| {
            let v1::Volume { name, dedup, compression, quota_bytes, reserved_bytes, exclusive, .. } =
                volume;
            let exclusive = if exclusive { ", exclusive" } else { "" };
            if reserved_bytes.is_some() {
                return format!(
                    "volume {name}: dedup off, compression off, space reserved for all of it{exclusive}\n"
                );
            }
            let quota = match (quota_bytes, quota) {
                (Some(bytes), _) => format!(", quota {}", ByteCount(bytes)),
                (None, Some(_)) => ", no quota".to_owned(),
                (None, None) => String::new(),
            };
            format!("volume {name}: dedup {dedup}, compression {compression}{quota}{exclusive}\n")
        }))
    }
}
