//! Placement groups of a Ceph pool. F9, from Intel's guide, appendix B; CeTune and VSM use the same. The power of two
//! is chosen as Ceph's own calculator chooses it.

use serde::Serialize;

use crate::error::{Error, Result, positive};
use crate::protection::Protection;
use crate::rounding::{real, round_up};
use crate::units::{Amount, Share};

/// Placement groups for each OSD that a pool with the whole cluster is to have.
pub const PER_OSD: f64 = 100.0;

/// Part of the formula's result that a power of two must reach to be enough.
const ENOUGH: f64 = 0.75;

/// Placement groups of one pool.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct PlacementGroups {
    /// OSDs × 100 ÷ size, rounded to a whole number.
    pub formula: u64,
    /// A power of two, which Ceph asks for: the nearest below, unless that is more than a quarter less; then the next
    /// above.
    pub count: u64,
    /// What an OSD then holds: copies or strips of so many groups.
    pub per_osd: f64,
}

/// Placement groups of a pool that owns `share` of the cluster's data (formula F9). Size is the copies, or k + m.
///
/// # Errors
/// [`Error::Range`] when there are no OSDs, the share is not above 0 and at most 1, or more than 2⁵⁰ groups come out.
pub fn of_pool(osds: u64, protection: Protection, share: f64) -> Result<PlacementGroups> {
    positive("the number of OSDs", real(osds))?;
    positive("the pool's share of the data", share)?;
    crate::demand::share("the pool's share of the data", Share::of_base(share))?;
    let size = f64::from(protection.width());
    let exact = real(osds) * PER_OSD * share / size;
    let formula = round_up((exact - 0.5).max(1.0)).filter(|&count| count <= 1 << 50);
    let range =
        Error::Range {
            what: "the number of placement groups", value: exact, allowed: "below 2⁵⁰"
        };
    let formula = formula.ok_or(range)?;
    // A pool with little data still gets a group on every OSD.
    let count = nearest_power_of_two(exact.max(real(osds) / size));
    Ok(PlacementGroups { formula, count, per_osd: real(count) * size / real(osds) })
}

/// The power of two below `exact`, unless it is more than a quarter below; then the one above.
fn nearest_power_of_two(exact: f64) -> u64 {
    let above = round_up(exact.max(1.0)).unwrap_or(1 << 50).next_power_of_two();
    let below = (above / 2).max(1);
    if real(below) >= exact * ENOUGH { below } else { above }
}
