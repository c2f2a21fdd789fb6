//! Volumes of a daemon that a run makes for itself, one for each job, and removes; with clones that drift apart and
//! snapshots while it runs.

use std::time::Duration;
use varve_types::Dedup;

use hyper::Method;
use varve_access_admin::v1::{self, CloneVolume, CreateSnapshots, CreateVolume};
use varve_access_admin::{percent_encoded, volume_path};
use varve_client::age::now_unix_ms;
use varve_client::{Client, Failure, Progress, Result};
use varve_tool_bench::{LoadSpec, Target, VolumeWork};

use super::background::Background;
use super::ballast::Fill;
use super::scale::server;

/// Where a volume of a name is served.
type UriOf<'a> = &'a dyn Fn(&str) -> Result<Target>;

/// Operation that fills the volume that clones are made of.
const FILL_BYTES: usize = 1 << 20;

/// Volumes that a run makes.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct VolumesGoal {
    /// Bytes of each.
    pub size_bytes: u64,
    /// What is done with them beside the load.
    pub work: VolumeWork,
}

/// The volumes of a run.
pub(super) struct Fleet {
    goal: VolumesGoal,
    client: Client,
    names: Vec<String>,
    /// The volume of each job.
    pub(super) targets: Vec<Target>,
    /// Begin of all names of this run.
    prefix: String,
}

/// Snapshots that were taken while a load ran.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(super) struct TakenSnapshots {
    pub(super) snapshots: u64,
    pub(super) clones: u64,
    pub(super) failures: u64,
}

impl VolumesGoal {
    /// Bytes of a volume that the load uses: all, or as much of a clone as becomes its own.
    pub fn used_bytes(&self) -> u64 {
        let percent = self.work.own_percent.unwrap_or(100);
        self.size_bytes / 100 * u64::from(percent) / 4096 * 4096
    }
}

impl Fleet {
    /// Makes a volume for each job of `load`; `fill` writes a target once as a whole.
    pub(super) fn make(
        goal: VolumesGoal,
        load: &LoadSpec,
        client: Client,
        watch: &Progress,
        fill: Fill<'_>,
    ) -> Result<Self> {
        let server = server(&client)?;
        let prefix = format!("bench-{}-", now_unix_ms());
        let uri = |name: &str| {
            let uri = format!("{}{}{}", server.0, percent_encoded(name), server.1);
            uri.parse().map_err(|error: varve_tool_bench::Error| Failure::new(error.to_string()))
        };
        let mut fleet = Self { goal, client, names: Vec::new(), targets: Vec::new(), prefix };
        let made = fleet.make_all(load, watch, &uri, fill);
        if let Err(failure) = made {
            // The first failure says more than what removing meets after it.
            let _left = fleet.remove(watch);
            return Err(failure);
        }
        Ok(fleet)
    }

    fn make_all(
        &mut self,
        load: &LoadSpec,
        watch: &Progress,
        uri: UriOf<'_>,
        fill: Fill<'_>,
    ) -> Result<()> {
        let golden = self.goal.work.own_percent.map(|_| format!("{}golden", self.prefix));
        if let Some(golden) = &golden {
            watch.say("fill the volume that clones are made of");
            self.create(golden)?;
            let whole = LoadSpec {
                block_bytes: FILL_BYTES,
                jobs: 1,
                depth: 8,
                rate: None,
                verify: false,
                mixture: None,
                seed: load.seed.wrapping_add(1),
                ..*load
            };
            fill(&uri(golden)?, whole)?;
        }
        for job in 0..load.jobs {
            watch.say(format!("make volume {} of {}", job + 1, load.jobs));
            let name = format!("{}{job:04}", self.prefix);
            match &golden {
                None => self.create(&name)?,
                Some(golden) => self.clone_of(golden, &name)?,
            }
            self.targets.push(uri(&name)?);
        }
        Ok(())
    }

    fn create(&mut self, name: &str) -> Result<()> {
        let volume = CreateVolume {
            name: name.to_owned(),
            size_bytes: self.goal.size_bytes,
            block_size_bytes: None,
            dedup: self.goal.work.own_percent.map(|_| Dedup::On),
            compression: None,
            quota_bytes: None,
            reservation: None,
            exclusive: None,
            beside: None,
        };
        self.client.send::<v1::Volume>(Method::POST, "/v1/volumes", &volume)?;
        self.names.push(name.to_owned());
        Ok(())
    }

    fn clone_of(&mut self, source: &str, name: &str) -> Result<()> {
        clone(&self.client, source, name)?;
        self.names.push(name.to_owned());
        Ok(())
    }

    /// Begins to take snapshots of every volume, where that is asked for: at once, and again and again.
    pub(super) fn take_snapshots(&self) -> Result<Option<Background<TakenSnapshots>>> {
        let Some(every_s) = self.goal.work.snapshot_every_s else { return Ok(None) };
        let (client, clone_one_in) = (self.client.clone(), self.goal.work.clone_one_in);
        let (names, every) = (self.names.clone(), Duration::from_secs(every_s.into()));
        let taker = Background::start("snapshots", move |end| {
            let mut taken = TakenSnapshots::default();
            for round in 0_u64.. {
                for (index, volume) in names.iter().enumerate() {
                    let name = format!("{volume}@bench-{}-{round}", now_unix_ms());
                    let spec = CreateSnapshots { names: vec![name.clone()], expects: None };
                    let made =
                        client.send::<v1::SnapshotPage>(Method::POST, "/v1/snapshots", &spec);
                    taken.snapshots += u64::from(made.is_ok());
                    taken.failures += u64::from(made.is_err());
                    let clones =
                        clone_one_in.filter(|one_in| index.is_multiple_of(*one_in as usize));
                    if clones.is_some() && round == 0 && made.is_ok() {
                        let cloned = clone(&client, &name, &format!("{volume}-clone"));
                        taken.clones += u64::from(cloned.is_ok());
                        taken.failures += u64::from(cloned.is_err());
                    }
                }
                if end.comes_within(every) {
                    break;
                }
            }
            taken
        });
        taker.map(Some)
    }

    /// What the pool holds for each byte that volumes hold: logical ÷ unique, unique ÷ stored.
    pub(super) fn reduction(&self) -> Result<Option<String>> {
        if self.goal.work.own_percent.is_none() {
            return Ok(None);
        }
        let space = self.client.counted::<v1::Space>("/v1/space")?.value;
        let ratio = |one: u64, other: u64| one as f64 / other.max(1) as f64;
        let shared = ratio(space.logical_bytes, space.unique_bytes);
        let packed = ratio(space.unique_bytes, space.stored_bytes);
        let all = ratio(space.logical_bytes, space.stored_bytes);
        Ok(Some(format!(
            "{all:.2}:1 of the whole pool, {shared:.2}:1 by clones and deduplication, {packed:.2}:1 by compression"
        )))
    }

    /// Removes all of them, with their snapshots and clones.
    pub(super) fn remove(&self, watch: &Progress) -> Result<()> {
        watch.say("remove the volumes of this run");
        let path = format!("/v1/volumes?after={}&limit=10000", percent_encoded(&self.prefix));
        let page = self.client.get::<v1::VolumePage>(&path)?.value;
        let own = page.volumes.iter().filter(|volume| volume.name.starts_with(&self.prefix));
        own.map(|volume| {
            self.client.delete(&format!("{}?snapshots=true", volume_path(&volume.name)))
        })
        .fold(Ok(()), Result::and)
    }
}

fn clone(client: &Client, source: &str, name: &str) -> Result<()> {
    let spec = CloneVolume { source: source.to_owned(), name: name.to_owned() };
    client.send::<v1::Volume>(Method::POST, "/v1/clones", &spec).map(drop)
}
