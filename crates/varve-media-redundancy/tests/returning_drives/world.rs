//! The lives of one pool, drawn from a seed.

use std::cell::RefCell;
use std::rc::Rc;

use varve_media::{Error, RootKey, RootStore, SimMedium};
use varve_media_redundancy::format::{DriveState, MoveReason, Row, RowState};
use varve_media_redundancy::{
    Change, DriveId, DriveNumber, HistoryId, LayoutView, MediumKinds, Opening, OpeningOptions,
    StripeShape, UNIT_BYTES, ZoneIndex, open,
};
use varve_reactor::{Nanos, Reactor, SimLoop};
use varve_stdx::Rng;

use crate::pool::{
    DRIVE_BYTES, FIRST_HISTORY, OpenPool, SharedMedia, candidates, medium, member, new_pool,
    options,
};
use crate::register::{OpeningFacts, Pending, Register};

const LIVES: u64 = 9;
const ZONES: u64 = 10;
const MEDIA_MAX: usize = 6;
/// Polls within which a life is cut off, if it is.
const CUT_STEPS_MAX: u64 = 900;
const STUCK_NANOS: u64 = Nanos::seconds(60);

/// What worlds lived through.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct WorldCounts {
    pub(crate) openings: u64,
    pub(crate) degraded: u64,
    pub(crate) refusals: u64,
    pub(crate) splits: u64,
    pub(crate) cuts: u64,
    pub(crate) changes: u64,
}

impl WorldCounts {
    pub(crate) fn add(&mut self, other: Self) {
        self.openings += other.openings;
        self.degraded += other.degraded;
        self.refusals += other.refusals;
        self.splits += other.splits;
        self.cuts += other.cuts;
        self.changes += other.changes;
    }
}

/// How a life went.
enum LifeEnd {
    Refused,
    Split,
    /// Paths of drives that were stale.
    Lived(Vec<String>),
}

/// What all lives share.
struct WorldState {
    media: SharedMedia,
    /// Identity of the drive on each medium.
    ids: RefCell<Vec<DriveId>>,
    register: RefCell<Register>,
    counts: RefCell<WorldCounts>,
    trace: RefCell<Vec<String>>,
}

impl WorldState {
    fn note(&self, line: String) {
        self.trace.borrow_mut().push(line);
    }
}

/// One pool.
pub(crate) struct World {
    rng: Rng,
    state: Rc<WorldState>,
    shape: StripeShape,
    now: Nanos,
    next_history: u64,
}

/// What one life is to do.
struct LifeScript {
    present: Vec<bool>,
    options: OpeningOptions,
    changes: u64,
    has_faults: bool,
    rng: Rng,
}

impl World {
    pub(crate) fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let drives = 2 + rng.index(3);
        let parity = if drives > 2 && rng.chance(1, 2) { 2 } else { 1 };
        let shape = StripeShape::new(1, parity).expect("a mirror");
        let media: Vec<_> = (0..drives).map(medium).collect();
        let ids = (1u8..).take(drives).map(|id| DriveId([id; 16])).collect();
        let mut register = Register::default();
        register.draw(FIRST_HISTORY);
        let state = WorldState {
            media: Rc::new(RefCell::new(media)),
            ids: RefCell::new(ids),
            register: RefCell::new(register),
            counts: RefCell::default(),
            trace: RefCell::default(),
        };
        Self { rng, state: Rc::new(state), shape, now: Nanos(0), next_history: 0 }
    }

    pub(crate) fn counts(&self) -> WorldCounts {
        *self.state.counts.borrow()
    }

    pub(crate) fn trace(&self) -> String {
        self.state.trace.borrow().join("\n")
    }

    pub(crate) fn run(&mut self) -> Result<(), String> {
        let media = self.state.media.borrow().clone();
        self.state.note(format!("{} drives, {}", media.len(), self.shape));
        new_pool(&media, self.shape);
        for _ in 0..LIVES {
            let script = self.draw();
            let steps_max =
                if self.rng.chance(1, 2) { self.rng.below(CUT_STEPS_MAX) } else { u64::MAX };
            if matches!(self.live(script, steps_max)?, Some(LifeEnd::Split)) {
                self.choose()?;
            }
        }
        let script = self.quiet(None);
        match self.live(script, u64::MAX)? {
            Some(LifeEnd::Lived(_)) => Ok(()),
            Some(LifeEnd::Split) => self.choose(),
            Some(LifeEnd::Refused) | None => {
                Err("all drives are there, and the pool does not open".to_owned())
            }
        }
    }

    fn draw(&mut self) -> LifeScript {
        let drives = self.state.media.borrow().len();
        let mut present: Vec<_> = (0..drives).map(|_| self.rng.chance(2, 3)).collect();
        let sure = self.rng.index(drives);
        present[sure] = true;
        if self.rng.chance(1, 4) {
            present.fill(true);
        }
        let degraded = self.rng.chance(1, 3);
        let options = OpeningOptions { degraded, ..self.options() };
        let (changes, rng) = (1 + self.rng.below(8), self.rng.split());
        LifeScript { present, options, changes, has_faults: true, rng }
    }

    /// All drives, and nothing happens to them.
    fn quiet(&mut self, history: Option<HistoryId>) -> LifeScript {
        let present = vec![true; self.state.media.borrow().len()];
        let options = OpeningOptions { history, ..self.options() };
        LifeScript { present, options, changes: 1, has_faults: false, rng: self.rng.split() }
    }

    fn options(&mut self) -> OpeningOptions {
        self.next_history += 1;
        let mut id = [0xEE; 16];
        id[..8].copy_from_slice(&self.next_history.to_le_bytes());
        let new_history = HistoryId(id);
        self.state.register.borrow_mut().draw(new_history);
        OpeningOptions { new_history, ..options() }
    }

    /// Histories have split: the operator keeps one, and clears the drives that are stale by it.
    fn choose(&mut self) -> Result<(), String> {
        let mut histories = self.state.register.borrow().histories();
        while !histories.is_empty() {
            let history = histories.swap_remove(self.rng.index(histories.len()));
            let script = self.quiet(Some(history));
            let Some(LifeEnd::Lived(stale)) = self.live(script, u64::MAX)? else { continue };
            self.state.register.borrow_mut().choose(history);
            for path in stale {
                let index: usize = path.parse().expect("paths are numbers");
                self.state.media.borrow()[index].erase(0..DRIVE_BYTES);
                self.state.register.borrow_mut().forget(self.state.ids.borrow()[index]);
            }
            return Ok(());
        }
        Err("no history of those that split can be chosen".to_owned())
    }

    /// `None` when it was cut off.
    fn live(&mut self, script: LifeScript, steps_max: u64) -> Result<Option<LifeEnd>, String> {
        let before = format!("present {:?}, degraded {}", script.present, script.options.degraded);
        self.state.note(before);
        let mut sim = SimLoop::starting_at(self.rng.next_u64(), self.now);
        let reactor = sim.handle();
        let life = live(reactor.clone(), script, Rc::clone(&self.state));
        let end = sim.try_run_until(life, steps_max);
        self.now = reactor.now();
        drop(sim);
        if end.is_none() {
            self.state.counts.borrow_mut().cuts += 1;
            self.state.note("cut off".to_owned());
        }
        let is_kill = self.rng.chance(1, 3);
        for medium in self.state.media.borrow().iter() {
            medium.fail_writes(false);
            if is_kill { medium.kill(&mut self.rng) } else { medium.crash(&mut self.rng) }
        }
        end.transpose()
    }
}

async fn live(
    reactor: Reactor,
    script: LifeScript,
    state: Rc<WorldState>,
) -> Result<LifeEnd, String> {
    let LifeScript { present, options, changes, has_faults, mut rng } = script;
    let media = state.media.borrow().clone();
    let candidates = candidates(&reactor, &media, &present).await;
    let is_broken = has_faults && rng.chance(1, 6);
    if is_broken {
        break_drives(&reactor, &media, &mut rng);
    }
    let opening = match open(&reactor, candidates, &options).await {
        Ok(opening) => opening,
        Err(
            error @ (Error::Io { .. } | Error::TooFewDrives { .. } | Error::DegradedOpening { .. }),
        ) if is_broken => {
            state.note(error.to_string());
            return Ok(LifeEnd::Refused);
        }
        Err(error) => return refusal(&state, &error, &present, &options),
    };
    // A drive that fails meanwhile is as good as not there, and what only it knows is not missed.
    let counted = if is_broken { vec![false; present.len()] } else { present };
    check(&state, &opening, &counted, &options)?;
    let stale = opening.stale.clone();
    let pool = OpenPool::start(&reactor, opening, &state.media);
    let (version, bytes) = match pool.roots.read(RootKey::Pool).await {
        Ok(root) => root,
        Err(error) if is_broken => {
            state.note(error.to_string());
            return Ok(LifeEnd::Lived(stale));
        }
        Err(error) => return Err(format!("the root cannot be read: {error}")),
    };
    let view = pool.tables.view();
    state.register.borrow().check_root(&view, version.0, &bytes)?;
    state.register.borrow_mut().acknowledge(&view);
    state.register.borrow_mut().acknowledge_root(&view, version.0, bytes);
    {
        let mut count = state.counts.borrow_mut();
        count.openings += 1;
        count.degraded += u64::from(view.drives().history == options.new_history);
    }
    state.note(format!("open at epoch {} of {}", view.drives().epoch, view.drives().history));
    for _ in 0..changes {
        if has_faults && rng.chance(1, 5) {
            break_drives(&reactor, &media, &mut rng);
        }
        let goes_on = change(&pool, &state, &mut rng).await?;
        if !goes_on || pool.tables.tables().failure().is_some() {
            break;
        }
    }
    Ok(LifeEnd::Lived(stale))
}

fn refusal(
    state: &WorldState,
    error: &Error,
    present: &[bool],
    options: &OpeningOptions,
) -> Result<LifeEnd, String> {
    state.note(error.to_string());
    // Of a history that somebody chose the drives may be elsewhere.
    let is_whole = present.iter().all(|is_present| *is_present) && options.history.is_none();
    match error {
        Error::HistorySplit { .. } => {
            state.counts.borrow_mut().splits += 1;
            Ok(LifeEnd::Split)
        }
        Error::DegradedOpening { .. } | Error::TooFewDrives { .. } | Error::NoPool { .. }
            if !is_whole =>
        {
            state.counts.borrow_mut().refusals += 1;
            Ok(LifeEnd::Refused)
        }
        error => Err(format!("not opened with {present:?}: {error}")),
    }
}

fn check(
    state: &WorldState,
    opening: &Opening,
    present: &[bool],
    options: &OpeningOptions,
) -> Result<(), String> {
    let table = opening.view.drives();
    for (number, found) in &opening.drives {
        let record = table.drive(*number);
        if !record.is_some_and(|it| is_used(it.state) && it.id.0 == found.superblock.drive_id) {
            return Err(format!("drive {number} at {} is stale, and is read", found.path));
        }
    }
    let ids = state.ids.borrow();
    let present = ids.iter().zip(present).filter(|(_, is_present)| **is_present);
    let present: Vec<_> = present.map(|(id, _)| *id).collect();
    let facts = OpeningFacts { present: &present, has_choice: options.history.is_some() };
    state.register.borrow().check(&opening.view, &facts)
}

fn is_used(state: DriveState) -> bool {
    matches!(state, DriveState::Live | DriveState::Leaving | DriveState::Joining)
}

/// One or two drives fail, or do not answer any more.
fn break_drives(reactor: &Reactor, media: &[SimMedium], rng: &mut Rng) {
    for _ in 0..=rng.below(2) {
        let medium = &media[rng.index(media.len())];
        if rng.chance(2, 3) {
            medium.fail_writes(true);
        } else {
            medium.stick(reactor.now() + STUCK_NANOS);
        }
    }
}

/// Asks for one change, and has the register know what was answered; false when nothing else may be asked for.
async fn change(pool: &OpenPool, state: &WorldState, rng: &mut Rng) -> Result<bool, String> {
    let view = pool.tables.view();
    match rng.below(13) {
        0..=2 => {
            let zone = u32::try_from(rng.below(ZONES)).expect("a few zones");
            ask(pool, state, Change::Place { zone: ZoneIndex(zone) }, Pending::AnyRow { zone })
                .await;
        }
        3 => move_zone(pool, state, rng, &view).await,
        4 => finish_move(pool, state, rng, &view).await,
        5 => {
            let Some(drive) = draw_live(&view, rng) else { return Ok(true) };
            let reason = "somebody says so".to_owned();
            ask(pool, state, Change::DriveFailed { drive, reason }, Pending::Drives).await;
        }
        6..=8 => return replace_root(pool, state, rng).await,
        9 => join(pool, state).await,
        10 => {
            let Some(drive) = draw_live(&view, rng) else { return Ok(true) };
            ask(pool, state, Change::Remove { drive, successor: None }, Pending::Drives).await;
            if drive.get() % 2 == 1 {
                ask(pool, state, Change::Stay { drive }, Pending::Drives).await;
            }
        }
        11 => {
            let Some(drive) = draw_live(&view, rng) else { return Ok(true) };
            let slow = rng.chance(2, 3);
            ask(pool, state, Change::DriveSlow { drive, slow }, Pending::Drives).await;
        }
        _ => {
            let parity = if rng.chance(1, 2) { 1 } else { 2 };
            let shape = StripeShape::new(1, parity).expect("a mirror");
            let change = Change::Class { shape, kinds: MediumKinds::ALL };
            ask(pool, state, change, Pending::Drives).await;
            ask(pool, state, Change::LowerDrops, Pending::Drives).await;
            grow(pool, state).await;
        }
    }
    Ok(true)
}

async fn ask(pool: &OpenPool, state: &WorldState, change: Change, pending: Pending) {
    let text = format!("{change:?}");
    state.register.borrow_mut().begin(&pool.tables.view(), pending);
    let answer = pool.tables.change(change).await;
    let result = answer.as_ref().err().map_or_else(|| "done".to_owned(), ToString::to_string);
    state.note(format!("{text}: {result}"));
    match answer {
        Ok(view) => {
            state.counts.borrow_mut().changes += 1;
            state.register.borrow_mut().acknowledge(&view);
        }
        // Refused; drives may have failed meanwhile.
        Err(_) if pool.tables.tables().failure().is_none() => {
            state.register.borrow_mut().acknowledge(&pool.tables.view());
        }
        // The pool is closed, and what was pending may be there or not.
        Err(_) => {}
    }
}

fn draw_live(view: &LayoutView, rng: &mut Rng) -> Option<DriveNumber> {
    let live = view.drives().drives.iter().filter(|drive| drive.state == DriveState::Live);
    let live: Vec<_> = live.map(|drive| drive.number).collect();
    (!live.is_empty()).then(|| live[rng.index(live.len())])
}

async fn move_zone(pool: &OpenPool, state: &WorldState, rng: &mut Rng, view: &LayoutView) {
    let rows: Vec<_> = view.rows().collect();
    if rows.is_empty() {
        return;
    }
    let (zone, row) = rows[rng.index(rows.len())];
    let Some(target) = row.target() else { return };
    let avoid = vec![target.places[rng.index(target.places.len())].drive];
    let change =
        Change::Move { zone, why: MoveReason::Rebalance, class: None, avoid, prefer: None };
    ask(pool, state, change, Pending::AnyRow { zone: zone.0 }).await;
}

async fn finish_move(pool: &OpenPool, state: &WorldState, rng: &mut Rng, view: &LayoutView) {
    let is_moving = |(_, row): &(ZoneIndex, &Row)| row.source().is_some();
    let rows: Vec<_> = view.rows().filter(is_moving).collect();
    if rows.is_empty() {
        return;
    }
    let (zone, expected) = rows[rng.index(rows.len())];
    let Some(target) = expected.target() else { return };
    let new = Row { tenancy: expected.tenancy, state: RowState::Still(target.clone()) };
    let pending = Pending::Row { zone: zone.0, row: new.clone() };
    let change = Change::Row { zone, expected: expected.clone(), new };
    ask(pool, state, change, pending).await;
}

async fn replace_root(pool: &OpenPool, state: &WorldState, rng: &mut Rng) -> Result<bool, String> {
    let Ok((version, before)) = pool.roots.read(RootKey::Pool).await else { return Ok(false) };
    let view = pool.tables.view();
    state.register.borrow().check_root(&view, version.0, &before)?;
    let bytes = vec![u8::try_from(rng.below(256)).expect("a byte"); 1 + rng.index(3000)];
    state.register.borrow_mut().begin(&view, Pending::Root { bytes: bytes.clone() });
    let answer = pool.roots.replace(RootKey::Pool, version, bytes.clone()).await;
    state.note(format!("root {}: {answer:?}", version.0));
    match answer {
        Ok(next) => {
            state.register.borrow_mut().acknowledge(&pool.tables.view());
            state.register.borrow_mut().acknowledge_root(&view, next.0, bytes);
            state.counts.borrow_mut().changes += 1;
        }
        // It may be there or not; nothing else is changed before that is known.
        Err(_) => return Ok(false),
    }
    Ok(true)
}

/// The first drive that is live becomes longer by a unit. Others would do as well: those that are drawn elsewhere stay
/// what they are.
async fn grow(pool: &OpenPool, state: &WorldState) {
    let view = pool.tables.view();
    let record = view.drives().drives.iter().find(|drive| drive.state == DriveState::Live);
    let Some(record) = record else { return };
    let index = state.ids.borrow().iter().position(|id| *id == record.id);
    let (drive, units) = (record.number, record.units + 1);
    let medium = index.and_then(|index| state.media.borrow().get(index).cloned());
    medium.expect("it is on a medium").grow(DRIVE_BYTES + u64::from(units) * UNIT_BYTES);
    ask(pool, state, Change::Grow { drive, units }, Pending::Drives).await;
}

async fn join(pool: &OpenPool, state: &WorldState) {
    let index = state.media.borrow().len();
    if index >= MEDIA_MAX {
        return;
    }
    let id = u8::try_from(index + 1).expect("a few drives");
    state.media.borrow_mut().push(medium(index));
    state.ids.borrow_mut().push(DriveId([id; 16]));
    ask(pool, state, Change::Join(member(index, id)), Pending::Drives).await;
}
