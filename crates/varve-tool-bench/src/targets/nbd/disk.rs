//! An NBD export as a disk: requests are gathered into one send, answers come in any order.

use std::cell::RefCell;
use std::future::ready;
use std::rc::Rc;
use std::time::Duration;

use varve_media::{Disk, IoFuture, Persist};
use varve_nbd::constant::{can, cmd, flag};
use varve_nbd::{
    AttachRequest, FinishedRequest, NbdStream, NewRequest, REPLY_HEAD_BYTES_MAX, ReplyStep,
    RequestTable, ServedExport, shake_hands,
};
use varve_reactor::net::{SendPart, Socket};
use varve_reactor::{Notify, OneshotSender, Reactor, oneshot};
use varve_stdx::{AlignedBuf, BufSlice};
use varve_types::limits::MEDIA_ALIGN;

use crate::error::{Error, Result};
use crate::targets::nbd::uri::NbdUri;

/// How long a server may take for the handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// Bytes that are received at once, beside the data of large reads.
const INBOX_BYTES: usize = 256 << 10;

const _: () = assert!(REPLY_HEAD_BYTES_MAX <= INBOX_BYTES);

/// A connection to an export. Dropping it ends the connection.
pub(crate) struct NbdDisk {
    shared: Rc<DiskShared>,
}

struct DiskShared {
    socket: Socket,
    path: String,
    export: ServedExport,
    requests: RefCell<RequestTable<PendingAnswer>>,
    outbox: RefCell<Vec<SendPart>>,
    filled: Notify,
    /// Why the connection ended.
    broken: RefCell<Option<String>>,
}

/// What a request that was not answered yet becomes.
struct PendingAnswer {
    /// Of a read, once it is there.
    data: Option<AlignedBuf>,
    answer: OneshotSender<std::result::Result<AlignedBuf, String>>,
}

impl PendingAnswer {
    fn finish(self, outcome: std::result::Result<(), String>) {
        let data = || self.data.unwrap_or_else(|| AlignedBuf::scratch(0));
        let _nobody_waits = self.answer.send(outcome.map(|()| data()));
    }
}

impl NbdDisk {
    /// Connects and shakes hands, which blocks the thread for up to ten seconds.
    pub(crate) fn connect(reactor: &Reactor, uri: &NbdUri) -> Result<Self> {
        let failed = |reason: String| Error::Handshake { target: uri.to_string(), reason };
        let io = |error: std::io::Error| failed(error.to_string());
        let mut stream = NbdStream::connect(&uri.address).map_err(io)?;
        stream.set_read_timeout(Some(HANDSHAKE)).map_err(io)?;
        let request = AttachRequest { export: &uri.export, structured_replies: false };
        let export =
            shake_hands(&mut stream, &request).map_err(|error| failed(error.to_string()))?;
        stream.set_read_timeout(None).map_err(io)?;
        let shared = Rc::new(DiskShared {
            socket: Socket::from_fd(reactor, stream.into()).map_err(io)?,
            path: uri.to_string(),
            export,
            requests: RefCell::new(RequestTable::new(request.framing())),
            outbox: RefCell::default(),
            filled: Notify::new(),
            broken: RefCell::default(),
        });
        let sender = Rc::clone(&shared);
        reactor.spawn(async move { sender.send_all().await });
        let receiver = Rc::clone(&shared);
        reactor.spawn(async move { receiver.receive_all().await });
        Ok(Self { shared })
    }
}

impl Drop for NbdDisk {
    fn drop(&mut self) {
        self.shared.break_off("it is closed");
        self.shared.socket.shutdown();
    }
}

impl DiskShared {
    fn error(
        &self,
        operation: &'static str,
        place: (u64, u64),
        reason: String,
    ) -> varve_media::Error {
        let (offset, len) = place;
        varve_media::Error::Io { operation, path: self.path.clone(), offset, len, reason }
    }

    /// Ends every request, and those that come.
    fn break_off(&self, reason: &str) {
        self.broken.borrow_mut().get_or_insert_with(|| reason.to_owned());
        let abandoned = self.requests.borrow_mut().abandon();
        abandoned.into_iter().for_each(|request| request.finish(Err(reason.to_owned())));
        self.filled.notify_one();
    }

    async fn send_all(&self) {
        loop {
            let parts = self.outbox.take();
            if !parts.is_empty() {
                if let Err(error) = self.socket.send_all(parts).await {
                    return self.break_off(&format!("the connection broke off: {error}"));
                }
            } else if self.broken.borrow().is_some() {
                return;
            } else {
                self.filled.notified().await;
            }
        }
    }

    async fn receive_all(&self) {
        let mut inbox = Inbox { buf: AlignedBuf::zeroed(INBOX_BYTES), start: 0, end: 0 };
        loop {
            if let Err(reason) = self.receive(&mut inbox).await {
                return self.break_off(&reason);
            }
        }
    }

    /// Takes one reply.
    async fn receive(&self, inbox: &mut Inbox) -> std::result::Result<(), String> {
        let text = |error: varve_nbd::Error| error.to_string();
        let mut front_bytes = 0;
        loop {
            let front = inbox.front(&self.socket, front_bytes).await?;
            let step = self.requests.borrow_mut().take_reply(front).map_err(text)?;
            match step {
                ReplyStep::NeedBytes(bytes) => front_bytes = bytes,
                ReplyStep::Data(mut data) => {
                    inbox.consume(front_bytes);
                    match inbox.data(&self.socket, data.range().len()).await {
                        Ok(bytes) => data.value_mut().data = Some(bytes),
                        Err(broken) => {
                            data.into_value().finish(Err(broken.clone()));
                            return Err(broken);
                        }
                    }
                    let finished = self.requests.borrow_mut().data_taken(data).map_err(text)?;
                    finished.into_iter().for_each(finish);
                    return Ok(());
                }
                ReplyStep::Continued => {
                    inbox.consume(front_bytes);
                    return Ok(());
                }
                ReplyStep::Finished(request) => {
                    inbox.consume(front_bytes);
                    finish(request);
                    return Ok(());
                }
            }
        }
    }

    /// Begins a request; its answer.
    fn request(&self, ask: Ask) -> IoFuture<'_, AlignedBuf> {
        let Ask { operation, command, flags, offset, len, payload } = ask;
        let place = (offset, u64::from(len));
        if let Some(reason) = self.broken.borrow().clone() {
            return Box::pin(ready(Err(self.error(operation, place, reason))));
        }
        let (answer, answered) = oneshot();
        let request = NewRequest { command, flags, offset, len };
        let value = PendingAnswer { data: None, answer };
        let started = self.requests.borrow_mut().start(request, value);
        let mut outbox = self.outbox.borrow_mut();
        outbox.push(SendPart::Small(started.header));
        outbox.extend(payload.map(SendPart::Slice));
        self.filled.notify_one();
        Box::pin(async move {
            let answer = answered.await.unwrap_or_else(|_| Err("the connection ended".to_owned()));
            answer.map_err(|reason| self.error(operation, place, reason))
        })
    }

    fn allows(&self, flag: u16) -> bool {
        self.export.flags & flag != 0
    }
}

fn finish(request: FinishedRequest<PendingAnswer>) {
    let FinishedRequest { error, value, .. } = request;
    value.finish(error.map_or(Ok(()), |error| Err(error.to_string())));
}

/// A request as it is asked for.
struct Ask {
    operation: &'static str,
    command: u16,
    flags: u16,
    offset: u64,
    len: u32,
    payload: Option<BufSlice>,
}

fn transfer_len(len: u64) -> u32 {
    u32::try_from(len).expect("a transfer is below 4 GiB")
}

impl Disk for NbdDisk {
    fn path(&self) -> &str {
        &self.shared.path
    }

    fn size(&self) -> u64 {
        self.shared.export.size_bytes / MEDIA_ALIGN as u64 * MEDIA_ALIGN as u64
    }

    fn read(&self, offset: u64, len: usize) -> IoFuture<'_, AlignedBuf> {
        let (operation, command, len) = ("read", cmd::READ, transfer_len(len as u64));
        self.shared.request(Ask { operation, command, flags: 0, offset, len, payload: None })
    }

    /// Durable by `FUA`, or by a flush behind the write where the server does not know it.
    fn write(&self, offset: u64, bytes: BufSlice, persist: Persist) -> IoFuture<'_, ()> {
        let len = transfer_len(bytes.len() as u64);
        let has_fua = self.shared.allows(can::FUA);
        let is_durable = persist == Persist::Durable;
        let flags = if is_durable && has_fua { flag::FUA } else { 0 };
        let (operation, command, payload) = ("write", cmd::WRITE, Some(bytes));
        let written = self.shared.request(Ask { operation, command, flags, offset, len, payload });
        Box::pin(async move {
            written.await?;
            if is_durable && !has_fua { self.flush().await } else { Ok(()) }
        })
    }

    fn flush(&self) -> IoFuture<'_, ()> {
        if !self.shared.allows(can::FLUSH) {
            return Box::pin(ready(Ok(()))); // What was answered is durable then, as far as anyone can tell.
        }
        let (operation, command) = ("flush", cmd::FLUSH);
        let ask = Ask { operation, command, flags: 0, offset: 0, len: 0, payload: None };
        let flushed = self.shared.request(ask);
        Box::pin(async move { flushed.await.map(drop) })
    }

    /// Does nothing: loads discard nothing.
    fn discard(&self, _: u64, _: u64) -> IoFuture<'_, ()> {
        Box::pin(ready(Ok(())))
    }
}

/// What was received and not looked at.
struct Inbox {
    buf: AlignedBuf,
    start: usize,
    end: usize,
}

impl Inbox {
    /// So many bytes from the front, once they are there; at most what fits.
    async fn front(&mut self, socket: &Socket, len: usize) -> std::result::Result<&[u8], String> {
        while self.end - self.start < len {
            if self.start > 0 {
                self.buf.copy_within(self.start..self.end, 0);
                (self.start, self.end) = (0, self.end - self.start);
            }
            let buf = std::mem::replace(&mut self.buf, AlignedBuf::zeroed(0));
            let room = self.end..INBOX_BYTES;
            let (count, buf) = socket.recv(buf, room).await;
            self.buf = buf;
            self.end += received(count)?;
        }
        Ok(&self.buf[self.start..self.start + len])
    }

    fn consume(&mut self, len: usize) {
        self.start += len;
    }

    /// Data of a reply: what is here is copied, the rest received in place.
    async fn data(
        &mut self,
        socket: &Socket,
        len: usize,
    ) -> std::result::Result<AlignedBuf, String> {
        let mut data = AlignedBuf::scratch(len);
        let here = (self.end - self.start).min(len);
        data[..here].copy_from_slice(&self.buf[self.start..self.start + here]);
        self.start += here;
        let mut done = here;
        while done < len {
            let count;
            (count, data) = socket.recv(data, done..len).await;
            done += received(count)?;
        }
        Ok(data)
    }
}

fn received(count: std::io::Result<usize>) -> std::result::Result<usize, String> {
    match count {
        Ok(0) => Err("the server closed the connection".to_owned()),
        Ok(count) => Ok(count),
        Err(error) if error.kind() == std::io::ErrorKind::Interrupted => Ok(0),
        Err(error) => Err(format!("the connection broke off: {error}")),
    }
}
