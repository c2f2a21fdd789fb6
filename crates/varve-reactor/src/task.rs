//! The tasks of one loop: their futures, wakers and ready queue. Called by both loops.
//!
//! TASK-1. Futures are polled and dropped on the loop's thread only; wakers hold no future and may travel.
//! TASK-2. A slot is in the ready queue at most once: `scheduled` is set by whoever queues it and cleared when it is
//!     taken out.
//! TASK-3. Slots keep their waker for the next task, so a late wake may hit another task: futures bear spurious polls.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Wake, Waker};

use crossbeam_queue::SegQueue;

type TaskFuture = Pin<Box<dyn Future<Output = ()>>>;

/// How another thread reaches a sleeping loop.
pub(crate) trait LoopWaker: Send + Sync {
    /// Makes the loop return from its wait, now or at its next one.
    fn ring(&self);
}

/// What wakers share with their loop.
pub(crate) struct WakeQueue {
    loop_id: u64,
    woken: SegQueue<u32>,
    asleep: AtomicBool,
    alarm: Option<Box<dyn LoopWaker>>,
}

impl WakeQueue {
    /// Announces a wait. False when something was woken meanwhile: then do not wait.
    pub(crate) fn fall_asleep(&self) -> bool {
        // Sequentially consistent with `wake_remote`: either it sees `asleep`, or this sees its push.
        self.asleep.store(true, Ordering::SeqCst);
        if self.woken.is_empty() {
            return true;
        }
        self.wake_up();
        false
    }

    /// Whether another thread has woken a task since the last turn.
    pub(crate) fn is_called(&self) -> bool {
        !self.woken.is_empty()
    }

    /// Ends the wait announced by [`Self::fall_asleep`].
    pub(crate) fn wake_up(&self) {
        self.asleep.store(false, Ordering::SeqCst);
    }

    fn wake_remote(&self, slot: u32) {
        self.woken.push(slot);
        if self.asleep.swap(false, Ordering::SeqCst)
            && let Some(alarm) = &self.alarm
        {
            alarm.ring();
        }
    }
}

/// TASK-1
struct WakeHandle {
    slot: u32,
    scheduled: AtomicBool,
    shared: Arc<WakeQueue>,
}

impl Wake for WakeHandle {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.scheduled.swap(true, Ordering::AcqRel) {
            return; // TASK-2
        }
        let local = CURRENT.try_with(|current| match &*current.borrow() {
            Some(ready) if ready.loop_id == self.shared.loop_id => {
                ready.queue.borrow_mut().push_back(self.slot);
                true
            }
            _ => false,
        });
        if local != Ok(true) {
            self.shared.wake_remote(self.slot);
        }
    }
}

struct Ready {
    loop_id: u64,
    queue: RefCell<VecDeque<u32>>,
}

thread_local! {
    /// The ready queue of the loop that runs on this thread now, so that local wakes avoid atomics on shared lines.
    static CURRENT: RefCell<Option<Rc<Ready>>> = const { RefCell::new(None) };
}

/// While it lives, wakes on this thread go straight to the loop's ready queue.
pub(crate) struct LoopGuard(Option<Rc<Ready>>);

impl Drop for LoopGuard {
    fn drop(&mut self) {
        CURRENT.set(self.0.take());
    }
}

#[derive(Default)]
struct TaskSlot {
    future: Option<TaskFuture>,
    wake: Option<(Waker, Arc<WakeHandle>)>,
}

/// All tasks of one loop.
pub(crate) struct Tasks {
    slots: RefCell<Vec<TaskSlot>>,
    free: RefCell<Vec<u32>>,
    ready: Rc<Ready>,
    shared: Arc<WakeQueue>,
    closed: Cell<bool>,
}

impl Tasks {
    pub(crate) fn new(alarm: Option<Box<dyn LoopWaker>>) -> Self {
        static LOOPS: AtomicU64 = AtomicU64::new(0);
        let loop_id = LOOPS.fetch_add(1, Ordering::Relaxed);
        let shared =
            WakeQueue { loop_id, woken: SegQueue::new(), asleep: AtomicBool::new(false), alarm };
        Self {
            slots: RefCell::default(),
            free: RefCell::default(),
            ready: Rc::new(Ready { loop_id, queue: RefCell::default() }),
            shared: Arc::new(shared),
            closed: Cell::new(false),
        }
    }

    pub(crate) fn shared(&self) -> &WakeQueue {
        &self.shared
    }

    /// Adds a task at the back of the ready queue; drops it at once when the loop has ended.
    pub(crate) fn spawn(&self, future: impl Future<Output = ()> + 'static) {
        if self.closed.get() {
            return;
        }
        let future: TaskFuture = Box::pin(future);
        let mut slots = self.slots.borrow_mut();
        let id = self.free.borrow_mut().pop().unwrap_or_else(|| {
            let id = u32::try_from(slots.len()).expect("fewer than 2^32 tasks");
            slots.push(self.new_slot(id));
            id
        });
        let slot = &mut slots[id as usize];
        assert!(slot.future.is_none(), "a free slot holds no task");
        slot.future = Some(future);
        let (_, handle) = slot.wake.as_ref().expect("a free slot has its waker");
        if !handle.scheduled.swap(true, Ordering::AcqRel) {
            self.ready.queue.borrow_mut().push_back(id);
        }
    }

    fn new_slot(&self, slot: u32) -> TaskSlot {
        let scheduled = AtomicBool::new(false);
        let handle = Arc::new(WakeHandle { slot, scheduled, shared: Arc::clone(&self.shared) });
        TaskSlot { future: None, wake: Some((Waker::from(Arc::clone(&handle)), handle)) }
    }

    /// Sends local wakes to this loop while the guard lives.
    pub(crate) fn enter(&self) -> LoopGuard {
        LoopGuard(CURRENT.replace(Some(Rc::clone(&self.ready))))
    }

    /// Number of ready tasks, those woken by other threads included.
    pub(crate) fn ready_count(&self) -> usize {
        self.collect_woken();
        self.ready.queue.borrow().len()
    }

    /// Puts those woken by other threads at the back of the ready queue.
    pub(crate) fn collect_woken(&self) {
        let mut queue = self.ready.queue.borrow_mut();
        while let Some(id) = self.shared.woken.pop() {
            queue.push_back(id);
        }
    }

    /// Polls the task at the front of the ready queue. False when there is none.
    pub(crate) fn run_next(&self) -> bool {
        let next = self.ready.queue.borrow_mut().pop_front();
        next.is_some_and(|id| {
            self.poll(id);
            true
        })
    }

    /// Polls the ready task at `index`, which must exist.
    pub(crate) fn run_at(&self, index: usize) {
        let next = self.ready.queue.borrow_mut().swap_remove_back(index);
        self.poll(next.expect("the index is below the ready count"));
    }

    fn poll(&self, id: u32) {
        // The slot is emptied for the poll, so that the task may spawn and wake.
        let (mut future, wake) = {
            let mut slots = self.slots.borrow_mut();
            let slot = &mut slots[id as usize];
            let Some(wake) = slot.wake.take() else { return };
            wake.1.scheduled.store(false, Ordering::Release); // TASK-2
            let Some(future) = slot.future.take() else {
                // TASK-3
                slot.wake = Some(wake);
                return;
            };
            (future, wake)
        };
        let done = future.as_mut().poll(&mut Context::from_waker(&wake.0)).is_ready();
        let mut finished = None;
        {
            let mut slots = self.slots.borrow_mut();
            let slot = &mut slots[id as usize];
            slot.wake = Some(wake);
            if done || self.closed.get() {
                finished = Some(future);
                self.free.borrow_mut().push(id);
            } else {
                slot.future = Some(future);
            }
        }
        drop(finished); // Its destructors may spawn: nothing is borrowed here.
    }

    /// Drops every task; what they spawn while dying is dropped too.
    pub(crate) fn close(&self) {
        self.closed.set(true);
        let futures: Vec<TaskFuture> = {
            let mut slots = self.slots.borrow_mut();
            slots.iter_mut().filter_map(|slot| slot.future.take()).collect()
        };
        drop(futures);
        self.ready.queue.borrow_mut().clear();
    }
}
