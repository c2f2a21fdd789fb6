//! The NBD service of one thread: what its connections share.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use varve_access_block::{Exports, OpenBarrier};
use varve_reactor::{Notify, Reactor};
use varve_types::ErrorKind;

use crate::agree::{AgreedTerms, KnownExport};
use crate::budget::Budget;
use crate::carried::{RelayLife, RelayProgress};
use crate::client::{ClientState, NbdClient};
use crate::connection::{ClosedConnection, look, serve_agreed, serve_connection};
use crate::handshake::{OpenRequest, TlsMode};
use crate::limits::THREAD_BYTES_DEFAULT;
use crate::shutdown::Shutdown;
use crate::tls::TlsConfig;
use crate::transport::Transport;

/// Settings of a service.
#[derive(Clone, Debug)]
pub struct ServiceOptions {
    /// Whether connections use TLS. Without [`Self::tls`] they do not.
    pub tls_mode: TlsMode,
    /// Certificates.
    pub tls: Option<TlsConfig>,
    /// Bytes of payload that the requests of all connections of this thread may hold; at least the largest request.
    pub request_bytes_max: usize,
    /// What openings for writing pass; nothing where no other node carries connections.
    pub gate: Option<Arc<dyn OpenBarrier>>,
}

impl Default for ServiceOptions {
    fn default() -> Self {
        Self {
            tls_mode: TlsMode::Off,
            tls: None,
            request_bytes_max: THREAD_BYTES_DEFAULT,
            gate: None,
        }
    }
}

/// Serves connections on this thread. Cheap to clone.
pub struct Service<X>(Rc<ServiceInner<X>>);

struct ServiceInner<X> {
    reactor: Reactor,
    exports: X,
    options: ServiceOptions,
    budget: Rc<Budget>,
    shutdown: Shutdown,
    clients: RefCell<BTreeMap<u64, Rc<ClientState>>>,
    /// A connection was closed.
    closed: Notify,
}

impl<X> Clone for Service<X> {
    fn clone(&self) -> Self {
        Self(Rc::clone(&self.0))
    }
}

impl<X: Exports> Service<X> {
    /// Serves `exports` with the loop of this thread.
    pub fn new(reactor: Reactor, exports: X, options: ServiceOptions) -> Self {
        let budget = Budget::new(options.request_bytes_max);
        Self(Rc::new(ServiceInner {
            reactor,
            exports,
            options,
            budget,
            shutdown: Shutdown::new(),
            clients: RefCell::default(),
            closed: Notify::new(),
        }))
    }

    /// Serves one connection to its end; the stream is closed on return.
    pub async fn serve<T: Transport>(&self, transport: T) -> ClosedConnection {
        self.serve_carried(transport, None).await
    }

    /// The same for one that another node may carry.
    pub async fn serve_carried<T: Transport>(
        &self,
        transport: T,
        carried: Option<Arc<RelayProgress>>,
    ) -> ClosedConnection {
        let entry = ClientEntry::new(self, &transport);
        let _life = RelayLife(carried.clone());
        let closed = serve_connection(self, &entry.client, transport, carried).await;
        tracing::debug!(cause = %closed.cause, usage = %closed.usage, "connection closed");
        closed
    }

    /// Serves a connection whose client has been agreed with elsewhere, and which another node may carry. The client is
    /// told that its export is open once that is so.
    ///
    /// # Panics
    /// When another node carries it, and this one is the end of TLS.
    pub async fn serve_agreed<T: Transport>(
        &self,
        transport: T,
        agreed: AgreedTerms,
        carried: Option<Arc<RelayProgress>>,
    ) -> ClosedConnection {
        self.serve_alive(transport, agreed, RelayLife(carried)).await
    }

    pub(crate) async fn serve_alive<T: Transport>(
        &self,
        transport: T,
        agreed: AgreedTerms,
        life: RelayLife,
    ) -> ClosedConnection {
        let entry = ClientEntry::new(self, &transport);
        let closed = serve_agreed(self, &entry.client, transport, agreed, life.0.clone()).await;
        tracing::debug!(cause = %closed.cause, usage = %closed.usage, "connection closed");
        closed
    }

    /// Names of all exports.
    ///
    /// # Errors
    /// Those of the exports.
    pub async fn list(&self) -> Result<Vec<String>, ErrorKind> {
        self.0.exports.list().await
    }

    /// What there is by a name. It is not open on return.
    ///
    /// # Errors
    /// `NotFound` when there is none.
    pub async fn look(&self, request: &OpenRequest) -> Result<KnownExport, ErrorKind> {
        look(&self.0.exports, request).await
    }

    /// Connections open now.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.0.clients.borrow().len()
    }

    /// Who is connected now, in the order in which they came.
    #[must_use]
    pub fn clients(&self) -> Vec<NbdClient> {
        let now_ns = self.0.reactor.now().0;
        self.0.clients.borrow().values().map(|client| client.describe(now_ns)).collect()
    }

    /// Has the clients of these numbers leave, as far as they are this thread's: what is under way is answered, nothing
    /// more is read, and the connection is closed. They may come back.
    pub fn disconnect(&self, ids: &[u64]) {
        let clients = self.0.clients.borrow();
        ids.iter().filter_map(|id| clients.get(id)).for_each(|client| client.leave());
    }

    /// Completes when no connection is open.
    pub async fn drained(&self) {
        while self.connections() > 0 {
            self.0.closed.notified().await;
        }
    }

    /// Ends all connections: outstanding requests are answered, and no more are read.
    #[must_use]
    pub fn shutdown(&self) -> &Shutdown {
        &self.0.shutdown
    }

    pub(crate) fn reactor(&self) -> &Reactor {
        &self.0.reactor
    }

    pub(crate) fn exports(&self) -> &X {
        &self.0.exports
    }

    pub(crate) fn tls(&self) -> Option<&TlsConfig> {
        self.0.options.tls.as_ref()
    }

    pub(crate) fn tls_mode(&self) -> TlsMode {
        self.0.options.tls_mode
    }

    pub(crate) fn gate(&self) -> Option<&Arc<dyn OpenBarrier>> {
        self.0.options.gate.as_ref()
    }

    pub(crate) fn budget(&self) -> &Rc<Budget> {
        &self.0.budget
    }
}

/// A connection in the table of clients, while it lives.
struct ClientEntry<'a, X> {
    service: &'a ServiceInner<X>,
    client: Rc<ClientState>,
}

impl<'a, X> ClientEntry<'a, X> {
    fn new(service: &'a Service<X>, transport: &impl Transport) -> Self {
        let service = &*service.0;
        let client = ClientState::new(transport.peer(), service.reactor.now().0);
        service.clients.borrow_mut().insert(client.id(), Rc::clone(&client));
        Self { service, client }
    }
}

impl<X> Drop for ClientEntry<'_, X> {
    fn drop(&mut self) {
        self.service.clients.borrow_mut().remove(&self.client.id());
        self.service.closed.notify_all();
    }
}
