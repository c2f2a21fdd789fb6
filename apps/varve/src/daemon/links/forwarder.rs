//! A node that does not serve the pool takes clients all the same, and carries each to the node that does.
//!
//! F1. Nothing is read of a client before its link is there: so one that was not accepted may be tried anew, at whoever serves next.
//! F2. A client that no node takes within [`HOLD_MAX`] is let go of; one whose node serves no more, at once (K1).

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_rustls::client::TlsStream;
use varve_membership::NodeId;
use varve_membership::link::{Answer, FrontEnd, Hello};

use super::carry::carry;
use super::door::{Door, Lobby};
use super::link::connect;
use super::sockets::{ClientListener, ClientStream, FrontSockets};
use crate::failure::{self, Failure};

/// Clients of one socket at a time; others wait in its listen queue. So those of one front-end leave room to the others.
const fn clients_max(front_end: FrontEnd) -> usize {
    match front_end {
        FrontEnd::Nbd => 256,
        FrontEnd::S3 => 640,
        FrontEnd::Admin => 64,
    }
}

/// How long a client waits for a node that serves: longer than it takes another one to take the pool over.
const HOLD_MAX: Duration = Duration::from_secs(20);

/// Between two attempts.
const RETRY_PAUSE: Duration = Duration::from_millis(100);

/// Pause after an accept that failed.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// What a client of the admin API is told that no node takes.
const NOBODY_SERVES: &str = "{\"kind\":\"unavailable\",\"message\":\"no node serves the pool now\",\"hint\":\"try again; the log of the nodes says what they wait for\"}";

/// See the module.
pub(crate) struct Forwarder {
    sockets: FrontSockets,
    stop: watch::Sender<bool>,
    accepting: JoinSet<()>,
    lobby: Arc<Lobby>,
}

impl Forwarder {
    /// Takes clients from these sockets from now on.
    pub(crate) fn start(door: &Door, sockets: FrontSockets) -> failure::Result<Self> {
        let lobby = Arc::clone(door.lobby());
        let (stop, stopped) = watch::channel(false);
        let mut accepting = JoinSet::new();
        let numbers = Arc::new(AtomicU64::new(1));
        let entered = lobby.threads.enter();
        let listeners = sockets.listeners();
        let listeners =
            listeners.map_err(|error| Failure::new(format!("accept clients: {error}")))?;
        drop(entered);
        for (front_end, listener) in listeners {
            let carrier = Carrier {
                lobby: Arc::clone(&lobby),
                front_end,
                places: Arc::new(Semaphore::new(clients_max(front_end))),
                numbers: Arc::clone(&numbers),
            };
            let task = accept(Arc::new(carrier), listener, stopped.clone());
            accepting.spawn_on(task, &lobby.threads);
        }
        Ok(Self { sockets, stop, accepting, lobby })
    }

    /// Takes no more clients: this node serves them from now on. Those that wait go on waiting, for this node too. Blocks.
    pub(crate) fn stop(self) -> FrontSockets {
        let Self { sockets, stop, mut accepting, lobby } = self;
        let _ = stop.send(true);
        lobby.threads.block_on(async { while accepting.join_next().await.is_some() {} });
        sockets
    }
}

/// What the clients of a listener share.
struct Carrier {
    lobby: Arc<Lobby>,
    front_end: FrontEnd,
    places: Arc<Semaphore>,
    numbers: Arc<AtomicU64>,
}

async fn accept(carrier: Arc<Carrier>, listener: ClientListener, mut stop: watch::Receiver<bool>) {
    loop {
        let accepted = tokio::select! {
            biased;
            _ = stop.wait_for(|stop| *stop) => return,
            accepted = async {
                let place = Arc::clone(&carrier.places).acquire_owned().await;
                (listener.accept().await, place.expect("the semaphore is never closed"))
            } => accepted,
        };
        match accepted {
            (Ok(client), place) => {
                let carrier = Arc::clone(&carrier);
                tokio::spawn(async move {
                    carrier.serve(client).await;
                    drop(place);
                });
            }
            (Err(error), _) => {
                tracing::warn!(%error, "accept failed");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Why a client has no link.
enum NoLink {
    /// Nobody serves the pool, or who does is not ready.
    NotYet(String),
    /// It is of no use to try again.
    Never(Answer),
}

impl Carrier {
    async fn serve(&self, client: ClientStream) {
        let deadline = Instant::now() + HOLD_MAX;
        loop {
            match self.link(&client).await {
                Ok((to, link)) => {
                    let mut views = self.lobby.views.clone();
                    let ended = tokio::select! {
                        ended = carry(&client, link) => ended,
                        _ = views.wait_for(|view| view.owner != Some(to)) => {
                            Err(io::Error::other("another node is to serve the pool"))
                        }
                    };
                    if let Err(error) = ended {
                        tracing::debug!(%error, "a carried connection broke");
                    }
                    return;
                }
                Err(NoLink::Never(answer)) => {
                    tracing::warn!(front_end = ?self.front_end, "a client is not carried: the node that serves the pool says that {answer}");
                    return;
                }
                Err(NoLink::NotYet(why)) if Instant::now() >= deadline => {
                    tracing::warn!(why, "a client was let go of: no node takes it"); // F2
                    if self.front_end == FrontEnd::Admin {
                        let len = NOBODY_SERVES.len();
                        let head = format!(
                            "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\ncontent-length: {len}\r\nconnection: close\r\n\r\n"
                        );
                        // It may have gone.
                        let _ = client.write_all((head + NOBODY_SERVES).as_bytes()).await;
                    }
                    return;
                }
                Err(NoLink::NotYet(_)) => tokio::time::sleep(RETRY_PAUSE).await,
            }
        }
    }

    /// A link to the node that serves now (F1).
    async fn link(&self, client: &ClientStream) -> Result<(NodeId, TlsStream<TcpStream>), NoLink> {
        let not_yet = |why: &str| NoLink::NotYet(why.to_owned());
        let view = self.lobby.views.borrow().clone();
        let from = view.me.ok_or_else(|| not_yet("this node has not joined the others yet"))?;
        let owner = view.owner.and_then(|owner| view.node(owner));
        let owner = owner.ok_or_else(|| not_yet("nobody is to serve the pool"))?;
        let reach = owner.reach.ok_or_else(|| not_yet("a node of an earlier version serves it"))?;
        let hello = Hello {
            front_end: self.front_end,
            pool: self.lobby.pool,
            from,
            to: owner.id,
            table_version: view.version,
            connection: self.numbers.fetch_add(1, Ordering::Relaxed),
            client: client.address(),
        };
        let mut views = self.lobby.views.clone();
        let connected = tokio::select! {
            connected = connect(&self.lobby.key, reach, &hello) => connected,
            _ = views.wait_for(|view| view.owner != Some(hello.to)) => {
                return Err(not_yet("another node is to serve the pool"));
            }
        };
        match connected {
            Ok((Answer::Accepted, link)) => Ok((owner.id, link)),
            Ok((
                answer @ (Answer::OtherVersion { .. }
                | Answer::OtherPool
                | Answer::NoFrontEnd
                | Answer::TooMany),
                _,
            )) => Err(NoLink::Never(answer)),
            Ok((answer, _)) => Err(NoLink::NotYet(answer.to_string())),
            Err(error) => Err(NoLink::NotYet(format!("connect to {}: {error}", reach.address))),
        }
    }
}
