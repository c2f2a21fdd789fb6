//! The requests of one connection that are under way: futures of one type, polled by the connection's own task.
//!
//! Unlike an unordered set of boxed futures, places and wakers are made once and used again, so a request costs no
//! allocation here; and a request that needs no waiting finishes where it starts.
//!
//! NBD-INFLIGHT-1. A place is free, or holds a future that has not finished.
//! NBD-INFLIGHT-2. A wake may hit the next future of its place: futures bear spurious polls.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use futures_util::task::AtomicWaker;

use crate::limits::REQUESTS_MAX;

const WORDS: usize = REQUESTS_MAX / 64;

/// Which places were woken, and the task that polls them.
#[derive(Default)]
struct WakeSet {
    words: [AtomicU64; WORDS],
    parent: AtomicWaker,
}

struct PlaceWaker {
    word: usize,
    bit: u64,
    woken: Arc<WakeSet>,
}

impl Wake for PlaceWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if let Some(word) = self.woken.words.get(self.word) {
            word.fetch_or(self.bit, Ordering::Release);
        }
        self.woken.parent.wake();
    }
}

struct RequestPlace<F> {
    future: Pin<Box<Option<F>>>, // NBD-INFLIGHT-1
    waker: Waker,
}

/// Up to [`REQUESTS_MAX`] futures (BLOCK-EXPORT-2).
pub(crate) struct InFlight<F> {
    places: Vec<RequestPlace<F>>,
    free: Vec<usize>,
    woken: Arc<WakeSet>,
}

impl<F: Future> InFlight<F> {
    pub(crate) fn new() -> Self {
        Self { places: Vec::new(), free: Vec::new(), woken: Arc::default() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.free.len() == self.places.len()
    }

    /// Polls `future` for the first time; keeps it if it has to wait.
    ///
    /// # Panics
    /// When [`REQUESTS_MAX`] futures are under way.
    pub(crate) fn start(&mut self, future: F) -> Option<F::Output> {
        let index = self.free.pop().unwrap_or_else(|| self.add_place());
        let place = self.places.get_mut(index).expect("free places exist");
        assert!(place.future.is_none(), "NBD-INFLIGHT-1: the place is free");
        place.future.set(Some(future));
        self.poll_place(index)
    }

    /// Polls what was woken and hands over what finished; pending when nothing did.
    pub(crate) fn poll_finished(
        &mut self,
        cx: &mut Context<'_>,
        mut finished: impl FnMut(F::Output),
    ) -> Poll<()> {
        self.woken.parent.register(cx.waker());
        let mut any = false;
        for word in 0..WORDS {
            let mut bits = self.woken.words.get(word).map_or(0, |w| w.swap(0, Ordering::Acquire));
            while bits != 0 {
                let bit = bits.trailing_zeros();
                bits &= bits - 1;
                let index = word * 64 + usize::try_from(bit).expect("less than 64");
                if let Some(output) = self.poll_place(index) {
                    finished(output);
                    any = true;
                }
            }
        }
        if any { Poll::Ready(()) } else { Poll::Pending }
    }

    /// Waits for all of them; what they yield is dropped.
    pub(crate) async fn finish(&mut self) {
        while !self.is_empty() {
            std::future::poll_fn(|cx| self.poll_finished(cx, drop)).await;
        }
    }

    fn poll_place(&mut self, index: usize) -> Option<F::Output> {
        let place = self.places.get_mut(index)?;
        let future = place.future.as_mut().as_pin_mut()?; // NBD-INFLIGHT-2
        let Poll::Ready(output) = future.poll(&mut Context::from_waker(&place.waker)) else {
            return None;
        };
        place.future.set(None);
        self.free.push(index);
        Some(output)
    }

    fn add_place(&mut self) -> usize {
        let index = self.places.len();
        assert!(index < REQUESTS_MAX, "more requests under way than are admitted");
        let waker =
            PlaceWaker { word: index / 64, bit: 1 << (index % 64), woken: Arc::clone(&self.woken) };
        self.places
            .push(RequestPlace { future: Box::pin(None), waker: Waker::from(Arc::new(waker)) });
        index
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;

    use futures_util::task::noop_waker_ref;

    use super::*;

    type Gate = Rc<RefCell<(bool, Option<Waker>)>>;

    async fn pass(gate: Gate, value: u32) -> u32 {
        std::future::poll_fn(|cx| {
            let mut gate = gate.borrow_mut();
            gate.1 = Some(cx.waker().clone());
            if gate.0 { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
        value
    }

    fn open(gate: &Gate) {
        gate.borrow_mut().0 = true;
        gate.borrow().1.as_ref().expect("polled before").wake_by_ref();
    }

    #[test]
    fn only_woken_futures_finish_and_places_are_used_again() {
        let gates: Vec<Gate> = (0..REQUESTS_MAX).map(|_| Gate::default()).collect();
        let mut inflight = InFlight::new();
        for (value, gate) in (0..).zip(&gates) {
            assert_eq!(inflight.start(pass(Rc::clone(gate), value)), None);
        }
        let mut cx = Context::from_waker(noop_waker_ref());
        open(&gates[200]);
        open(&gates[3]);
        let mut finished = Vec::new();
        assert!(inflight.poll_finished(&mut cx, |value| finished.push(value)).is_ready());
        assert_eq!(finished, [3, 200]);
        assert!(inflight.poll_finished(&mut cx, |_| panic!("nothing was woken")).is_pending());
        let again = Gate::default();
        again.borrow_mut().0 = true;
        assert_eq!(inflight.start(pass(again, 7)), Some(7));
        assert!(!inflight.is_empty());
    }
}
