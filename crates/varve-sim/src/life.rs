//! One life of the machine, from the opening of its pool to its end: what runs inside the simulated loop.

use std::pin::pin;
use std::rc::Rc;

use futures_util::future::select;
use hashbrown::HashSet;
use varve_engine::{
    AuditReport, Error, ForeignNames, MarkWish, OpenPool, PoolSpec, PoolZones, Result, Shard,
    ShardParts, ZoneLayout, ZoneState, plan_zone_moves,
};
use varve_media_redundancy::PoolSizer;
use varve_reactor::{JoinHandle, Reactor};
use varve_stdx::Rng;
use varve_types::{ErrorKind, ShardId};

use crate::config::Faults;
use crate::host::Host;
use crate::losses::bring_drive_faults;
use crate::moves::{RowOperator, move_rows};
use crate::objects::{audit_objects, sweeps_ended};
use crate::peers::{Network, SimPeers};
use crate::pool_media::PoolMedia;
use crate::redundant_world::RedundantWorld;
use crate::workload::SimClient;
use crate::world::World;

/// How a life is spent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum LifePlan {
    /// Open, work, perhaps close.
    Work,
    /// Open.
    Open,
    /// Open, compare everything, mark, audit, close, open again.
    Inspect,
    /// Open, compare, audit.
    Verify,
    /// Open, or be told why not; compare what can be read.
    Damaged,
    /// Open although lanes were lost, close, open again.
    AcceptLoss,
}

/// How often a shard that closed itself is opened again in one life.
const REOPENINGS_MAX: u32 = 4;

/// How often it is looked whether writes wait for a mark pass, in ns.
const MARK_LOOK_NANOS: u64 = 50_000_000;

/// Of how many parts of what is known a copy of the machine is compared in one.
const VERIFY_SAMPLE: u64 = 4;

/// Pause between two rounds of zones, in ns.
const ZONE_LOOK_NANOS: u64 = 20_000_000;

/// Shortest time in which a stuck medium does not answer, and how much longer it may be, in ns. Three times that is
/// less than what counts as a stall.
const STUCK_NANOS_MIN: u64 = 1_500_000_000;
const STUCK_NANOS_MORE: u64 = 8_000_000_000;

/// Longest time in which what others have on the host stays as it is, in ns.
const HOST_CHANGE_NANOS: u64 = 500_000_000;

/// What an emptied shard has room for, beside what its keys take, unless other shards have left it too few segments.
const EMPTY_WRITE_BYTES: u64 = 64 << 10;

/// The open pool.
struct Machine {
    world: Rc<World>,
    reactor: Reactor,
    media: PoolMedia,
    pool: Rc<OpenPool>,
    network: Rc<Network>,
    /// Has a pool on redundant drives grow and shrink.
    _sizer: Option<PoolSizer>,
}

/// Makes the pool, or goes on where that was cut off. Durable on return.
///
/// # Errors
/// The engine's.
pub(crate) async fn format(world: Rc<World>, reactor: Reactor) -> Result<()> {
    let media = |error| Error::Log(varve_logstore::Error::from(error));
    PoolMedia::make(&world, &reactor).await.map_err(media)?;
    let pool = PoolMedia::open(&world, &reactor).await.map_err(media)?;
    let shards = world.config.shards;
    let of = |shard| pool.media(ShardId(shard)).map_err(media);
    let all = (0..shards).map(of).collect::<Result<Vec<_>>>()?;
    if OpenPool::exists(&all[0]).await? {
        return Ok(());
    }
    let zones = world.config.redundancy.as_ref().map(|redundancy| ZoneLayout {
        zone_segments: redundancy.zone_segments,
        zones: redundancy.zones,
    });
    let spec = PoolSpec {
        pool: world.config.pool(),
        created_unix_ms: 0,
        shard_count: world.config.shards,
        zones,
    };
    OpenPool::format(&all, &spec).await
}

/// Lives once.
pub(crate) async fn live(world: Rc<World>, reactor: Reactor, plan: LifePlan) {
    let mut rng = world.split_rng();
    if let Some(host) = &world.host {
        host.clear();
        if plan == LifePlan::Work {
            reactor.spawn(fill_host(Rc::clone(&world), reactor.clone(), world.split_rng()));
        }
    }
    if world.on_redundant().is_some() && plan == LifePlan::Work {
        let faults = bring_drive_faults(Rc::clone(&world), reactor.clone(), world.split_rng());
        reactor.spawn(faults);
    }
    let outcome = open_machine(&world, &reactor).await;
    let machine = match outcome {
        Ok(machine) => machine,
        Err(error) => return judge_opening(&world, plan, &error),
    };
    let clients = match machine.open_all().await {
        Ok(clients) => clients,
        Err(error) => return judge_opening(&world, plan, &error),
    };
    machine.take_census();
    if world.config.promise_per_mille > 0
        && !matches!(plan, LifePlan::Damaged | LifePlan::AcceptLoss)
    {
        for client in &clients {
            client.release_strangers().await;
        }
    }
    // What drives have lost for good is known once they were opened.
    let is_damaged = matches!(plan, LifePlan::Inspect | LifePlan::Verify) && world.lost_too_many();
    let plan = if is_damaged { LifePlan::Damaged } else { plan };
    match plan {
        LifePlan::Work => machine.work(clients, &mut rng).await,
        LifePlan::Open => {}
        LifePlan::Verify => machine.verify(&clients, &mut rng).await,
        LifePlan::Inspect => machine.inspect(clients, &mut rng).await,
        LifePlan::Damaged => {
            for client in &clients {
                client.check_all(&mut rng, 1).await;
            }
        }
        LifePlan::AcceptLoss => {
            machine.close(&clients).await;
            drop(clients);
            world.accepts_loss.set(false);
            if let Err(error) = machine.open_all().await {
                world.violated(format!("opening after a loss was accepted: {error}"));
            }
        }
    }
}

fn judge_opening(world: &World, plan: LifePlan, error: &Error) {
    let excused = match plan {
        // What is lost of a lane is named as that: else nobody can accept the loss.
        LifePlan::Damaged if world.config.faults == Faults::Lanes => {
            matches!(error, Error::Log(error) if error.is_lane_lost())
        }
        // Whatever it was: nothing that is read may be wrong.
        LifePlan::Damaged if world.lost_too_many() => true,
        // A shard may find the damage, and close, between its own opening and that of its shelf.
        LifePlan::Damaged => matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::Unavailable),
        LifePlan::Work
        | LifePlan::Open
        | LifePlan::Verify
        | LifePlan::Inspect
        | LifePlan::AcceptLoss => {
            let may_lack_room = world.host.as_ref().is_some_and(Host::promises_nothing);
            world.faulty.get()
                || may_lack_room && error.kind() == ErrorKind::NoSpace
                // In the last life every drive is there, or the operator goes on.
                || plan == LifePlan::Work
                    && world.on_redundant().is_some_and(RedundantWorld::is_refused_rightly)
        }
    };
    world.record("opening failed", ShardId(0), &[u64::from(excused)]);
    world.refused_lane.set(matches!(error, Error::Log(error) if error.is_lane_lost()));
    if !excused {
        world.violated(format!("opening: {error}"));
    }
}

async fn open_machine(world: &Rc<World>, reactor: &Reactor) -> Result<Machine> {
    let media = |error| Error::Log(varve_logstore::Error::from(error));
    let drives = PoolMedia::open(world, reactor).await.map_err(media)?;
    let pool = OpenPool::open(&drives.media(ShardId(0)).map_err(media)?).await?;
    let network = Network::new(reactor, world);
    let sizer = drives.redundant().and_then(|redundant| redundant.start_sizer(&pool));
    Ok(Machine {
        world: Rc::clone(world),
        reactor: reactor.clone(),
        media: drives,
        pool,
        network,
        _sizer: sizer,
    })
}

impl Machine {
    async fn open_all(&self) -> Result<Vec<SimClient>> {
        let shards = (0..self.world.config.shards).map(|shard| self.open_shard(ShardId(shard)));
        let mut clients = Vec::new();
        for opening in futures_util::future::join_all(shards).await {
            clients.push(opening?);
        }
        Ok(clients)
    }

    async fn open_shard(&self, id: ShardId) -> Result<SimClient> {
        let media = self.media.media(id).map_err(varve_logstore::Error::from)?;
        let openings = self.world.openings.get() + 1;
        self.world.openings.set(openings);
        let mut config = self.world.config.shard(id);
        config.accept_lost_journal = self.world.accepts_loss.get();
        if openings.is_multiple_of(4) {
            config.deltas_bytes = 0; // Replay goes by what the shard was told before.
        }
        let shard = Shard::open(ShardParts {
            reactor: self.reactor.clone(),
            media,
            config,
            zones: Rc::new(PoolZones::new(Rc::clone(&self.pool), id)),
            owned: self.pool.zones_of(id).await?,
            peers: Some(Rc::new(SimPeers { network: Rc::clone(&self.network), shard: id })),
        })
        .await?;
        self.network.open(id, &shard);
        self.world.shards.borrow_mut().push(Rc::downgrade(&shard));
        self.world.record("open", id, &[]);
        self.world.answered(false);
        let (world, network) = (Rc::clone(&self.world), Rc::clone(&self.network));
        let mut client = SimClient { world, shard, id, network, shelf: None };
        if let Err(error) = client.open_shelf(&self.reactor).await {
            return Err(match error.kind() {
                ErrorKind::Corrupt => Error::BadRoot { shard: id, reason: error.to_string() },
                _ => Error::Failed { cause: error.to_string() },
            });
        }
        Ok(client)
    }

    fn operator(&self) -> Option<RowOperator> {
        self.media.redundant().and_then(|redundant| redundant.operator(&self.pool))
    }

    async fn work(&self, mut clients: Vec<SimClient>, rng: &mut Rng) {
        if let Some(operator) = self.operator() {
            let world = Rc::clone(&self.world);
            self.reactor.spawn(move_rows(world, operator, rng.split()));
        }
        let sample = [2, 16, 64, 256][rng.index(4)];
        for client in &clients {
            client.check_all(rng, sample).await;
        }
        let requests = 1 + rng.below(400);
        for reopened in 0..=REOPENINGS_MAX {
            let mut tasks = self.spawn_work(&clients, rng, requests);
            if reopened == 0 {
                tasks.push(self.reactor.spawn_join(bring_faults(
                    Rc::clone(&self.world),
                    self.reactor.clone(),
                    rng.split(),
                )));
            }
            if rng.chance(1, 2) {
                self.mark_meanwhile(&clients, rng).await;
            }
            let work = pin!(futures_util::future::join_all(tasks));
            let keepers =
                futures_util::future::join(self.keep_marking(&clients), self.keep_zones(&clients));
            select(work, pin!(keepers)).await;
            if !self.reopen_failed(&mut clients).await {
                break;
            }
        }
        if self.world.is_violated() {
            return;
        }
        self.world.heal();
        if self.world.lost_too_many() {
            return; // What is lost is missing in accounts too.
        }
        audit_all(&clients, false).await;
        self.take_census();
        if rng.chance(1, 4) {
            self.close(&clients).await;
        }
    }

    /// Starts the workers of all shards: random requests or, in a world of floods, one shard that fills up while the
    /// others lose data.
    fn spawn_work(
        &self,
        clients: &[SimClient],
        rng: &mut Rng,
        requests: u64,
    ) -> Vec<JoinHandle<()>> {
        let flooded = self.world.config.has_floods.then(|| rng.index(clients.len()));
        let mut tasks = Vec::new();
        for (index, client) in clients.iter().enumerate() {
            for worker in 0..self.world.config.workers {
                let (client, rng) = (client.clone(), rng.split());
                tasks.push(match flooded {
                    Some(flooded) if flooded == index => self.reactor.spawn_join(client.flood(rng)),
                    Some(_) if worker == 0 => {
                        self.reactor.spawn_join(client.ebb(self.reactor.clone(), rng))
                    }
                    _ => self.reactor.spawn_join(client.work(rng, requests)),
                });
            }
        }
        tasks
    }

    /// Opens shards again that closed themselves; returns whether there were any.
    async fn reopen_failed(&self, clients: &mut [SimClient]) -> bool {
        let mut any = false;
        let faulty = self.world.faulty.get();
        for client in clients {
            if !client.shard.has_failed() {
                continue;
            }
            any = true;
            if !faulty {
                self.world.violated(format!("shard {} closed itself without a fault", client.id));
                return false;
            }
            client.shard.quiesced().await;
            self.end_mover(client).await;
            self.world.heal();
            match self.open_shard(client.id).await {
                Ok(again) => *client = again,
                Err(_) if self.world.lost_too_many() => return false,
                Err(error) => {
                    self.world.violated(format!("reopening shard {}: {error}", client.id));
                    return false;
                }
            }
        }
        any
    }

    /// Counts strips on raw media, where drives are redundant and nothing changes just now (STRIP-CENSUS-1 to
    /// STRIP-CENSUS-3).
    fn take_census(&self) {
        let (Some(pool), Some(redundant)) = (self.media.redundant(), self.world.on_redundant())
        else {
            return;
        };
        if self.world.lost_too_many() || self.world.is_violated() {
            return;
        }
        let Some(census) = pool.census() else { return };
        redundant.count(census.segments.len());
        let is_complete = !redundant.is_rotten();
        let fault = census.fault(is_complete);
        let contradiction = census.contradiction().filter(|_| is_complete);
        if let Some(fault) = fault.or(contradiction) {
            self.world.violated(format!("census: {fault}"));
        }
    }

    /// Runs a mark pass whenever a write waits for one. Has no end.
    async fn keep_marking(&self, clients: &[SimClient]) {
        loop {
            self.reactor.sleep(MARK_LOOK_NANOS).await;
            if clients.iter().any(|client| client.shard.mark_wish() == MarkWish::Urgent) {
                self.mark(clients).await;
            }
        }
    }

    /// Moves zones between shards, as the dispatcher does. Has no end.
    async fn keep_zones(&self, clients: &[SimClient]) {
        loop {
            self.move_zones(clients).await;
            self.reactor.sleep(ZONE_LOOK_NANOS).await;
        }
    }

    /// One round in which shards give each other zones.
    async fn move_zones(&self, clients: &[SimClient]) {
        let begin = |client: &SimClient| match client.shard.has_failed() {
            true => ZoneState::default(),
            false => client.shard.begin_zone_round(),
        };
        let states: Vec<ZoneState> = clients.iter().map(begin).collect();
        let plan = plan_zone_moves(&states, self.pool.zone_counts().excess_zones());
        for ((client, gives), state) in clients.iter().zip(plan).zip(&states) {
            let zones = gives.max(state.idle_zones);
            if zones == 0 {
                continue;
            }
            self.cut_soon();
            if self.world.config.has_floods {
                client.lose(&mut self.world.split_rng()).await;
            }
            match client.shard.give_zones(zones).await {
                Ok(given) => {
                    self.world.record("zones given", client.id, &[given]);
                    self.world.zones_given.set(self.world.zones_given.get() + given);
                    if given > 0 {
                        self.cut_soon();
                    }
                }
                Err(error) => client.settle(Err(error), "return of zones"),
            }
        }
        let may_mark = states.iter().any(|state| state.may_mark);
        clients.iter().for_each(|client| client.shard.end_zone_round(may_mark));
    }

    /// Now and then has power cut while a zone moves, or when it is its next owner's.
    fn cut_soon(&self) {
        if !self.world.config.has_floods {
            return;
        }
        let mut rng = self.world.split_rng();
        if rng.chance(1, 4) {
            let magnitude = 3 + rng.below(9);
            self.world.cut_after.set(Some(rng.below(1 << magnitude)));
        }
    }

    /// Mark passes while requests are under way.
    async fn mark_meanwhile(&self, clients: &[SimClient], rng: &mut Rng) {
        let pause_nanos = self.world.config.mark_pause_nanos;
        for _ in 0..self.world.config.mark_passes {
            if pause_nanos > 0 {
                self.reactor.sleep(rng.below(pause_nanos)).await;
            }
            self.mark(clients).await;
        }
    }

    /// A mark pass over all shards.
    async fn mark(&self, clients: &[SimClient]) -> bool {
        let mut tickets = Vec::new();
        for client in clients {
            match client.shard.mark_begin().await {
                Ok(ticket) => tickets.push(ticket),
                Err(error) => {
                    client.settle(Err(error), "begin of a mark pass");
                    return false;
                }
            }
        }
        let mut named = ForeignNames::default();
        for (client, ticket) in clients.iter().zip(&tickets) {
            let mut owned: HashSet<_> = client.model().copies.borrow().iter().copied().collect();
            owned.extend(client.model().streams.borrow().iter().map(|stream| stream.id));
            owned.extend(client.model().bucket.get());
            match client.shard.mark_walk(*ticket, &owned).await {
                Ok((_, names)) => named.merge(&names),
                Err(error) => {
                    client.settle(Err(error), "walk of a mark pass");
                    return false;
                }
            }
        }
        for (client, ticket) in clients.iter().zip(&tickets) {
            if let Err(error) = client.shard.mark_sweep(*ticket, &named).await {
                client.settle(Err(error), "sweep of a mark pass");
                return false;
            }
        }
        for client in clients {
            self.world.record("marked", client.id, &[]);
            self.world.answered(true);
        }
        true
    }

    /// What a shard had may be another thread's once nothing is moved for it any more.
    async fn end_mover(&self, client: &SimClient) {
        if let Some(pool) = self.media.redundant() {
            pool.end_mover(client.id).await;
        }
    }

    async fn close(&self, clients: &[SimClient]) {
        self.world.stopping.set(true);
        for client in clients {
            client.settle(client.shard.close().await, "close");
            self.end_mover(client).await;
            self.world.record("close", client.id, &[]);
        }
        self.world.stopping.set(false);
    }

    /// A part of what was acknowledged is there, and all that may be one thing or another is one of them.
    async fn verify(&self, clients: &[SimClient], rng: &mut Rng) {
        for client in clients {
            client.check_all(rng, VERIFY_SAMPLE).await;
        }
        if !self.world.is_violated() {
            audit_all(clients, false).await;
        }
    }

    /// Everything that was acknowledged is there, and nothing that nobody names.
    async fn inspect(&self, clients: Vec<SimClient>, rng: &mut Rng) {
        for client in &clients {
            client.check_all(rng, 1).await;
        }
        if self.world.is_violated() {
            return;
        }
        sweeps_ended(&clients, &self.reactor).await;
        for client in &clients {
            client.settle(client.shard.checkpoint().await, "checkpoint");
        }
        self.mark(&clients).await;
        for client in &clients {
            client.settle(client.shard.checkpoint().await, "checkpoint");
        }
        audit_all(&clients, true).await;
        self.take_census();
        for client in &clients {
            client.check_promises().await;
        }
        self.close(&clients).await;
        if self.world.is_violated() {
            return;
        }
        drop(clients);
        let clients = match self.open_all().await {
            Ok(clients) => clients,
            Err(error) => return self.world.violated(format!("opening after a close: {error}")),
        };
        for client in &clients {
            client.check_all(rng, 1).await;
        }
        audit_all(&clients, true).await;
        if self.world.config.promise_per_mille > 0 {
            self.keep_promises(&clients, rng).await;
            if self.world.is_violated() {
                return;
            }
        }
        self.empty(&clients, rng).await;
    }

    /// What is promised is there although all else is taken, by others and by copies.
    async fn keep_promises(&self, clients: &[SimClient], rng: &mut Rng) {
        for client in clients {
            client.keep_promised().await;
        }
        self.collect(clients).await;
        for client in clients {
            client.fill_promised(rng).await;
        }
        self.collect(clients).await;
        for client in clients {
            client.keep_promises().await;
            client.check_all(rng, 1).await;
        }
    }

    /// Waits until what was dropped is free.
    async fn collect(&self, clients: &[SimClient]) {
        sweeps_ended(clients, &self.reactor).await;
        self.mark(clients).await;
        for client in clients {
            client.settle(client.shard.checkpoint().await, "checkpoint");
        }
    }

    /// Drops everything: then there is room again.
    async fn empty(&self, clients: &[SimClient], rng: &mut Rng) {
        for client in clients {
            let streams: Vec<_> = client.model().streams.take();
            for stream in streams {
                client.drop_taken(&stream).await;
            }
            client.empty_bucket().await;
        }
        sweeps_ended(clients, &self.reactor).await;
        for client in clients {
            client.check_emptied(&self.reactor).await;
        }
        self.mark(clients).await;
        for client in clients {
            client.settle(client.shard.checkpoint().await, "checkpoint");
            let refused = client.model().refused.get();
            let stream = self.world.fresh_stream();
            let write = client.write_at(rng, &stream, 0, EMPTY_WRITE_BYTES);
            select(pin!(write), pin!(self.keep_zones(clients))).await;
            client.read_at(&stream, 0, EMPTY_WRITE_BYTES).await;
            let stats = client.shard.stats();
            // Without its share even an empty shard may have too few segments for what it keeps back.
            let config = &self.world.config;
            let share = self.pool.zone_counts().share_segments();
            let usable = config.shard(client.id).usable_bytes(share, config.segment_bytes);
            let is_tiny = usable < stats.space.live_bytes + 2 * EMPTY_WRITE_BYTES;
            if client.model().refused.get() > refused && !is_tiny {
                self.world.violated(format!("shard {} is full and empty: {stats:?}", client.id));
            }
        }
    }
}

/// Audits the shards that serve, and compares what they name of each other.
async fn audit_all(clients: &[SimClient], after_mark: bool) {
    // What the first round drains may ask others, whose records the second drains.
    for client in clients.iter().chain(clients).filter(|client| !client.shard.has_failed()) {
        client.settle(client.shard.apply_acknowledged().await, "apply");
    }
    let mut reports = Vec::new();
    for client in clients.iter().filter(|client| !client.shard.has_failed()) {
        match client.shard.audit().await {
            Ok(report) => reports.push((client.id, report)),
            Err(error) => client.settle(Err(error), "audit"),
        }
    }
    let shard_count = u16::try_from(clients.len()).expect("a few");
    AuditReport::compare(&mut reports, shard_count);
    let is_whole = reports.len() == clients.len();
    for client in clients.iter().filter(|client| !client.shard.has_failed()) {
        for (_, report) in reports.iter().filter(|(id, _)| *id == client.id) {
            let leaks = after_mark && is_whole && report.unreachable > 0;
            if !report.differences.is_empty() || leaks {
                client.world.violated(format!("shard {} audit: {report:?}", client.id));
            }
        }
    }
    audit_objects(clients).await;
}

/// Has others fill the host and leave it room again, in turn. Has no end.
async fn fill_host(world: Rc<World>, reactor: Reactor, mut rng: Rng) {
    loop {
        if let Some(host) = &world.host {
            host.change(&mut rng);
        }
        reactor.sleep(1 + rng.below(HOST_CHANGE_NANOS)).await;
    }
}

/// Lets media fail for a while, when this world has such faults.
async fn bring_faults(world: Rc<World>, reactor: Reactor, mut rng: Rng) {
    let unit = world.config.latency.read_nanos.end;
    match world.config.faults {
        Faults::None | Faults::Bits | Faults::Lanes | Faults::Pages => {}
        Faults::Reads => {
            reactor.sleep(rng.below(400 * unit)).await;
            let bytes = world.media.slots_bytes();
            for _ in 0..1 + rng.below(4) {
                let start = rng.below(bytes);
                world.media.fail_reads(&(start..start + 1 + rng.below(bytes / 4)));
            }
            world.faulty.set(true);
            reactor.sleep(rng.below(100 * unit)).await;
            for medium in world.all_media() {
                medium.heal_reads();
            }
        }
        Faults::Writes => {
            reactor.sleep(rng.below(400 * unit)).await;
            world.faulty.set(true);
            let media: Vec<_> = world.all_media().collect();
            let medium = media[rng.index(media.len())];
            medium.fail_writes(true);
            reactor.sleep(rng.below(100 * unit)).await;
            medium.fail_writes(false);
        }
        Faults::Stuck => {
            for _ in 0..1 + rng.below(3) {
                reactor.sleep(rng.below(400 * unit)).await;
                stick(&world, &reactor, &mut rng).await;
            }
        }
    }
}

/// Lets one medium not answer for a while, and perhaps fail one write then.
async fn stick(world: &World, reactor: &Reactor, rng: &mut Rng) {
    let settling_nanos = 50 * world.config.latency.read_nanos.end;
    let media: Vec<_> = world.all_media().collect();
    let medium = media[rng.index(media.len())];
    if rng.chance(1, 3) {
        world.faulty.set(true);
        medium.fail_next_write(true);
    }
    let stuck_nanos = STUCK_NANOS_MIN + rng.below(STUCK_NANOS_MORE);
    medium.stick(reactor.now() + stuck_nanos);
    reactor.sleep(stuck_nanos + settling_nanos).await;
    medium.fail_next_write(false);
    // What failed is noticed.
    reactor.sleep(settling_nanos).await;
}
