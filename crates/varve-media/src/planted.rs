//! Bugs planted on purpose, one at a time, to show that the simulator finds them. Compiled in with the feature
//! `planted-bugs` only; without it [`planted`] is false and costs nothing.

/// A bug that somebody might have made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Bug {
    /// Roots: a replacement counts once one side holds it.
    RootOnOneSide,
    /// Reads: what stands at the place of a chunk is believed to be its bytes.
    ReadUnchecked,
    /// Journal: a frame counts as durable once its write has begun.
    AckBeforeDurable,
    /// Journal: replay believes frames whatever mount wrote them and whatever came before them.
    ChainUnchecked,
    /// Journal: a read returns what is buffered and not durable yet.
    ReadBeforeDurable,
    /// Journal: a trim is answered when it is journaled, durable or not.
    TrimBeforeDurable,
    /// Bypass: a write passes by the lane while the lane holds an older version of a block.
    BypassOvertakesLane,
    /// Bypass: a write is answered when its own segment is durable, whatever came before it in the chain.
    BypassAckedOutOfOrder,
    /// Recovery: what bypassed the lane counts for which of the lane's records are applied.
    BypassCountsForLane,
    /// Recovery: a record is skipped when only its first blocks are in a segment.
    PartialRecordSkipped,
    /// Recovery: segments are believed whole because of their headers.
    SegmentUnverified,
    /// Recovery: a segment that can be read is believed to be durable.
    UnsettledBelieved,
    /// Recovery: a frame of the lane that can be read is believed to be durable.
    UnsettledFrameBelieved,
    /// Checkpoint: the root is written while puts of what it names are under way.
    RootBeforePuts,
    /// Checkpoint: segments with pages are reused while the root before still needs them.
    PagesReusedEarly,
    /// Space: segments newer than the last checkpoint are reused while recovery still follows the chain through them.
    NewReusedEarly,
    /// Reclaim: a victim goes before its survivors are durable.
    VictimBeforeSurvivors,
    /// Reclaim: a chunk that moved on, or is gone, is made to lie where its copy is.
    MoveUnchecked,
    /// Admission: new data are acknowledged whether or not there is space for them.
    SpaceUnreserved,
    /// Mark: what a page names is not marked.
    MarkForgetsPages,
    /// Mark: a chunk that is granted during a pass is not marked.
    MarkForgetsGrants,
    /// Deduplication: a chunk dies by being overwritten while a drained reference to it waits to be applied.
    GrantNotCounted,
    /// Mark: what is about to be freed can still be granted.
    DyingIsGranted,
    /// Deduplication: a chunk that was overwritten and waits to be taken out of the table can still be granted.
    DeadIsGranted,
    /// Deduplication: a chunk that several blocks name is not marked as shared.
    ReferenceNotShared,
    /// Cut: a record is left out for one that was admitted after a cut.
    CutOverlooked,
    /// Cut: a write passes by the lane while the lane holds a cut of its stream.
    BypassOvertakesCut,
    /// Cut: a copy is read before it has its map.
    CopyReadEarly,
    /// Cut: a page that copies have is changed in place.
    SharedPageChanged,
    /// Cut: a chunk that copies hold dies when one of them overwrites it.
    CopiedChunkDies,
    /// Mark: streams that are cut off others during a pass are not walked.
    MarkForgetsCopies,
    /// Transaction: its records may stand in several frames.
    TransactionTorn,
    /// Objects: a body is written before anything says that it belongs to nothing yet.
    StagedWithoutOrphan,
    /// Objects: what is read is trimmed.
    HeldIsFreed,
    /// Objects: a transaction does not tell which blocks were given out.
    BlocksGivenTwice,
    /// Objects: an orphan is taken away by its own transaction, before the one that names what it did.
    OrphanTakenEarly,
    /// Copies: a place is freed although references name it.
    ReferencedIsFreed,
    /// Copies: a reference is added before anything of its taker names it.
    ReferenceWithoutOrphan,
    /// Copies: a reference is forgotten without being given back.
    ReferenceKept,
    /// Copies: a reference is given back before the removal that orphans it is durable.
    GivenBackEarly,
    /// Checkpoint: what it folds is reused before its root is durable.
    FoldReusedEarly,
    /// Checkpoint: chunks that were overwritten and wait to be taken out of the table are not saved.
    DeathsUnsaved,
    /// Recovery: what reclaim called dead is not folded once more.
    DeadForgottenInReplay,
    /// Recovery: ranges that reclaim tells are not folded once more.
    RangesForgottenInReplay,
    /// Recovery: dense windows of overwritten chunks are not folded once more.
    DenseForgottenInReplay,
    /// Peers: a grant is answered before its record is durable.
    GrantBeforeDurable,
    /// Peers: a chunk is granted whose segment is not durable.
    GrantOfUndurable,
    /// Recovery: grants to other shards are not counted before overwrites are replayed.
    GrantsForgottenInReplay,
    /// Mark: what other shards name is not marked.
    MarkForgetsForeign,
    /// Mark: answers of other shards that are on their way are not waited for.
    MarkForgetsAsks,
    /// Mark: what other shards granted and is not in a map yet is not told to them.
    MarkForgetsGranted,
    /// Reservations: others take what is promised and not held.
    OthersTakePromised,
    /// Reservations: what a copy may hold counts as held after a cut.
    HeldSurvivesCut,
    /// Reservations: blocks are reduced although space is promised to their stream.
    PromisedIsReduced,
    /// Reservations: promises are not read when a shard opens.
    PromisesForgotten,
    /// Waiting updates: a block is read in its map although something waits for it.
    DeltaOverlooked,
    /// Waiting updates: what waits for a block is left when its map is changed.
    DeltaOutlivesChange,
    /// Waiting updates: what waits for a block is left when it is trimmed.
    DeltaOutlivesTrim,
    /// Waiting updates: a stream is cut without what waits for it.
    CutForgetsDeltas,
    /// Waiting updates: a checkpoint does not save them.
    DeltasUnsaved,
    /// Waiting updates: what a sweep finds dead is acted upon before the root that names it.
    SweptActedUponEarly,
    /// Mark: what waits is not marked.
    MarkForgetsDeltas,
    /// Waiting updates: replay lets them wait by what is configured now, and not by the root.
    LimitForgotten,
    /// Parts of blocks: a write of the whole block does not wait for a merge that is under way.
    ClaimOverlooked,
    /// Parts of blocks: two parts are merged over the same older version.
    PartsUnclaimed,
    /// Zones: one is given back before a root of the shard that names nothing in it is durable.
    ZoneGivenEarly,
    /// Zones: one is lent before the root of the pool that says so is durable.
    ZoneLentUndurable,
    /// Zones: those that shards have are withdrawn when the pool shrinks.
    ZoneInUseWithdrawn,
    /// Zones: rows of zones that somebody has are emptied.
    LentRowEmptied,
    /// Zones: writers go on taking segments of a zone that is about to leave.
    LeavingReused,
    /// Recovery: a lane without the frame before the replay point is believed to be empty.
    LostLaneBelieved,
    /// Drives: all but the first are joined in the order in which they are named.
    DrivesAsNamed,
    /// Drives: segments of a drive that is one disk begin where its lanes do.
    SlotsOverLanes,
    /// Growth: media that say that they have no room for segments are believed to have it.
    FullMediaBelieved,
    /// Space: a segment whose write finds no room counts as written.
    NoSpaceIsWritten,
    /// Journal: a write of a frame that has not ended after a second counts as durable.
    StuckIsDurable,
    /// Copies of pages: a damaged page is not looked for in the copy of its segment.
    PageCopyUnread,
    /// Copies of pages: a segment is given to a writer while a copy is being written there.
    PageCopyReusedEarly,
    /// Drive table: a drive is left out before the table that drops it is durable.
    AckBeforeTable,
    /// Drive table: more drives are dropped at once than the pool survives.
    DropsUnbounded,
    /// Drive table: a drive is dropped although zones are lost with it.
    DropLosesZone,
    /// Keeper: a row is replaced whatever it was.
    RowUnchecked,
    /// Keeper: a row or a journal record counts once one drive has it.
    TableOnOneDrive,
    /// Keeper: a drive that is to have tables and roots again counts with those that it had.
    RootsNotCopied,
    /// Opening: a drive that missed changes of its pool is read.
    StaleRead,
    /// Opening: a half of the drives goes on by itself, although the others may have gone on too.
    HalfOpens,
    /// Opening: drives that went two ways are used together.
    HistoriesJoin,
    /// Opening: a drive that cannot be looked at is dropped as one that is not there.
    ErrorIsAbsence,
    /// Copies of roots: the first drive's counts, whether or not it is the newest.
    RootFromFirstDrive,
    /// Copies of journals: a frame counts as durable once one copy has it.
    AckAfterFirstCopy,
    /// Copies of journals: a copy is read for what it was too late to have.
    CopySinceIgnored,
    /// Copies of journals: what replay found in one copy is drained before the others have it.
    FrameNotRestored,
    /// Stripes: a put of a zone that moves goes to the places that it leaves.
    PutToOldPlaces,
    /// Stripes: a strip that was left out is on no list of repairs.
    DegradedForgotten,
    /// Stripes: a put leaves out strips that seem to be there already.
    PutInPart,
    /// Stripes: strips of different puts are decoded together.
    GenerationsMixed,
    /// Stripes: a strip is decoded by the place at which it was found in a list of those that are there.
    IndexTwice,
    /// Stripes: one strip more is asked for than decoding takes.
    NeedsOneMore,
    /// Stripes: a strip is decoded from although its checksum is wrong.
    ZeroedStripBelieved,
    /// Stripes: what was decoded counts without the checksum of its parent.
    DecodedUnchecked,
    /// Mover: what is moved is not shown to its owner.
    MovedUnverified,
    /// Mover: strips of data are written, and those of parity are not.
    ParityNotRebuilt,
    /// Mover: a row leaves its places before what was written elsewhere is durable and read back.
    FreedBeforeReadBack,
    /// Mover: a row is completed by what was held when its move began.
    PutMissedByMover,
    /// Mover: a row that was turned around is left in both sets.
    CancelLeavesBoth,
    /// Mover: a place that takes that of a lost one seems to have been there since the move began.
    ReplacedUntold,
    /// Scrub: a strip that is wrong is written anew where it lies.
    RepairedInPlace,
    /// Reading: a slot of which too many strips are on drives that are not there counts as empty.
    AbsentIsEmpty,
    /// Health: a pool is ok although nothing was walked since a loss.
    OkWithoutWalk,
    /// Health: copies of a journal count whether or not their drives can be read.
    CountedFromTable,
    /// Health: a shard without a journal record is none.
    ShardForgotten,
    /// Health: a drive counts as long as the table calls it live, whatever its reads do.
    FailingIsWell,
    /// Health: damage that a read meets is told to nobody.
    DamageUntold,
    /// Watch: a drive that cannot be read is dropped although data are lost with it.
    UnreadableGivenUp,
    /// Copies of journals: the place of a former one is given away while a write to it may land.
    FormerCopyFreedEarly,
    /// Copies of journals: a former one goes while replays still begin before its end.
    FormerCopyForgotten,
    /// Keeper: a drive table follows before pages and records that are late.
    LateOvertaken,
    /// Stripes: a strip counts although its place had another row since.
    TenancyIgnored,
    /// Repair: a zone leaves the queue when its row changes, whatever it still lacks.
    ZoneForgotten,
    /// Conversion: a class is begun with for which drives have no room.
    ConversionWithoutRoom,
    /// Conversion: a row is completed without segments that could not be read.
    ConversionDropsUnreadable,
    /// Drives: one that grows has its new size in the table before its superblock has it.
    GrownInTableFirst,
    /// Upgrade: tables come where a zone is that somebody has.
    UpgradeOverData,
    /// Upgrade: superblocks are replaced before tables and roots are there.
    UpgradeSuperblocksFirst,
    /// Upgrade: the drives that are left get what they would have had by themselves.
    UpgradeAnew,
    /// Looks: shards are opened without an overlay.
    LookWrites,
    /// Looks: what is wrong with strips is left out where contents can be decoded.
    LookMends,
}

impl Bug {
    /// All of them.
    pub const ALL: [Self; 127] = [
        Self::RootOnOneSide,
        Self::ReadUnchecked,
        Self::AckBeforeDurable,
        Self::ChainUnchecked,
        Self::ReadBeforeDurable,
        Self::TrimBeforeDurable,
        Self::BypassOvertakesLane,
        Self::BypassAckedOutOfOrder,
        Self::BypassCountsForLane,
        Self::PartialRecordSkipped,
        Self::SegmentUnverified,
        Self::UnsettledBelieved,
        Self::UnsettledFrameBelieved,
        Self::RootBeforePuts,
        Self::PagesReusedEarly,
        Self::NewReusedEarly,
        Self::VictimBeforeSurvivors,
        Self::MoveUnchecked,
        Self::SpaceUnreserved,
        Self::MarkForgetsPages,
        Self::MarkForgetsGrants,
        Self::GrantNotCounted,
        Self::DyingIsGranted,
        Self::DeadIsGranted,
        Self::ReferenceNotShared,
        Self::CutOverlooked,
        Self::BypassOvertakesCut,
        Self::CopyReadEarly,
        Self::SharedPageChanged,
        Self::CopiedChunkDies,
        Self::MarkForgetsCopies,
        Self::TransactionTorn,
        Self::StagedWithoutOrphan,
        Self::HeldIsFreed,
        Self::BlocksGivenTwice,
        Self::OrphanTakenEarly,
        Self::ReferencedIsFreed,
        Self::ReferenceWithoutOrphan,
        Self::ReferenceKept,
        Self::GivenBackEarly,
        Self::FoldReusedEarly,
        Self::DeathsUnsaved,
        Self::DeadForgottenInReplay,
        Self::RangesForgottenInReplay,
        Self::DenseForgottenInReplay,
        Self::GrantBeforeDurable,
        Self::GrantOfUndurable,
        Self::GrantsForgottenInReplay,
        Self::MarkForgetsForeign,
        Self::MarkForgetsAsks,
        Self::MarkForgetsGranted,
        Self::OthersTakePromised,
        Self::HeldSurvivesCut,
        Self::PromisedIsReduced,
        Self::PromisesForgotten,
        Self::DeltaOverlooked,
        Self::DeltaOutlivesChange,
        Self::DeltaOutlivesTrim,
        Self::CutForgetsDeltas,
        Self::DeltasUnsaved,
        Self::SweptActedUponEarly,
        Self::MarkForgetsDeltas,
        Self::LimitForgotten,
        Self::ClaimOverlooked,
        Self::PartsUnclaimed,
        Self::ZoneGivenEarly,
        Self::ZoneLentUndurable,
        Self::ZoneInUseWithdrawn,
        Self::LentRowEmptied,
        Self::LeavingReused,
        Self::LostLaneBelieved,
        Self::DrivesAsNamed,
        Self::SlotsOverLanes,
        Self::FullMediaBelieved,
        Self::NoSpaceIsWritten,
        Self::StuckIsDurable,
        Self::PageCopyUnread,
        Self::PageCopyReusedEarly,
        Self::AckBeforeTable,
        Self::DropsUnbounded,
        Self::DropLosesZone,
        Self::RowUnchecked,
        Self::TableOnOneDrive,
        Self::RootsNotCopied,
        Self::StaleRead,
        Self::HalfOpens,
        Self::HistoriesJoin,
        Self::ErrorIsAbsence,
        Self::RootFromFirstDrive,
        Self::AckAfterFirstCopy,
        Self::CopySinceIgnored,
        Self::FrameNotRestored,
        Self::PutToOldPlaces,
        Self::DegradedForgotten,
        Self::PutInPart,
        Self::GenerationsMixed,
        Self::IndexTwice,
        Self::NeedsOneMore,
        Self::ZeroedStripBelieved,
        Self::DecodedUnchecked,
        Self::MovedUnverified,
        Self::ParityNotRebuilt,
        Self::FreedBeforeReadBack,
        Self::PutMissedByMover,
        Self::CancelLeavesBoth,
        Self::ReplacedUntold,
        Self::RepairedInPlace,
        Self::AbsentIsEmpty,
        Self::OkWithoutWalk,
        Self::CountedFromTable,
        Self::ShardForgotten,
        Self::FailingIsWell,
        Self::DamageUntold,
        Self::UnreadableGivenUp,
        Self::FormerCopyFreedEarly,
        Self::FormerCopyForgotten,
        Self::LateOvertaken,
        Self::TenancyIgnored,
        Self::ZoneForgotten,
        Self::ConversionWithoutRoom,
        Self::ConversionDropsUnreadable,
        Self::GrownInTableFirst,
        Self::UpgradeOverData,
        Self::UpgradeSuperblocksFirst,
        Self::UpgradeAnew,
        Self::LookWrites,
        Self::LookMends,
    ];
}

#[cfg(feature = "planted-bugs")]
thread_local! {
    static PLANTED: std::cell::Cell<Option<Bug>> = const { std::cell::Cell::new(None) };
}

/// Plants a bug on this thread, or takes it out.
#[cfg(feature = "planted-bugs")]
pub fn plant(bug: Option<Bug>) {
    PLANTED.set(bug);
}

/// Whether the bug is planted on this thread.
#[cfg(feature = "planted-bugs")]
#[must_use]
pub fn planted(bug: Bug) -> bool {
    PLANTED.get() == Some(bug)
}

/// Whether the bug is planted on this thread: never.
#[cfg(not(feature = "planted-bugs"))]
#[inline]
#[must_use]
pub const fn planted(_bug: Bug) -> bool {
    false
}
