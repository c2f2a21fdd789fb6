//! Kinds of worlds: what a world has beside what its seed draws. `varve-sim --kind` names them, and CI looks at some of
//! each.

use std::fmt;

use clap::ValueEnum;

use crate::config::WorldConfig;
use crate::redundancy::DriveFaults;

/// A kind of worlds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum WorldKind {
    /// What the seed draws, and nothing else
    Seeded,
    /// Several shards that write much of the same
    Sharing,
    /// Several shards with a bucket on them, whose objects are copied
    Objects,
    /// Space is promised to streams
    Promising,
    /// Requests overlap inside of blocks
    Overlapping,
    /// Shards between which zones move
    Moving,
    /// A lane, or a part of it, is lost after the last power cut
    LosingLanes,
    /// Segments with metadata pages, or their copies, are damaged after the last power cut
    LosingPages,
    /// Two or three drives, or drives that are one disk each
    Drives,
    /// The host's file system under the drive is full now and then
    FullHost,
    /// Disks do not answer for seconds
    Stuck,
    /// Redundant drives of which some fail, at any step
    LosingDrives,
    /// Redundant drives that leave between lives and return, in any sets
    ReturningDrives,
    /// Redundant drives and large writes, of which power cuts leave some strips
    TornStripes,
    /// Redundant drives on which strips, journals, roots and tables are damaged after the last power cut
    RottingStrips,
    /// Redundant drives of which one answers late, or stops for a while
    SlowDrives,
    /// Redundant drives between which rows move, as some leave or fail and the class of zones changes
    MovingRows,
    /// Redundant drives that are nearly full and of which some fail, at any step
    FullDegraded,
}

impl WorldKind {
    /// The world of this kind that `seed` stands for.
    #[must_use]
    pub fn world(self, seed: u64) -> WorldConfig {
        match self {
            Self::Seeded => WorldConfig::from_seed(seed),
            Self::Sharing => WorldConfig::sharing(seed),
            Self::Objects => WorldConfig::objects(seed),
            Self::Promising => WorldConfig::promising(seed),
            Self::Overlapping => WorldConfig::overlapping(seed),
            Self::Moving => WorldConfig::moving(seed),
            Self::LosingLanes => WorldConfig::losing_lanes(seed),
            Self::LosingPages => WorldConfig::losing_pages(seed),
            Self::Drives => WorldConfig::on_drives(seed),
            Self::FullHost => WorldConfig::full_host(seed),
            Self::Stuck => WorldConfig::stuck(seed),
            Self::LosingDrives => WorldConfig::on_redundant_drives(seed, DriveFaults::Losing),
            Self::ReturningDrives => WorldConfig::on_redundant_drives(seed, DriveFaults::Returning),
            Self::TornStripes => WorldConfig::on_redundant_drives(seed, DriveFaults::None),
            Self::RottingStrips => WorldConfig::on_redundant_drives(seed, DriveFaults::Rotting),
            Self::SlowDrives => WorldConfig::on_redundant_drives(seed, DriveFaults::Slow),
            Self::MovingRows => WorldConfig::on_redundant_drives(seed, DriveFaults::Moving),
            Self::FullDegraded => WorldConfig::full_degraded(seed),
        }
    }
}

impl fmt::Display for WorldKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.to_possible_value().expect("no kind is hidden").get_name())
    }
}
