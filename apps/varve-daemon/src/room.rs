//! How much a pool holds, and how much more it takes: as much as its fullest shard lets it, with the space that can go
//! from shard to shard.

use crate::stack::ShardReport;

/// What a shard could still take, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct ShardRoom {
    /// Once it has all space that no shard has.
    pub(crate) reach_bytes: u64,
    /// Space that it could give to other shards.
    pub(crate) spare_bytes: u64,
    /// It can use nothing but what it has: the media have no room for more.
    pub(crate) is_confined: bool,
}

/// Of a shard that gets space of others, the part that holds data: the rest is for headers, reserves and what lies
/// between.
const HELD_OF_16: u64 = 14;

/// What fewer whole zones than the media have segments for may cost a shard's reach without being worth telling.
const NOISE_PART: u64 = 16;

/// Bytes that a pool holds. A shard that has not served since the start counts as much as the others do on average:
/// clients write to all alike.
pub(crate) fn used_bytes(reports: &[ShardReport]) -> u64 {
    let known = reports.iter().filter_map(|report| report.space_used_bytes);
    let (count, sum) = known.fold((0_u64, 0_u64), |(count, sum), used| (count + 1, sum + used));
    let unknown = reports.len() as u64 - count;
    sum.saturating_add((sum / count.max(1)).saturating_mul(unknown))
}

/// Bytes that can be written to a pool of that capacity, by clients that write to all shards alike. What shards do not
/// tell, as they do not serve, does not count.
pub(crate) fn free_bytes(capacity_bytes: u64, used_bytes: u64, reports: &[ShardReport]) -> u64 {
    let left = capacity_bytes.saturating_sub(used_bytes);
    let rooms: Vec<ShardRoom> = reports.iter().filter_map(|report| report.room).collect();
    let spare: u64 = rooms.iter().map(|room| room.spare_bytes).sum();
    let reach = |room: &ShardRoom| {
        let others = if room.is_confined { 0 } else { spare.saturating_sub(room.spare_bytes) };
        room.reach_bytes.saturating_add(others / 16 * HELD_OF_16)
    };
    let Some(fullest) = rooms.iter().map(reach).min() else { return left };
    let all = fullest.saturating_mul(rooms.len() as u64);
    left.min(all.saturating_add(all / NOISE_PART))
}

#[cfg(test)]
mod tests {
    use varve_access_admin::v1::{ShardState, ShardStatus};

    use super::*;
    use crate::stack::ShardHealth;

    fn report(reach_bytes: u64, spare_bytes: u64, is_confined: bool) -> ShardReport {
        let status = ShardStatus {
            shard: 0,
            cell: None,
            state: ShardState::Serving,
            trouble: None,
            undrained_bytes: 0,
            lane_used_bytes: 0,
            lane_size_bytes: 0,
        };
        let room = Some(ShardRoom { reach_bytes, spare_bytes, is_confined });
        ShardReport {
            status,
            memory_used_bytes: 0,
            space_used_bytes: Some(0),
            room,
            used_segments: 0,
            journal_tail: 0,
            pool_segments: None,
            drives: Vec::new(),
            metrics: Vec::new(),
            health: ShardHealth::default(),
        }
    }

    #[test]
    fn a_shard_that_never_served_counts_as_the_others_do() {
        let holding = |space_used_bytes| ShardReport { space_used_bytes, ..report(0, 0, false) };
        let (some, none) = ([Some(100), None, Some(300)].map(holding), [None, None].map(holding));
        assert_eq!((used_bytes(&some), used_bytes(&none), used_bytes(&[])), (600, 0, 0));
    }

    #[test]
    fn an_even_pool_takes_what_is_left() {
        let reports = [report(700, 300, false), report(700, 300, false)];
        assert_eq!(free_bytes(1000, 100, &reports), 900);
        assert_eq!(free_bytes(1000, 100, &[]), 900, "nobody tells anything");
    }

    #[test]
    fn a_full_shard_counts_with_what_others_can_give() {
        assert_eq!(free_bytes(1600, 800, &[report(0, 0, false), report(800, 0, false)]), 0);
        let movable = [report(0, 0, false), report(800, 800, false)];
        assert_eq!(free_bytes(1600, 800, &movable), 800);
    }

    #[test]
    fn full_media_take_what_is_in_their_segments() {
        let reports = [report(16, 0, true), report(160, 100, true)];
        assert_eq!(free_bytes(4000, 1000, &reports), 34);
    }
}
