//! Journals on drives of their own. F8, from Intel's guide, use case 1 and appendix B.

use crate::error::{Result, positive};
use crate::rounding::{Need, real};
use crate::units::{Amount, ByteRate, Bytes, Seconds};

/// Size of an OSD's journal (formula F8): twice what arrives between two syncs, limited by the slower of drive and
/// network. 100 MB/s and 5 s make 1000 MB.
#[must_use]
pub fn size(drive: ByteRate, network: ByteRate, sync_interval: Seconds) -> Bytes {
    drive.min(network) * sync_interval * 2.0
}

/// That what a journal's size is computed from has a meaning.
///
/// # Errors
/// [`crate::Error::Range`] naming the amount.
pub fn check(drive: ByteRate, network: ByteRate, sync_interval: Seconds) -> Result<()> {
    positive("the rate of the drive in bytes a second", drive.base())?;
    positive("the rate of the network in bytes a second", network.base())?;
    positive("the time between syncs in seconds", sync_interval.base()).map(|_| ())
}

/// The rate up to which a journal of `size` suffices: F8 the other way round.
#[must_use]
pub fn covered_rate(size: Bytes, sync_interval: Seconds) -> ByteRate {
    size / (sync_interval * 2.0)
}

/// Journal drives for `osds` (formula F8). The ratio is a parameter, since sources differ: 12 or 16 HDDs on an NVMe
/// drive, 4 or 5 on a SATA SSD, 4 SATA SSDs on an NVMe drive (erratum X10).
///
/// # Errors
/// [`crate::Error::Range`] when the ratio is no number above 0.
pub fn drives(osds: u64, osds_per_journal: f64) -> Result<Need> {
    positive("OSDs that a journal drive serves", osds_per_journal)?;
    Need::of("OSDs a journal drive serves", real(osds), osds_per_journal)
}

/// What journals give and what the data drives behind them take.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Balance {
    /// Write rate of the journal drives.
    pub journals: ByteRate,
    /// Write rate of the data drives that they serve.
    pub data: ByteRate,
}

impl Balance {
    /// Whether the journals are no slower than the data drives (formula F8).
    #[must_use]
    pub fn holds(self) -> bool {
        self.journals >= self.data
    }
}

/// Where the journals of a node's OSDs lie: how many on each of its journal drives, as even as possible.
///
/// # Errors
/// [`crate::Error::Range`] when there is no journal drive.
pub fn partitions(osds: u64, journal_drives: u64) -> Result<Vec<u64>> {
    positive("the number of journal drives", real(journal_drives))?;
    let more = osds % journal_drives;
    Ok((0..journal_drives).map(|drive| osds / journal_drives + u64::from(drive < more)).collect())
}
