//! Volumes as what is moved: snapshots of them, by NBD.

use varve_access_admin::v1::{Volume, VolumeMove};
use varve_client::{Progress, Result};
use varve_types::ByteCount;

use super::difference::{Differences, has_common};
use super::kind::{DaemonView, Item, MigrationKind, Words};
use super::sending::Sender;
use super::side::{MigrationRun, MigrationSide, is_internal};

/// Volumes.
pub(super) struct Volumes;

const WORDS: Words = Words {
    noun: "volume",
    refused: "writes",
    not_same: "a snapshot that the source's does not have",
    related: "that has snapshots of the source's",
    names: "`varve volume list` shows the names in use",
    delete_kept: "delete that first: `varve volume delete --snapshots`",
    another_there: "clone the source's under another name and delete it; run the command again then, and the target's is what it is",
    another_here: "delete or clone one of the two: a volume keeps its name. If the source's refuses writes, --cancel gives it back",
    in_the_way: "clients are connected",
    only_there: "a clone of its last snapshot has what it was; `varve volume delete --snapshots` at the source deletes it",
};

fn seen(volume: Volume) -> DaemonView {
    let notes = volume.origin.iter().map(|origin| {
        format!("it is a clone of {origin}: at the target it shares nothing with that")
    });
    DaemonView { notes: notes.collect(), name: volume.name, moves: volume.moves }
}

impl MigrationKind for Volumes {
    fn words(&self) -> &'static Words {
        &WORDS
    }

    fn all(&self, side: &MigrationSide) -> Result<Vec<DaemonView>> {
        Ok(side.volumes()?.into_iter().map(seen).collect())
    }

    fn look(&self, side: &MigrationSide, name: &str) -> Result<Option<DaemonView>> {
        Ok(side.volume(name)?.map(seen))
    }

    fn step(
        &self,
        side: &MigrationSide,
        name: &str,
        before: Option<&VolumeMove>,
        after: Option<VolumeMove>,
    ) -> Result<()> {
        side.step(name, before, after)
    }

    fn delete(&self, side: &MigrationSide, name: &str, expects: &VolumeMove) -> Result<bool> {
        side.delete_volume(name, expects).map(|()| true)
    }

    fn last(&self, source: &MigrationSide, name: &str) -> Result<Option<String>> {
        let last = source.snapshots(name)?.into_iter().rfind(is_internal);
        Ok(last.map(|last| last.identity))
    }

    fn is_related(&self, run: &MigrationRun, name: &str) -> Result<bool> {
        has_common(run, name)
    }

    fn goes_on_behind_fences(&self) -> bool {
        true
    }

    fn sender<'a>(&self, item: Item<'a>, watch: &'a Progress) -> Box<dyn Sender + 'a> {
        Box::new(Differences::new(item, watch))
    }

    fn traces(&self, side: &MigrationSide, name: &str) -> Result<Option<String>> {
        let internal = side.snapshots(name)?.iter().filter(|s| is_internal(s)).count();
        Ok((internal > 0).then(|| format!("has {internal} snapshots of a migration")))
    }

    fn remove_traces(
        &self,
        side: &MigrationSide,
        name: &str,
        moves: Option<&VolumeMove>,
    ) -> Result<()> {
        for snapshot in side.snapshots(name)?.iter().filter(|snapshot| is_internal(snapshot)) {
            side.delete_snapshot(snapshot, moves)?;
        }
        Ok(())
    }

    fn amount(&self, item: Item<'_>) -> Result<String> {
        let source = &item.run.source;
        let size_bytes = source.volume(item.name)?.map_or(0, |volume| volume.size_bytes);
        let snapshots = source.snapshots(item.name)?.iter().filter(|s| !is_internal(s)).count();
        Ok(format!("{}, with {snapshots} snapshots", ByteCount(size_bytes)))
    }

    fn kept(&self, item: Item<'_>) -> Result<String> {
        let last = item.run.source.snapshots(item.name)?.into_iter().rfind(is_internal);
        let last = last.map_or_else(|| format!("{}@…", item.name), |last| last.name);
        Ok(format!("{last} is what it was: clone that, or delete the volume with --snapshots"))
    }

    fn without_target(&self, name: &str) -> String {
        format!("`varve volume clone {name} NAME` at the source creates a writable volume")
    }
}
