//! Pools on simulated media: made, opened, and kept.

use std::cell::RefCell;
use std::rc::Rc;

use varve_media::{
    Disk, Error, IoFuture, RedundantSpec, RedundantSuperblock, Result, SimLatency, SimMedium,
};
use varve_media_redundancy::format::DriveRoles;
use varve_media_redundancy::{
    Candidate, DriveHandle, DriveHandles, DriveId, DriveNumber, DriveOpener, FoundDrive, HistoryId,
    Keeper, MakingSpec, MediumKind, MediumKinds, MirroredRoots, NewMember, NewPoolDrive, Opening,
    OpeningOptions, RedundantDisks, StripeShape, TablesHandle, make, superblock_of,
};
use varve_reactor::{Nanos, Reactor, SimLoop};
use varve_types::PoolId;

/// Bytes of a drive: superblocks, roots, tables, and units behind them.
pub(crate) const DRIVE_BYTES: u64 = 12 << 20;
pub(crate) const POOL: PoolId = PoolId([7; 16]);
pub(crate) const FIRST_HISTORY: HistoryId = HistoryId([1; 16]);
pub(crate) const PATIENCE_NANOS: u64 = Nanos::seconds(2);
const ZONE_SEGMENTS: u32 = 4;

/// Media by their index, which is in their name too.
pub(crate) type SharedMedia = Rc<RefCell<Vec<SimMedium>>>;

pub(crate) fn figures() -> RedundantSpec {
    RedundantSpec {
        pool: POOL,
        created_unix_ms: 5,
        lane_count: 2,
        lane_bytes: 64 << 10,
        segment_bytes: 64 << 10,
        layout_pages: 2,
        root_bytes_max: 8192,
    }
}

pub(crate) fn medium(index: usize) -> SimMedium {
    SimMedium::new(&format!("drive{index}"), DRIVE_BYTES)
}

pub(crate) fn member(index: usize, id: u8) -> NewMember {
    NewMember {
        path: format!("{index}"),
        id: DriveId([id; 16]),
        is_directory: false,
        bytes: DRIVE_BYTES,
        kind: MediumKind::Nvme,
        roles: DriveRoles::ALL,
        former: None,
        name: format!("drive {index}"),
        is_given_up: true,
    }
}

pub(crate) fn open_disk(reactor: &Reactor, medium: &SimMedium) -> Rc<dyn Disk> {
    Rc::new(medium.open(reactor, SimLatency::default()))
}

/// Makes a pool on all of them.
pub(crate) async fn make_pool(
    reactor: &Reactor,
    media: &[SimMedium],
    shape: StripeShape,
) -> Result<()> {
    let mut drives = Vec::new();
    for (number, (index, medium)) in (0u8..).zip(media.iter().enumerate()) {
        let member = member(index, number + 1);
        let number = DriveNumber::new(number).expect("a few drives");
        let superblock = superblock_of(&figures(), number, &member)?;
        let disks = RedundantDisks::one(&open_disk(reactor, medium), &superblock)?;
        drives.push(NewPoolDrive { member, superblock, disks });
    }
    let spec = MakingSpec {
        figures: figures(),
        shape,
        kinds: MediumKinds::ALL,
        zone_segments: ZONE_SEGMENTS,
        history: FIRST_HISTORY,
    };
    make(reactor, &drives, &spec).await.map(drop)
}

/// Makes a pool in a loop of its own.
pub(crate) fn new_pool(media: &[SimMedium], shape: StripeShape) {
    let mut sim = SimLoop::new(1);
    let (reactor, media) = (sim.handle(), media.to_vec());
    sim.run_until(async move { make_pool(&reactor, &media, shape).await })
        .expect("the pool is made");
}

/// What is at a place.
pub(crate) async fn look(reactor: &Reactor, medium: &SimMedium, path: String) -> Candidate {
    let disk = open_disk(reactor, medium);
    let found =
        match RedundantSuperblock::read(&*disk).await {
            Ok(Some(superblock)) => RedundantDisks::one(&disk, &superblock)
                .map(|disks| FoundDrive { path: path.clone(), superblock, disks }),
            Ok(None) => Err(Error::NoPool { path: path.clone() }),
            Err(error) => Err(error),
        };
    match found {
        Ok(found) => Candidate::Found(found),
        Err(error) => Candidate::Failed { path, error },
    }
}

pub(crate) async fn candidates(
    reactor: &Reactor,
    media: &[SimMedium],
    present: &[bool],
) -> Vec<Candidate> {
    let mut all = Vec::new();
    for (index, (medium, is_present)) in media.iter().zip(present).enumerate() {
        let path = index.to_string();
        if *is_present {
            all.push(look(reactor, medium, path).await);
        } else {
            all.push(Candidate::Absent { path });
        }
    }
    all
}

pub(crate) fn options() -> OpeningOptions {
    OpeningOptions {
        degraded: false,
        history: None,
        new_history: HistoryId([99; 16]),
        pool: Some(POOL),
        patience_nanos: PATIENCE_NANOS,
    }
}

/// Opens media by their paths when drives join.
pub(crate) struct SimOpener {
    pub(crate) reactor: Reactor,
    pub(crate) media: SharedMedia,
}

impl DriveOpener for SimOpener {
    fn open<'a>(
        &'a self,
        member: &'a NewMember,
        superblock: &'a RedundantSuperblock,
    ) -> IoFuture<'a, RedundantDisks> {
        Box::pin(async move {
            let index: usize = member.path.parse().expect("paths are numbers");
            let medium = self.media.borrow().get(index).cloned();
            let medium = medium.ok_or(Error::NoPool { path: member.path.clone() })?;
            RedundantDisks::one(&open_disk(&self.reactor, &medium), superblock)
        })
    }
}

/// A pool that is open: its keeper runs as a task.
pub(crate) struct OpenPool {
    pub(crate) tables: Rc<TablesHandle>,
    pub(crate) roots: MirroredRoots,
    /// The thread's own handles: drives that join later are not among them, so their roots are copied by the keeper.
    pub(crate) handles: Rc<DriveHandles>,
}

impl OpenPool {
    pub(crate) fn start(reactor: &Reactor, opening: Opening, media: &SharedMedia) -> Self {
        let handles = DriveHandles::new(reactor);
        for (_, drive) in &opening.drives {
            let superblock = drive.superblock.clone();
            let handle = DriveHandle::new(reactor, superblock, &drive.disks, PATIENCE_NANOS);
            handles.insert(handle.expect("its number is one"));
        }
        let opener = SimOpener { reactor: reactor.clone(), media: Rc::clone(media) };
        let keeper = Keeper::new(reactor, opening, Rc::new(opener));
        let tables = keeper.tables().on(reactor);
        reactor.spawn(keeper.run());
        let roots = MirroredRoots::new(Rc::clone(&handles), Rc::clone(&tables));
        Self { tables, roots, handles }
    }
}
