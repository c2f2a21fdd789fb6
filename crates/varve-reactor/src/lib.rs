//! One loop a thread: tasks, timers, messages and io_uring, and its deterministic, simulated twin.

mod join;
pub mod net;
mod notify;
mod oneshot;
pub mod port;
mod reactor;
mod real;
mod ring;
mod sim;
mod task;
mod time;
mod timer;

pub use join::JoinHandle;
pub use notify::{Notified, Notify};
pub use oneshot::{OneshotReceiver, OneshotSender, SenderGone, oneshot};
pub use reactor::{Reactor, YieldNow};
pub use real::{Loop, LoopConfig};
pub use ring::{Ring, RingFile, RingOperation, WRITE_PARTS_MAX};
pub use sim::{Progress, SimLoop};
pub use time::Nanos;
pub use timer::Sleep;
