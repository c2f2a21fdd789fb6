//! `varve dump`: what is stored, in words. For who looks for a fault, writes a tool, or wants to know.
//!
//! DUMP-1. Reads only, and goes on past what is damaged: what cannot be read is reported in its place, and the command
//!     ends with 1.
//! DUMP-2. One fact a line. Structures print as `docs/format.md` has them; lists print one JSON object a line with
//!     `--json`.

use clap::{Args, Subcommand};
use futures_util::future::LocalBoxFuture;
use varve_client::{Failure, Result};
use varve_inspect::dump::{OVERLAY_BYTES_MAX, Output, lane, redundancy, roots, segments, trees};
use varve_inspect::{OfflinePlace, OfflinePool, PoolSource, ProbedPool};
use varve_reactor::Reactor;
use varve_types::ShardId;

use crate::cli::Global;

/// Print the on-disk structures of a stopped pool
#[derive(Args, Debug)]
pub(crate) struct DumpCommand {
    #[command(flatten)]
    source: PoolSource,
    #[command(subcommand)]
    what: What,
}

/// What to print.
#[derive(Subcommand, Clone, Debug)]
enum What {
    /// Every copy of every drive's superblock
    Superblock,
    /// Both sides of every root
    Roots,
    /// The pool: its figures and its root
    Pool,
    /// The frames in a shard's journal
    Lane {
        #[command(flatten)]
        lane: LaneChoice,
        #[command(flatten)]
        form: ListForm,
    },
    /// One frame with its records
    Frame {
        /// Byte offset in the journal; a multiple of 4096
        position: u64,
        #[command(flatten)]
        lane: LaneChoice,
    },
    /// The header of every segment that has one
    Segments {
        #[command(flatten)]
        form: ListForm,
    },
    /// One segment: header and summary, each unit compared with its checksum
    Segment {
        /// Its number
        number: u32,
    },
    /// Where each block of a volume is stored
    Map {
        /// Name of the volume, or stream:ID
        volume: String,
        #[command(flatten)]
        form: ListForm,
    },
    /// Redundant pools: the drive table as each drive has it
    Drives,
    /// Redundant pools: on which drives journals and zones lie
    Layout,
    /// Redundant pools: the strips of a segment, each with its label
    Strip {
        /// Number of the segment
        slot: u32,
    },
    /// The key trees: volumes and streams
    Keys {
        #[command(flatten)]
        form: ListForm,
    },
}

/// Which lane.
#[derive(Args, Clone, Copy, Debug)]
struct LaneChoice {
    /// Shard of the lane
    #[arg(long, value_name = "N", default_value_t = 0)]
    shard: u16,
}

/// How a list is printed.
#[derive(Args, Clone, Copy, Debug)]
struct ListForm {
    /// Print one JSON object a line: fields are added over time, never renamed or removed
    #[arg(long)]
    json: bool,
}

impl DumpCommand {
    pub(crate) fn run(self, global: &Global) -> Result<String> {
        let pool = OfflinePool::open(&global.offline_data()?, &self.source)?;
        if matches!(self.what, What::Superblock) {
            let Some(copies) = pool.superblock_copies() else {
                return Err(Failure::misuse("a pool on RADOS has no superblocks")
                    .hint("`varve dump pool` shows what its record says"));
            };
            let mut out = Output::new(false);
            roots::superblocks(&copies, &mut out);
            return out.end();
        }
        if let (What::Drives, OfflinePlace::Redundant(place)) = (&self.what, &pool.place) {
            return redundancy::drives(place, Output::new(false))?.end(); // Also where drives do not agree.
        }
        let figures = pool.figures().map_err(|error| {
            Failure::new(error.to_string()).hint("`varve dump superblock` shows every copy")
        })?;
        match self.what {
            What::Superblock => unreachable!("printed above"),
            What::Roots => print(&pool, false, move |_, looked, out| {
                Box::pin(roots::roots(looked, figures, out))
            }),
            What::Pool => print(&pool, false, move |_, looked, out| {
                Box::pin(roots::pool(looked, figures, out))
            }),
            What::Lane { lane, form } => print(&pool, form.json, move |_, looked, out| {
                Box::pin(lane::lane(looked, ShardId(lane.shard), out))
            }),
            What::Frame { position, lane } => print(&pool, false, move |_, looked, out| {
                Box::pin(lane::frame(looked, ShardId(lane.shard), position, out))
            }),
            What::Segments { form } => {
                let slots = pool.slots()?;
                print(&pool, form.json, move |_, looked, out| {
                    Box::pin(segments::segments(looked, figures, slots, out))
                })
            }
            What::Segment { number } => {
                // A slot of a pool on RADOS is an object of one shard; where there is none, any says so.
                let mut slots = pool.slots()?.into_iter();
                let shard =
                    slots.find(|(_, slot)| *slot == number).map_or(ShardId(0), |slot| slot.0);
                print(&pool, false, move |_, looked, out| {
                    Box::pin(segments::segment(looked, figures, shard, number, out))
                })
            }
            What::Map { volume, form } => {
                trees::map(&pool, &figures, &volume, Output::new(form.json))?.end()
            }
            What::Drives => pool.redundant().map(|_| String::new()),
            What::Layout => {
                print(&pool, false, move |_, looked, out| Box::pin(redundancy::layout(looked, out)))
            }
            What::Strip { slot } => print(&pool, false, move |_, looked, out| {
                Box::pin(redundancy::strip(looked, slot, out))
            }),
            What::Keys { form } => trees::keys(&pool, &figures, Output::new(form.json))?.end(),
        }
    }
}

/// Prints on a loop over the pool.
fn print(
    pool: &OfflinePool,
    is_json: bool,
    work: impl FnOnce(Reactor, ProbedPool, Output) -> LocalBoxFuture<'static, Result<Output>>,
) -> Result<String> {
    let out = Output::new(is_json);
    pool.on_loop(OVERLAY_BYTES_MAX, |reactor, looked| work(reactor, looked, out))??.end()
}
