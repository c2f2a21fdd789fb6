//! How many zones a pool should have now: as many as its drives have room for, no more than find it without moving
//! others, and fewer while rows that must move have nowhere to go. Pure.
//!
//! ZONE-TARGET-1. More zones are had only once nothing lacks strips, leaves a drive or changes its class: what protects
//!     data gets free room first, and clients get what is left.

use crate::conversion::is_as_new;
use crate::fills::DriveFills;
use crate::format::{DriveState, DriveTable, MoveReason, Row, RowState, StripSet};
use crate::ids::ZoneIndex;
use crate::plan::{takes_new_zones, zones_that_fit};
use crate::sizes::{PoolSizes, shape_of};
use crate::view::LayoutView;

/// What a pool's root says of its zones, and movers of its rows.
#[derive(Clone, Copy)]
pub struct ZoneUse<'a> {
    /// Zones that are not withdrawn.
    pub zones: u32,
    /// Whether a zone is withdrawn.
    pub is_withdrawn: &'a dyn Fn(ZoneIndex) -> bool,
    /// Rows that must move and find no room.
    pub waiting: u32,
}

/// How many zones there should be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ZoneTarget {
    /// Zones that are not withdrawn.
    pub zones: u32,
    /// Whether shards should give zones back for it, as rows that must move need their room.
    pub is_pressing: bool,
}

impl ZoneTarget {
    /// That of a view. O(zones).
    #[must_use]
    pub fn of(view: &LayoutView, usage: &ZoneUse<'_>) -> Self {
        let (table, shape) = (view.drives(), shape_of(view));
        let stays = Self { zones: usage.zones, is_pressing: false };
        let takers = table.drives.iter().filter(|drive| takes_new_zones(table, drive));
        if takers.count() < shape.strips() {
            return stays; // Whatever was withdrawn, no row would find other places.
        }
        let used = view.rows().filter(|(zone, _)| !(usage.is_withdrawn)(*zone));
        let (mut rows, mut is_settled) = (0_u32, true);
        for (_, row) in used {
            rows += 1;
            is_settled &= is_at_rest(table, row);
        }
        let promised = PoolSizes::of_view(view).zones;
        if usage.waiting > 0 {
            // For zones without a row there is no room either.
            let freed = usage.waiting.div_ceil(strips_of(shape.strips()));
            let zones = promised.min(usage.zones).min(rows.saturating_sub(freed));
            return Self { zones, is_pressing: true };
        }
        if promised <= usage.zones {
            // Also when nothing moves any more: rows may have moved sooner than shards gave their zones back. Without
            // parity nothing is rebuilt, so nothing needs the room.
            let is_pressing = promised < usage.zones && (!is_settled || shape.parity() > 0);
            return Self { zones: promised, is_pressing };
        }
        if !is_settled {
            return stays; // ZONE-TARGET-1
        }
        let rooms = DriveFills::of(view).rooms(view, table.geometry(shape).place_units());
        let placed = rows.saturating_add(zones_that_fit(&rooms, shape.strips()));
        Self { zones: promised.min(placed).max(usage.zones), is_pressing: false }
    }
}

/// Whether nothing has to be done for a row, but for how evenly drives are full.
fn is_at_rest(table: &DriveTable, row: &Row) -> bool {
    let is_live = |set: &StripSet| {
        set.places.iter().all(|place| {
            table.drive(place.drive).is_some_and(|drive| drive.state == DriveState::Live)
        })
    };
    let is_well = |set: &StripSet| is_as_new(table, set) && is_live(set);
    match &row.state {
        RowState::Empty => true,
        RowState::Still(set) => is_well(set),
        RowState::Moving { from, to, why } => {
            *why == MoveReason::Rebalance && is_well(from) && is_well(to)
        }
    }
}

fn strips_of(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX).max(1)
}

#[cfg(test)]
mod tests;
