//! Answers of several cells as one: amounts are summed up, states are the worst, and what belongs to a cell says so.

use std::collections::{BTreeMap, BTreeSet};

use varve_access_admin::v1::{
    BucketSpace, CellStatus, CheckReport, CheckState, CheckStatus, DriveList, Fill, Health,
    HealthReason, HealthState, MemoryStatus, NodeStatus, Pool, ServiceState, ShardStatus, Space,
    Status, VolumeSpace,
};
use varve_types::{CellId, PoolId};

use super::every::GatheredAnswers;

pub(super) fn status(all: GatheredAnswers<Status>) -> Status {
    let GatheredAnswers { cells, missing, .. } = all;
    let sum = |amount: fn(&Status) -> u64| total(cells.iter().map(|(_, status)| amount(status)));
    let all_serve = cells.iter().all(|(_, status)| status.state == ServiceState::Serving);
    let is_whole = all_serve && missing.is_empty();
    let fills = cells.iter().map(|(cell, status)| (*cell, &status.fill));
    let in_cells = cells
        .iter()
        .map(|(cell, status)| cell_status(*cell, &status.fill, status.nodes.as_deref()));
    let shards = cells.iter().flat_map(|(cell, status)| {
        let numbered = |mut shard: ShardStatus| {
            shard.cell = Some(cell.0);
            shard
        };
        status.shards.iter().cloned().map(numbered)
    });
    let mut listeners = Vec::new();
    for listener in cells.iter().flat_map(|(_, status)| &status.listeners) {
        if !listeners.contains(listener) {
            listeners.push(listener.clone());
        }
    }
    let (first, said) = &cells[0]; // One has answered.
    Status {
        version: said.version.clone(),
        state: if is_whole { ServiceState::Serving } else { ServiceState::Degraded },
        pool_id: whole_pool(&said.pool_id, *first),
        uptime_ms: cells.iter().map(|(_, status)| status.uptime_ms).min().unwrap_or(0),
        volumes: sum(|status| status.volumes),
        connections: sum(|status| status.connections),
        listeners,
        memory: MemoryStatus {
            budget_bytes: sum(|status| status.memory.budget_bytes),
            used_bytes: sum(|status| status.memory.used_bytes),
            resident_bytes: resident_bytes(&cells),
        },
        fill: fill(fills),
        journal: said.journal.clone(),
        standing_by: standing_by(&cells),
        nodes: nodes(&cells),
        shards: shards.collect(),
        troubles: troubles(&cells),
        cells: in_cells.collect(),
        missing_cells: missing,
    }
}

/// Of each node once, as the cells that it serves share its process. None where a daemon does not say.
fn resident_bytes(cells: &[(CellId, Status)]) -> Option<u64> {
    let mut by_node = BTreeMap::new();
    for (_, status) in cells {
        let node = status.nodes.iter().flatten().find(|node| node.serves)?;
        by_node.insert(&node.id, status.memory.resident_bytes?);
    }
    Some(total(by_node.into_values()))
}

/// Those of all cells, each with the cell that it is of.
fn troubles(cells: &[(CellId, Status)]) -> Vec<String> {
    let of_cell = |(cell, status): &(CellId, Status)| {
        let cell = cell.0;
        status.troubles.iter().map(move |trouble| format!("cell {cell}: {trouble}")).collect()
    };
    cells.iter().flat_map::<Vec<String>, _>(of_cell).collect()
}

pub(super) fn pool(all: GatheredAnswers<Pool>) -> Pool {
    let GatheredAnswers { cells, missing, .. } = all;
    let sum = |amount: fn(&Pool) -> u64| total(cells.iter().map(|(_, pool)| amount(pool)));
    let shards = cells.iter().map(|(_, pool)| pool.shards).fold(0, u16::saturating_add);
    let mut drives = Vec::new();
    for drive in cells.iter().flat_map(|(_, pool)| &pool.drives) {
        if !drives.contains(drive) {
            drives.push(drive.clone());
        }
    }
    let (first, said) = &cells[0]; // One has answered.
    Pool {
        id: whole_pool(&said.id, *first),
        created_unix_ms: said.created_unix_ms,
        shards,
        segment_size_bytes: said.segment_size_bytes,
        size_bytes: sum(|pool| pool.size_bytes),
        capacity_bytes: sum(|pool| pool.capacity_bytes),
        used_bytes: sum(|pool| pool.used_bytes),
        free_bytes: sum(|pool| pool.free_bytes),
        drives,
        protect: None,
        survives: None,
        data_class: None,
        journal_class: None,
        journal_class_met: None,
        unconverted_zones: None,
        usable_bytes: None,
        raw_bytes: None,
        missing_cells: missing,
    }
}

pub(super) fn drives(all: GatheredAnswers<DriveList>) -> DriveList {
    let GatheredAnswers { cells, missing, .. } = all;
    let mut drives = Vec::new();
    for drive in cells.into_iter().flat_map(|(_, list)| list.drives) {
        if !drives.contains(&drive) {
            drives.push(drive);
        }
    }
    DriveList { drives, missing_cells: missing }
}

/// The worst of all cells; of one that does not answer it cannot be told.
pub(super) fn health(all: GatheredAnswers<Health>) -> Health {
    let GatheredAnswers { cells, missing, .. } = all;
    let silent = missing.iter().map(|cell| HealthReason {
        state: HealthState::Unknown,
        message: format!("cell {cell} does not answer"),
        advice: "look into the log of the nodes for what they wait for".to_owned(),
    });
    let mut reasons: Vec<HealthReason> = silent.collect();
    for (cell, health) in cells {
        reasons.extend(health.reasons.into_iter().map(|reason| HealthReason {
            message: format!("cell {cell}: {}", reason.message),
            ..reason
        }));
    }
    Health { missing_cells: missing, ..Health::of(reasons, None) }
}

pub(super) fn space(all: GatheredAnswers<Space>) -> Space {
    let GatheredAnswers { cells, missing, .. } = all;
    let sum = |amount: fn(&Space) -> u64| total(cells.iter().map(|(_, space)| amount(space)));
    let fills = cells.iter().map(|(cell, space)| (*cell, &space.fill));
    let in_cells = cells.iter().map(|(cell, space)| cell_status(*cell, &space.fill, None));
    let mut volumes: Vec<VolumeSpace> =
        cells.iter().flat_map(|(_, space)| space.volumes.iter().cloned()).collect();
    volumes.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
    let mut buckets: Vec<BucketSpace> =
        cells.iter().flat_map(|(_, space)| space.buckets.iter().cloned()).collect();
    buckets.sort_by(|a, b| a.name.cmp(&b.name));
    Space {
        size_bytes: sum(|space| space.size_bytes),
        capacity_bytes: sum(|space| space.capacity_bytes),
        used_bytes: sum(|space| space.used_bytes),
        free_bytes: sum(|space| space.free_bytes),
        logical_bytes: sum(|space| space.logical_bytes),
        unique_bytes: sum(|space| space.unique_bytes),
        stored_bytes: sum(|space| space.stored_bytes),
        referenced_bytes: sum(|space| space.referenced_bytes),
        waiting_bytes: sum(|space| space.waiting_bytes),
        metadata_bytes: sum(|space| space.metadata_bytes),
        reserved_bytes: sum(|space| space.reserved_bytes),
        outstanding_bytes: sum(|space| space.outstanding_bytes),
        fill: fill(fills),
        volumes,
        buckets,
        cells: in_cells.collect(),
        missing_cells: missing,
    }
}

pub(super) fn check(all: GatheredAnswers<CheckStatus>) -> CheckStatus {
    let GatheredAnswers { cells, missing, .. } = all;
    let any = |state: CheckState| cells.iter().any(|(_, check)| check.state == state);
    let (idle, done) = (any(CheckState::Idle), any(CheckState::Done));
    let state = if any(CheckState::Running) {
        CheckState::Running
    } else if any(CheckState::Failed) || (idle && done) {
        CheckState::Failed
    } else if any(CheckState::Stopped) {
        CheckState::Stopped
    } else if done {
        CheckState::Done
    } else {
        CheckState::Idle
    };
    let why = |(cell, check): &(CellId, CheckStatus)| match (&check.error, check.state) {
        (Some(error), _) => Some(format!("cell {cell}: {error}")),
        (None, CheckState::Idle) => {
            Some(format!("cell {cell}: its daemon was started since, or it moved"))
        }
        (None, _) => None,
    };
    let error = cells.iter().find_map(why).filter(|_| state == CheckState::Failed);
    let references = total(cells.iter().map(|(_, check)| check.references));
    let report = report(&cells, &missing).filter(|_| state != CheckState::Running);
    CheckStatus { state, references, report, error, missing_cells: missing }
}

/// What the checks that have ended found, if any.
fn report(cells: &[(CellId, CheckStatus)], missing: &[u16]) -> Option<CheckReport> {
    let reports: Vec<(CellId, &CheckReport)> =
        cells.iter().filter_map(|(cell, check)| Some((*cell, check.report.as_ref()?))).collect();
    let sum = |amount: fn(&CheckReport) -> u64| total(reports.iter().map(|(_, it)| amount(it)));
    let lines = |of: fn(&CheckReport) -> &Vec<String>| {
        let of_cell = |(cell, it): &(CellId, &CheckReport)| {
            let cell = *cell;
            of(it).clone().into_iter().map(move |line| format!("cell {cell}: {line}"))
        };
        reports.iter().flat_map(of_cell).collect::<Vec<String>>()
    };
    let mut not_checked = lines(|it| &it.not_checked);
    not_checked.extend(missing.iter().map(|cell| format!("cell {cell}: it does not answer")));
    (!reports.is_empty()).then(|| CheckReport {
        datasets: sum(|it| it.datasets),
        references: sum(|it| it.references),
        dangling: sum(|it| it.dangling),
        unreadable: sum(|it| it.unreadable),
        leaked: sum(|it| it.leaked),
        unnamed: sum(|it| it.unnamed),
        unnamed_bytes: sum(|it| it.unnamed_bytes),
        findings: lines(|it| &it.findings),
        not_checked,
    })
}

fn total(amounts: impl Iterator<Item = u64>) -> u64 {
    amounts.fold(0, u64::saturating_add)
}

/// A cell goes by an identity of its own, from which that of the pool follows.
fn whole_pool(id: &str, cell: CellId) -> String {
    id.parse().map_or_else(|_| id.to_owned(), |id: PoolId| id.whole(cell).to_string())
}

fn cell_status(cell: CellId, fill: &Fill, nodes: Option<&[NodeStatus]>) -> CellStatus {
    let node = nodes.and_then(|nodes| nodes.iter().find(|node| node.serves));
    CellStatus { cell: cell.0, node: node.map(|node| node.place.clone()), fill: fill.clone() }
}

/// The amounts of all; thresholds hold for each cell, and the fullest one is the pool's.
fn fill<'a>(fills: impl Iterator<Item = (CellId, &'a Fill)> + Clone) -> Fill {
    let fullest = fills.clone().max_by_key(|(_, fill)| (fill.level, fill.used_percent()));
    let (cell, fullest) = fullest.expect("one has answered");
    let percent = fullest.used_percent();
    let advice =
        fullest.advice.as_ref().map(|advice| format!("cell {cell} is at {percent} %: {advice}"));
    Fill {
        used_bytes: total(fills.clone().map(|(_, fill)| fill.used_bytes)),
        capacity_bytes: total(fills.map(|(_, fill)| fill.capacity_bytes)),
        level: fullest.level,
        threshold_percent: fullest.threshold_percent,
        advice,
    }
}

/// Who serves none of these cells.
fn standing_by(cells: &[(CellId, Status)]) -> Option<Vec<String>> {
    let mut said = cells.iter().filter_map(|(_, status)| status.standing_by.as_ref());
    let mut common = said.next()?.clone();
    said.for_each(|others| common.retain(|place| others.contains(place)));
    Some(common)
}

/// The nodes that any cell knows of. Who serves several cells counts what others carried to it once.
fn nodes(cells: &[(CellId, Status)]) -> Option<Vec<NodeStatus>> {
    let (mut all, mut counted) = (Vec::<NodeStatus>::new(), BTreeSet::new());
    let said = || cells.iter().filter_map(|(_, status)| status.nodes.as_ref());
    said().next()?;
    for nodes in said() {
        let is_new = counted.insert(nodes.iter().find(|node| node.serves).map(|node| &node.id));
        for node in nodes {
            let Some(known) = all.iter_mut().find(|known| known.id == node.id) else {
                all.push(node.clone());
                continue;
            };
            known.serves |= node.serves;
            if is_new {
                known.connections_open =
                    known.connections_open.saturating_add(node.connections_open);
                known.connections = known.connections.saturating_add(node.connections);
                known.received_bytes = known.received_bytes.saturating_add(node.received_bytes);
                known.sent_bytes = known.sent_bytes.saturating_add(node.sent_bytes);
            }
        }
    }
    Some(all)
}
