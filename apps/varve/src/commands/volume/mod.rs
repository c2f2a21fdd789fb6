//! `varve volume`: make, list, show, change, clone, send and delete volumes.

mod clients;
mod clone;
mod create;
mod delete;
mod diff;
mod disconnect;
mod export;
mod flatten;
mod import;
mod list;
mod resize;
mod set;
mod show;
mod snapshot;

use clap::Subcommand;
use varve_access_admin::v1;
use varve_client::{Client, Result, age, table};
use varve_types::ByteCount;

/// Create, list, show, change, snapshot, clone, export and delete volumes
#[derive(Subcommand, Debug)]
pub(crate) enum VolumeCommand {
    Create(create::VolumeCreate),
    #[command(visible_alias = "ls")]
    List(list::VolumeList),
    Show(show::VolumeShow),
    Resize(resize::Resize),
    Set(set::VolumeSet),
    #[command(visible_alias = "rm")]
    Delete(delete::VolumeDelete),
    Clients(clients::Clients),
    Disconnect(disconnect::Disconnect),
    #[command(subcommand)]
    Snapshot(snapshot::SnapshotCommand),
    Clone(clone::CloneCommand),
    Flatten(flatten::Flatten),
    Diff(diff::Diff),
    Export(export::VolumeExport),
    Import(import::Import),
    ExportDiff(export::ExportDiff),
    ImportDiff(import::ImportDiff),
}

impl VolumeCommand {
    pub(crate) fn run(self, client: &Client) -> Result<String> {
        match self {
            Self::Create(command) => command.run(client),
            Self::List(command) => command.run(client),
            Self::Show(command) => command.run(client),
            Self::Resize(command) => command.run(client),
            Self::Set(command) => command.run(client),
            Self::Delete(command) => command.run(client),
            Self::Clients(command) => command.run(client),
            Self::Disconnect(command) => command.run(client),
            Self::Snapshot(command) => command.run(client),
            Self::Clone(command) => command.run(client),
            Self::Flatten(command) => command.run(client),
            Self::Diff(command) => command.run(client),
            Self::Export(command) => command.run(client),
            Self::Import(command) => command.run(client),
            Self::ExportDiff(command) => command.run(client),
            Self::ImportDiff(command) => command.run(client),
        }
    }
}

/// Deletes one after another, at the paths that they have in the API, and ends at the first that is refused.
fn delete_each(client: &Client, names: &[String], path: impl Fn(&str) -> String) -> Result<()> {
    names.iter().enumerate().try_for_each(|(index, name)| {
        client.delete(&path(name)).map_err(|failure| match index {
            0 => failure,
            _ => failure.followed(" (those before it are deleted)"),
        })
    })
}

/// The properties of a volume, and what they are called.
fn properties(volume: &v1::Volume) -> Vec<(&'static str, String)> {
    let mut pairs = vec![
        ("volume", volume.name.clone()),
        ("namespace", volume.namespace.clone()),
        ("id", volume.id.to_string()),
        ("size", ByteCount(volume.size_bytes).to_string()),
        ("block size", ByteCount(u64::from(volume.block_size_bytes)).to_string()),
        ("dedup", volume.dedup.to_string()),
        ("compression", volume.compression.to_string()),
        ("created", age::since(volume.created_unix_ms)),
        ("clients", volume.openers.to_string()),
    ];
    pairs.extend(volume.cell.map(|cell| ("cell", cell.to_string())));
    pairs.extend(volume.quota_bytes.map(|quota| ("quota", ByteCount(quota).to_string())));
    pairs.extend(volume.reserved_bytes.map(|reserved| {
        let outstanding = ByteCount(volume.outstanding_bytes.unwrap_or(0));
        ("reserved", format!("{} ({outstanding} not held yet)", ByteCount(reserved)))
    }));
    pairs.extend(volume.exclusive.then(|| ("exclusive", table::on_off(true).to_owned())));
    pairs.extend(volume.origin.iter().map(|origin| ("cloned from", origin.clone())));
    pairs.extend(volume.receiving.iter().map(|identity| ("receiving", identity.clone())));
    pairs.extend(volume.moves.as_ref().map(on_its_way));
    pairs
}

/// Where a volume or bucket is on its way between two pools.
pub(super) fn on_its_way(moves: &v1::VolumeMove) -> (&'static str, String) {
    let label = match moves.state {
        v1::MoveState::Arriving => "arrives from",
        v1::MoveState::Leaving => "moves to",
        v1::MoveState::Left => "moved to",
        v1::MoveState::Arrived => "arrived from",
    };
    (label, moves.other_side())
}
