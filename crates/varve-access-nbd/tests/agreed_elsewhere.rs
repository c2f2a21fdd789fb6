//! Goal: a client's handshake is gone through where its exports are not, and whoever has the one that it chooses goes on with the connection: nothing of what
//! was sent or agreed on is lost, nothing is told before its time, and names of several owners may follow each other. Method: a front over two services that it reaches by messages, in the
//! simulated loop.
#![expect(clippy::unwrap_used, reason = "a test")]

#[cfg(test)]
#[expect(dead_code, reason = "this file uses part of it")]
mod support;

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::{Arc, Mutex};

use support::{Client, FIXED_NEWSTYLE, NO_ZEROES, ROOMY, header};
use varve_access_nbd::memory::{MemoryExport, MemoryExports};
use varve_access_nbd::{
    Agreeing, Carried, Closed, Ended, ExportInfo, FoundExport, Gate, Held, Offer, OpenRequest,
    Opened, Opening, Service, ServiceOptions, Shutdown, TlsMode, pipe,
};
use varve_reactor::{JoinHandle, Reactor, SimLoop};
use varve_types::ErrorKind;

const MS: u64 = 1_000_000;

/// One that has exports: the front has its answers only, as if it were another machine.
struct Owner {
    reactor: Reactor,
    service: Service<MemoryExports>,
    open: RefCell<Vec<(u64, Opened<MemoryExport>)>>,
}

/// What a front knows of an export that an owner holds open for it.
struct Ticket {
    owner: Rc<Owner>,
    number: u64,
    name: String,
    info: ExportInfo,
    since: Vec<String>,
}

impl Held for Ticket {
    fn found(&self) -> FoundExport<'_> {
        FoundExport { name: &self.name, info: self.info, since: &self.since }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.owner.open.borrow_mut().retain(|(number, _)| *number != self.number);
    }
}

impl Owner {
    fn take(&self, ticket: &Ticket) -> Opened<MemoryExport> {
        let mut open = self.open.borrow_mut();
        let at = open.iter().position(|(number, _)| *number == ticket.number).unwrap();
        open.remove(at).1
    }
}

struct Front {
    owners: Vec<Rc<Owner>>,
    carried: Arc<Carried>,
    tickets: RefCell<u64>,
}

impl Offer for Front {
    type Held = Ticket;

    async fn list(&self) -> Result<Vec<String>, ErrorKind> {
        let mut names = Vec::new();
        for owner in &self.owners {
            owner.reactor.sleep(MS).await;
            names.push(if names.is_empty() { "one" } else { "two" }.to_owned());
        }
        Ok(names)
    }

    async fn open(&self, request: &OpenRequest) -> Result<Ticket, ErrorKind> {
        for owner in &self.owners {
            owner.reactor.sleep(MS).await;
            match owner.service.open(request).await {
                Err(ErrorKind::NotFound) => {}
                Err(kind) => return Err(kind),
                Ok(opened) => {
                    let FoundExport { name, info, since } = opened.found();
                    let (name, since) = (name.to_owned(), since.to_vec());
                    let number = self.tickets.replace_with(|last| *last + 1) + 1;
                    owner.open.borrow_mut().push((number, opened));
                    return Ok(Ticket { owner: Rc::clone(owner), number, name, info, since });
                }
            }
        }
        Err(ErrorKind::NotFound)
    }

    async fn ready(&self, ticket: &Ticket) -> Result<(), Ended> {
        let opened = ticket.owner.take(ticket);
        let passed = ticket.owner.service.ready(&opened, Some(&self.carried)).await;
        ticket.owner.open.borrow_mut().push((ticket.number, opened));
        passed
    }
}

/// Two owners, of `one` and `two`, whose exports are as many MiB large.
fn owners(reactor: &Reactor, gate: Option<Arc<dyn Gate>>) -> Vec<Rc<Owner>> {
    let owner = |name, mib: u64| {
        let exports = MemoryExports::new().with(name, MemoryExport::new(mib << 20));
        let options = ServiceOptions { gate: gate.clone(), ..ServiceOptions::default() };
        let service = Service::new(reactor.clone(), exports, options);
        Rc::new(Owner { reactor: reactor.clone(), service, open: RefCell::default() })
    };
    vec![owner("one", 1), owner("two", 2)]
}

/// Connects a client to a front; the handle yields how its connection ended.
fn connect(reactor: &Reactor, owners: &[Rc<Owner>]) -> (Client, Arc<Carried>, JoinHandle<Closed>) {
    let ((near, far), carried) = (pipe(ROOMY), Arc::new(Carried::new(1)));
    let tickets = RefCell::default();
    let front = Front { owners: owners.to_vec(), carried: Arc::clone(&carried), tickets };
    let of_front = reactor.clone();
    let ended = reactor.spawn_join(async move {
        let shutdown = Shutdown::new();
        let agreeing =
            Agreeing { reactor: &of_front, shutdown: &shutdown, tls: None, tls_mode: TlsMode::Off };
        let (connection, ticket) = match agreeing.with(far, &front).await {
            Ok(agreed) => agreed,
            Err(closed) => return closed,
        };
        let opened = ticket.owner.take(&ticket);
        let connection = connection.over(Ok::<_, Ended>).unwrap();
        let service = ticket.owner.service.clone();
        service.serve_agreed(connection, opened, Some(front.carried)).await
    });
    (Client::new(near), carried, ended)
}

/// The data of INFO or GO for an export, with nothing else asked.
fn named(name: &str) -> Vec<u8> {
    let len = u32::try_from(name.len()).unwrap();
    [&len.to_be_bytes()[..], name.as_bytes(), &[0; 2]].concat()
}

/// What INFO or GO said of the size; `None` where there is no such export.
async fn size(client: &Client, option: u32, name: &str) -> Option<u64> {
    client.option(option, &named(name)).await;
    sized(client, option).await
}

async fn sized(client: &Client, option: u32) -> Option<u64> {
    let replies = client.option_replies(option).await;
    let info = replies.iter().find(|(kind, _)| *kind == 3)?;
    Some(u64::from_be_bytes(info.1[2..10].try_into().unwrap()))
}

#[test]
fn names_of_several_owners_follow_each_other_and_the_last_ones_owner_goes_on() {
    let mut sim = SimLoop::new(1);
    let reactor = sim.handle();
    let owners = owners(&reactor, None);
    let (client, carried, ended) = connect(&reactor, &owners);
    sim.run_until(async move {
        client.greet(FIXED_NEWSTYLE | NO_ZEROES).await;
        client.option(3, &[]).await; // LIST
        let listed = client.option_replies(3).await;
        assert_eq!(listed[0].1, b"\0\0\0\x03one");
        assert_eq!(listed[1].1, b"\0\0\0\x03two");
        assert_eq!(size(&client, 6, "one").await, Some(1 << 20));
        assert_eq!(owners[0].open.borrow().len(), 1);
        assert_eq!(size(&client, 6, "three").await, None);
        assert!(owners[0].open.borrow().is_empty(), "A1");
        client.option(8, &[]).await; // STRUCTURED_REPLY
        client.option_replies(8).await;
        // A3: a request in one piece with the option that ends the handshake.
        let option = [b"IHAVEOPT", &7u32.to_be_bytes()[..], &9u32.to_be_bytes(), &named("two")];
        let write = [&header(1, 0, 7, 4096, 3)[..], b"abc"].concat();
        client.send(&[option.concat(), write.clone()].concat()).await;
        assert_eq!(sized(&client, 7).await, Some(2 << 20));
        assert_eq!(client.chunk().await.cookie, 7);
        let read = header(0, 0, 8, 4096, 3);
        client.send(&read).await;
        let chunk = client.chunk().await;
        assert_eq!((chunk.cookie, &chunk.payload[8..]), (8, &b"abc"[..]));
        reactor.sleep(MS).await;
        let bytes = u64::try_from(write.len() + read.len()).unwrap();
        assert!(carried.has_settled(bytes) && !carried.has_settled(bytes + 1), "A3");
        assert_eq!((owners[0].service.connections(), owners[1].service.connections()), (0, 1));
        drop(client);
        assert!(matches!(ended.await.cause, Ended::PeerClosed | Ended::Io(_)));
        assert!(carried.is_over());
        assert_eq!(owners[1].service.connections(), 0);
    });
}

/// Lets nobody pass until it is told.
#[derive(Default)]
struct Shut(Mutex<Vec<Opening>>);

impl std::fmt::Debug for Shut {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Shut")
    }
}

impl Gate for Shut {
    fn pass(&self, opening: Opening) {
        self.0.lock().expect("nobody panics with it").push(opening);
    }
}

#[test]
fn the_client_is_told_after_the_gate_of_the_owner_was_passed() {
    let mut sim = SimLoop::new(2);
    let reactor = sim.handle();
    let shut = Arc::new(Shut::default());
    let owners = owners(&reactor, Some(Arc::clone(&shut) as Arc<dyn Gate>));
    let (client, carried, _ended) = connect(&reactor, &owners);
    sim.run_until(async move {
        client.greet(FIXED_NEWSTYLE | NO_ZEROES).await;
        assert_eq!(size(&client, 6, "two").await, Some(2 << 20), "INFO passes no gate");
        client.option(7, &named("two")).await;
        reactor.sleep(100 * MS).await;
        let opening = shut.0.lock().unwrap().pop().expect("it asks");
        assert_eq!((opening.export.as_str(), opening.by), ("two", Some(1)));
        let told = reactor.spawn_join(async move { sized(&client, 7).await });
        reactor.sleep(100 * MS).await;
        assert!(!carried.writes_to("two"));
        opening.passes.send(()).unwrap();
        assert_eq!(told.await, Some(2 << 20));
        assert!(carried.writes_to("two"));
    });
}

#[test]
fn a_handshake_that_comes_to_nothing_holds_nothing_open() {
    let mut sim = SimLoop::new(3);
    let reactor = sim.handle();
    let owners = owners(&reactor, None);
    let (client, _carried, ended) = connect(&reactor, &owners);
    sim.run_until(async move {
        client.greet(FIXED_NEWSTYLE | NO_ZEROES).await;
        assert_eq!(size(&client, 6, "one").await, Some(1 << 20));
        assert_eq!(owners[0].open.borrow().len(), 1);
        client.option(2, &[]).await; // ABORT
        assert!(matches!(ended.await.cause, Ended::Handshake(_)));
        assert!(owners[0].open.borrow().is_empty());
        assert_eq!(owners[0].service.connections(), 0);
    });
}
