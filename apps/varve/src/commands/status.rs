//! `varve status`: what the daemon is doing now.

use std::fmt::Write;

use clap::Args;
use varve_access_admin::v1::{
    self, FillLevel, HealthState, JournalStatus, ServiceState, ShardState,
};
use varve_client::table::{self, Align};
use varve_client::{Client, Failure, Result, age};
use varve_types::ByteCount;

use crate::cells;
use crate::cli::Format;
use crate::commands::node;

/// Exit code of `--check` for a daemon that needs attention.
const DEGRADED: u8 = 3;
/// Exit code of `--check` for a pool that refuses writes, or soon will.
const FULL: u8 = 4;

/// Show the state of the daemon
#[derive(Args, Debug)]
#[command(
    after_help = "Exit codes with --check: 0 healthy, 1 no answer from a daemon, 3 degraded, 4 full or near full. Without it: 0 for any answer."
)]
pub(crate) struct Status {
    /// Print `ok`, or fail with the reason: for monitoring
    #[arg(long, conflicts_with = "json")]
    check: bool,

    #[command(flatten)]
    format: Format,
}

impl Status {
    pub(crate) fn run(self, client: &Client) -> Result<String> {
        let answer = client.get::<v1::Status>("/v1/status")?;
        if self.check {
            judge(&answer.value)?;
            return judge_safety(&client.get::<v1::Health>("/v1/health")?.value)
                .map(|()| "ok\n".to_owned());
        }
        Ok(answer.print(self.format.json, |status| {
            let pool = client.get::<v1::Pool>("/v1/pool").ok();
            describe(&status, pool.and_then(|pool| redundancy(&pool.value)))
        }))
    }
}

/// Fails with the reasons where the daemon needs attention.
fn judge(status: &v1::Status) -> Result<()> {
    let mut reasons = status.troubles.clone();
    for shard in &status.shards {
        let number = shard.shard;
        match (&shard.trouble, shard.state) {
            (Some(trouble), _) => reasons.push(format!("shard {number}: {trouble}")),
            (None, ShardState::Serving) => {}
            (None, _) => reasons.push(format!("shard {number} is opening")),
        }
    }
    reasons.extend(status.missing_cells.iter().map(|cell| format!("cell {cell} does not answer")));
    if status.state == ServiceState::Degraded || !reasons.is_empty() {
        let what = format!("degraded: {}", reasons.join("; "));
        return Err(Failure::with_code(what, DEGRADED));
    }
    if status.fill.level >= FillLevel::NearFull {
        return Err(Failure::with_code(fullness(&status.fill).trim_end(), FULL));
    }
    Ok(())
}

/// Fails where the next lost drive may take data, or something cannot be read. What repairs itself does not count.
fn judge_safety(health: &v1::Health) -> Result<()> {
    match health.state {
        HealthState::Ok | HealthState::Attention => Ok(()),
        HealthState::AtRisk | HealthState::Unknown | HealthState::Lost => {
            let worst = health.reasons.first().map_or("", |reason| &reason.message);
            let what = format!("{}: {worst}", health.state.word());
            Err(Failure::with_code(what, DEGRADED).hint("`varve health` has all reasons"))
        }
    }
}

/// How data are kept over drives, and what of that is not so yet; nothing of pools that have no redundancy.
fn redundancy(pool: &v1::Pool) -> Option<String> {
    let protect = pool.protect.as_ref()?;
    if protect == "none" && pool.unconverted_zones.is_none() {
        return None;
    }
    let mut text = match pool.survives {
        None => format!("{protect}: something cannot be read, see `varve health`"),
        Some(0) => format!("{protect}: survives no lost drive"),
        Some(1) => format!("{protect}: survives the loss of a drive"),
        Some(drives) => format!("{protect}: survives the loss of {drives} drives"),
    };
    if let Some(usable) = pool.usable_bytes {
        let _ = write!(text, ", {} usable", ByteCount(usable));
    }
    if let Some(zones) = pool.unconverted_zones {
        let _ = write!(text, ", {zones} zones to convert");
    }
    Some(text)
}

fn describe(status: &v1::Status, redundancy: Option<String>) -> String {
    let state = match status.state {
        ServiceState::Serving => "serving",
        ServiceState::Degraded => "degraded",
    };
    let mut facts = vec![
        ("state", format!("{state} for {}", age::span(status.uptime_ms))),
        ("version", status.version.clone()),
        ("pool", status.pool_id.clone()),
        ("volumes", status.volumes.to_string()),
        ("connections", connections(status.connections)),
        ("memory", memory(&status.memory)),
        ("space", of(status.fill.used_bytes, status.fill.capacity_bytes)),
    ];
    if let Some(JournalStatus { place, durability }) = &status.journal {
        facts.push(("journal", format!("{place} ({durability})")));
    }
    facts.extend(redundancy.map(|text| ("redundancy", text)));
    if let Some(places) = &status.standing_by {
        let places = if places.is_empty() { "nobody".to_owned() } else { places.join("; ") };
        facts.push(("standing by", places));
    }
    let mut text = table::labelled(&facts);
    text.push_str(&fullness(&status.fill));
    for trouble in &status.troubles {
        let _ = writeln!(text, "{trouble}");
    }
    text.push_str(&cells::without(&status.missing_cells));
    text.push_str(&cells::table(&status.cells));
    let mut rows: Vec<Vec<String>> = status.shards.iter().map(shard_row).collect();
    let mut header = vec![
        ("SHARD", Align::Right),
        ("STATE", Align::Left),
        ("UNDRAINED", Align::Right),
        ("LANE", Align::Right),
    ];
    if !status.cells.is_empty() {
        header.insert(0, ("CELL", Align::Right));
        for (row, shard) in rows.iter_mut().zip(&status.shards) {
            row.insert(0, shard.cell.map_or_else(|| "-".to_owned(), |cell| cell.to_string()));
        }
    }
    let _ = write!(text, "\n{}", table::columns(&header, &rows));
    for shard in &status.shards {
        if let Some(trouble) = &shard.trouble {
            let cell = shard.cell.map_or_else(String::new, |cell| format!("cell {cell}, "));
            let _ = writeln!(text, "{cell}shard {}: {trouble}", shard.shard);
        }
    }
    let rows: Vec<Vec<String>> = status.listeners.iter().map(listener_row).collect();
    if let Some(nodes) = &status.nodes {
        let _ = write!(text, "\n{}", node::list::describe(nodes, &status.cells));
    }
    let header = [("LISTENER", Align::Left), ("ADDRESS", Align::Left)];
    let _ = write!(text, "\n{}", table::columns(&header, &rows));
    text
}

/// What the process has, and what of that the budget bounds.
fn memory(memory: &v1::MemoryStatus) -> String {
    let caches = format!("caches and buffers {}", of(memory.used_bytes, memory.budget_bytes));
    match memory.resident_bytes {
        Some(bytes) => format!("{}; {caches}", ByteCount(bytes)),
        None => caches,
    }
}

/// How many there are, and where to see more.
fn connections(open: u64) -> String {
    match open {
        0 => "0".to_owned(),
        open => format!("{open} (`varve volume clients` lists those to volumes)"),
    }
}

/// A line on a pool that is fuller than a threshold; nothing of others.
pub(crate) fn fullness(fill: &v1::Fill) -> String {
    let level = match fill.level {
        FillLevel::Ok => return String::new(),
        FillLevel::Filling => "filling",
        FillLevel::High => "high",
        FillLevel::NearFull => "near full",
        FillLevel::Full => "full",
    };
    let percent = fill.used_percent();
    let advice = fill.advice.as_deref().unwrap_or_default();
    format!("space is {level}, {percent} % used: {advice}\n")
}

fn shard_row(shard: &v1::ShardStatus) -> Vec<String> {
    let state = match shard.state {
        ShardState::Opening => "opening",
        ShardState::Serving => "serving",
        ShardState::Damaged => "damaged",
    };
    vec![
        shard.shard.to_string(),
        state.to_owned(),
        ByteCount(shard.undrained_bytes).to_string(),
        of(shard.lane_used_bytes, shard.lane_size_bytes),
    ]
}

fn listener_row(listener: &v1::ListenerStatus) -> Vec<String> {
    vec![listener.protocol.clone(), listener.address.clone()]
}

fn of(part_bytes: u64, whole_bytes: u64) -> String {
    format!("{} of {}", ByteCount(part_bytes), ByteCount(whole_bytes))
}
