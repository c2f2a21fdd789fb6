//! The way of messages between two nodes: one link, in order, both ways.
//!
//! P1. What one end sends arrives in order, or the pipe breaks; what is on its way when it breaks may arrive all the same.
//! P2. Who is at the other end is proved before the first message.

use std::rc::Rc;

use futures_util::future::LocalBoxFuture;
use varve_membership::{Fingerprint, Node};

use super::wire::Message;

/// A pipe that carries nothing any more, and why.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the link to another node broke: {0}")]
pub struct PipeBroken(pub String);

/// One end of a pipe.
pub trait Pipe {
    /// Who is at the other end (P2).
    fn peer(&self) -> Fingerprint;

    /// Sends a message; waits while the other end takes none. Messages go in the order of the calls.
    fn send(&self, message: Message) -> LocalBoxFuture<'_, Result<(), PipeBroken>>;

    /// The next message. One caller at a time.
    fn receive(&self) -> LocalBoxFuture<'_, Result<Message, PipeBroken>>;

    /// Ends it: both ends learn of it.
    fn close(&self);
}

/// Makes pipes to other nodes.
pub trait Connector {
    /// A pipe to a node, which proved to be who is meant (P2).
    fn connect(&self, node: &Node) -> LocalBoxFuture<'static, Result<Rc<dyn Pipe>, PipeBroken>>;
}
