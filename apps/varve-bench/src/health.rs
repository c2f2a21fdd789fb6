//! Whether the measured system is well while it is measured. A daemon of Varve says so itself; of any other system a
//! command of the user's does, by its exit code.

use std::fmt;
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use varve_access_admin::v1::{self, ServiceState, ShardState};
use varve_client::{Client, Result};

use super::background::Background;
use super::daemon::{STATUS, serving};
use super::figures::ResultOrigin;
use super::plan::RunPlan;
use super::shell::ends_well;

/// Time between two looks.
const INTERVAL: Duration = Duration::from_secs(5);

/// Longest time for an answer.
const ANSWER: Duration = Duration::from_secs(10);

/// What was said of a load's system. Fields are added over time, never renamed.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub(crate) struct Health {
    /// Who said it.
    by: String,
    /// How often that was asked: before the load, every five seconds, and after it.
    looks: u64,
    /// Why the system was not well, and when; null when it was whenever that was asked.
    pub(crate) degraded: Option<String>,
}

impl Health {
    /// What several hosts were told; none where nobody asked.
    pub(super) fn merged(parts: &[(ResultOrigin<'_>, Option<&Self>)]) -> Option<Self> {
        let told = || parts.iter().filter_map(|(origin, health)| Some((origin, (*health)?)));
        let mut by: Vec<&str> = told().map(|(_, health)| health.by.as_str()).collect();
        by.dedup();
        let mut degraded = told().filter_map(|(origin, health)| {
            health.degraded.as_ref().map(|why| format!("{}: {why}", origin.name))
        });
        (!by.is_empty()).then(|| Self {
            by: by.join(", "),
            looks: told().map(|(_, health)| health.looks).sum(),
            degraded: degraded.next(),
        })
    }

    /// For people.
    pub(super) fn text(&self) -> String {
        let Self { by, looks, degraded } = self;
        let what = if degraded.is_some() { "degraded" } else { "well" };
        format!("{what}, as {by} says, which was asked {looks} times")
    }
}

/// Asks at the beginning, every five seconds, and at the end.
pub(crate) struct HealthWatch {
    thread: Background<Health>,
}

impl HealthWatch {
    /// Begins to ask, if there is somebody who knows.
    pub(crate) fn begin(plan: &RunPlan, client: &Client) -> Result<Option<Self>> {
        let Some(mut witness) = Witness::of(plan, client) else { return Ok(None) };
        let (by, began) = (witness.to_string(), Instant::now());
        let thread = Background::start("health", move |end| {
            for looks in 1.. {
                let at = began.elapsed().as_secs_f64();
                if let Err(why) = witness.ask() {
                    let degraded = Some(format!("{by} {why}, {at:.0} s from the beginning"));
                    return Health { by, looks, degraded };
                }
                if end.comes_within(INTERVAL) {
                    let degraded = witness.ask().err().map(|why| format!("{by} {why} at the end"));
                    return Health { by, looks: looks + 1, degraded };
                }
            }
            unreachable!("a count has no end")
        })?;
        Ok(Some(Self { thread }))
    }

    /// Asks once more; what was said.
    pub(crate) fn end(self) -> Health {
        self.thread.end()
    }
}

/// Who knows whether the system is well.
enum Witness {
    Command(String),
    Daemon { client: Client, pool_id: String, uptime_ms: u64 },
}

impl fmt::Display for Witness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Command(command) => write!(f, "`{command}`"),
            Self::Daemon { pool_id, .. } => write!(f, "the daemon of pool {pool_id}"),
        }
    }
}

impl Witness {
    /// The user's command where there is one, else the daemon if the load goes to it.
    fn of(plan: &RunPlan, client: &Client) -> Option<Self> {
        if let Some(command) = &plan.healthy {
            return Some(Self::Command(command.clone()));
        }
        let (client, status) = serving(&plan.goal, client)?;
        Some(Self::Daemon { client, pool_id: status.pool_id, uptime_ms: status.uptime_ms })
    }

    /// What it says instead of that all is well.
    fn ask(&mut self) -> std::result::Result<(), String> {
        match self {
            Self::Command(command) => {
                let began = Instant::now();
                if ends_well(command, Stdio::null(), || began.elapsed() >= ANSWER)? {
                    return Ok(());
                }
                Err(format!("gave no answer within {} s", ANSWER.as_secs()))
            }
            Self::Daemon { client, uptime_ms, .. } => {
                let asked = client.get::<v1::Status>(STATUS);
                let status =
                    asked.map_err(|failure| format!("cannot be asked: {}", failure.what()))?.value;
                let before_ms = std::mem::replace(uptime_ms, status.uptime_ms);
                if status.uptime_ms < before_ms {
                    return Err("was started again".to_owned());
                }
                trouble(&status).map_or(Ok(()), Err)
            }
        }
    }
}

/// Why a daemon is not well.
fn trouble(status: &v1::Status) -> Option<String> {
    let of_shard = |shard: &v1::ShardStatus| {
        let is_open = shard.state == ShardState::Serving;
        let why = shard.trouble.clone().or_else(|| (!is_open).then(|| "it opens".to_owned()))?;
        Some(format!("is degraded: shard {}: {why}", shard.shard))
    };
    let of_all = || (status.state != ServiceState::Serving).then(|| "is degraded".to_owned());
    status.shards.iter().find_map(of_shard).or_else(of_all)
}
