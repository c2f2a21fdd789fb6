//! A transport, plain or under TLS: what the connection receives from and sends to.
//!
//! CHANNEL-1. At most one receive and one send are under way; the session is borrowed only between awaits.

use std::cell::RefCell;
use std::io;
use std::ops::Range;
use std::sync::Arc;

use varve_stdx::AlignedBuf;

use crate::carried::RelayProgress;
use crate::tls::TlsSession;
use crate::transport::{SendPart, Transport};

/// Plain text enciphered at a time, so that a large reply is not held twice.
const SEAL_BYTES: usize = 256 << 10;

/// Bytes in both directions.
pub(crate) struct Channel<T> {
    transport: T,
    tls: Option<RefCell<TlsSession>>,
    /// Told of what is received, where another node carries the connection.
    carried: Option<Arc<RelayProgress>>,
}

impl<T: Transport> Channel<T> {
    pub(crate) fn new(
        transport: T,
        session: Option<TlsSession>,
        carried: Option<Arc<RelayProgress>>,
    ) -> Self {
        Self { transport, tls: session.map(RefCell::new), carried }
    }

    /// Whether everything that was received has been handed on.
    pub(crate) fn is_drained(&self) -> bool {
        self.tls.as_ref().is_none_or(|tls| tls.borrow_mut().is_drained())
    }

    async fn receive(
        &self,
        buf: AlignedBuf,
        range: Range<usize>,
    ) -> (io::Result<usize>, AlignedBuf) {
        let (received, buf) = self.transport.recv(buf, range).await;
        if let (Some(carried), Ok(bytes)) = (&self.carried, &received) {
            carried.received(*bytes);
        }
        (received, buf)
    }

    /// Receives at least one byte of plain text into `range`; 0 bytes mean the end.
    pub(crate) async fn recv(
        &self,
        mut buf: AlignedBuf,
        range: Range<usize>,
    ) -> (io::Result<usize>, AlignedBuf) {
        let Some(tls) = &self.tls else { return self.receive(buf, range).await };
        loop {
            let plain = tls.borrow_mut().read_plain(buf.get_mut(range.clone()).unwrap_or_default());
            match plain {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                decided => return (decided, buf),
            }
            let cipher = tls.borrow_mut().lend(); // CHANNEL-1
            let whole = 0..cipher.len();
            let (received, cipher) = self.receive(cipher, whole).await;
            tls.borrow_mut().give_back(cipher, *received.as_ref().unwrap_or(&0));
            match received {
                Ok(0) => return (Err(io::ErrorKind::UnexpectedEof.into()), buf), // Without close_notify: cut off.
                Ok(_) => {}
                Err(error) => return (Err(error), buf),
            }
        }
    }

    /// Sends all parts in order.
    pub(crate) async fn send_all(&self, parts: Vec<SendPart>) -> io::Result<()> {
        let Some(tls) = &self.tls else { return self.transport.send_all(parts).await };
        let mut out = Vec::new();
        for part in &parts {
            let bytes: &[u8] = match part {
                SendPart::Small(bytes) => bytes,
                SendPart::Slice(slice) => slice,
            };
            for piece in bytes.chunks(SEAL_BYTES) {
                tls.borrow_mut().seal(piece, &mut out)?;
                if out.len() >= SEAL_BYTES {
                    self.transport
                        .send_all(vec![SendPart::Small(std::mem::take(&mut out))])
                        .await?;
                }
            }
        }
        if out.is_empty() {
            return Ok(());
        }
        self.transport.send_all(vec![SendPart::Small(out)]).await
    }

    /// Ends the session and the stream. Errors change nothing any more.
    pub(crate) async fn close(&self) {
        if let Some(tls) = &self.tls {
            let mut out = Vec::new();
            tls.borrow_mut().say_end(&mut out);
            if !out.is_empty() {
                let _ = self.transport.send_all(vec![SendPart::Small(out)]).await;
            }
        }
        self.transport.shutdown();
    }
}
