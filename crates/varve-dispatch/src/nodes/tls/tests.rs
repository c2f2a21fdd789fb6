//! Links over the loopback interface: who is meant is reached, anybody else is refused, and messages of every size come whole and in order.

use std::net::{Ipv4Addr, SocketAddr, TcpStream};

use varve_reactor::net::TcpListener;
use varve_reactor::{Loop, LoopConfig};
use varve_types::{Reduction, ShardId, StreamId};

use super::*;
use crate::nodes::wire::{DATA_BYTES_MAX, Operation};

fn key(number: u8) -> NodeKey {
    NodeKey::from_random([number; 32]).unwrap()
}

fn run<F: Future<Output = ()> + 'static>(work: impl FnOnce(Reactor) -> F) {
    let mut event_loop = Loop::new(LoopConfig::default()).unwrap();
    let work = work(event_loop.handle());
    event_loop.run(work);
}

/// Two connected sockets.
async fn sockets(reactor: &Reactor) -> (Socket, Socket) {
    let listener = TcpListener::bind(reactor, SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).unwrap();
    let stream = TcpStream::connect(listener.local_addr()).unwrap();
    let there = Socket::from_fd(reactor, stream.into()).unwrap();
    (there, listener.accept().await.unwrap())
}

/// Both ends of a link, made by key 1 for the key that is meant, and taken by key 2.
async fn link(reactor: &Reactor, meant: NodeKey) -> (Result<Rc<dyn Pipe>>, Result<Rc<dyn Pipe>>) {
    let (there, here) = sockets(reactor).await;
    let accepting = reactor.clone();
    let accepted = reactor.spawn_join(async move { key(2).accept(&accepting, here).await });
    let made = key(1).connect(reactor, there, meant.fingerprint()).await;
    (made, accepted.await)
}

fn message(request: u64, len: usize) -> Message {
    let mut data = vec![0; len];
    varve_stdx::Rng::new(request).fill(&mut data);
    let (stream, reduction) = (StreamId::new(1), Reduction::OFF);
    let operation = Operation::Write { stream, offset: 0, reduction, data };
    let (connection, epoch, departures, shard) = (1, 1, 0, ShardId(0));
    Message::Request { request, connection, epoch, departures, shard, operation }
}

#[test]
fn messages_come_whole_and_in_order() {
    run(|reactor| async move {
        let (made, accepted) = link(&reactor, key(2)).await;
        let (made, accepted) = (made.unwrap(), accepted.unwrap());
        assert_eq!(made.peer(), key(2).fingerprint());
        assert_eq!(accepted.peer(), key(1).fingerprint());
        let sizes = [0, 1, 4096, 70_000, DATA_BYTES_MAX as usize, 3];
        let sending = reactor.spawn_join({
            let made = Rc::clone(&made);
            async move {
                let numbered = (1..).zip(sizes);
                let sends = numbered.map(|(request, len)| made.send(message(request, len)));
                // All at the same time.
                futures_util::future::join_all(sends).await
            }
        });
        for (request, len) in (1..).zip(sizes) {
            assert!(accepted.receive().await.unwrap() == message(request, len), "{len} bytes");
        }
        assert!(sending.await.iter().all(std::result::Result::is_ok));
        accepted.send(Message::Welcome { version: 1 }).await.unwrap();
        assert_eq!(made.receive().await, Ok(Message::Welcome { version: 1 }));
        made.close();
        assert!(accepted.receive().await.is_err() && made.receive().await.is_err());
        assert!(made.send(Message::Welcome { version: 1 }).await.is_err());
    });
}

#[test]
fn another_key_than_the_table_names_is_refused() {
    run(|reactor| async move {
        let (made, accepted) = link(&reactor, key(3)).await;
        assert!(made.is_err(), "key 2 was taken for key 3");
        if let Ok(accepted) = accepted {
            assert!(accepted.receive().await.is_err(), "a link that was refused says something");
        }
    });
}

#[test]
fn whoever_speaks_no_tls_is_refused() {
    run(|reactor| async move {
        let (there, here) = sockets(&reactor).await;
        let hello = SendPart::Small(wire::encode(&Message::Welcome { version: 1 }));
        there.send_all(vec![hello]).await.unwrap();
        assert!(key(2).accept(&reactor, here).await.is_err());
    });
}

#[test]
fn a_key_follows_from_its_secret() {
    assert_eq!(key(1).fingerprint(), key(1).fingerprint());
    assert_ne!(key(1).fingerprint(), key(2).fingerprint());
}
