//! A raw client over a pipe in the simulated loop, written from the protocol's text and not with the server's code;
//! and an export whose requests take time, or do something else first.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use varve_access_block::memory::{MemoryExport, MemoryExports};
use varve_access_block::{Export, ExportInfo, Exports, Extent, ReadPart};
use varve_access_nbd::{
    ConnectionEnd, PipeEnd, PipeOptions, SendPart, Service, ServiceOptions, Transport, pipe,
};
use varve_nbd::Framing;
use varve_reactor::{JoinHandle, Reactor};
use varve_stdx::{AlignedBuf, BufSlice};
use varve_types::{ByteOffset, ErrorKind};

pub(crate) const FIXED_NEWSTYLE: u32 = 1;
pub(crate) const NO_ZEROES: u32 = 2;

/// A client that does only what it is told.
pub(crate) struct Client {
    pub(crate) end: PipeEnd,
    received: RefCell<Vec<u8>>,
    /// What was agreed on.
    framing: Cell<Framing>,
}

#[derive(PartialEq, Eq, Debug)]
pub(crate) struct Chunk {
    pub(crate) kind: u16,
    pub(crate) done: bool,
    pub(crate) cookie: u64,
    /// That of the request, in an extended header.
    pub(crate) offset: Option<u64>,
    pub(crate) payload: Vec<u8>,
}

impl Client {
    pub(crate) fn new(end: PipeEnd) -> Self {
        Self { end, received: RefCell::default(), framing: Cell::default() }
    }

    pub(crate) async fn send(&self, bytes: &[u8]) {
        self.try_send(bytes).await.expect("the server listens");
    }

    pub(crate) async fn try_send(&self, bytes: &[u8]) -> std::io::Result<()> {
        self.end.send_all(vec![SendPart::Small(bytes.to_vec())]).await
    }

    /// The next `len` bytes; `None` at the end of the stream.
    pub(crate) async fn try_take(&self, len: usize) -> Option<Vec<u8>> {
        while self.received.borrow().len() < len {
            let buf = AlignedBuf::zeroed(64 << 10);
            let whole = 0..buf.len();
            let (count, buf) = self.end.recv(buf, whole).await;
            let count = count.expect("pipes do not fail");
            if count == 0 {
                return None;
            }
            self.received.borrow_mut().extend_from_slice(&buf[..count]);
        }
        Some(self.received.borrow_mut().drain(..len).collect())
    }

    pub(crate) async fn take(&self, len: usize) -> Vec<u8> {
        self.try_take(len).await.expect("the server still sends")
    }

    pub(crate) async fn u16(&self) -> u16 {
        u16::from_be_bytes(self.take(2).await.try_into().unwrap())
    }

    pub(crate) async fn u32(&self) -> u32 {
        u32::from_be_bytes(self.take(4).await.try_into().unwrap())
    }

    pub(crate) async fn u64(&self) -> u64 {
        u64::from_be_bytes(self.take(8).await.try_into().unwrap())
    }

    /// Whether the server has closed, after nothing else.
    pub(crate) async fn is_closed(&self) -> bool {
        self.try_take(1).await.is_none()
    }

    pub(crate) async fn greet(&self, client_flags: u32) {
        assert_eq!(self.take(16).await, b"NBDMAGICIHAVEOPT");
        assert_eq!(self.u16().await, 3);
        self.send(&client_flags.to_be_bytes()).await;
    }

    pub(crate) async fn option(&self, option: u32, data: &[u8]) {
        let len = u32::try_from(data.len()).unwrap();
        let bytes = [b"IHAVEOPT", &option.to_be_bytes()[..], &len.to_be_bytes(), data].concat();
        self.send(&bytes).await;
    }

    /// Replies to an option up to the last one, as (type, data).
    pub(crate) async fn option_replies(&self, option: u32) -> Vec<(u32, Vec<u8>)> {
        let mut replies = Vec::new();
        loop {
            assert_eq!(self.u64().await, 0x3e889045565a9);
            assert_eq!(self.u32().await, option);
            let kind = self.u32().await;
            let len = self.u32().await as usize;
            replies.push((kind, self.take(len).await));
            if kind == 1 || kind >= 1 << 31 {
                return replies;
            }
        }
    }

    /// Attaches to the default export with OPT_GO; returns its size.
    pub(crate) async fn attach(&self, structured: bool) -> u64 {
        self.attach_with(if structured { Framing::Structured } else { Framing::Simple }).await
    }

    /// The same with these headers, which later requests and replies have.
    pub(crate) async fn attach_with(&self, framing: Framing) -> u64 {
        self.greet(FIXED_NEWSTYLE | NO_ZEROES).await;
        let option = match framing {
            Framing::Simple => None,
            Framing::Structured => Some(8),
            Framing::Extended => Some(11),
        };
        if let Some(option) = option {
            self.option(option, &[]).await;
            assert_eq!(self.option_replies(option).await, [(1, vec![])]);
            self.framing.set(framing);
            self.option(10, b"\0\0\0\0\0\0\0\x01\0\0\0\x0fbase:allocation").await;
            assert_eq!(self.option_replies(10).await.len(), 2);
        }
        self.option(7, &[0; 6]).await;
        let replies = self.option_replies(7).await;
        assert_eq!((replies[0].0, replies.last().unwrap().0), (3, 1));
        u64::from_be_bytes(replies[0].1[2..10].try_into().unwrap())
    }

    pub(crate) async fn request(
        &self,
        command: u16,
        flags: u16,
        cookie: u64,
        offset: u64,
        len: u32,
    ) {
        self.send(&self.header(command, flags, cookie, offset, len)).await;
    }

    fn header(&self, command: u16, flags: u16, cookie: u64, offset: u64, len: u32) -> Vec<u8> {
        match self.framing.get() {
            Framing::Simple | Framing::Structured => header(command, flags, cookie, offset, len),
            Framing::Extended => {
                // Writes say that data follows.
                let flags = if command == 1 { flags | PAYLOAD_LEN } else { flags };
                extended_header(command, flags, cookie, offset, u64::from(len))
            }
        }
    }

    pub(crate) async fn write(&self, cookie: u64, offset: u64, data: &[u8]) {
        let len = u32::try_from(data.len()).unwrap();
        self.send(&[&self.header(1, 0, cookie, offset, len)[..], data].concat()).await;
    }

    /// A simple reply without data, as (error, cookie).
    pub(crate) async fn simple(&self) -> (u32, u64) {
        assert_eq!(self.u32().await, 0x6744_6698);
        (self.u32().await, self.u64().await)
    }

    /// A chunk of a reply, or a simple reply as an empty chunk.
    pub(crate) async fn chunk(&self) -> Chunk {
        let magic = self.u32().await;
        if self.framing.get() == Framing::Extended {
            assert_eq!(magic, 0x6e8a_278c, "every reply has an extended header");
            let (flags, kind, cookie) = (self.u16().await, self.u16().await, self.u64().await);
            let (offset, len) = (Some(self.u64().await), self.u64().await);
            let payload = self.take(usize::try_from(len).unwrap()).await;
            return Chunk { kind, done: flags == 1, cookie, offset, payload };
        }
        if magic == 0x6744_6698 {
            let (error, cookie) = (self.u32().await, self.u64().await);
            assert_eq!(error, 0, "errors come structured once that is negotiated");
            return Chunk { kind: 0, done: true, cookie, offset: None, payload: Vec::new() };
        }
        assert_eq!(magic, 0x668e_33ef);
        let (flags, kind, cookie) = (self.u16().await, self.u16().await, self.u64().await);
        let len = self.u32().await as usize;
        Chunk { kind, done: flags == 1, cookie, offset: None, payload: self.take(len).await }
    }
}

pub(crate) fn header(command: u16, flags: u16, cookie: u64, offset: u64, len: u32) -> Vec<u8> {
    let magic = 0x2560_9513_u32.to_be_bytes();
    let (flags, command) = (flags.to_be_bytes(), command.to_be_bytes());
    let (cookie, offset) = (cookie.to_be_bytes(), offset.to_be_bytes());
    [&magic[..], &flags, &command, &cookie, &offset, &len.to_be_bytes()].concat()
}

/// The flag of an extended header whose length is that of a payload.
pub(crate) const PAYLOAD_LEN: u16 = 32;

pub(crate) fn extended_header(
    command: u16,
    flags: u16,
    cookie: u64,
    offset: u64,
    len: u64,
) -> Vec<u8> {
    let magic = 0x21e4_1c71_u32.to_be_bytes();
    let (flags, command) = (flags.to_be_bytes(), command.to_be_bytes());
    let (cookie, offset) = (cookie.to_be_bytes(), offset.to_be_bytes());
    [&magic[..], &flags, &command, &cookie, &offset, &len.to_be_bytes()].concat()
}

pub(crate) const ROOMY: PipeOptions = PipeOptions { capacity: 1 << 20, receive_max: 1 << 20 };

/// Connects a client to `service`; the handle yields how the connection ended.
pub(crate) fn connect<X: Exports + 'static>(
    reactor: &Reactor,
    service: &Service<X>,
    options: PipeOptions,
) -> (Client, JoinHandle<ConnectionEnd>) {
    let (near, far) = pipe(options);
    let service = service.clone();
    let ended = reactor.spawn_join(async move { service.serve(far).await.cause });
    (Client::new(near), ended)
}

/// A service with one export in memory.
pub(crate) fn memory_service(reactor: &Reactor, export: &MemoryExport) -> Service<MemoryExports> {
    let exports = MemoryExports::new().with("disk", export.clone());
    Service::new(reactor.clone(), exports, ServiceOptions::default())
}

/// What happens before a request of a [`HookedExport`] is served.
pub(crate) trait Hook: Clone {
    async fn run(&self, offset: u64);
}

/// Requests at offset `n` MiB take `n` ms.
impl Hook for Reactor {
    async fn run(&self, offset: u64) {
        self.sleep((offset >> 20) * 1_000_000).await;
    }
}

pub(crate) type SlowExport = HookedExport<Reactor>;

/// An export in memory with a hook for reads, writes and block status; counts what is under way there.
#[derive(Clone)]
pub(crate) struct HookedExport<H> {
    pub(crate) memory: MemoryExport,
    hook: H,
    pub(crate) under_way: Rc<Cell<usize>>,
    pub(crate) under_way_max: Rc<Cell<usize>>,
}

impl<H: Hook> HookedExport<H> {
    pub(crate) fn new(hook: &H, size_bytes: u64) -> Self {
        Self {
            memory: MemoryExport::new(size_bytes),
            hook: hook.clone(),
            under_way: Rc::default(),
            under_way_max: Rc::default(),
        }
    }

    async fn run_hook(&self, offset: u64) {
        self.under_way.set(self.under_way.get() + 1);
        self.under_way_max.set(self.under_way_max.get().max(self.under_way.get()));
        self.hook.run(offset).await;
        self.under_way.set(self.under_way.get() - 1);
    }
}

impl<H: Hook> Exports for HookedExport<H> {
    type Export = Self;

    async fn list(&self) -> Result<Vec<String>, ErrorKind> {
        Ok(vec!["disk".to_owned()])
    }

    async fn open(&self, _name: &str) -> Result<Self, ErrorKind> {
        Ok(self.clone())
    }
}

impl<H: Hook> Export for HookedExport<H> {
    type Parts = Vec<ReadPart>;

    fn info(&self) -> ExportInfo {
        self.memory.info()
    }

    async fn read(&self, offset: ByteOffset, len: u32) -> Result<Vec<ReadPart>, ErrorKind> {
        self.run_hook(offset.0).await;
        self.memory.read(offset, len).await
    }

    async fn write(&self, offset: ByteOffset, data: BufSlice) -> Result<(), ErrorKind> {
        self.run_hook(offset.0).await;
        self.memory.write(offset, data).await
    }

    async fn trim(&self, offset: ByteOffset, len: u64) -> Result<(), ErrorKind> {
        self.memory.trim(offset, len).await
    }

    async fn write_zeroes(
        &self,
        offset: ByteOffset,
        len: u64,
        keep: bool,
    ) -> Result<(), ErrorKind> {
        self.memory.write_zeroes(offset, len, keep).await
    }

    async fn flush(&self) -> Result<(), ErrorKind> {
        self.memory.flush().await
    }

    async fn block_status(
        &self,
        offset: ByteOffset,
        len: u64,
        max: usize,
    ) -> Result<Vec<Extent>, ErrorKind> {
        self.run_hook(offset.0).await;
        self.memory.block_status(offset, len, max).await
    }
}
