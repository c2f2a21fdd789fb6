//! A shard's journal on several drives (3.4, 3.5).

use std::rc::Rc;

use varve_media::Result;
use varve_types::ShardId;

use crate::handles::DriveHandles;
use crate::keeper::TablesHandle;

/// How long a journal waits.
#[derive(Clone, Copy, Debug)]
pub struct JournalPatience {
    /// For the last copy, where others have answered, in ns, before another one takes its place.
    pub substitute_nanos: u64,
    /// By how much a copy is late, in ns.
    pub late_nanos: u64,
}

impl Default for JournalPatience {
    fn default() -> Self {
        Self { substitute_nanos: 300_000_000, late_nanos: 100_000_000 }
    }
}

/// The journal of one shard. Clones share it.
#[derive(Clone)]
pub struct MirroredJournal {
    inner: Rc<()>,
}

impl MirroredJournal {
    /// The journal of `shard`, whose record the tables have.
    ///
    /// # Errors
    /// `NoLane` when they have none.
    pub fn new(
        handles: Rc<DriveHandles>,
        tables: Rc<TablesHandle>,
        shard: ShardId,
        patience: JournalPatience,
    ) -> Result<Self> {
        todo!()
    }
}
