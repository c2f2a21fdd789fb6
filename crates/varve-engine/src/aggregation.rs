//! How small writes become large ones: when what waits goes into the open segment, and when that is sealed. Decisions
//! alone: what holds is handed in, nothing is remembered.
//!
//! Two queues fill a segment. *Write-through* is what bypasses the lane: its clients wait until the segment is
//! durable. *Write-back* is what the lane holds: it was answered, and the longer it stays the more of it is overwritten
//! before it is stored.
//!
//! AGGREGATION-1. Write-through goes first: it is appended as soon as it is there, between two frames of write-back.
//! AGGREGATION-2. Write-through waits for company for a bounded time, and alone if nobody comes: while a put is under
//!     way, whose answers bring more, and [`PATIENCE_NS`] after the last one.
//! AGGREGATION-3. Write-back waits as long as nobody needs what it holds, and [`LINGER_NS`] at most. Then it goes in
//!     the order in which it came.
//! AGGREGATION-4. A segment that is not full is sealed only for those who wait for what that gives, so a backlog makes
//!     full segments.
//! AGGREGATION-5. Within a segment raw blocks stand in front and what is smaller close behind them, whatever the order
//!     of arrival (SEGMENT-WRITER-4): nothing is lost between large and small.
//!
//! RFC 0020 says what other orders would gain.

/// How long durable frames linger in the lane at most.
pub(crate) const LINGER_NS: u64 = 1_000_000_000;

/// How long write-through waits for more once no put is under way whose answers would bring it: less than a put takes.
const PATIENCE_NS: u64 = 1_000_000;

const _: () = assert!(PATIENCE_NS < LINGER_NS, "clients wait for write-through alone");

/// What speaks for appending a durable frame now.
#[derive(Clone, Copy, Default)]
pub(crate) struct WriteBack {
    /// It has lingered for [`LINGER_NS`], or stands before one that has, or somebody waits for the trees to show it.
    pub(crate) drain_requested: bool,
    /// Half of what bounds the lane is taken, or somebody waits for some of it.
    pub(crate) half_taken: bool,
    /// New data were refused for want of space: what is stored may free some.
    pub(crate) refused: bool,
    /// Other shards' grants wait for credits.
    pub(crate) grants_wait: bool,
    /// The shard takes nothing more.
    pub(crate) closing: bool,
    /// There is no space for all that may linger, were none of it overwritten.
    pub(crate) short_of_space: bool,
}

impl WriteBack {
    /// Whether a durable frame, the next to go, shall wait no longer (AGGREGATION-3).
    pub(crate) const fn is_due(self) -> bool {
        let urgent = self.drain_requested || self.half_taken || self.grants_wait;
        urgent || self.refused || self.closing || self.short_of_space
    }
}

/// What becomes of write-through in the open segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum WriteThrough {
    /// There is none.
    Idle,
    /// Puts are under way; when one has ended the question is asked again.
    AwaitPut,
    /// The segment is sealed after so long, however much it holds.
    SealAfter { after_ns: u64 },
}

/// What write-through in the open segment waits for (AGGREGATION-1, AGGREGATION-2).
pub(crate) const fn write_through(bytes: u64, put_under_way: bool) -> WriteThrough {
    match (bytes, put_under_way) {
        (0, _) => WriteThrough::Idle,
        (_, true) => WriteThrough::AwaitPut,
        (_, false) => WriteThrough::SealAfter { after_ns: PATIENCE_NS },
    }
}

/// Of a segment that is not full.
#[derive(Clone, Copy, Default)]
pub(crate) struct PartFilled {
    /// It holds frames, or write-through: credits come back when it is applied.
    pub(crate) gives_credits: bool,
    /// It holds trims: space comes back when it is applied.
    pub(crate) gives_space: bool,
    /// Write-back that could be appended still waits.
    pub(crate) more_comes: bool,
    /// Segments before it are not applied yet: what they give comes first.
    pub(crate) others_first: bool,
}

/// Who waits for what an applied segment gives.
#[derive(Clone, Copy, Default)]
pub(crate) struct SegmentWaiters {
    /// A writer waits for credits.
    pub(crate) for_credits: bool,
    /// Other shards' grants wait for credits, and are refused meanwhile. Where shards ask each other about all that is
    /// drained, there may always be more to append.
    pub(crate) for_grants: bool,
    /// Data were refused for want of space.
    pub(crate) for_space: bool,
    /// More than half of the lane is taken.
    pub(crate) lane_half_taken: bool,
}

/// Whether a segment that is not full is sealed for those who wait (AGGREGATION-4).
pub(crate) const fn seals(segment: PartFilled, waiting: SegmentWaiters) -> bool {
    if segment.others_first || !segment.gives_credits {
        return false;
    }
    let is_wanted = waiting.for_credits || waiting.for_space && segment.gives_space;
    waiting.lane_half_taken || waiting.for_grants || is_wanted && !segment.more_comes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn write_through_waits_for_company_for_a_bounded_time_and_goes_alone() {
        assert_eq!(write_through(0, true), WriteThrough::Idle);
        assert_eq!(write_through(0, false), WriteThrough::Idle);
        assert_eq!(write_through(4096, true), WriteThrough::AwaitPut);
        let WriteThrough::SealAfter { after_ns: alone } = write_through(4096, false) else {
            panic!("one block alone is sealed")
        };
        assert!(alone < LINGER_NS, "its client waits, that of write-back does not");
        assert_eq!(write_through(1 << 21, false), WriteThrough::SealAfter { after_ns: alone });
    }

    #[test]
    fn write_back_waits_until_somebody_needs_what_it_holds() {
        let idle = WriteBack::default();
        assert!(!idle.is_due());
        for due in [
            WriteBack { drain_requested: true, ..idle },
            WriteBack { half_taken: true, ..idle },
            WriteBack { refused: true, ..idle },
            WriteBack { grants_wait: true, ..idle },
            WriteBack { closing: true, ..idle },
            WriteBack { short_of_space: true, ..idle },
        ] {
            assert!(due.is_due());
        }
    }

    #[test]
    fn a_part_filled_segment_is_sealed_only_for_those_who_wait() {
        let all = [false, true];
        let mut sealed = 0;
        for bits in 0..1 << 8 {
            let bit = |index: usize| all[bits >> index & 1];
            let segment = PartFilled {
                gives_credits: bit(0),
                gives_space: bit(1),
                more_comes: bit(2),
                others_first: bit(3),
            };
            let waiting = SegmentWaiters {
                for_credits: bit(4),
                for_space: bit(5),
                lane_half_taken: bit(6),
                for_grants: bit(7),
            };
            let nobody = bits >> 4 == 0;
            let seals = seals(segment, waiting);
            if seals {
                assert!(!nobody, "a backlog makes full segments");
                assert!(!segment.others_first, "what was sealed before gives first");
                assert!(segment.gives_credits, "sealing it gives nothing");
                sealed += 1;
            }
        }
        assert!(sealed > 0);
    }

    #[test]
    fn whoever_waits_is_served_in_the_end() {
        // Nothing more comes and nothing is before it: nobody else would go on.
        let last = PartFilled { gives_credits: true, ..PartFilled::default() };
        let (credits, space) = (
            SegmentWaiters { for_credits: true, ..SegmentWaiters::default() },
            SegmentWaiters { for_space: true, ..SegmentWaiters::default() },
        );
        assert!(seals(last, credits));
        assert!(seals(PartFilled { gives_space: true, ..last }, space));
        assert!(!seals(last, space), "it frees nothing");
        // A lane that fills up does not wait for a full segment, though more could be appended.
        let half = SegmentWaiters { lane_half_taken: true, ..SegmentWaiters::default() };
        assert!(seals(PartFilled { more_comes: true, ..last }, half));
        assert!(!seals(PartFilled { more_comes: true, ..last }, credits));
        let grants = SegmentWaiters { for_grants: true, ..SegmentWaiters::default() };
        assert!(seals(PartFilled { more_comes: true, ..last }, grants));
    }
}
