//! `varve volume create`: makes an empty volume. Space is taken as it is written.

use std::io::{self, Write};

use clap::Args;
use hyper::Method;
use varve_access_admin::v1::{self, CreateVolume, Reservation};
use varve_client::{Client, Failure, Result};
use varve_types::{ByteCount, Compression, Dedup, parse_size};

use crate::cli::{self, Format};

/// How many times the capacity of its pool a volume is larger than when that is worth a note. Some times the capacity
/// is what thin provisioning is for.
const SIZE_NOTED: u64 = 100;

/// Create a volume; it takes space only as it is written
#[derive(Args, Debug)]
#[command(
    after_help = "`varve volume set` changes dedup, compression, quota, reservation and exclusive later, the first two for what is written from then on."
)]
pub(crate) struct VolumeCreate {
    /// Name of the volume and of its NBD export
    name: String,

    /// Size that clients see, such as 20GiB
    #[arg(long, value_parser = parse_size, allow_hyphen_values = true)]
    size: ByteCount,

    /// Preferred block size, as advertised to clients: 512B to 64KiB, a power of two [default: 4KiB]
    #[arg(long, value_parser = parse_size, value_name = "SIZE")]
    block_size: Option<ByteCount>,

    /// Store identical blocks only once: where it pays (auto), always (on) or never (off) [default: auto]
    #[arg(long, value_parser = cli::dedup())]
    dedup: Option<Dedup>,

    /// Compression of blocks: off, lz4 or zstd:LEVEL, levels 1 to 19, default 3
    /// [default: lz4]
    #[arg(long, value_parser = cli::compression(), hide_possible_values = true)]
    compression: Option<Compression>,

    /// Maximum data in the volume, counted in allocated blocks, without snapshots [default: none]
    #[arg(long, value_parser = cli::quota, value_name = "SIZE")]
    quota: Option<ByteCount>,

    /// Guarantee space for the whole volume (full), or not (none); a volume with reserved space is stored without
    /// deduplication and compression [default: none]
    #[arg(long, value_parser = cli::reservation(), hide_possible_values = true, value_name = "full|none")]
    reservation: Option<Reservation>,

    /// Serve it to one NBD connection at a time; others are refused while a client has it open [default: off]
    #[arg(long, value_parser = cli::switch())]
    exclusive: Option<bool>,

    /// Create it in the cell of that volume, in a pool of several cells: only volumes of one cell share blocks and can
    /// be snapshotted at the same instant [default: the cell with the fewest used bytes]
    #[arg(long, value_name = "VOLUME")]
    beside: Option<String>,

    #[command(flatten)]
    format: Format,
}

impl VolumeCreate {
    pub(crate) fn run(self, client: &Client) -> Result<String> {
        let spec = CreateVolume {
            name: self.name,
            size_bytes: self.size.0,
            block_size_bytes: self.block_size.map(block_size).transpose()?,
            dedup: self.dedup,
            compression: self.compression,
            quota_bytes: self.quota.map(|quota| quota.0),
            reservation: self.reservation,
            exclusive: self.exclusive,
            beside: self.beside,
        };
        let answer = client.send::<v1::Volume>(Method::POST, "/v1/volumes", &spec)?;
        if !self.format.json {
            note_size(client, ByteCount(answer.value.size_bytes));
        }
        Ok(answer.print(self.format.json, |volume| {
            let cell = volume.cell.map_or_else(String::new, |cell| format!(" in cell {cell}"));
            format!("created volume {} of {}{cell}\n", volume.name, ByteCount(volume.size_bytes))
        }))
    }
}

/// Says on standard error that a volume is far larger than its pool. It is made by then, so that nothing fails here.
fn note_size(client: &Client, size: ByteCount) {
    let Ok(pool) = client.get::<v1::Pool>("/v1/pool") else { return };
    let capacity = ByteCount(pool.value.capacity_bytes);
    if size.0 / SIZE_NOTED > capacity.0 {
        let _ = writeln!(
            io::stderr(),
            "note: the volume takes space only as it is written, and its pool has room for {capacity} of {size}"
        );
    }
}

fn block_size(size: ByteCount) -> Result<u32> {
    u32::try_from(size.0).map_err(|_| {
        Failure::misuse(format!("block size {size} is not possible"))
            .hint("a power of two from 512B to 64KiB")
    })
}
