//! Snapshots of the memory backend: names that hold nothing.

use std::collections::BTreeMap;
use std::sync::MutexGuard;

use varve_types::ErrorKind;

use super::{CREATED_UNIX_MS, MemoryBackend, not_found, plain, refusal};
use crate::error::Result;
use crate::v1::{
    BeginReceive, ChangeSnapshot, CloneVolume, CreateSnapshots, CreateVolume, EndReceive, Extent,
    ExtentPage, ExtentsWanted, MoveState, MoveVolume, RollBack, Snapshot, Volume, VolumeMove,
};

/// Every snapshot differs from every other, and from its volume, in as many bytes, and volumes hold as many, at every
/// so many.
const EXTENT_BYTES: u64 = 64 << 10;
const EXTENT_EVERY_BYTES: u64 = 64 << 20;

impl MemoryBackend {
    fn snapshots_now(&self) -> MutexGuard<'_, BTreeMap<String, Snapshot>> {
        self.snapshots.lock().expect("no holder of the lock panics")
    }

    pub(super) fn take_snapshots(&self, spec: &CreateSnapshots) -> Result<Vec<Snapshot>> {
        let of = |name: &String| self.snapshot_of(name, spec.expects.as_ref());
        let taken: Vec<Snapshot> = spec.names.iter().map(of).collect::<Result<_>>()?;
        for snapshot in &taken {
            self.snapshots_now().insert(snapshot.name.clone(), snapshot.clone());
        }
        Ok(taken)
    }

    fn snapshot_of(&self, name: &str, expects: Option<&VolumeMove>) -> Result<Snapshot> {
        let Some((volume, _)) = name.split_once('@') else {
            return Err(refusal(ErrorKind::Invalid, format!("`{name}` names no snapshot")));
        };
        let volume = self.change_moving(volume, expects, |volume| volume.clone())?;
        let count = self.snapshots_now().len() as u64;
        if self.snapshots_now().contains_key(name) {
            return Err(refusal(ErrorKind::Exists, format!("snapshot `{name}` already exists")));
        }
        Ok(Snapshot {
            name: name.to_owned(),
            volume: volume.name,
            id: 1000 + count,
            identity: format!("{count:032x}"),
            size_bytes: volume.size_bytes,
            block_size_bytes: volume.block_size_bytes,
            created_unix_ms: CREATED_UNIX_MS,
            protected: false,
        })
    }

    pub(super) fn count_snapshots(&self, volume: &str) -> u64 {
        let snapshots = self.snapshots_now();
        snapshots.values().filter(|snapshot| snapshot.volume == volume).count() as u64
    }

    pub(super) fn list_snapshots(
        &self,
        volume: Option<&str>,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<Snapshot>> {
        if let Some(volume) = volume {
            self.change(volume, |_| ())?;
        }
        let snapshots = self.snapshots_now();
        let wanted = snapshots
            .values()
            .filter(|snapshot| volume.is_none_or(|volume| snapshot.volume == volume))
            .filter(|snapshot| after.is_none_or(|after| snapshot.name.as_str() > after));
        Ok(wanted.take(limit).cloned().collect())
    }

    pub(super) fn with_snapshot<T>(
        &self,
        name: &str,
        then: impl FnOnce(&mut Snapshot) -> T,
    ) -> Result<T> {
        let no_snapshot = || refusal(ErrorKind::NotFound, format!("no snapshot `{name}`"));
        self.snapshots_now().get_mut(name).map(then).ok_or_else(no_snapshot)
    }

    pub(super) fn protect_now(&self, name: &str, change: &ChangeSnapshot) -> Result<Snapshot> {
        let volume = self.with_snapshot(name, |snapshot| snapshot.volume.clone())?;
        self.change_moving(&volume, change.expects.as_ref(), |_| ())?;
        self.with_snapshot(name, |snapshot| {
            snapshot.protected = change.protected;
            snapshot.clone()
        })
    }

    pub(super) fn remove_snapshot(&self, name: &str, expects: Option<&VolumeMove>) -> Result<()> {
        let of = |snapshot: &mut Snapshot| (snapshot.protected, snapshot.volume.clone());
        let (is_protected, volume) = self.with_snapshot(name, of)?;
        self.change_moving(&volume, expects, |_| ())?;
        if is_protected {
            let message = format!("snapshot `{name}` is protected");
            return Err(refusal(ErrorKind::Conflict, message));
        }
        self.snapshots_now().remove(name);
        Ok(())
    }

    /// Deletes a volume's snapshots, or refuses because there are some.
    pub(super) fn check_snapshots(&self, volume: &str, delete: bool) -> Result<()> {
        let mut snapshots = self.snapshots_now();
        if !delete && snapshots.values().any(|snapshot| snapshot.volume == volume) {
            let message = format!("volume `{volume}` has snapshots");
            return Err(refusal(ErrorKind::Conflict, message));
        }
        snapshots.retain(|_, snapshot| snapshot.volume != volume);
        Ok(())
    }

    pub(super) fn roll_back_now(&self, volume: &str, to: &RollBack) -> Result<Volume> {
        let snapshot = format!("{volume}@{}", to.snapshot);
        let size_bytes = self.with_snapshot(&snapshot, |snapshot| snapshot.size_bytes)?;
        let openers = self.change(volume, |volume| volume.openers)?;
        if openers > 0 {
            let message = format!("volume `{volume}` is open by {openers} client");
            return Err(refusal(ErrorKind::Conflict, message));
        }
        self.change_moving(volume, to.expects.as_ref(), |volume| {
            volume.size_bytes = size_bytes;
            volume.clone()
        })
    }

    pub(super) fn clone_now(&self, spec: &CloneVolume) -> Result<Volume> {
        let size_bytes = match spec.source.contains('@') {
            true => self.with_snapshot(&spec.source, |snapshot| snapshot.size_bytes)?,
            false => self.change(&spec.source, |volume| volume.size_bytes)?,
        };
        self.create(&plain(spec.name.clone(), size_bytes))?;
        self.change(&spec.name, |volume| {
            volume.origin = Some(spec.source.clone());
            volume.clone()
        })
    }

    pub(super) fn extents_now(&self, name: &str, wanted: &ExtentsWanted) -> Result<ExtentPage> {
        let ExtentsWanted { identity, since, since_identity, expects, offset, limit } = wanted;
        let volume = name.split_once('@').map_or(name, |(volume, _)| volume);
        let size_bytes = self.change(volume, |volume| volume.size_bytes)?;
        if expects.is_some() {
            self.change_moving(volume, expects.as_ref(), |_| ())?;
        }
        if name.contains('@') {
            self.check_identity(name, identity.as_ref())?;
        }
        if let Some(since) = since {
            self.check_identity(&format!("{volume}@{since}"), since_identity.as_ref())?;
        }
        let first = offset.next_multiple_of(EXTENT_EVERY_BYTES);
        let step = usize::try_from(EXTENT_EVERY_BYTES).expect("64 MiB");
        let mut offsets = (first..size_bytes).step_by(step);
        let extents: Vec<Extent> = offsets
            .by_ref()
            .take(*limit)
            .map(|offset| Extent { offset, len: EXTENT_BYTES })
            .collect();
        Ok(ExtentPage { size_bytes, extents, next: offsets.next() })
    }

    fn check_identity(&self, name: &str, identity: Option<&String>) -> Result<()> {
        let there = self.with_snapshot(name, |snapshot| snapshot.identity.clone())?;
        match identity.is_none_or(|identity| *identity == there) {
            true => Ok(()),
            false => Err(refusal(ErrorKind::Conflict, format!("snapshot `{name}` is {there}"))),
        }
    }

    pub(super) fn begin_receive_now(&self, name: String, spec: BeginReceive) -> Result<Volume> {
        if let Some(from) = &spec.from
            && !self.snapshots_now().values().any(|snapshot| snapshot.identity == *from)
        {
            return Err(not_found(&name));
        }
        let receiving = self.change(&name, |volume| volume.receiving.clone()).ok().flatten();
        if spec.from.is_none() && receiving.as_ref() != Some(&spec.identity) {
            let block_size_bytes = Some(spec.block_size_bytes);
            self.create(&CreateVolume {
                block_size_bytes,
                ..plain(name.clone(), spec.size_bytes)
            })?;
            self.change(&name, |volume| volume.moves.clone_from(&spec.expects))?;
        }
        self.change_moving(&name, spec.expects.as_ref(), |volume| {
            volume.receiving = Some(spec.identity);
            volume.clone()
        })
    }

    pub(super) fn end_receive_now(&self, volume: &str, spec: EndReceive) -> Result<Snapshot> {
        let expects = spec.expects.as_ref();
        let receiving = self.change_moving(volume, expects, |volume| volume.receiving.take())?;
        if receiving.as_ref() != Some(&spec.identity) {
            let message = format!("volume `{volume}` is not receiving that");
            return Err(refusal(ErrorKind::Conflict, message));
        }
        let name = format!("{volume}@{}", spec.snapshot);
        let snapshot = Snapshot { identity: spec.identity, ..self.snapshot_of(&name, expects)? };
        self.snapshots_now().insert(name, snapshot.clone());
        Ok(snapshot)
    }

    pub(super) fn move_now(&self, name: &str, step: MoveVolume) -> Result<Volume> {
        let MoveVolume { before, after, last, id } = step;
        let arrives = before.as_ref().filter(|moves| moves.state == MoveState::Arriving);
        let arrives = arrives.filter(|_| after.is_none()).cloned();
        if arrives.is_some() || last.is_some() {
            let newest = self
                .snapshots_now()
                .values()
                .filter(|all| all.volume == name)
                .max_by_key(|all| all.id)
                .map(|newest| newest.identity.clone());
            if last.is_none() || last != newest {
                let message = format!("the newest snapshot of volume `{name}` is another");
                return Err(refusal(ErrorKind::Conflict, message));
            }
        }
        let moved = self.change(name, |volume| {
            let fits = volume.moves == before && id.is_none_or(|id| id == volume.id);
            if fits {
                let arrived = arrives.zip(last).map(|(moves, last)| VolumeMove {
                    state: MoveState::Arrived,
                    snapshot: last.parse().ok(),
                    ..moves
                });
                volume.moves = arrived.or(after);
            }
            fits.then(|| volume.clone())
        })?;
        let elsewhere = || refusal(ErrorKind::Conflict, format!("volume `{name}` moves otherwise"));
        moved.ok_or_else(elsewhere)
    }
}
