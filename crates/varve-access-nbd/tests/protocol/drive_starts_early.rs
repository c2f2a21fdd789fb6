//! The drive works while the rest of a batch of reads is taken in. Method: the first of many reads that arrive together
//! asks something of the kernel, through the ring of a real loop, and those behind it look whether it was done.

use std::cell::Cell;
use std::io::Read;
use std::os::unix::net::UnixStream;
use std::rc::Rc;

use varve_access_nbd::{SendPart, Service, ServiceOptions};
use varve_reactor::net::Socket;
use varve_reactor::{Loop, LoopConfig};

use crate::support::{Hook, HookedExport, ROOMY, connect, header};

const REQUESTS: u32 = 32;

/// Sends a byte to `drive` at the read at 0.
#[derive(Clone)]
struct Watch {
    near: Socket,
    drive: Rc<UnixStream>,
    reads: Rc<Cell<u32>>,
    /// Reads that were begun when the byte had come.
    reached_after: Rc<Cell<Option<u32>>>,
}

impl Hook for Watch {
    async fn run(&self, offset: u64) {
        self.reads.set(self.reads.get() + 1);
        if offset == 0 {
            let sent = self.near.send_all(vec![SendPart::Small(vec![1])]).await;
            sent.expect("the other end is open");
        } else if matches!((&*self.drive).read(&mut [0]), Ok(1)) {
            self.reached_after.set(Some(self.reads.get()));
        }
    }
}

#[test]
fn the_first_of_many_reads_reaches_the_drive_before_the_last_is_begun() {
    let mut event_loop = Loop::new(LoopConfig::default()).unwrap();
    let reactor = event_loop.handle();
    let (near, drive) = UnixStream::pair().unwrap();
    drive.set_nonblocking(true).unwrap();
    let watch = Watch {
        near: Socket::from_fd(&reactor, near.into()).unwrap(),
        drive: Rc::new(drive),
        reads: Rc::default(),
        reached_after: Rc::default(),
    };
    let export = HookedExport::new(&watch, 1 << 20);
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
    let reached_after = watch.reached_after.get().expect("the drive was reached among them");
    assert!(reached_after < REQUESTS / 2, "only when {reached_after} reads had begun");
}
