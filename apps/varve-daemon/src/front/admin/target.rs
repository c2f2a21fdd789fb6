//! Which cell a request goes to: a pure function of what it says. What this does not understand goes to the first cell,
//! which says what is wrong with it.

use std::collections::BTreeSet;

use futures_util::{StreamExt, TryStreamExt, stream};
use hyper::StatusCode;
use serde::Deserialize;
use varve_access_admin::{Error, Result};
use varve_types::{CellId, ErrorKind};

use super::every::Sum;
use super::page::{PageRequest, decoded};
use super::reply::{self, Reply};
use super::request::CellRequest;
use super::{CONNECT_MAX, PoolCells, unavailable};

/// Entries of the register that are read at a time for one request.
const READS_MAX: usize = 16;

/// Where a request goes.
pub(super) enum CellTarget {
    /// Users, keys and buckets are there.
    First,
    /// To the cell of volumes. Whether it answers with a volume.
    One { place: CellKey, is_volume: bool },
    /// To all of them.
    All(Sum),
}

/// What a cell is found by.
pub(super) enum CellKey {
    /// The cell of this volume.
    Of(String),
    /// That of a volume that may be there, of the one beside which it is to be, or one with room.
    New { name: String, beside: Option<String> },
    /// The one of all these.
    Together(BTreeSet<String>),
}

#[derive(Deserialize)]
struct New {
    name: String,
    beside: Option<String>,
}

#[derive(Deserialize)]
struct Clone {
    source: String,
}

#[derive(Deserialize)]
struct NameList {
    names: Vec<String>,
}

impl CellTarget {
    pub(super) fn of(asked: &CellRequest) -> Self {
        let (path, query) = asked.path.split_once('?').unwrap_or((&asked.path, ""));
        let segments: Option<Vec<String>> = path.split('/').skip(1).map(decoded).collect();
        let segments = segments.unwrap_or_default();
        let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
        let (verb, page) = (asked.verb(), || PageRequest::of(query));
        let found = match (verb.as_str(), &segments[..]) {
            ("GET", ["metrics"]) => Some(Self::All(Sum::Metrics)),
            ("GET", ["v1", "status"]) => Some(Self::All(Sum::Status)),
            ("GET", ["v1", "pool"]) => Some(Self::All(Sum::Pool)),
            ("GET", ["v1", "drives"]) => Some(Self::All(Sum::Drives)),
            ("GET", ["v1", "health"]) => Some(Self::All(Sum::Health)),
            ("GET", ["v1", "space"]) => Some(Self::All(Sum::Space)),
            ("GET" | "POST" | "DELETE", ["v1", "check"]) => Some(Self::All(Sum::Check)),
            ("GET", ["v1", "volumes"]) => {
                page().filter(|page| page.volume.is_none()).map(Sum::Volumes).map(Self::All)
            }
            ("GET", ["v1", "snapshots"]) => page().map(|page| match &page.volume {
                Some(volume) => Self::one(CellKey::Of(volume.clone())),
                None => Self::All(Sum::Snapshots(page)),
            }),
            ("POST", ["v1", "snapshots"]) => snapshots(&asked.body).map(Self::one),
            (_, ["v1", "snapshots" | "extents", name]) => {
                Some(Self::one(CellKey::Of(volume(name))))
            }
            ("POST", ["v1", "clones"]) => {
                let source = serde_json::from_slice(&asked.body).ok();
                source.map(|Clone { source }| Self::of_volume(CellKey::Of(volume(&source))))
            }
            ("POST", ["v1", "volumes"]) => {
                let new = serde_json::from_slice(&asked.body).ok();
                new.map(|New { name, beside }| Self::of_volume(CellKey::New { name, beside }))
            }
            ("POST", ["v1", "volumes", name, "receive"]) => {
                let name = (*name).to_owned();
                Some(Self::of_volume(CellKey::New { name, beside: None }))
            }
            (_, ["v1", "volumes", name] | ["v1", "volumes", name, "rollback" | "move"]) => {
                Some(Self::of_volume(CellKey::Of((*name).to_owned())))
            }
            (_, ["v1", "volumes", name, _]) => Some(Self::one(CellKey::Of((*name).to_owned()))),
            _ => None,
        };
        found.unwrap_or(Self::First)
    }

    fn one(place: CellKey) -> Self {
        Self::One { place, is_volume: false }
    }

    fn of_volume(place: CellKey) -> Self {
        Self::One { place, is_volume: true }
    }
}

/// The volume of a snapshot's name, or of its own.
fn volume(name: &str) -> String {
    name.split_once('@').map_or(name, |(volume, _)| volume).to_owned()
}

fn snapshots(body: &[u8]) -> Option<CellKey> {
    let NameList { names } = serde_json::from_slice(body).ok()?;
    let volumes: BTreeSet<String> = names.iter().map(|name| volume(name)).collect();
    (!volumes.is_empty()).then_some(CellKey::Together(volumes))
}

impl CellKey {
    /// Puts a request to the cell. `NotFound`, `Conflict`, `Unavailable`.
    pub(super) async fn ask<C: PoolCells>(
        &self,
        cells: &C,
        asked: &CellRequest,
        is_volume: bool,
    ) -> Result<Reply> {
        let mut cell = self.find(cells, asked).await?;
        let mut answer = asked.send(cells, cell, CONNECT_MAX).await?;
        // ADMIN-3
        if answer.status() == StatusCode::NOT_FOUND
            && let Ok(now) = self.find(cells, asked).await
            && now != cell
        {
            cell = now;
            answer = asked.send(cells, cell, CONNECT_MAX).await?;
        }
        if is_volume { reply::volume(answer, cell).await } else { Ok(reply::passed(answer)) }
    }

    async fn find<C: PoolCells>(&self, cells: &C, asked: &CellRequest) -> Result<CellId> {
        match self {
            Self::Of(name) | Self::New { beside: Some(name), .. } => {
                entry(cells, name).await?.ok_or_else(|| not_found(name))
            }
            Self::New { name, beside: None } => match entry(cells, name).await? {
                Some(cell) => Ok(cell),
                None => emptiest(cells, asked).await,
            },
            Self::Together(names) => together(cells, names).await,
        }
    }
}

async fn entry<C: PoolCells>(cells: &C, name: &str) -> Result<Option<CellId>> {
    let found = cells.cell_of_volume(name).await.map_err(|why| {
        let message = format!("which cell has volume `{name}` is not known now: {why}");
        unavailable(message, "try again; names are read from the pool on RADOS")
    })?;
    match found {
        Some(cell) if cell.0 >= cells.count() => Err(Error::Backend {
            kind: ErrorKind::Corrupt,
            message: format!("volume `{name}` is entered for cell {cell}, which the pool has not"),
            hint: None,
        }),
        found => Ok(found),
    }
}

fn not_found(name: &str) -> Error {
    Error::Backend {
        kind: ErrorKind::NotFound,
        message: format!("no volume `{name}`"),
        hint: Some("`varve volume list` shows the names in use".to_owned()),
    }
}

/// The cell with the fewest used bytes, of those that answer; of several the one with the fewest volumes.
async fn emptiest<C: PoolCells>(cells: &C, asked: &CellRequest) -> Result<CellId> {
    let all = Sum::status_of_cells(cells, asked).await?;
    let load = |status: &varve_access_admin::v1::Status| (status.fill.used_bytes, status.volumes);
    let least = all.iter().min_by_key(|(cell, status)| (load(status), cell.0));
    Ok(least.expect("one has answered").0)
}

/// The one cell that all these volumes are in, else who is where.
async fn together<C: PoolCells>(cells: &C, names: &BTreeSet<String>) -> Result<CellId> {
    let find = |name: &String| {
        let name = name.clone();
        async move {
            let cell = entry(cells, &name).await?.ok_or_else(|| not_found(&name))?;
            Ok::<_, Error>((cell, name))
        }
    };
    let reads = stream::iter(names.iter().map(find)).buffered(READS_MAX);
    let found: Vec<(CellId, String)> = reads.try_collect().await?;
    let first = found.first().map_or(CellId::FIRST, |(cell, _)| *cell);
    let apart = found.iter().find(|(cell, _)| *cell != first);
    let Some((other, _)) = apart else { return Ok(first) };
    let in_cell = |wanted: CellId| {
        let names = found.iter().filter(|(cell, _)| *cell == wanted);
        let names: Vec<String> = names.map(|(_, name)| format!("`{name}`")).collect();
        format!("{} in cell {wanted}", names.join(", "))
    };
    let (here, there) = (in_cell(first), in_cell(*other));
    Err(Error::Backend {
        kind: ErrorKind::Conflict,
        message: format!(
            "snapshots at one instant are of volumes in one cell, and there are {here}, {there}"
        ),
        hint: Some(
            "make volumes that belong together in one cell: `varve volume create --beside VOLUME`"
                .to_owned(),
        ),
    })
}
