//! An NBD client with the few requests that transfers need, several under way at a time. It blocks.
//!
//! TRANSFER-NBD-1. What the daemon sends is checked against what was asked: an answer of another length, or to nothing,
//!     ends the transfer.

use std::collections::{HashMap, VecDeque};
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;

use varve_access_admin::ListenAddress;
use varve_access_admin::v1::Status;
use varve_access_nbd::wire::constant::{
    FLAG_FIXED_NEWSTYLE, FLAG_NO_ZEROES, IHAVEOPT, NBDMAGIC, REPLY_MAGIC, REQUEST_MAGIC,
    SIMPLE_REPLY_MAGIC, STRUCTURED_REPLY_MAGIC, chunk, cmd, info, opt, rep,
};
use varve_client::{Client, Failure, Result};

/// Bytes of a read or write at most: what an archive's record holds.
pub(super) const REQUEST_BYTES_MAX: usize = 1 << 20;

/// Requests under way at most.
const REQUESTS_MAX: usize = 16;

/// Longest option reply that is looked at, in bytes.
const OPTION_REPLY_MAX: u32 = 64 << 10;

trait ReadWrite: Read + Write {}
impl<T: Read + Write> ReadWrite for T {}

/// A connection to one export.
pub(super) struct Nbd {
    stream: Box<dyn ReadWrite>,
    address: ListenAddress,
    size_bytes: u64,
    next_cookie: u64,
    /// In the order they were sent.
    order: VecDeque<u64>,
    under_way: HashMap<u64, ReadRequest>,
}

/// A request and what was answered so far.
struct ReadRequest {
    offset: u64,
    /// Of a read: zeros until something else comes.
    data: Vec<u8>,
    /// Bytes that were answered.
    answered: usize,
    is_done: bool,
}

/// What a read found.
pub(super) struct FoundData {
    pub(super) offset: u64,
    pub(super) data: Vec<u8>,
}

impl Nbd {
    /// Attaches to an export of the daemon: where it listens, unless `address` says so.
    pub(super) fn attach(
        client: &Client,
        address: Option<&ListenAddress>,
        export: &str,
    ) -> Result<Self> {
        let address = match address {
            Some(address) => address.clone(),
            None => listener(client)?,
        };
        let failed = |error: io::Error| {
            Failure::new(format!("NBD at {address}: {error}"))
                .hint("name another address of the daemon's NBD with --nbd")
        };
        let stream: Box<dyn ReadWrite> = match &address {
            ListenAddress::Unix(path) => Box::new(UnixStream::connect(path).map_err(failed)?),
            ListenAddress::Tcp(address) => {
                let stream = TcpStream::connect(address).map_err(failed)?;
                stream.set_nodelay(true).map_err(failed)?;
                Box::new(stream)
            }
        };
        let mut nbd = Self {
            stream,
            address: address.clone(),
            size_bytes: 0,
            next_cookie: 1,
            order: VecDeque::new(),
            under_way: HashMap::new(),
        };
        nbd.shake_hands(export)?;
        Ok(nbd)
    }

    /// Size of the export in bytes.
    pub(super) fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    fn broken(&self, error: &io::Error) -> Failure {
        Failure::new(format!("NBD connection to {} broke off: {error}", self.address))
            .hint("see whether the daemon runs; the same command goes on where it ended")
    }

    fn foreign(&self, what: &str) -> Failure {
        Failure::new(format!("what answers at {} speaks NBD otherwise: {what}", self.address))
            .hint("compare the versions of command and daemon")
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut bytes = [0; N];
        self.stream.read_exact(&mut bytes).map_err(|error| self.broken(&error))?;
        Ok(bytes)
    }

    fn u16(&mut self) -> Result<u16> {
        self.take().map(u16::from_be_bytes)
    }

    fn u32(&mut self) -> Result<u32> {
        self.take().map(u32::from_be_bytes)
    }

    fn u64(&mut self) -> Result<u64> {
        self.take().map(u64::from_be_bytes)
    }

    fn put(&mut self, parts: &[&[u8]]) -> Result<()> {
        for part in parts {
            self.stream.write_all(part).map_err(|error| self.broken(&error))?;
        }
        Ok(())
    }

    fn shake_hands(&mut self, export: &str) -> Result<()> {
        if (self.u64()?, self.u64()?) != (NBDMAGIC, IHAVEOPT) {
            return Err(self.foreign("no greeting"));
        }
        let flags = u32::from(self.u16()? & (FLAG_FIXED_NEWSTYLE | FLAG_NO_ZEROES));
        self.put(&[&flags.to_be_bytes()])?;
        self.option(opt::STRUCTURED_REPLY, &[], export)?;
        let len = u32::try_from(export.len()).unwrap_or(u32::MAX);
        let data = [&len.to_be_bytes()[..], export.as_bytes(), &0u16.to_be_bytes()].concat();
        self.option(opt::GO, &data, export)
    }

    /// Sends an option and reads replies until it is acknowledged.
    fn option(&mut self, option: u32, data: &[u8], export: &str) -> Result<()> {
        let len = u32::try_from(data.len()).unwrap_or(u32::MAX);
        let (magic, option_bytes) = (IHAVEOPT.to_be_bytes(), option.to_be_bytes());
        self.put(&[&magic, &option_bytes, &len.to_be_bytes(), data])?;
        loop {
            let head = (self.u64()?, self.u32()?);
            if head != (REPLY_MAGIC, option) {
                return Err(self.foreign("no reply to an option"));
            }
            let (kind, len) = (self.u32()?, self.u32()?);
            if len > OPTION_REPLY_MAX {
                return Err(self.foreign("a reply that is too long"));
            }
            let mut data = vec![0; usize::try_from(len).unwrap_or(usize::MAX)];
            self.stream.read_exact(&mut data).map_err(|error| self.broken(&error))?;
            match kind {
                rep::ACK => return Ok(()),
                rep::INFO => self.learn(&data),
                rep::ERR_UNKNOWN => {
                    return Err(Failure::new(format!("the daemon serves no `{export}`")).hint(
                        "`varve volume list` and `varve volume snapshot list` show what there is",
                    ));
                }
                rep::ERR_TLS_REQD => {
                    return Err(Failure::new(format!("NBD at {} wants TLS", self.address)).hint(
                        "transfers use no TLS: name a unix socket of the daemon with --nbd",
                    ));
                }
                _ => {
                    let said = String::from_utf8_lossy(&data).into_owned();
                    return Err(self.foreign(&format!("{said:?}")));
                }
            }
        }
    }

    fn learn(&mut self, data: &[u8]) {
        let Some((kind, rest)) = data.split_first_chunk() else { return };
        if let (info::EXPORT, Some(size)) = (u16::from_be_bytes(*kind), rest.first_chunk()) {
            self.size_bytes = u64::from_be_bytes(*size);
        }
    }

    /// Whether another request may be sent before an answer is taken.
    pub(super) fn has_room(&self) -> bool {
        self.order.len() < REQUESTS_MAX
    }

    /// Asks for bytes.
    pub(super) fn send_read(&mut self, offset: u64, len: usize) -> Result<()> {
        assert!(len <= REQUEST_BYTES_MAX, "reads are bounded");
        self.send(cmd::READ, offset, len as u64, &[], vec![0; len])
    }

    /// Writes bytes; whether it went well tells an answer.
    pub(super) fn send_write(&mut self, offset: u64, data: &[u8]) -> Result<()> {
        self.send(cmd::WRITE, offset, data.len() as u64, data, Vec::new())
    }

    /// Makes bytes zeros, of any number; answers tell whether it went well.
    pub(super) fn send_zeroes(&mut self, offset: u64, len: u64) -> Result<()> {
        let (mut offset, end) = (offset, offset + len);
        while offset < end {
            let len = (end - offset).min(1 << 30);
            while !self.has_room() {
                self.next()?;
            }
            self.send(cmd::WRITE_ZEROES, offset, len, &[], Vec::new())?;
            offset += len;
        }
        Ok(())
    }

    fn send(
        &mut self,
        command: u16,
        offset: u64,
        len: u64,
        payload: &[u8],
        data: Vec<u8>,
    ) -> Result<()> {
        assert!(self.has_room(), "an answer is taken first");
        let cookie = self.next_cookie;
        self.next_cookie += 1;
        let len = u32::try_from(len).expect("requests are bounded");
        let head = [
            &REQUEST_MAGIC.to_be_bytes()[..],
            &0u16.to_be_bytes(),
            &command.to_be_bytes(),
            &cookie.to_be_bytes(),
            &offset.to_be_bytes(),
            &len.to_be_bytes(),
        ]
        .concat();
        self.put(&[&head, payload])?;
        self.order.push_back(cookie);
        let request = ReadRequest { offset, data, answered: 0, is_done: false };
        self.under_way.insert(cookie, request);
        Ok(())
    }

    /// Waits for the oldest request; `None` when none is under way.
    pub(super) fn next(&mut self) -> Result<Option<FoundData>> {
        let Some(cookie) = self.order.front().copied() else { return Ok(None) };
        while !self.under_way.get(&cookie).is_some_and(|request| request.is_done) {
            self.answer()?;
        }
        self.order.pop_front();
        let request = self.under_way.remove(&cookie).expect("it is done");
        if request.answered != request.data.len() {
            return Err(self.foreign("a read of another length than asked for"));
        }
        Ok(Some(FoundData { offset: request.offset, data: request.data }))
    }

    /// Waits for everything that is under way.
    pub(super) fn drain(&mut self) -> Result<()> {
        while self.next()?.is_some() {}
        Ok(())
    }

    /// Takes one reply, or one chunk of one.
    fn answer(&mut self) -> Result<()> {
        match self.u32()? {
            SIMPLE_REPLY_MAGIC => {
                let (error, cookie) = (self.u32()?, self.u64()?);
                if error != 0 {
                    return Err(self.refused(cookie, error));
                }
                self.request(cookie)?.is_done = true;
                Ok(())
            }
            STRUCTURED_REPLY_MAGIC => {
                let (flags, kind) = (self.u16()?, self.u16()?);
                let (cookie, len) = (self.u64()?, self.u32()?);
                self.chunk(kind, cookie, len)?;
                self.request(cookie)?.is_done = flags & chunk::FLAG_DONE != 0;
                Ok(())
            }
            _ => Err(self.foreign("no reply where one should begin")),
        }
    }

    fn request(&mut self, cookie: u64) -> Result<&mut ReadRequest> {
        let known = self.under_way.contains_key(&cookie);
        if !known {
            return Err(self.foreign("a reply to nothing"));
        }
        Ok(self.under_way.get_mut(&cookie).expect("it was just seen"))
    }

    fn chunk(&mut self, kind: u16, cookie: u64, len: u32) -> Result<()> {
        match kind {
            chunk::NONE if len == 0 => Ok(()),
            chunk::OFFSET_DATA if len > 8 => {
                let offset = self.u64()?;
                let range = self.range(cookie, offset, u64::from(len) - 8)?;
                let mut request = self.under_way.remove(&cookie).expect("`range` saw it");
                let place = request.data.get_mut(range).expect("`range` compared it");
                request.answered += place.len();
                let read = self.stream.read_exact(place);
                self.under_way.insert(cookie, request);
                read.map_err(|error| self.broken(&error))
            }
            chunk::OFFSET_HOLE if len == 12 => {
                let (offset, hole) = (self.u64()?, self.u32()?);
                let range = self.range(cookie, offset, u64::from(hole))?;
                self.request(cookie)?.answered += range.len();
                Ok(())
            }
            chunk::ERROR if (6..=OPTION_REPLY_MAX).contains(&len) => {
                let error = self.u32()?;
                Err(self.refused(cookie, error))
            }
            _ => Err(self.foreign("a chunk that was not asked for")),
        }
    }

    /// Where bytes of an answer belong in the request's buffer (TRANSFER-NBD-1).
    fn range(&mut self, cookie: u64, offset: u64, len: u64) -> Result<std::ops::Range<usize>> {
        let request = self.request(cookie)?;
        let size = request.data.len() as u64;
        let start = offset.checked_sub(request.offset);
        let range = start.and_then(|start| Some((start, start.checked_add(len)?)));
        match range.filter(|(_, end)| *end <= size) {
            Some((start, end)) => {
                let index = |at: u64| usize::try_from(at).expect("inside the buffer");
                Ok(index(start)..index(end))
            }
            None => Err(self.foreign("bytes that were not asked for")),
        }
    }

    fn refused(&self, cookie: u64, error: u32) -> Failure {
        let offset = self.under_way.get(&cookie).map_or(0, |request| request.offset);
        let error = io::Error::from_raw_os_error(i32::try_from(error).unwrap_or(0));
        Failure::new(format!("the daemon refused a request at byte {offset}: {error}"))
            .hint("the daemon's log and `varve status` say why")
    }

    /// Says goodbye; what is under way is waited for.
    pub(super) fn end(mut self) -> Result<()> {
        self.send(cmd::FLUSH, 0, 0, &[], Vec::new())?;
        self.drain()?;
        self.put(&[
            &REQUEST_MAGIC.to_be_bytes(),
            &0u16.to_be_bytes(),
            &cmd::DISC.to_be_bytes(),
            &[0; 20],
        ])
    }
}

/// Where the daemon listens for NBD: a unix socket, if there is one.
pub(super) fn listener(client: &Client) -> Result<ListenAddress> {
    let status = client.get::<Status>("/v1/status")?.value;
    let nbd = status.listeners.iter().filter(|listener| listener.protocol == "nbd");
    let mut addresses: Vec<ListenAddress> =
        nbd.filter_map(|listener| listener.address.parse().ok()).collect();
    addresses.sort_by_key(|address| matches!(address, ListenAddress::Tcp(_)));
    addresses.into_iter().next().ok_or_else(|| {
        Failure::new("the daemon does not listen for NBD")
            .hint("transfers go over NBD: start the daemon with an address for it")
    })
}
