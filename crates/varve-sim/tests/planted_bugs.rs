//! The checkers bite: each bug that is planted in the journal, the checkpoint, recovery, reclaim or the mark pass fails
//! a seed within a bounded number of them, and the same seed is clean without it.
//!
//! Method: plants one bug at a time on this thread and runs seeds until one fails; prints the seed and its failure. The
//! world that `planted_worlds.txt` lists comes first, as others would take minutes. A change of the engine changes what
//! happens in a world: a line that is out of date only costs time.
//! `cargo test -p varve-sim --test planted_bugs -- --nocapture` prints those of today.

use varve_logstore::planted::{Bug, plant};
use varve_sim::{DriveFaults, Faults, SeedOutcome, WorldConfig, catch_panics, run_world};
use varve_types::Reduction;

/// Worlds in which each bug has to show.
const WORLDS_MAX: u64 = 1500;

/// Shapes of worlds of one seed.
const WORLD_SHAPES: u64 = 5;

/// Bugs that show where there are objects.
const OBJECTS: [Bug; 8] = [
    Bug::TransactionTorn,
    Bug::StagedWithoutOrphan,
    Bug::HeldIsFreed,
    Bug::BlocksGivenTwice,
    Bug::OrphanTakenEarly,
    Bug::ReferencedIsFreed,
    Bug::ReferenceWithoutOrphan,
    Bug::ReferenceKept,
];

/// Bugs that show where shards name chunks of each other.
const PEERS: [Bug; 3] = [Bug::GrantBeforeDurable, Bug::GrantOfUndurable, Bug::MarkForgetsForeign];

/// Bugs that show where space is promised.
const PROMISES: [Bug; 4] =
    [Bug::OthersTakePromised, Bug::HeldSurvivesCut, Bug::PromisedIsReduced, Bug::PromisesForgotten];

/// A world that promises space to streams.
fn run_promising(world: u64) -> SeedOutcome {
    run_world(WorldConfig { faults: Faults::None, ..WorldConfig::promising(world) })
}

/// Bugs that show where zones move between shards.
const ZONES: [Bug; 3] = [Bug::ZoneGivenEarly, Bug::ZoneLentUndurable, Bug::LeavingReused];

/// A world whose shards take zones from each other.
fn run_moving(world: u64) -> SeedOutcome {
    run_world(WorldConfig { faults: Faults::None, ..WorldConfig::moving(world) })
}

fn run_peers(world: u64) -> SeedOutcome {
    run_world(peers(world))
}

/// A world of several shards that write much of the same.
fn peers(world: u64) -> WorldConfig {
    WorldConfig { faults: Faults::None, ..WorldConfig::sharing(world) }
}

/// A world in which requests overlap inside of blocks.
fn run_overlapping(world: u64) -> SeedOutcome {
    run_world(WorldConfig { faults: Faults::None, ..WorldConfig::overlapping(world) })
}

/// As [`run_peers`], with long messages, and one mark pass after the other among large writes: answers are on their way
/// while shards are walked.
fn run_marked_peers(world: u64) -> SeedOutcome {
    let seeded = peers(world);
    run_world(WorldConfig {
        large_percent: 70,
        message_nanos: 2_000_000,
        loses_messages: false,
        mark_passes: 10,
        mark_pause_nanos: 10_000_000,
        ..seeded
    })
}

/// As [`run_peers`], with many overwrites side by side, which replay folds before it drains the lane.
fn run_dense_peers(world: u64) -> SeedOutcome {
    let seeded = peers(world);
    run_world(WorldConfig {
        large_percent: 70,
        write_bytes_max: 256 << 10,
        checkpoint_entries: 5000,
        ..seeded
    })
}

/// A world that is so full of small writes to many maps that reclaim never rests; what one segment has for a page is
/// not much, so that updates may wait. `deltas` says in how many bytes, and from which reads on.
fn full_of_maps(world: u64, deltas: (usize, u64)) -> SeedOutcome {
    let seeded = WorldConfig::from_seed(world);
    let streams = 12;
    let segment_bytes = 32 << 10;
    // What fits into two thirds of all segments, at seven blocks each.
    let blocks = u64::from(seeded.segments) * 14 / 3;
    run_world(WorldConfig {
        faults: Faults::None,
        segment_bytes,
        page_cache_bytes: 2 << 20,
        checkpoint_entries: 5000,
        deaths_bytes: 1 << 20,
        streams,
        stream_blocks: (blocks / u64::from(seeded.shards) / streams as u64).clamp(8, 60),
        workers: 8,
        write_bytes_max: 4 << 10,
        large_percent: 0,
        hot_percent: 0,
        lives: seeded.lives.min(30),
        key_percent: 0,
        object_percent: 0,
        cut_per_mille: 0,
        reduction: Reduction::OFF,
        deltas_bytes: deltas.0,
        deltas_from_per_mille: deltas.1,
        ..seeded
    })
}

/// Nothing waits, and reclaim acts upon all that dies.
fn run_without_waiting(world: u64) -> SeedOutcome {
    full_of_maps(world, (1 << 20, u64::MAX))
}

/// Few may wait, so that sweeps never rest either.
fn run_with_sweeps(world: u64) -> SeedOutcome {
    full_of_maps(world, (400, 0))
}

/// A world of which segments are damaged, stale or misdirected after the last cut.
fn run_damaged(world: u64) -> SeedOutcome {
    run_world(WorldConfig { faults: Faults::Bits, ..WorldConfig::from_seed(world) })
}

/// A world that loses a lane.
fn run_losing_lanes(world: u64) -> SeedOutcome {
    run_world(WorldConfig::losing_lanes(world))
}

/// A world on several drives, or on one disk.
fn run_on_drives(world: u64) -> SeedOutcome {
    run_world(WorldConfig { faults: Faults::None, ..WorldConfig::on_drives(world) })
}

/// A world whose host is full now and then.
fn run_full_host(world: u64) -> SeedOutcome {
    run_world(WorldConfig::full_host(world))
}

/// A world whose disks get stuck.
fn run_stuck(world: u64) -> SeedOutcome {
    run_world(WorldConfig::stuck(world))
}

/// A world of which segments with pages are damaged after the last cut, or their copies.
fn run_losing_pages(world: u64) -> SeedOutcome {
    run_world(WorldConfig::losing_pages(world))
}

/// A world on redundant drives of which some fail.
fn run_losing_drives(world: u64) -> SeedOutcome {
    run_world(WorldConfig::on_redundant_drives(world, DriveFaults::Losing))
}

/// A world on redundant drives that leave and return.
fn run_returning_drives(world: u64) -> SeedOutcome {
    run_world(WorldConfig::on_redundant_drives(world, DriveFaults::Returning))
}

/// A world on redundant drives, of whose puts power cuts leave some strips.
fn run_torn_stripes(world: u64) -> SeedOutcome {
    run_world(WorldConfig::on_redundant_drives(world, DriveFaults::None))
}

/// A world on redundant drives that rot after the last cut.
fn run_rotting_strips(world: u64) -> SeedOutcome {
    run_world(WorldConfig::on_redundant_drives(world, DriveFaults::Rotting))
}

/// A world on redundant drives of which one is slow.
fn run_slow_drives(world: u64) -> SeedOutcome {
    run_world(WorldConfig::on_redundant_drives(world, DriveFaults::Slow))
}

/// Bugs that show where drives leave and return.
const RETURNING_DRIVES: [Bug; 4] =
    [Bug::AckBeforeTable, Bug::StaleRead, Bug::HalfOpens, Bug::HistoriesJoin];

/// A world on redundant drives between which rows move.
fn run_moving_rows(world: u64) -> SeedOutcome {
    run_world(WorldConfig::on_redundant_drives(world, DriveFaults::Moving))
}

/// Bugs that show where rows move.
const MOVING_ROWS: [Bug; 8] = [
    Bug::ZoneInUseWithdrawn,
    Bug::LentRowEmptied,
    Bug::RowUnchecked,
    Bug::PutToOldPlaces,
    Bug::ParityNotRebuilt,
    Bug::FreedBeforeReadBack,
    Bug::PutMissedByMover,
    Bug::CancelLeavesBoth,
];

/// Bugs that show in the tests of their crates: what is wrong by its owner's word stays wrong wherever it is moved, a
/// strip that is written in place was wrong before, and for the others worlds would have to be searched for minutes.
const SHOWN_ELSEWHERE: [Bug; 37] = [
    Bug::MovedUnverified,
    Bug::RepairedInPlace,
    Bug::AbsentIsEmpty,
    Bug::DropsUnbounded,
    Bug::DropLosesZone,
    Bug::RowUnchecked,
    Bug::TableOnOneDrive,
    Bug::RootsNotCopied,
    Bug::StaleRead,
    Bug::HistoriesJoin,
    Bug::CopySinceIgnored,
    Bug::FrameNotRestored,
    Bug::PutToOldPlaces,
    Bug::DecodedUnchecked,
    Bug::ParityNotRebuilt,
    Bug::PutMissedByMover,
    Bug::CancelLeavesBoth,
    Bug::ReplacedUntold,
    Bug::OkWithoutWalk,
    Bug::CountedFromTable,
    Bug::ShardForgotten,
    Bug::FailingIsWell,
    Bug::DamageUntold,
    Bug::UnreadableGivenUp,
    Bug::FormerCopyFreedEarly,
    Bug::FormerCopyForgotten,
    Bug::LateOvertaken,
    Bug::TenancyIgnored,
    Bug::ZoneForgotten,
    Bug::ConversionWithoutRoom,
    Bug::ConversionDropsUnreadable,
    Bug::GrownInTableFirst,
    Bug::UpgradeOverData,
    Bug::UpgradeSuperblocksFirst,
    Bug::UpgradeAnew,
    Bug::LookWrites,
    Bug::LookMends,
];

/// Bugs that show where drives fail.
const LOSING_DRIVES: [Bug; 6] = [
    Bug::DropsUnbounded,
    Bug::ErrorIsAbsence,
    Bug::RootFromFirstDrive,
    Bug::AckAfterFirstCopy,
    Bug::DegradedForgotten,
    Bug::NeedsOneMore,
];

/// A world with many objects.
fn run_objects(world: u64) -> SeedOutcome {
    let seeded = WorldConfig::from_seed(world);
    let lives = seeded.lives.min(20);
    run_world(WorldConfig {
        faults: Faults::None,
        object_percent: 90,
        key_percent: 0,
        workers: 8,
        stream_blocks: seeded.stream_blocks.min(40),
        lives,
        ..seeded
    })
}

/// A world of several shards with a bucket on them, of which one often writes more slowly than another, and which often
/// stops.
fn run_objects_on_shards(world: u64) -> SeedOutcome {
    let mut config = WorldConfig {
        faults: Faults::None,
        object_percent: 100,
        message_nanos: 1,
        workers: 2, // More of them keep sweeps busy with blocks, which wait for the journal.
        lives: 100,
        ..WorldConfig::objects(world)
    };
    config.latency.write_nanos = 5_000..1_000_000;
    run_world(config)
}

/// A world in which transactions go through several segments, and the machine often stops while what they wrote is
/// drained.
fn run_short_lives(world: u64) -> SeedOutcome {
    let seeded = WorldConfig::from_seed(world);
    let mut config = WorldConfig {
        faults: Faults::None,
        segment_bytes: 32 << 10,
        object_percent: 100,
        key_percent: 0,
        shards: 1,
        workers: 24,
        stream_blocks: seeded.stream_blocks.min(40),
        lives: 200,
        ..seeded
    };
    config.latency.write_nanos = 5_000..1_000_000;
    run_world(config)
}

/// Many short writes side by side on a disk that changes their order, and many lives: a frame is lost whose successor
/// is there, and the frame that takes its place ends where it ended.
fn run_torn_lanes(world: u64) -> SeedOutcome {
    let mut config = WorldConfig {
        faults: Faults::None,
        large_percent: 0,
        write_bytes_max: 4 << 10,
        key_percent: 0,
        object_percent: 0,
        cut_per_mille: 0,
        shards: 1,
        streams: 1,
        stream_blocks: 200,
        workers: 100,
        lives: 200,
        ..WorldConfig::from_seed(world)
    };
    config.latency.write_nanos = 5_000..1_000_000;
    run_world(config)
}

/// A fifth of the worlds are those of their seed. Another has many small writes of few blocks, so that several frames
/// of one size are under way at a cut: what goes wrong in the lane shows there. The next has many large writes, so that
/// several segments are under way: what goes wrong past the lane shows there. Then many cuts, and many cuts among large
/// writes.
fn run(world: u64) -> SeedOutcome {
    let seeded =
        WorldConfig { faults: Faults::None, ..WorldConfig::from_seed(world / WORLD_SHAPES) };
    run_world(match world % WORLD_SHAPES {
        0 => seeded,
        1 => WorldConfig {
            large_percent: 0,
            write_bytes_max: 4 << 10,
            key_percent: 0,
            workers: 24,
            stream_blocks: seeded.stream_blocks.min(40),
            ..seeded
        },
        2 => WorldConfig { large_percent: 70, key_percent: 0, workers: 12, ..seeded },
        3 => many_cuts(seeded),
        _ => WorldConfig { large_percent: 70, ..many_cuts(seeded) },
    })
}

fn many_cuts(seeded: WorldConfig) -> WorldConfig {
    WorldConfig {
        cut_per_mille: 100,
        key_percent: 0,
        workers: 12,
        stream_blocks: seeded.stream_blocks.min(100),
        ..seeded
    }
}

/// The world that showed the bug when it was last looked for.
fn listed_world(bug: Bug) -> Option<u64> {
    let mut lines = include_str!("planted_worlds.txt").lines();
    let world = lines.find_map(|line| line.strip_prefix(&format!("{bug:?} ")))?;
    Some(world.parse().expect("a line is a bug and a world"))
}

#[track_caller]
fn found(bug: Bug) {
    catch_panics();
    let run = match bug {
        Bug::ChainUnchecked => run_torn_lanes,
        Bug::UnsettledFrameBelieved => run_short_lives,
        bug if PROMISES.contains(&bug) => run_promising,
        Bug::GivenBackEarly => run_objects_on_shards,
        bug if OBJECTS.contains(&bug) => run_objects,
        Bug::MarkForgetsAsks | Bug::MarkForgetsGranted => run_marked_peers,
        Bug::GrantsForgottenInReplay => run_dense_peers,
        Bug::LimitForgotten => run_without_waiting,
        Bug::SweptActedUponEarly => run_with_sweeps,
        Bug::ClaimOverlooked | Bug::PartsUnclaimed => run_overlapping,
        Bug::LostLaneBelieved => run_losing_lanes,
        Bug::ReadUnchecked => run_damaged,
        Bug::DrivesAsNamed | Bug::SlotsOverLanes => run_on_drives,
        Bug::FullMediaBelieved | Bug::NoSpaceIsWritten => run_full_host,
        Bug::StuckIsDurable => run_stuck,
        Bug::PageCopyUnread => run_losing_pages,
        Bug::CopySinceIgnored => run_slow_drives,
        Bug::PutInPart | Bug::GenerationsMixed => run_torn_stripes,
        Bug::IndexTwice | Bug::ZeroedStripBelieved | Bug::DecodedUnchecked => run_rotting_strips,
        bug if RETURNING_DRIVES.contains(&bug) => run_returning_drives,
        bug if LOSING_DRIVES.contains(&bug) => run_losing_drives,
        bug if MOVING_ROWS.contains(&bug) => run_moving_rows,
        bug if PEERS.contains(&bug) => run_peers,
        bug if ZONES.contains(&bug) => run_moving,
        _ => run,
    };
    plant(Some(bug));
    let mut worlds = listed_world(bug).into_iter().chain(0..WORLDS_MAX);
    let failure = worlds.find_map(|world| Some((world, run(world).failure?)));
    plant(None);
    let Some((world, failure)) = failure else {
        panic!("{bug:?} was not found in {WORLDS_MAX} worlds")
    };
    println!("{bug:?} {world} fails: {failure}");
    assert_eq!(run(world).failure, None, "world {world} is clean without the bug");
}

macro_rules! planted {
    ($($name:ident: $bug:ident;)*) => {
        $(#[test]
        fn $name() {
            found(Bug::$bug);
        })*

        #[test]
        fn every_bug_has_a_test() {
            let mut bugs = Bug::ALL.to_vec();
            bugs.retain(|bug| !SHOWN_ELSEWHERE.contains(bug));
            assert_eq!(bugs, [$(Bug::$bug),*]);
        }
    };
}

planted! {
    a_root_counts_once_one_side_holds_it: RootOnOneSide;
    what_is_read_is_believed: ReadUnchecked;
    journal_acknowledges_before_durable: AckBeforeDurable;
    journal_replays_an_unchecked_chain: ChainUnchecked;
    a_read_returns_what_is_not_durable: ReadBeforeDurable;
    a_trim_is_not_durable: TrimBeforeDurable;
    bypass_overtakes_the_lane: BypassOvertakesLane;
    bypass_is_acknowledged_out_of_order: BypassAckedOutOfOrder;
    bypass_counts_for_the_lane: BypassCountsForLane;
    recovery_skips_the_rest_of_a_partial_record: PartialRecordSkipped;
    recovery_believes_unverified_segments: SegmentUnverified;
    recovery_believes_what_is_only_in_a_cache: UnsettledBelieved;
    recovery_believes_frames_that_are_only_in_a_cache: UnsettledFrameBelieved;
    checkpoint_writes_its_root_too_early: RootBeforePuts;
    checkpoint_reuses_pages_the_root_before_needs: PagesReusedEarly;
    segments_newer_than_the_checkpoint_are_reused: NewReusedEarly;
    reclaim_frees_a_victim_before_its_survivors_are_durable: VictimBeforeSurvivors;
    reclaim_moves_what_moved_on_or_died: MoveUnchecked;
    data_are_acknowledged_and_then_find_no_space: SpaceUnreserved;
    mark_forgets_pages: MarkForgetsPages;
    mark_forgets_grants: MarkForgetsGrants;
    a_chunk_dies_although_a_reference_is_drained: GrantNotCounted;
    mark_frees_what_was_granted_meanwhile: DyingIsGranted;
    the_dead_are_granted_before_they_are_folded: DeadIsGranted;
    an_overwritten_chunk_dies_although_others_name_it: ReferenceNotShared;
    a_copy_lacks_what_was_overwritten_after_its_cut: CutOverlooked;
    bypass_overtakes_a_cut: BypassOvertakesCut;
    a_copy_is_read_before_it_has_a_map: CopyReadEarly;
    a_page_that_copies_have_is_changed: SharedPageChanged;
    a_chunk_that_copies_hold_dies: CopiedChunkDies;
    mark_forgets_copies: MarkForgetsCopies;
    a_transaction_is_torn: TransactionTorn;
    a_body_is_staged_without_an_orphan: StagedWithoutOrphan;
    what_is_read_is_freed: HeldIsFreed;
    blocks_are_given_twice: BlocksGivenTwice;
    an_orphan_is_taken_early: OrphanTakenEarly;
    what_references_name_is_freed: ReferencedIsFreed;
    a_reference_is_added_without_an_orphan: ReferenceWithoutOrphan;
    a_reference_is_not_given_back: ReferenceKept;
    a_reference_is_given_back_early: GivenBackEarly;
    what_a_checkpoint_folds_is_reused_before_its_root: FoldReusedEarly;
    a_checkpoint_does_not_save_deaths: DeathsUnsaved;
    recovery_does_not_fold_what_reclaim_called_dead: DeadForgottenInReplay;
    recovery_does_not_fold_ranges_again: RangesForgottenInReplay;
    recovery_does_not_fold_dense_windows: DenseForgottenInReplay;
    a_grant_is_answered_before_it_is_durable: GrantBeforeDurable;
    a_chunk_is_granted_before_it_is_durable: GrantOfUndurable;
    recovery_forgets_grants_to_other_shards: GrantsForgottenInReplay;
    mark_forgets_what_other_shards_name: MarkForgetsForeign;
    mark_forgets_answers_that_are_on_their_way: MarkForgetsAsks;
    mark_forgets_what_is_granted_and_in_no_map: MarkForgetsGranted;
    others_take_what_is_promised: OthersTakePromised;
    what_a_copy_may_hold_counts_as_held: HeldSurvivesCut;
    what_is_promised_unreduced_is_reduced: PromisedIsReduced;
    promises_are_forgotten_at_an_opening: PromisesForgotten;
    a_block_is_read_in_its_map_although_an_update_waits: DeltaOverlooked;
    an_update_waits_on_when_its_block_is_changed: DeltaOutlivesChange;
    an_update_waits_on_when_its_block_is_trimmed: DeltaOutlivesTrim;
    a_cut_forgets_what_waits: CutForgetsDeltas;
    a_checkpoint_does_not_save_what_waits: DeltasUnsaved;
    what_a_sweep_finds_dead_is_acted_upon_early: SweptActedUponEarly;
    mark_forgets_what_waits: MarkForgetsDeltas;
    replay_lets_other_updates_wait: LimitForgotten;
    a_whole_write_does_not_wait_for_a_merge: ClaimOverlooked;
    two_parts_are_merged_over_one_version: PartsUnclaimed;
    a_zone_is_given_before_the_root_of_its_shard_is_durable: ZoneGivenEarly;
    a_zone_is_lent_before_the_root_of_the_pool_is_durable: ZoneLentUndurable;
    a_zone_that_a_shard_has_is_withdrawn: ZoneInUseWithdrawn;
    the_row_of_a_zone_that_a_shard_has_is_emptied: LentRowEmptied;
    a_zone_that_leaves_is_written_by_its_shard: LeavingReused;
    recovery_takes_a_lost_lane_for_an_empty_one: LostLaneBelieved;
    drives_are_joined_in_the_order_in_which_they_are_named: DrivesAsNamed;
    segments_lie_over_the_lanes_of_a_disk: SlotsOverLanes;
    full_media_are_believed_to_have_room: FullMediaBelieved;
    a_segment_that_finds_no_room_counts_as_written: NoSpaceIsWritten;
    a_write_that_is_stuck_counts_as_durable: StuckIsDurable;
    a_damaged_page_is_not_looked_for_in_its_copy: PageCopyUnread;
    a_copy_is_overwritten_while_it_is_written: PageCopyReusedEarly;
    a_drive_is_left_out_before_the_table_that_drops_it: AckBeforeTable;
    a_half_of_the_drives_opens_by_itself: HalfOpens;
    a_drive_that_cannot_be_looked_at_is_dropped: ErrorIsAbsence;
    a_root_is_read_from_the_first_drive: RootFromFirstDrive;
    journal_acknowledges_after_the_first_copy: AckAfterFirstCopy;
    a_strip_that_was_left_out_is_forgotten: DegradedForgotten;
    a_put_leaves_out_strips_that_seem_to_be_there: PutInPart;
    strips_of_different_puts_are_decoded_together: GenerationsMixed;
    strips_are_decoded_by_the_order_in_which_they_are_found: IndexTwice;
    decoding_asks_for_one_strip_more_than_it_needs: NeedsOneMore;
    a_strip_whose_checksum_is_wrong_is_decoded: ZeroedStripBelieved;
    a_row_leaves_its_places_before_others_are_read_back: FreedBeforeReadBack;
}

/// What is promised is kept.
#[test]
fn worlds_of_promises_are_clean() {
    catch_panics();
    for world in 0..60 {
        assert_eq!(run_promising(world).failure, None, "world {world}");
    }
}

/// Requests that overlap inside of blocks lose nothing of each other.
#[test]
fn worlds_of_overlapping_parts_are_clean() {
    catch_panics();
    for world in 0..16 {
        assert_eq!(run_overlapping(world).failure, None, "world {world}");
    }
}

/// Shards whose zones move lose nothing, and no zone; faults and cuts come at any point of a move.
#[test]
fn worlds_of_moving_zones_are_clean() {
    catch_panics();
    let mut given = 0;
    for world in 0..60 {
        let outcome = run_world(WorldConfig::moving(world));
        assert_eq!(outcome.failure, None, "world {world}");
        given += outcome.zones_given;
    }
    assert!(given > 200, "only {given} zones moved in 60 worlds");
}

/// Pools on several drives, and on disks instead of directories, lose nothing, whatever fails and in whatever order the
/// drives are named.
#[test]
fn worlds_on_drives_are_clean() {
    catch_panics();
    for world in 0..60 {
        assert_eq!(run_world(WorldConfig::on_drives(world)).failure, None, "world {world}");
    }
}

/// Pools on a full host refuse and lose nothing; where the host can promise room, no segment is written without it.
#[test]
fn worlds_on_a_full_host_are_clean() {
    catch_panics();
    for world in 0..60 {
        assert_eq!(run_full_host(world).failure, None, "world {world}");
    }
}

/// Disks that do not answer for seconds make requests wait, and nothing else; one write that fails then closes its
/// shard, which opens again.
#[test]
fn worlds_of_stuck_disks_are_clean() {
    catch_panics();
    for world in 0..60 {
        assert_eq!(run_stuck(world).failure, None, "world {world}");
    }
}

/// Pools on redundant drives lose nothing while no more of them fail than they survive, and never read anything wrong.
#[test]
fn worlds_that_lose_drives_are_clean() {
    catch_panics();
    let mut counted = 0;
    for world in 0..40 {
        let outcome = run_losing_drives(world);
        assert_eq!(outcome.failure, None, "world {world}");
        counted += outcome.counted_segments;
    }
    assert!(counted > 1000, "strips of only {counted} segments were counted in 40 worlds");
}

/// Puts of which power cuts leave some strips are there in whole or not at all.
#[test]
fn worlds_of_torn_stripes_are_clean() {
    catch_panics();
    for world in 0..40 {
        assert_eq!(run_torn_stripes(world).failure, None, "world {world}");
    }
}

/// What rots on as many drives as a pool survives does not show.
#[test]
fn worlds_of_rotting_strips_are_clean() {
    catch_panics();
    let mut damaged = 0;
    for world in 0..40 {
        let outcome = run_rotting_strips(world);
        assert_eq!(outcome.failure, None, "world {world}");
        damaged += outcome.damaged_strips;
    }
    assert!(damaged > 1000, "only {damaged} strips were damaged in 40 worlds");
}

/// Rows that move while drives leave and fail, and the class of zones changes, lose nothing.
#[test]
fn worlds_of_moving_rows_are_clean() {
    catch_panics();
    let mut moved = 0;
    for world in 0..40 {
        let outcome = run_moving_rows(world);
        assert_eq!(outcome.failure, None, "world {world}");
        moved += outcome.rows_moved;
    }
    assert!(moved > 0, "no row moved in 40 worlds");
}

/// Shards that name chunks of each other lose nothing.
#[test]
fn worlds_of_peers_are_clean() {
    catch_panics();
    for world in 0..60 {
        assert_eq!(run_peers(world).failure, None, "world {world}");
    }
}

/// Shards full of small writes to many maps, whose updates wait or do not, lose nothing and go on.
#[test]
fn worlds_full_of_maps_are_clean() {
    catch_panics();
    for world in 0..40 {
        assert_eq!(run_with_sweeps(world).failure, None, "world {world}, with sweeps");
        assert_eq!(run_without_waiting(world).failure, None, "world {world}, without");
        let waiting = full_of_maps(world, (1 << 20, 0));
        assert_eq!(waiting.failure, None, "world {world}, in which all wait");
    }
}

/// Worlds full of garbage, in which mark or the drain once waited for segments that nobody could free.
#[test]
fn worlds_that_once_hung_are_clean() {
    catch_panics();
    for world in [373, 503, 583, 1248] {
        assert_eq!(run(world).failure, None, "world {world}");
    }
}
