//! The drive works while the rest of a batch of reads is taken in. Method: the first of many reads that arrive together asks something
//! of the kernel, through the ring of a real loop, and those behind it look whether it was done.

#[cfg(test)]
#[expect(dead_code, reason = "this file uses part of it")]
mod support;

use std::cell::Cell;
use std::io::Read;
use std::os::unix::net::UnixStream;
use std::rc::Rc;

use support::{ROOMY, connect, header};
use varve_access_nbd::memory::MemoryExport;
use varve_access_nbd::{
    Export, ExportInfo, Exports, Extent, ReadPart, SendPart, Service, ServiceOptions,
};
use varve_reactor::net::Socket;
use varve_reactor::{Loop, LoopConfig};
use varve_stdx::BufSlice;
use varve_types::ErrorKind;

const REQUESTS: u32 = 32;

/// An export in memory; its read at 0 sends a byte to `drive`.
#[derive(Clone)]
struct WatchedExport {
    memory: MemoryExport,
    near: Socket,
    drive: Rc<UnixStream>,
    reads: Rc<Cell<u32>>,
    /// Reads that were begun when the byte had come.
    reached_after: Rc<Cell<Option<u32>>>,
}

impl Exports for WatchedExport {
    type Export = Self;

    async fn list(&self) -> Result<Vec<String>, ErrorKind> {
        Ok(vec!["disk".to_owned()])
    }

    async fn open(&self, _name: &str) -> Result<Self, ErrorKind> {
        Ok(self.clone())
    }
}

impl Export for WatchedExport {
    type Parts = Vec<ReadPart>;

    fn info(&self) -> ExportInfo {
        self.memory.info()
    }

    async fn read(&self, offset: u64, len: u32) -> Result<Vec<ReadPart>, ErrorKind> {
        self.reads.set(self.reads.get() + 1);
        if offset == 0 {
            let sent = self.near.send_all(vec![SendPart::Small(vec![1])]).await;
            sent.expect("the other end is open");
        } else if matches!((&*self.drive).read(&mut [0]), Ok(1)) {
            self.reached_after.set(Some(self.reads.get()));
        }
        self.memory.read(offset, len).await
    }

    async fn write(&self, offset: u64, data: BufSlice) -> Result<(), ErrorKind> {
        self.memory.write(offset, data).await
    }

    async fn trim(&self, offset: u64, len: u64) -> Result<(), ErrorKind> {
        self.memory.trim(offset, len).await
    }

    async fn write_zeroes(&self, offset: u64, len: u64, keep: bool) -> Result<(), ErrorKind> {
        self.memory.write_zeroes(offset, len, keep).await
    }

    async fn flush(&self) -> Result<(), ErrorKind> {
        self.memory.flush().await
    }

    async fn block_status(
        &self,
        offset: u64,
        len: u64,
        max: usize,
    ) -> Result<Vec<Extent>, ErrorKind> {
        self.memory.block_status(offset, len, max).await
    }
}

#[test]
fn the_first_of_many_reads_reaches_the_drive_before_the_last_is_begun() {
    let mut event_loop = Loop::new(LoopConfig::default()).unwrap();
    let reactor = event_loop.handle();
    let (near, drive) = UnixStream::pair().unwrap();
    drive.set_nonblocking(true).unwrap();
    let export = WatchedExport {
        memory: MemoryExport::new(1 << 20),
        near: Socket::from_fd(&reactor, near.into()).unwrap(),
        drive: Rc::new(drive),
        reads: Rc::default(),
        reached_after: Rc::default(),
    };
    let reached_after = Rc::clone(&export.reached_after);
    let service = Service::new(reactor.clone(), export, ServiceOptions::default());
    let (client, _ended) = connect(&reactor, &service, ROOMY);
    event_loop.run(async move {
        client.attach(false).await;
        let requests = (0..REQUESTS).map(|number| {
            let number = u64::from(number);
            header(0, 0, number, number * 4096, 4096)
        });
        client.send(&requests.collect::<Vec<_>>().concat()).await;
        for _ in 0..REQUESTS {
            assert_eq!(client.simple().await.0, 0);
            client.take(4096).await;
        }
    });
    let reached_after = reached_after.get().expect("the drive was reached among them");
    assert!(reached_after < REQUESTS / 2, "only when {reached_after} reads had begun");
}
