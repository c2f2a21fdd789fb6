//! What an operator does with the drives of a redundant pool while the machine works: has drives leave, changes the
//! class of zones, cancels that, has drives grow or be of another kind, zones withdrawn and journals be on drives of
//! some kind, and has drives fail meanwhile, so that rows and copies of journals move.

use std::rc::Rc;
use std::sync::Arc;

use varve_engine::OpenPool;
use varve_media_redundancy::format::{DriveState, MoveReason};
use varve_media_redundancy::{
    Change, DriveId, MediumKind, MediumKinds, RepairControl, StripeShape, TablesHandle,
};
use varve_reactor::Reactor;
use varve_stdx::Rng;

use crate::drives::DriveCondition;
use crate::world::World;

/// Things that are done in one life at most.
const MOVES_MAX: u64 = 6;

/// Of so many worlds drives grow in one, by fewer units than this; journals are moved and drives get other kinds in
/// another, and pools shrink in a third.
const SPECIAL_WORLDS: u64 = 4;
const GROWTH_UNITS: u64 = 200;

/// Shapes of classes by their strips of data.
const DATA_STRIPS_MAX: u8 = 4;

/// What the operator has at hand.
pub(crate) struct RowOperator {
    /// The loop.
    pub reactor: Reactor,
    /// The way to the keeper.
    pub tables: Rc<TablesHandle>,
    /// The pool's root.
    pub pool: Rc<OpenPool>,
    /// The way to the movers.
    pub control: Arc<RepairControl>,
}

/// Does things at any time, until the life ends or enough was done.
pub(crate) async fn move_rows(world: Rc<World>, operator: RowOperator, mut rng: Rng) {
    let unit = world.config.latency.read_nanos.end;
    for _ in 0..1 + rng.below(MOVES_MAX) {
        operator.reactor.sleep(rng.below(3000 * unit)).await;
        match world.config.seed % SPECIAL_WORLDS {
            0 => operator.grow(&world, &mut rng).await,
            1 => operator.place_journals(&mut rng).await,
            2 => operator.shrink(&mut rng).await,
            _ => {}
        }
        match rng.below(4) {
            0 => operator.convert(&mut rng).await,
            1 => operator.drain(&mut rng).await,
            2 => operator.cancel(&mut rng, unit).await,
            _ => operator.fail(&world, &mut rng),
        }
    }
}

impl RowOperator {
    /// Asks for zones to be of another class, which survives as many lost drives.
    async fn convert(&self, rng: &mut Rng) {
        let view = self.tables.view();
        let table = view.drives();
        let Some(class) = table.class_of(table.class) else { return };
        let data = 1 + u8::try_from(rng.below(DATA_STRIPS_MAX.into())).expect("below 4");
        let live = table.drives.iter().filter(|it| it.state == DriveState::Live).count();
        let shape = StripeShape::new(data, class.shape.parity());
        let Some(shape) = shape.filter(|shape| shape.strips() <= live) else { return };
        self.ask(Change::Class { shape, kinds: MediumKinds::ALL }).await;
    }

    /// Has a drive leave, where as many are left as a zone has strips.
    async fn drain(&self, rng: &mut Rng) {
        let view = self.tables.view();
        let table = view.drives();
        let live = table.drives.iter().filter(|it| it.state == DriveState::Live);
        let live: Vec<_> = live.map(|it| it.number).collect();
        let strips = table.classes.iter().map(|class| class.shape.strips()).max().unwrap_or(0);
        if live.len() > strips {
            self.ask(Change::Leave { drive: live[rng.index(live.len())] }).await;
        }
    }

    /// Cancels what can be cancelled, and lets it go on after a while.
    async fn cancel(&self, rng: &mut Rng, unit: u64) {
        let reasons = [MoveReason::Conversion, MoveReason::Drain, MoveReason::Rebalance];
        let why = reasons[rng.index(reasons.len())];
        if self.control.cancel(why) {
            self.reactor.sleep(rng.below(2000 * unit)).await;
            self.control.resume(why);
        }
    }

    /// Has a drive be longer, and the pool use that. A power cut may come at any step.
    async fn grow(&self, world: &World, rng: &mut Rng) {
        let media = world.redundant();
        let Some(index) = media.draw_sound(rng) else { return };
        let id = DriveId(media.drives()[index].superblock().drive_id);
        let view = self.tables.view();
        let Some(record) = view.drives().drives.iter().find(|it| it.id == id) else { return };
        let more = 1 + u32::try_from(rng.below(GROWTH_UNITS)).expect("some units");
        let (drive, units) = (record.number, record.units + more);
        media.grow(index, units);
        self.ask(Change::Grow { drive, units }).await;
    }

    /// Has journals be on drives of a kind, if enough of these are there, or on any; or has a drive be of that kind.
    async fn place_journals(&self, rng: &mut Rng) {
        if rng.below(3) == 0 {
            let view = self.tables.view();
            let drives = &view.drives().drives;
            let kinds = [MediumKind::Nvme, MediumKind::Hdd];
            let (drive, kind) = (drives[rng.index(drives.len())].number, kinds[rng.index(2)]);
            self.ask(Change::Kind { drive, kind }).await;
            return;
        }
        let kinds = [0, MediumKind::Nvme.bit(), MediumKind::Hdd.bit()];
        let kinds = MediumKinds::new(kinds[rng.index(kinds.len())]).expect("bits of kinds");
        self.ask(Change::JournalKinds { kinds }).await;
    }

    /// Withdraws some zones, whose rows the sizer empties before it gives them back.
    async fn shrink(&self, rng: &mut Rng) {
        let zones = rng.below(u64::from(self.pool.zone_count()) + 1);
        let zones = u32::try_from(zones).expect("as many as there are at most");
        // A drive may have failed, and the root is read again then.
        drop(self.pool.resize(zones).await);
    }

    /// Has a drive fail, so that its strips are rebuilt.
    fn fail(&self, world: &World, rng: &mut Rng) {
        let media = world.redundant();
        let index = media.draw_sound(rng).filter(|_| media.spare() > 0);
        let Some(index) = index else { return };
        media.lose(index);
        let fails = [DriveCondition::Failing, DriveCondition::ReadOnly, DriveCondition::Silent];
        media.set_condition(index, fails[rng.index(fails.len())], self.reactor.now());
    }

    /// What is refused is refused: another class needs room, and a drive may have failed meanwhile.
    async fn ask(&self, change: Change) {
        drop(self.tables.change(change).await);
    }
}
