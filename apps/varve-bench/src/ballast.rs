//! Data that fill a daemon's pool to a share of its capacity while a load runs, as storage is never measured empty.

use std::cell::RefCell;

use hyper::Method;
use varve_access_admin::v1::{self, CreateVolume};
use varve_access_admin::{percent_encoded, volume_path};
use varve_client::age::now_unix_ms;
use varve_client::{Client, Failure, Progress, Result};
use varve_tool_bench::{LoadSpec, Target};
use varve_types::{ByteCount, Dedup};

use super::scale::server;

/// Operations that write it.
const BLOCK_BYTES: usize = 1 << 20;

/// Volumes of it at most: each one writes what is missing then, as pages and journals take room too.
const VOLUMES_MAX: usize = 4;

/// How near to the share is near enough, in percent of the capacity.
const NEAR_PERCENT: f64 = 0.5;

/// Volumes that fill a pool. They are removed by `remove`.
pub(super) struct PoolFill {
    client: Client,
    volumes: RefCell<Vec<String>>,
}

/// Writes a target once as a whole.
pub(super) type Fill<'a> = &'a dyn Fn(&Target, LoadSpec) -> Result<()>;

impl PoolFill {
    /// None yet.
    pub(super) fn new(client: Client) -> Self {
        Self { client, volumes: RefCell::default() }
    }

    /// Writes until `percent` of the pool's capacity are used; how full it is then, in words.
    pub(super) fn reach(&self, percent: u8, watch: &Progress, fill: Fill<'_>) -> Result<String> {
        loop {
            let pool = self.client.get::<v1::Pool>("/v1/pool")?.value;
            let used = pool.used_bytes as f64 / pool.capacity_bytes.max(1) as f64 * 100.0;
            let is_near = used >= f64::from(percent) - NEAR_PERCENT;
            if is_near || self.volumes.borrow().len() == VOLUMES_MAX || watch.is_stopped() {
                let (used_bytes, all) =
                    (ByteCount(pool.used_bytes), ByteCount(pool.capacity_bytes));
                return Ok(format!(
                    "{used:.1} % of the pool, {used_bytes} of {all}, before the load"
                ));
            }
            let missing = pool.capacity_bytes / 100 * u64::from(percent) - pool.used_bytes;
            watch.say(format!("fill the pool to {percent} %"));
            self.write(missing.next_multiple_of(BLOCK_BYTES as u64), fill)?;
        }
    }

    fn write(&self, size_bytes: u64, fill: Fill<'_>) -> Result<()> {
        let name = format!("bench-ballast-{}", now_unix_ms());
        let volume = CreateVolume {
            name: name.clone(),
            size_bytes,
            block_size_bytes: None,
            dedup: Some(Dedup::Off),
            compression: None,
            quota_bytes: None,
            reservation: None,
            exclusive: None,
            beside: None,
        };
        self.client.send::<v1::Volume>(Method::POST, "/v1/volumes", &volume)?;
        self.volumes.borrow_mut().push(name.clone());
        let (begin, end) = server(&self.client)?;
        let uri = format!("{begin}{}{end}", percent_encoded(&name));
        let target =
            uri.parse::<Target>().map_err(|error| Failure::new(format!("{uri}: {error}")))?;
        let load = LoadSpec {
            block_bytes: BLOCK_BYTES,
            depth: 8,
            seed: now_unix_ms(),
            ..LoadSpec::default()
        };
        fill(&target, load)
    }

    /// Removes all of it.
    pub(super) fn remove(&self) -> Result<()> {
        let volumes = self.volumes.take();
        volumes.iter().map(|name| self.client.delete(&volume_path(name))).fold(Ok(()), Result::and)
    }
}
