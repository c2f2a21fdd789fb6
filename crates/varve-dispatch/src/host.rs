//! Keeps one shard open: opens it, and after a failure opens it again through recovery, with back-off.
//!
//! ```text
//!  opening ──▶ serving ──failure──▶ its writes end ──▶ opening …
//!                                                       lost: another process has the shard
//!  close() ends it from anywhere, give_back() follows
//! ```
//!
//! HOST-1. A shard is opened again only after every write of its former self has ended.
//! HOST-2. Requests wait for a shard that reopens, until it has been closed for as long as block clients bear; they are
//!     not failed by a passing outage. From then on, and for a shard that is damaged, they fail at once: neither passes
//!     soon. For media that do not answer they wait as long as it takes, as those do that are under way.
//! HOST-3. No request begins before it is sure that no other process had the shard when the request came. One that
//!     began before may answer what was true then.
//! HOST-4. A shard is given back only when nothing of it is under way: it closed in good order, or its last opening
//!     failed and no other had begun.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use futures_util::future::{Either, select};
use varve_engine::{Shard, ShardConfig, ShardParts};
use varve_media::Media;
use varve_reactor::{Nanos, Notify, Reactor};
use varve_types::{ErrorKind, ShardId};

use crate::peers::ThreadPeers;
use crate::zones::{PoolRoot, Zones};
use crate::{Dispatch, Error, Result};

/// First pause before a shard is opened again, in ns; it doubles up to the last.
const REOPEN_PAUSE_NS_FIRST: u64 = 10_000_000;
const REOPEN_PAUSE_NS_LAST: u64 = 5_000_000_000;

/// Pause before a damaged shard is looked at again, in ns: an opening reads its journal, and damage seldom passes.
const DAMAGED_PAUSE_NS: u64 = 60_000_000_000;

/// How long requests wait for a shard after it closed, in ns: less than what block clients bear.
const WAIT_NS_MAX: u64 = 20_000_000_000;

/// What a host opens its shard with.
#[derive(Clone)]
pub struct HostConfig {
    /// The loop of its thread.
    pub reactor: Reactor,
    /// Its media.
    pub media: Media,
    /// Identity and memory.
    pub shard: ShardConfig,
    /// Where it gets zones.
    pub root: PoolRoot,
}

enum State {
    /// Why it does not serve, and what the last opening failed with, if one did.
    Opening(String, Option<Error>),
    Serving(Rc<Shard>),
    /// Another process has it.
    Lost,
    Closed,
}

/// One shard of this thread, kept open.
pub struct ShardHost {
    config: HostConfig,
    zones: Rc<Zones>,
    peers: Rc<ThreadPeers>,
    state: RefCell<State>,
    /// Since when it does not serve, while it does not.
    closed_at: Cell<Option<Nanos>>,
    is_opening: Cell<bool>,
    /// It has served since the start.
    has_served: Cell<bool>,
    /// It closed with nothing under way (HOST-4).
    is_at_rest: Cell<bool>,
    changed: Notify,
}

impl ShardHost {
    /// Opens the shard and keeps it open from then on. It reaches other shards as the `dispatch` of its thread does. A
    /// shard of several that is damaged, or cannot be read, does not keep the others from serving: [`Self::failure`]
    /// tells of it.
    ///
    /// # Errors
    /// When it does not open the first time.
    pub async fn open(config: HostConfig, dispatch: &Dispatch) -> Result<Rc<Self>> {
        let (reactor, root, shard) =
            (config.reactor.clone(), config.root.clone(), config.shard.shard);
        let zones = Rc::new(Zones::new(reactor, root, shard));
        let state = RefCell::new(State::Opening("it opens for the first time".to_owned(), None));
        let peers = Rc::new(ThreadPeers::new(&config, dispatch));
        let closed_at = Cell::new(Some(config.reactor.now()));
        let host = Rc::new(Self {
            config,
            zones,
            peers,
            state,
            closed_at,
            is_opening: Cell::new(false),
            has_served: Cell::new(false),
            is_at_rest: Cell::new(false),
            changed: Notify::new(),
        });
        match host.open_once(host.config.shard.clone()).await {
            Ok(shard) => host.set(State::Serving(shard)),
            // A journal may be brought back: a start without it is the operator's to decide.
            Err(error)
                if (error.kind() == ErrorKind::Corrupt || error.is_read_failure())
                    && (!error.is_lane_lost() || host.config.shard.is_read_only)
                    && dispatch.placement().shards().count() > 1 =>
            {
                host.refuse(error);
            }
            Err(error) => return Err(error),
        }
        let keeper = Rc::clone(&host);
        host.config.reactor.spawn(async move { keeper.keep_open().await });
        let loser = Rc::clone(&host);
        host.config.reactor.spawn(async move {
            loser.config.media.fence.lost().await;
            loser.lose(); // Unless it was closed, and given back.
        });
        Ok(host)
    }

    async fn open_once(&self, config: ShardConfig) -> Result<Rc<Shard>> {
        self.is_opening.set(true);
        let opened = self.try_open(config).await;
        self.is_opening.set(false);
        opened
    }

    async fn try_open(&self, config: ShardConfig) -> Result<Rc<Shard>> {
        let failed = |error| Error::Shard { shard: self.id(), error };
        let parts = ShardParts {
            reactor: self.config.reactor.clone(),
            media: self.config.media.clone(),
            config,
            owned: self.zones.owned().await.map_err(failed)?,
            zones: self.zones.clone(),
            peers: Some(self.peers.clone()),
        };
        Shard::open(parts).await.map_err(failed)
    }

    fn set(&self, state: State) {
        let closed_at = match state {
            State::Serving(_) => {
                self.has_served.set(true);
                None
            }
            State::Opening(..) | State::Lost | State::Closed => {
                Some(self.closed_at.get().unwrap_or_else(|| self.config.reactor.now()))
            }
        };
        self.closed_at.set(closed_at);
        *self.state.borrow_mut() = state;
        self.changed.notify_all();
    }

    fn id(&self) -> ShardId {
        self.config.shard.shard
    }

    async fn keep_open(&self) {
        loop {
            if let Some(serving) = self.now() {
                serving.stopped().await;
                if !serving.has_failed() || self.has_ended() {
                    return;
                }
                self.set(State::Opening("its last writes have to end".to_owned(), None));
                serving.quiesced().await; // HOST-1
            } else {
                self.config.reactor.sleep(self.pause_ns(REOPEN_PAUSE_NS_FIRST)).await;
            }
            let Some(shard) = self.reopen().await else { return };
            if self.has_ended() {
                // Closed while it recovered: what it did is in its checkpoint.
                return;
            }
            self.set(State::Serving(shard));
        }
    }

    fn has_ended(&self) -> bool {
        matches!(*self.state.borrow(), State::Lost | State::Closed)
    }

    fn lose(&self) {
        if !self.has_ended() {
            tracing::error!(shard = self.id().0, "another process has taken the shard over");
            self.set(State::Lost);
        }
    }

    /// Returns once another process has the shard: it does not come back.
    pub async fn lost(&self) {
        loop {
            let changed = self.changed.notified();
            if matches!(*self.state.borrow(), State::Lost) {
                return;
            }
            changed.await;
        }
    }

    async fn reopen(&self) -> Option<Rc<Shard>> {
        let mut pause_ns = REOPEN_PAUSE_NS_FIRST;
        loop {
            if self.config.media.fence.check().is_err() {
                self.lose();
            }
            if self.has_ended() {
                return None;
            }
            let mut config = self.config.shard.clone();
            config.accept_lost_journal &= !self.has_served.get(); // What is lost later is another loss.
            match self.open_once(config).await {
                Ok(shard) => {
                    tracing::warn!(shard = self.id().0, "shard open again");
                    return Some(shard);
                }
                Err(error) => {
                    self.refuse(error);
                }
            }
            self.config.reactor.sleep(self.pause_ns(pause_ns)).await;
            pause_ns = (pause_ns * 2).min(REOPEN_PAUSE_NS_LAST);
        }
    }

    /// How long to wait before the shard is opened again: this long, unless it stays closed.
    fn pause_ns(&self, otherwise_ns: u64) -> u64 {
        if self.stays_closed() { DAMAGED_PAUSE_NS } else { otherwise_ns }
    }

    /// Says why the shard does not open.
    fn refuse(&self, error: Error) {
        tracing::error!(shard = self.id().0, %error, "shard does not open");
        if !self.has_ended() {
            self.set(State::Opening(error.to_string(), Some(error)));
        }
    }

    /// What the last opening failed with, while the shard does not serve for that.
    #[must_use]
    pub fn failure(&self) -> Option<Error> {
        match &*self.state.borrow() {
            State::Opening(_, failure) => failure.clone(),
            State::Serving(_) | State::Lost | State::Closed => None,
        }
    }

    /// What is damaged, if the shard does not open for that.
    #[must_use]
    pub fn damage(&self) -> Option<Error> {
        self.failure().filter(|error| error.kind() == ErrorKind::Corrupt)
    }

    /// Whether no other opening helps soon: it is damaged, or drives are missing of a pool that is only read.
    fn stays_closed(&self) -> bool {
        self.damage().is_some() || (self.config.shard.is_read_only && self.failure().is_some())
    }

    /// Whether requests fail at once: it is damaged, or has been closed for longer than they wait (HOST-2).
    #[must_use]
    pub fn is_out(&self) -> bool {
        self.stays_closed() || (self.now().is_none() && self.patience_ns() == 0)
    }

    /// The shard, if it serves now.
    #[must_use]
    pub fn now(&self) -> Option<Rc<Shard>> {
        match &*self.state.borrow() {
            State::Serving(shard) => Some(Rc::clone(shard)),
            State::Opening(..) | State::Lost | State::Closed => None,
        }
    }

    /// The shard, once it serves (HOST-2, HOST-3).
    ///
    /// # Errors
    /// [`Error::ShardClosed`] when it does not open for long or another process has it, [`Error::ShuttingDown`]; what
    /// media fail with.
    pub async fn shard(&self) -> Result<Rc<Shard>> {
        match self.confirmed() {
            Some(shard) => Ok(shard),
            None => self.wait_until_confirmed().await,
        }
    }

    /// The shard, if it serves and nobody else can have written (HOST-3).
    fn confirmed(&self) -> Option<Rc<Shard>> {
        self.now().filter(|_| self.config.media.fence.is_confirmed())
    }

    async fn wait_until_confirmed(&self) -> Result<Rc<Shard>> {
        let mut patience = None;
        loop {
            let changed = self.changed.notified();
            if let Some(shard) = self.confirmed() {
                return Ok(shard);
            }
            match *self.state.borrow() {
                State::Closed => return Err(Error::ShuttingDown),
                State::Lost => return Err(self.closed()),
                State::Opening(..) if self.stays_closed() => return Err(self.closed()),
                State::Opening(..) | State::Serving(_) => {}
            }
            if self.now().is_some() {
                patience = None;
                let asked = self.config.media.fence.confirm();
                if let Either::Left((asked, _)) = select(asked, Box::pin(changed)).await {
                    asked.map_err(|error| self.unconfirmed(error))?;
                }
                continue;
            }
            let patience =
                patience.get_or_insert_with(|| self.config.reactor.sleep(self.patience_ns()));
            if let Either::Right(_) = select(Box::pin(changed), patience).await {
                return Err(self.closed());
            }
        }
    }

    /// How long requests wait from now on (HOST-2).
    fn patience_ns(&self) -> u64 {
        let now = self.config.reactor.now();
        let closed_ns = self.closed_at.get().map_or(0, |since| now - since);
        WAIT_NS_MAX.saturating_sub(closed_ns)
    }

    fn closed(&self) -> Error {
        let is_damaged = self.damage().is_some();
        Error::ShardClosed { shard: self.id(), reason: self.reason(), is_damaged }
    }

    fn unconfirmed(&self, error: varve_media::Error) -> Error {
        if error.kind() == ErrorKind::Fenced {
            self.lose();
            return self.closed();
        }
        Error::Shard { shard: self.id(), error: error.into() }
    }

    fn reason(&self) -> String {
        match &*self.state.borrow() {
            State::Opening(reason, _) => reason.clone(),
            State::Serving(_) => {
                "its media do not say whether another process has it: requests wait".to_owned()
            }
            State::Lost => "another process has taken it over".to_owned(),
            State::Closed => "it was closed".to_owned(),
        }
    }

    /// Why the shard does not serve, when it does not.
    #[must_use]
    pub fn trouble(&self) -> Option<String> {
        match &*self.state.borrow() {
            State::Serving(_) if self.config.media.fence.is_confirmed() => None,
            _ => Some(self.reason()),
        }
    }

    /// Drains the shard, makes a checkpoint and closes it for good. Durable on return.
    ///
    /// # Errors
    /// When media fail: the next open recovers.
    pub async fn close(&self) -> Result<()> {
        let (shard, has_failed) = (self.now(), self.failure().is_some());
        self.set(State::Closed);
        match shard {
            Some(shard) => {
                shard.close().await.map_err(|error| Error::Shard { shard: self.id(), error })?;
                self.is_at_rest.set(true);
            }
            None => self.is_at_rest.set(has_failed && !self.is_opening.get()),
        }
        Ok(())
    }

    /// Gives a closed shard back, if nothing of it is under way (HOST-4): who takes it next need not wait for this
    /// process. That of the first shard is the pool's root too, so all shards close before one is given back.
    ///
    /// # Errors
    /// When media fail: who takes it next waits.
    pub async fn give_back(&self) -> Result<()> {
        if !self.is_at_rest.get() {
            return Ok(());
        }
        let released = self.config.media.fence.release().await;
        released.map_err(|error| Error::Shard { shard: self.id(), error: error.into() })
    }
}
