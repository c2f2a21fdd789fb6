//! What may be changed in the tables of a pool, and by whom it is asked for: anybody, of the keeper.

use varve_media::RootKey;
use varve_types::ShardId;

use crate::class::{ClassId, MediumKind, MediumKinds, StripeShape};
use crate::format::{DriveRoles, JournalCopy, MoveReason, Row};
use crate::ids::{DriveId, DriveNumber, Epoch, ZoneIndex};

/// A drive that is to become part of a pool.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NewMember {
    /// Where it is, for whoever opens it.
    pub path: String,
    /// Its identity; random, never used before.
    pub id: DriveId,
    /// Whether it is a directory: then `bytes` are those of its units, else all that it has.
    pub is_directory: bool,
    /// Bytes that it has.
    pub bytes: u64,
    /// What it is made of.
    pub kind: MediumKind,
    /// What it is used for.
    pub roles: DriveRoles,
    /// The number that it had before, where its strips are to be caught up with.
    pub former: Option<DriveNumber>,
    /// Model and serial number, for people.
    pub name: String,
    /// Whether it may hold this pool already, as a drive that was given up: that is overwritten then.
    pub is_given_up: bool,
}

/// A change of the tables.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Change {
    /// A drive failed: nothing is acknowledged without it before this is answered (KEEPER-1). Answered at once where
    /// the table says so already.
    DriveFailed {
        /// Which.
        drive: DriveNumber,
        /// Why, for people.
        reason: String,
    },
    /// A drive that cannot be read fails, but only where nothing is lost without it and all others that cannot be read
    /// (WATCH-3): else it is refused, and nothing changes.
    GiveUp {
        /// Which.
        drive: DriveNumber,
        /// All that cannot be read, that one too.
        unreadable: Vec<DriveNumber>,
        /// Why, for people.
        reason: String,
    },
    /// A drive is slower than others, or no longer.
    DriveSlow {
        /// Which.
        drive: DriveNumber,
        /// Whether it is.
        slow: bool,
    },
    /// A drive joins: tables and roots are written to it, then it is live.
    Join(NewMember),
    /// A drive gets no new places, and what it has is moved elsewhere.
    Leave {
        /// Which.
        drive: DriveNumber,
    },
    /// A drive leaves, or has failed, and is gone once nothing names it any more. The tables remember that (KEEPER-4).
    Remove {
        /// Which.
        drive: DriveNumber,
        /// The drive that gets its strips, where it can.
        successor: Option<DriveNumber>,
    },
    /// A drive that leaves is live again (KEEPER-5).
    Stay {
        /// Which.
        drive: DriveNumber,
    },
    /// A live drive has so many units, as its file or device is longer now; nothing changes where it has as many.
    Grow {
        /// Which.
        drive: DriveNumber,
        /// What it is to have.
        units: u32,
    },
    /// A drive is of another kind than the table says. Rows and copies of journals that are bound to kinds follow; it
    /// is refused where a class of new zones or of rows has too few drives then, and nothing changes where it is of
    /// that kind.
    Kind {
        /// Which.
        drive: DriveNumber,
        /// What it is made of.
        kind: MediumKind,
    },
    /// A zone without a row gets one of the class of new zones; nothing changes where it has one.
    Place {
        /// Which.
        zone: ZoneIndex,
    },
    /// A zone is moved, or goes elsewhere than it was going.
    Move {
        /// The zone.
        zone: ZoneIndex,
        /// For what reason.
        why: MoveReason,
        /// Its new class; `None` for the one that it has.
        class: Option<ClassId>,
        /// Drives that its strips leave, and get no place on.
        avoid: Vec<DriveNumber>,
        /// A drive that gets a strip if it can.
        prefer: Option<DriveNumber>,
    },
    /// A row is replaced, if it is the one that was expected (KEEPER-3).
    Row {
        /// The zone.
        zone: ZoneIndex,
        /// What its row must be.
        expected: Row,
        /// What it is to be.
        new: Row,
    },
    /// The copies of a journal are replaced.
    JournalCopies {
        /// Whose journal.
        shard: ShardId,
        /// The epoch that its record must have.
        expected: u64,
        /// What it is to have.
        copies: Vec<JournalCopy>,
    },
    /// A copy of a journal becomes a former one, or goes where its drive failed, and another drive gets one.
    JournalSubstitute {
        /// Whose journal.
        shard: ShardId,
        /// The epoch that its record must have.
        expected: u64,
        /// The drive whose copy ends; one without a copy where only a copy is to come.
        without: DriveNumber,
        /// The first position that the copy may lack, and that the new one has.
        until: u64,
    },
    /// The class of new zones. Rows of other classes are converted to it. So many drives may be dropped from then on as
    /// the largest class that is in use survives.
    Class {
        /// Its shape.
        shape: StripeShape,
        /// Drives it may use.
        kinds: MediumKinds,
    },
    /// Kinds of drives that copies of journals are to be on, while as many take copies as there are to be.
    JournalKinds {
        /// Which.
        kinds: MediumKinds,
    },
    /// As many drives may be dropped as the class of new zones and those of all rows survive, and no more: asked for
    /// once rows of a class that survived more are none any more.
    LowerDrops,
    /// Something stored was found bad.
    Loss,
    /// All of the pool was walked.
    Walked {
        /// The epoch of the last loss when that began.
        began_with: Epoch,
    },
    /// A root is brought to all drives that are to have it: the one who replaced it has no handle of some.
    CopyRoot {
        /// Which.
        key: RootKey,
    },
}
