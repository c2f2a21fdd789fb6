//! An NBD export as a disk: requests are gathered into one send, answers come in any order.
//!
//! NBD-DISK-1. What a server sends is checked against what was asked; anything else ends the connection, and every
//!     request with it.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::future::ready;
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::time::Duration;

use varve_access_nbd::wire::constant::{REQUEST_MAGIC, SIMPLE_REPLY_MAGIC, can, cmd, flag};
use varve_media::{Disk, IoFuture, Persist};
use varve_reactor::net::{SendPart, Socket};
use varve_reactor::{Notify, OneshotSender, Reactor, oneshot};
use varve_stdx::{AlignedBuf, BufSlice};
use varve_types::limits::MEDIA_ALIGN;

use crate::error::{Error, Result};
use crate::targets::nbd::handshake::{ServedExport, shake_hands};
use crate::targets::nbd::uri::{NbdAddress, NbdUri};

/// How long a server may take for the handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// Bytes that are received at once, beside the data of large reads.
const INBOX_BYTES: usize = 256 << 10;

/// Bytes of a simple reply without data.
const REPLY_BYTES: usize = 16;

/// A connection to an export. Dropping it ends the connection.
pub(crate) struct NbdDisk {
    shared: Rc<DiskShared>,
}

struct DiskShared {
    socket: Socket,
    path: String,
    export: ServedExport,
    next_cookie: Cell<u64>,
    under_way: RefCell<HashMap<u64, PendingRequest>>,
    outbox: RefCell<Vec<SendPart>>,
    filled: Notify,
    /// Why the connection ended.
    broken: RefCell<Option<String>>,
}

/// A request that was not answered yet.
struct PendingRequest {
    /// Bytes that a good answer carries.
    len: usize,
    answer: OneshotSender<std::result::Result<AlignedBuf, String>>,
}

impl NbdDisk {
    /// Connects and shakes hands, which blocks the thread for up to ten seconds.
    pub(crate) fn connect(reactor: &Reactor, uri: &NbdUri) -> Result<Self> {
        let failed = |reason: String| Error::Handshake { target: uri.to_string(), reason };
        let io = |error: std::io::Error| failed(error.to_string());
        let (fd, export): (OwnedFd, _) = match &uri.address {
            NbdAddress::Tcp(address) => {
                let stream = TcpStream::connect(address).map_err(io)?;
                stream.set_nodelay(true).map_err(io)?;
                stream.set_read_timeout(Some(HANDSHAKE)).map_err(io)?;
                let export = shake_hands(&stream, &uri.export).map_err(failed)?;
                stream.set_read_timeout(None).map_err(io)?;
                (stream.into(), export)
            }
            NbdAddress::Unix(path) => {
                let stream = UnixStream::connect(path).map_err(io)?;
                stream.set_read_timeout(Some(HANDSHAKE)).map_err(io)?;
                let export = shake_hands(&stream, &uri.export).map_err(failed)?;
                stream.set_read_timeout(None).map_err(io)?;
                (stream.into(), export)
            }
        };
        let shared = Rc::new(DiskShared {
            socket: Socket::from_fd(reactor, fd).map_err(io)?,
            path: uri.to_string(),
            export,
            next_cookie: Cell::new(1),
            under_way: RefCell::default(),
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
        for (_, request) in self.under_way.take() {
            let _nobody_waits = request.answer.send(Err(reason.to_owned()));
        }
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

    /// Takes one reply (NBD-DISK-1).
    async fn receive(&self, inbox: &mut Inbox) -> std::result::Result<(), String> {
        let head = inbox.head(&self.socket).await?;
        let (magic, rest) = head.split_first_chunk().expect("a head has 16 bytes");
        let (error, rest) = rest.split_first_chunk().expect("a head has 16 bytes");
        let cookie = rest.first_chunk().expect("a head has 16 bytes");
        if u32::from_be_bytes(*magic) != SIMPLE_REPLY_MAGIC {
            return Err("the server sent no reply where one should begin".to_owned());
        }
        let request = self.under_way.borrow_mut().remove(&u64::from_be_bytes(*cookie));
        let request = request.ok_or("the server answered what was not asked")?;
        let answer = match u32::from_be_bytes(*error) {
            0 => Ok(inbox.data(&self.socket, request.len).await),
            number => {
                let errno = i32::try_from(number).unwrap_or(i32::MAX);
                Err(std::io::Error::from_raw_os_error(errno).to_string())
            }
        };
        let (answer, ended) = match answer {
            Ok(Err(broken)) => (Err(broken.clone()), Err(broken)),
            Ok(Ok(data)) => (Ok(data), Ok(())),
            Err(refused) => (Err(refused), Ok(())),
        };
        let _nobody_waits = request.answer.send(answer);
        ended
    }

    /// Begins a request; its answer.
    fn request(&self, ask: Ask) -> IoFuture<'_, AlignedBuf> {
        let Ask { operation, command, flags, offset, len, payload } = ask;
        let place = (offset, u64::from(len));
        if let Some(reason) = self.broken.borrow().clone() {
            return Box::pin(ready(Err(self.error(operation, place, reason))));
        }
        let cookie = self.next_cookie.get();
        self.next_cookie.set(cookie + 1);
        let mut head = Vec::with_capacity(28);
        head.extend(REQUEST_MAGIC.to_be_bytes());
        head.extend(flags.to_be_bytes());
        head.extend(command.to_be_bytes());
        head.extend(cookie.to_be_bytes());
        head.extend(offset.to_be_bytes());
        head.extend(len.to_be_bytes());
        let mut outbox = self.outbox.borrow_mut();
        outbox.push(SendPart::Small(head));
        outbox.extend(payload.map(SendPart::Slice));
        let (answer, answered) = oneshot();
        let expected = if command == cmd::READ { len as usize } else { 0 };
        self.under_way.borrow_mut().insert(cookie, PendingRequest { len: expected, answer });
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
    /// The head of a reply.
    async fn head(&mut self, socket: &Socket) -> std::result::Result<[u8; REPLY_BYTES], String> {
        while self.end - self.start < REPLY_BYTES {
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
        let head = self.buf[self.start..self.end].first_chunk().copied();
        self.start += REPLY_BYTES;
        Ok(head.expect("it was just received"))
    }

    /// The data behind it: what is here is copied, the rest received in place.
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
