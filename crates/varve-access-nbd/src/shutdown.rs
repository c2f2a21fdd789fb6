//! The wish of this thread's owner that its connections end.

use std::cell::Cell;
use std::rc::Rc;

use varve_reactor::Notify;

/// Shared by the connections of one thread; cheap to clone.
#[derive(Clone, Default)]
pub struct Shutdown(Rc<State>);

#[derive(Default)]
struct State {
    begun: Cell<bool>,
    notify: Notify,
}

impl Shutdown {
    /// Not begun.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// From now on nothing is accepted and no request is read; outstanding ones are answered, and connections closed.
    pub fn begin(&self) {
        self.0.begun.set(true);
        self.0.notify.notify_all();
    }

    /// Whether it has begun.
    #[must_use]
    pub fn has_begun(&self) -> bool {
        self.0.begun.get()
    }

    /// Completes once it has begun.
    pub async fn wait(&self) {
        while !self.has_begun() {
            self.0.notify.notified().await;
        }
    }
}
