//! Where fresh page names come from and where dropped ones go. Called by the trees when a page is first changed,
//! born or dropped.

use varve_types::ChunkId;

use super::PagePtr;

/// Most fresh names one B+tree operation asks for: for each page of a path one when it is made dirty and two when it is
/// split or evened out, and one for a new root. A map operation needs a path, and a leaf each 512 blocks.
pub const NAMES_PER_OPERATION_MAX: u64 = 3 * super::TREE_HEIGHT_MAX as u64 + 1;

/// Source of page names.
pub trait PageNames {
    /// A name that was never given before.
    fn fresh(&mut self) -> PagePtr;

    /// The tree no longer holds the stored (or being written) page `old`. Others, such as a snapshot, may.
    fn dead(&mut self, old: PagePtr);

    /// The tree dropped a page whose name was fresh and has never been handed to a checkpoint.
    fn unused(&mut self, name: PagePtr);
}

/// Names of map and key pages: chunk ids out of a range reserved ahead.
#[derive(Debug)]
pub struct ChunkNames {
    next: ChunkId,
    ceiling: ChunkId,
    dead: Vec<PagePtr>,
}

impl ChunkNames {
    /// Gives ids from `next` up to but excluding `ceiling`.
    #[must_use]
    pub fn new(next: ChunkId, ceiling: ChunkId) -> Self {
        assert!(next <= ceiling);
        Self { next, ceiling, dead: Vec::new() }
    }

    /// Raises the reservation. At least [`NAMES_PER_OPERATION_MAX`] must remain before each operation.
    pub fn reserve(&mut self, ceiling: ChunkId) {
        assert!(ceiling >= self.ceiling, "a reservation only grows");
        self.ceiling = ceiling;
    }

    /// Ids left in the reservation.
    #[must_use]
    pub fn remaining(&self) -> u64 {
        assert!(self.next <= self.ceiling, "what is given was reserved");
        self.ceiling.get() - self.next.get()
    }

    /// The next id to be given.
    #[must_use]
    pub fn next(&self) -> ChunkId {
        self.next
    }

    /// Dropped stored pages since the last call.
    pub fn take_dead(&mut self) -> Vec<PagePtr> {
        std::mem::take(&mut self.dead)
    }

    /// Dropped stored pages that wait for [`Self::take_dead`].
    #[must_use]
    pub fn dead_pages(&self) -> &[PagePtr] {
        &self.dead
    }
}

impl PageNames for ChunkNames {
    fn fresh(&mut self) -> PagePtr {
        assert!(self.next < self.ceiling, "chunk ids are reserved before an operation");
        let id = self.next;
        self.next = id.next();
        PagePtr::Chunk(id)
    }

    fn dead(&mut self, old: PagePtr) {
        assert!(matches!(old, PagePtr::Chunk(_)));
        self.dead.push(old);
    }

    fn unused(&mut self, name: PagePtr) {
        assert!(matches!(name, PagePtr::Chunk(id) if id < self.next), "{name:?} was given");
    }
}

/// Names of chunk-table pages until their location is known: numbers that live as long as the process.
#[derive(Debug, Default)]
pub struct MemoryNames {
    next: u64,
    dead: Vec<PagePtr>,
}

impl MemoryNames {
    /// Counts from 0.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Dropped locations since the last call.
    pub fn take_dead(&mut self) -> Vec<PagePtr> {
        std::mem::take(&mut self.dead)
    }

    /// Dropped locations that wait for [`Self::take_dead`].
    #[must_use]
    pub fn dead_pages(&self) -> &[PagePtr] {
        &self.dead
    }
}

impl PageNames for MemoryNames {
    fn fresh(&mut self) -> PagePtr {
        self.next += 1;
        PagePtr::Memory(self.next)
    }

    fn dead(&mut self, old: PagePtr) {
        assert!(matches!(old, PagePtr::Location(_)));
        self.dead.push(old);
    }

    fn unused(&mut self, name: PagePtr) {
        assert!(
            matches!(name, PagePtr::Memory(number) if number <= self.next),
            "{name:?} was given"
        );
    }
}
