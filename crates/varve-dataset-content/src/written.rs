//! What was written, or referred to, before a record names it. Given up, its space comes back.

use std::sync::Arc;

use varve_types::ShardId;

use crate::content::{ContentExtent, Reference, ReferenceTarget, StoredContent};
use crate::hold::Hold;

/// A content that is being written. Dropped everywhere, its space comes back: who writes to it keeps it until that has
/// ended.
#[derive(Debug)]
pub struct ContentStaging {
    pub(crate) hold: Hold,
    pub(crate) extent: ContentExtent,
}

/// A content that was written. Dropped, its space comes back.
#[derive(Debug)]
pub struct WrittenContent {
    kept: StagedHold,
    content: StoredContent,
}

/// What keeps a content that was written.
#[derive(Debug)]
enum StagedHold {
    Blocks(Arc<ContentStaging>),
    Reference(Arc<StagedReference>),
}

impl StagedHold {
    fn hold(&self) -> &Hold {
        match self {
            Self::Blocks(staging) => &staging.hold,
            Self::Reference(staged) => &staged.hold,
        }
    }
}

impl StagedReference {
    /// The reference was added, `depth` deep, and is a content with these bytes.
    #[must_use]
    pub fn finish(self: Arc<Self>, bytes: &SharedBytes, depth: u8) -> WrittenContent {
        let content = self.content(bytes, depth);
        WrittenContent { kept: StagedHold::Reference(self), content }
    }
}

impl ContentStaging {
    /// Most bytes that it takes.
    #[must_use]
    pub fn room(&self) -> u64 {
        self.extent.len()
    }

    /// The content is as long as that, and written.
    ///
    /// # Panics
    /// When it is longer than there is room.
    #[must_use]
    pub fn finish(self: Arc<Self>, len: u64) -> WrittenContent {
        assert!(len <= self.extent.len(), "written within its room");
        let content = match len {
            0 => StoredContent::None,
            len => StoredContent::Extent(ContentExtent::new(self.extent.first(), len)),
        };
        WrittenContent { kept: StagedHold::Blocks(self), content }
    }
}

impl WrittenContent {
    pub(crate) fn hold(&self) -> &Hold {
        self.kept.hold()
    }

    /// Where it is.
    #[must_use]
    pub fn content(&self) -> &StoredContent {
        &self.content
    }

    /// It belongs to a record now.
    pub(crate) fn settle(self) {
        self.kept.hold().settle();
    }
}

/// Where the bytes of a range of a content are.
#[derive(Clone, Copy, Debug)]
pub struct SharedBytes {
    pub(crate) home: ShardId,
    pub(crate) target: ReferenceTarget,
    pub(crate) offset: u64,
    pub(crate) len: u64,
    /// The reference by which they are known so far, and its taker; none: the content that is held has them.
    pub(crate) by: Option<(ShardId, Reference)>,
}

impl SharedBytes {
    /// The shard that has them.
    #[must_use]
    pub fn home(&self) -> ShardId {
        self.home
    }
}

/// A reference that is being made. Dropped everywhere, it is given back.
#[derive(Debug)]
pub struct StagedReference {
    pub(crate) hold: Hold,
    pub(crate) reference: Reference,
}

impl StagedReference {
    /// What it refers to.
    #[must_use]
    pub fn reference(&self) -> Reference {
        self.reference
    }

    /// The content that it makes of these bytes.
    fn content(&self, bytes: &SharedBytes, depth: u8) -> StoredContent {
        let SharedBytes { offset, len, .. } = *bytes;
        StoredContent::Reference { reference: self.reference, offset, len, depth }
    }
}
