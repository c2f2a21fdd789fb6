//! A stream in memory between two tasks of one thread, for tests and the simulator.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::rc::Rc;

use varve_reactor::Notify;
use varve_stdx::AlignedBuf;

use crate::transport::{SendPart, Transport};

/// Sizes of a pipe.
#[derive(Clone, Copy, Debug)]
pub struct PipeOptions {
    /// Bytes under way in one direction before a sender waits.
    pub capacity: usize,
    /// Most bytes that one receive yields: small values cut messages in unexpected places.
    pub receive_max: usize,
}

#[derive(Default)]
struct Direction {
    bytes: RefCell<VecDeque<u8>>,
    closed: Cell<bool>,
    changed: Notify,
}

impl Direction {
    fn close(&self) {
        self.closed.set(true);
        self.changed.notify_all();
    }
}

/// One end of a pipe. Dropping it closes both directions.
pub struct PipeEnd {
    options: PipeOptions,
    incoming: Rc<Direction>,
    outgoing: Rc<Direction>,
}

/// Two connected ends.
#[must_use]
pub fn pipe(options: PipeOptions) -> (PipeEnd, PipeEnd) {
    let (there, back) = (Rc::<Direction>::default(), Rc::<Direction>::default());
    let near = PipeEnd { options, incoming: Rc::clone(&back), outgoing: Rc::clone(&there) };
    (near, PipeEnd { options, incoming: there, outgoing: back })
}

impl PipeEnd {
    async fn send(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            if self.outgoing.closed.get() {
                return Err(io::ErrorKind::BrokenPipe.into());
            }
            let room = self.options.capacity.saturating_sub(self.outgoing.bytes.borrow().len());
            if room == 0 {
                self.outgoing.changed.notified().await;
                continue;
            }
            let (now, later) = bytes.split_at(room.min(bytes.len()));
            self.outgoing.bytes.borrow_mut().extend(now);
            self.outgoing.changed.notify_all();
            bytes = later;
        }
        Ok(())
    }

    /// Says that nothing more will be sent.
    pub fn finish_sending(&self) {
        self.outgoing.close();
    }
}

impl Transport for PipeEnd {
    async fn recv(
        &self,
        mut buf: AlignedBuf,
        range: Range<usize>,
    ) -> (io::Result<usize>, AlignedBuf) {
        loop {
            let available = self.incoming.bytes.borrow().len();
            if available == 0 && self.incoming.closed.get() {
                return (Ok(0), buf);
            }
            let count = available.min(range.len()).min(self.options.receive_max);
            if count > 0 {
                let source = self.incoming.bytes.borrow_mut().drain(..count).collect::<Vec<u8>>();
                let target = buf.get_mut(range.start..range.start + count);
                target.expect("the range lies in the buffer").copy_from_slice(&source);
                self.incoming.changed.notify_all();
                return (Ok(count), buf);
            }
            self.incoming.changed.notified().await;
        }
    }

    async fn send_all(&self, parts: Vec<SendPart>) -> io::Result<()> {
        for part in &parts {
            match part {
                SendPart::Small(bytes) => self.send(bytes).await?,
                SendPart::Slice(slice) => self.send(slice).await?,
            }
        }
        Ok(())
    }

    fn shutdown(&self) {
        self.incoming.close();
        self.outgoing.close();
    }
}

impl Drop for PipeEnd {
    fn drop(&mut self) {
        self.shutdown();
    }
}
