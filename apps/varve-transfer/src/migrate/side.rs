//! The two daemons of a migration, and the calls that it makes to each.

use std::hash::{BuildHasher, Hasher, RandomState};

use hyper::Method;
use serde::de::DeserializeOwned;
use varve_access_admin::v1::{
    self, ChangeSnapshot, CreateSnapshots, MoveRemark, MoveState, MoveVolume, RollBack, Snapshot,
    SnapshotPage, Volume, VolumeMove, VolumePage,
};
use varve_access_admin::{ListenAddress, percent_encoded, snapshot_path, volume_path};
use varve_client::age::now_unix_ms;
use varve_client::{Client, Failure, Result};
use varve_types::{ErrorKind, MigrationRunId, PoolId};

use super::kind::Item;

/// First letters of the names of snapshots that a migration takes; 13 digits follow.
const SNAPSHOT_PREFIX: &str = "migrate-";

/// Most volumes or snapshots in a page.
const PAGE: usize = 1000;

/// One daemon.
pub(super) struct MigrationSide {
    pub(super) client: Client,
    /// Where its volumes are, if it says so.
    pub(super) nbd: Option<ListenAddress>,
    /// Identity of its pool.
    pub(super) pool: PoolId,
}

/// A run of the command.
pub(super) struct MigrationRun {
    pub(super) source: MigrationSide,
    pub(super) target: MigrationSide,
    /// What no other run has.
    id: MigrationRunId,
}

impl MigrationRun {
    pub(super) fn new(source: MigrationSide, target: MigrationSide) -> Self {
        let random = RandomState::new().build_hasher().finish();
        let id = u128::from(now_unix_ms()) << 64 | u128::from(random);
        Self { source, target, id: MigrationRunId(id.to_be_bytes()) }
    }

    /// What the source's volumes are told.
    pub(super) fn leaving(&self) -> VolumeMove {
        self.of_side(MoveState::Leaving, &self.target)
    }

    /// The same of what has left.
    pub(super) fn left(&self) -> VolumeMove {
        self.of_side(MoveState::Left, &self.target)
    }

    /// What the target's are told whose move is given up: they are to be deleted.
    pub(super) fn given_up(&self) -> VolumeMove {
        let remark = Some(MoveRemark::GivenUp);
        VolumeMove { remark, ..self.of_side(MoveState::Left, &self.source) }
    }

    /// What the target's volumes are told.
    pub(super) fn arriving(&self) -> VolumeMove {
        self.of_side(MoveState::Arriving, &self.source)
    }

    /// The same once this run has ended without them: it does nothing with them any more.
    pub(super) fn parked(&self) -> VolumeMove {
        VolumeMove { remark: Some(MoveRemark::Parked), ..self.arriving() }
    }

    /// The export through which one of the target's is filled.
    pub(super) fn export(&self, volume: &str) -> String {
        format!("arriving:{}:{volume}", self.id)
    }

    /// A move of this run with that other side.
    fn of_side(&self, state: MoveState, side: &MigrationSide) -> VolumeMove {
        VolumeMove {
            state,
            pool: side.pool,
            address: side.client.address().to_string(),
            run: self.id,
            remark: None,
            snapshot: None,
            bucket: None,
        }
    }
}

/// Whether a snapshot was taken by a migration.
pub(super) fn is_internal(snapshot: &Snapshot) -> bool {
    let digits = own_name(snapshot).strip_prefix(SNAPSHOT_PREFIX);
    digits.is_some_and(|rest| rest.len() == 13 && rest.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Whether a volume is a part that was given up, and to be deleted.
pub(super) fn is_given_up(moves: &VolumeMove) -> bool {
    moves.state == MoveState::Left && moves.remark == Some(MoveRemark::GivenUp)
}

/// A snapshot's name without its volume's.
pub(super) fn own_name(snapshot: &Snapshot) -> &str {
    snapshot.name.split_once('@').map_or("", |(_, name)| name)
}

impl MigrationSide {
    pub(super) fn open(client: &Client, nbd: Option<ListenAddress>) -> Result<Self> {
        let id = client.get::<v1::Pool>("/v1/pool")?.value.id;
        let pool = id.parse();
        let pool =
            pool.map_err(|_| client.unexpected(&format!("`{id}` is not the identity of a pool")))?;
        Ok(Self { client: client.clone(), nbd, pool })
    }

    /// Whether it has buckets.
    pub(super) fn serves_s3(&self) -> Result<bool> {
        match self.client.get::<v1::BucketPage>("/v1/buckets?limit=1") {
            Ok(_) => Ok(true),
            Err(failure) if failure.is(ErrorKind::Unsupported) => Ok(false),
            Err(failure) => Err(failure),
        }
    }

    /// Whether a move is from here, or to here.
    pub(super) fn is_peer_of(&self, moves: &VolumeMove) -> bool {
        is_of_pool(self.pool, moves)
    }

    /// Refuses to take over a move that is not this one: its other side is not asked.
    pub(super) fn check_peer(&self, item: Item<'_>, moves: &VolumeMove) -> Result<()> {
        match self.is_peer_of(moves) {
            true => Ok(()),
            false => Err(Failure::new(format!(
                "{item} has begun to move otherwise meanwhile: {}",
                moves.other_side()
            ))
            .hint("that move is to end first: run it again with its own two daemons, or --cancel it there")),
        }
    }

    pub(super) fn volumes(&self) -> Result<Vec<Volume>> {
        let mut all = Vec::new();
        let mut after = String::new();
        loop {
            let path = format!("/v1/volumes?limit={PAGE}{after}");
            let page = self.client.get::<VolumePage>(&path)?.value;
            if let Some(cell) = page.missing_cells.first() {
                // What it has would seem not to be there.
                let what = format!("cell {cell} of pool {} does not answer", self.pool);
                return Err(
                    Failure::new(what).hint("try again once all cells are served: `varve status`")
                );
            }
            all.extend(page.volumes);
            let Some(next) = page.next else { return Ok(all) };
            after = format!("&after={}", percent_encoded(&next));
        }
    }

    pub(super) fn volume(&self, name: &str) -> Result<Option<Volume>> {
        self.found(&volume_path(name))
    }

    /// What has that path, if there is something.
    pub(super) fn found<T: DeserializeOwned>(&self, path: &str) -> Result<Option<T>> {
        match self.client.get::<T>(path) {
            Ok(found) => Ok(Some(found.value)),
            Err(failure) if failure.is(ErrorKind::NotFound) => Ok(None),
            Err(failure) => Err(failure),
        }
    }

    /// The snapshots of a volume, oldest first; none when there is no such volume.
    pub(super) fn snapshots(&self, volume: &str) -> Result<Vec<Snapshot>> {
        let mut all: Vec<Snapshot> = Vec::new();
        let mut after = String::new();
        loop {
            let volume = percent_encoded(volume);
            let path = format!("/v1/snapshots?volume={volume}&limit={PAGE}{after}");
            let page = match self.client.get::<SnapshotPage>(&path) {
                Ok(page) => page.value,
                Err(failure) if failure.is(ErrorKind::NotFound) => return Ok(Vec::new()),
                Err(failure) => return Err(failure),
            };
            all.extend(page.snapshots);
            let Some(next) = page.next else { break };
            after = format!("&after={}", percent_encoded(&next));
        }
        all.sort_by_key(|snapshot| snapshot.id);
        Ok(all)
    }

    /// Refuses when the name of a snapshot is another's by now.
    pub(super) fn check_identity(&self, snapshot: &Snapshot) -> Result<()> {
        let there = self.client.get::<Snapshot>(&snapshot_path(&snapshot.name))?.value;
        match there.identity == snapshot.identity {
            true => Ok(()),
            false => Err(Failure::new(format!(
                "snapshot {} was deleted and taken anew meanwhile",
                snapshot.name
            ))
            .hint("run the command again")),
        }
    }

    /// Takes a snapshot that the migration deletes again, of a volume that is at `expects` on its way.
    pub(super) fn take_snapshot(
        &self,
        volume: &str,
        expects: Option<VolumeMove>,
    ) -> Result<Snapshot> {
        let name = format!("{volume}@{SNAPSHOT_PREFIX}{:013}", now_unix_ms());
        let spec = CreateSnapshots { names: vec![name], expects };
        let taken = self.client.send::<SnapshotPage>(Method::POST, "/v1/snapshots", &spec)?.value;
        taken.snapshots.into_iter().next().ok_or_else(|| Failure::new("no snapshot was taken"))
    }

    pub(super) fn protect(
        &self,
        snapshot: &Snapshot,
        protected: bool,
        expects: Option<&VolumeMove>,
    ) -> Result<()> {
        let path = snapshot_path(&snapshot.name);
        let change = ChangeSnapshot { protected, expects: expects.cloned() };
        self.client.send::<Snapshot>(Method::PATCH, &path, &change).map(drop)
    }

    /// Deletes a snapshot, a protected one too, of a volume that is at `expects` on its way.
    pub(super) fn delete_snapshot(
        &self,
        snapshot: &Snapshot,
        expects: Option<&VolumeMove>,
    ) -> Result<()> {
        if snapshot.protected {
            self.protect(snapshot, false, expects)?;
        }
        let query = expects.map_or_else(String::new, |moves| format!("?{}", query(moves)));
        self.delete(&format!("{}{query}", snapshot_path(&snapshot.name)))
    }

    /// Deletes a volume that is at `expects` on its way with its snapshots, protected ones too.
    pub(super) fn delete_volume(&self, name: &str, expects: &VolumeMove) -> Result<()> {
        for snapshot in self.snapshots(name)?.iter().filter(|snapshot| snapshot.protected) {
            self.protect(snapshot, false, Some(expects))?;
        }
        self.delete(&format!("{}?snapshots=true&{}", volume_path(name), query(expects)))
    }

    /// Deletes what may be there.
    fn delete(&self, path: &str) -> Result<()> {
        match soon(|| self.client.delete(path)) {
            Err(failure) if failure.is(ErrorKind::NotFound) => Ok(()),
            deleted => deleted,
        }
    }

    pub(super) fn roll_back(&self, volume: &str, to: &Snapshot, expects: VolumeMove) -> Result<()> {
        let path = format!("{}/rollback", volume_path(volume));
        let to = RollBack { snapshot: own_name(to).to_owned(), expects: Some(expects) };
        soon(|| self.client.send::<Volume>(Method::POST, &path, &to).map(drop))
    }

    /// Takes a volume a step further (MIGRATE-3).
    pub(super) fn step(
        &self,
        volume: &str,
        before: Option<&VolumeMove>,
        after: Option<VolumeMove>,
    ) -> Result<()> {
        let before = before.cloned();
        self.send_step(volume, &MoveVolume { before, after, last: None, id: None })
    }

    /// The step of a volume that does not move to leaving, if it is what was seen of it: its number, and its newest
    /// snapshot.
    pub(super) fn fence(
        &self,
        volume: &str,
        id: u64,
        newest: &Snapshot,
        after: VolumeMove,
    ) -> Result<()> {
        let last = Some(newest.identity.clone());
        let step = MoveVolume { before: None, after: Some(after), last, id: Some(id) };
        self.send_step(volume, &step)
    }

    /// The step after which clients use a volume, with the identity of the last snapshot that was sent.
    pub(super) fn arrive(&self, volume: &str, before: VolumeMove, last: &Snapshot) -> Result<()> {
        let last = Some(last.identity.clone());
        self.send_step(volume, &MoveVolume { before: Some(before), after: None, last, id: None })
    }

    /// Once, for what is not answered may be carried out later.
    fn send_step(&self, volume: &str, step: &MoveVolume) -> Result<()> {
        let path = format!("{}/move", volume_path(volume));
        self.client.send::<Volume>(Method::POST, &path, step).map(drop)
    }
}

/// Whether a move's other side is a pool, and it was not given up.
fn is_of_pool(pool: PoolId, moves: &VolumeMove) -> bool {
    moves.pool == pool && !is_given_up(moves)
}

/// How a query says where a volume has to be on its way.
pub(super) fn query(moves: &VolumeMove) -> String {
    let json = serde_json::to_string(moves).expect("it has text and numbers alone");
    format!("expects={}", percent_encoded(&json))
}

/// Tries again for a moment what is refused while a connection that just ended counts as open.
pub(super) fn soon<T>(work: impl FnMut() -> Result<T>) -> Result<T> {
    again_while(|failure| failure.is(ErrorKind::Conflict), work)
}

/// Tries again for a moment whatever fails.
pub(super) fn soon_at_all<T>(work: impl FnMut() -> Result<T>) -> Result<T> {
    again_while(|_| true, work)
}

fn again_while<T>(
    is_passing: impl Fn(&Failure) -> bool,
    mut work: impl FnMut() -> Result<T>,
) -> Result<T> {
    let mut done = work();
    for _ in 0..50 {
        match &done {
            Err(failure) if is_passing(failure) => {}
            _ => break,
        }
        std::thread::sleep(std::time::Duration::from_millis(100));
        done = work();
    }
    done
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_move_is_taken_over_between_its_own_two_pools_alone() {
        let (pool, other) = (PoolId([1; 16]), PoolId([2; 16]));
        let leaving = VolumeMove {
            state: MoveState::Leaving,
            pool,
            address: "unix:/a".to_owned(),
            run: MigrationRunId([3; 16]),
            remark: None,
            snapshot: None,
            bucket: None,
        };
        assert!(is_of_pool(pool, &leaving) && !is_of_pool(other, &leaving));
        let remark = Some(MoveRemark::GivenUp);
        let given_up = VolumeMove { state: MoveState::Left, remark, ..leaving };
        assert!(is_given_up(&given_up) && !is_of_pool(pool, &given_up));
    }
}
