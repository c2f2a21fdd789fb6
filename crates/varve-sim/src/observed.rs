//! A segment store between a shard and its media that learns what the shard holds, as the media do, and which puts are
//! under way.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

use varve_media::{HeldSegment, IoFuture, SegmentGeometry, SegmentId, SegmentStore, ZoneContents};
use varve_stdx::BufSlice;
use varve_types::SegmentNumber;

/// What is known of the segments of a shard.
#[derive(Clone, Default)]
pub(crate) struct SegmentKnowledge {
    contents: Rc<RefCell<Option<Rc<dyn ZoneContents>>>>,
    puts: Rc<Cell<u64>>,
    /// Segments that were put, and answered.
    stored: Rc<RefCell<Vec<SegmentId>>>,
}

impl SegmentKnowledge {
    /// Whether a put is under way, or it is not known yet what is held.
    pub(crate) fn is_changing(&self) -> bool {
        self.puts.get() > 0 || self.contents.borrow().is_none()
    }

    /// Segments that were put by this shard's thread, and answered.
    pub(crate) fn stored(&self) -> Vec<SegmentId> {
        self.stored.borrow().clone()
    }

    /// Contents of the slots `first .. first + count` that were put and that somebody may still read; `None` where that
    /// is not known.
    pub(crate) fn put_ids(&self, first: SegmentNumber, count: u32) -> Option<Vec<SegmentId>> {
        let held = self.held(first, count)?;
        Some(held.iter().filter(|segment| segment.is_put).map(|segment| segment.id).collect())
    }
}

/// What is known as soon as the shard has opened; nothing before.
impl ZoneContents for SegmentKnowledge {
    fn held(&self, first: SegmentNumber, count: u32) -> Option<Vec<HeldSegment>> {
        self.contents.borrow().as_ref()?.held(first, count)
    }

    fn pin(&self, id: SegmentId) -> Option<Box<dyn Any>> {
        self.contents.borrow().as_ref()?.pin(id)
    }

    fn is_whole(&self, id: SegmentId, bytes: &BufSlice) -> bool {
        self.contents.borrow().as_ref().is_some_and(|contents| contents.is_whole(id, bytes))
    }

    fn relocate(&self, id: SegmentId, reason: &str) {
        if let Some(contents) = self.contents.borrow().as_ref() {
            contents.relocate(id, reason);
        }
    }
}

/// The store.
pub(crate) struct ObservedSegments {
    inner: Rc<dyn SegmentStore>,
    knowledge: SegmentKnowledge,
}

impl ObservedSegments {
    /// Over `inner`, and what will be known by it.
    pub(crate) fn over(inner: Rc<dyn SegmentStore>) -> (Rc<dyn SegmentStore>, SegmentKnowledge) {
        let knowledge = SegmentKnowledge::default();
        let store = Self { inner, knowledge: knowledge.clone() };
        (Rc::new(store), knowledge)
    }

    fn count_put<'a>(&'a self, put: IoFuture<'a, ()>) -> IoFuture<'a, ()> {
        let guard = PutGuard::new(&self.knowledge.puts);
        Box::pin(async move {
            let outcome = put.await;
            drop(guard);
            outcome
        })
    }
}

/// Counts a put as long as it is under way, or somebody waits for it.
struct PutGuard(Rc<Cell<u64>>);

impl PutGuard {
    fn new(puts: &Rc<Cell<u64>>) -> Self {
        puts.set(puts.get() + 1);
        Self(Rc::clone(puts))
    }
}

impl Drop for PutGuard {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

impl SegmentStore for ObservedSegments {
    fn geometry(&self) -> SegmentGeometry {
        self.inner.geometry()
    }

    fn allocate(&self, first: SegmentNumber, count: u32) -> IoFuture<'_, ()> {
        self.inner.allocate(first, count)
    }

    fn put(&self, id: SegmentId, bytes: BufSlice) -> IoFuture<'_, ()> {
        let (put, stored) = (self.inner.put(id, bytes), Rc::clone(&self.knowledge.stored));
        self.count_put(Box::pin(async move {
            let outcome = put.await;
            if outcome.is_ok() {
                stored.borrow_mut().push(id);
            }
            outcome
        }))
    }

    fn get(&self, id: SegmentId, offset: u32, len: u32) -> IoFuture<'_, BufSlice> {
        self.inner.get(id, offset, len)
    }

    fn get_again(
        &self,
        id: SegmentId,
        offset: u32,
        len: u32,
        attempt: u32,
    ) -> IoFuture<'_, Option<BufSlice>> {
        self.inner.get_again(id, offset, len, attempt)
    }

    fn complete(&self, id: SegmentId, bytes: BufSlice) -> IoFuture<'_, ()> {
        self.count_put(self.inner.complete(id, bytes))
    }

    fn settle(&self) -> IoFuture<'_, ()> {
        self.inner.settle()
    }

    fn delete(&self, id: SegmentId) -> IoFuture<'_, ()> {
        self.inner.delete(id)
    }

    fn domain(&self, number: SegmentNumber) -> Option<u32> {
        self.inner.domain(number)
    }

    fn present(&self) -> IoFuture<'_, Vec<SegmentNumber>> {
        self.inner.present()
    }

    fn set_contents(&self, contents: Rc<dyn ZoneContents>) {
        *self.knowledge.contents.borrow_mut() = Some(Rc::clone(&contents));
        self.inner.set_contents(contents);
    }
}
