//! Native objects of Ceph as a target: the block of a load is an object, as `rados bench` writes and reads them.

use std::rc::Rc;

use futures_util::{StreamExt, stream};
use varve_client::{Failure, Result};
use varve_media::{Disk, Error, IoFuture, Persist};
use varve_media_rados::{Cluster, ClusterOptions, ObjectChange, Objects, Refusal, Write};
use varve_reactor::{Loop, LoopConfig};
use varve_stdx::{AlignedBuf, BufSlice};

/// Objects that are removed at a time.
const REMOVED_AT_ONCE: usize = 64;

/// Objects in a pool of Ceph that this run alone has.
#[derive(Clone)]
pub struct RadosGoal {
    cluster: Cluster,
    pub(crate) pool: String,
    /// Begin of the objects' names.
    prefix: String,
    object_bytes: usize,
    /// Bytes of all objects.
    pub size_bytes: u64,
}

impl std::fmt::Debug for RadosGoal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "rados:{}", self.pool)
    }
}

impl RadosGoal {
    /// Connects; objects of this run begin with `run`, a number that no other one has.
    pub(crate) fn connect(
        options: &ClusterOptions,
        pool: &str,
        run: u64,
        object_bytes: usize,
        size_bytes: u64,
    ) -> Result<Self> {
        let cluster = Cluster::connect(options).map_err(|error| to_failure(&error))?;
        // A pool that is not there is told before anything begins.
        cluster.objects(pool).map_err(|error| to_failure(&error))?;
        let prefix = format!("varve-bench-{run}-");
        Ok(Self { cluster, pool: pool.to_owned(), prefix, object_bytes, size_bytes })
    }

    /// The objects as a disk, for one thread.
    pub(super) fn open(&self) -> Result<Rc<dyn Disk>> {
        let objects = self.cluster.objects(&self.pool).map_err(|error| to_failure(&error))?;
        Ok(Rc::new(RadosDisk { objects, goal: self.clone(), name: format!("rados:{}", self.pool) }))
    }

    /// Removes what this run wrote.
    pub(super) fn clean(&self) -> Result<()> {
        let mut event_loop = Loop::new(LoopConfig::default())
            .map_err(|error| Failure::new(format!("io_uring: {error}")))?;
        let goal = self.clone();
        event_loop.run(async move {
            let objects = goal.cluster.objects(&goal.pool).map_err(|error| to_failure(&error))?;
            let names = (0..goal.size_bytes / goal.object_bytes as u64).map(|one| goal.object(one));
            let removals = stream::iter(names).map(|name| {
                let change = ObjectChange { write: Some(Write::Remove), ..ObjectChange::default() };
                objects.change(&name, change)
            });
            let mut removals = removals.buffer_unordered(REMOVED_AT_ONCE);
            let mut failed = None;
            while let Some(removed) = removals.next().await {
                failed = failed.or(removed.err().filter(|refusal| *refusal != Refusal::NOT_FOUND));
            }
            failed.map_or(Ok(()), |refusal| {
                let what =
                    format!("remove the objects {}… of {}: {refusal}", goal.prefix, goal.pool);
                Err(Failure::new(what))
            })
        })
    }

    fn object(&self, number: u64) -> String {
        format!("{}{number}", self.prefix)
    }
}

/// Objects side by side.
struct RadosDisk {
    objects: Rc<dyn Objects>,
    goal: RadosGoal,
    name: String,
}

impl RadosDisk {
    /// The object at an offset, and the place in it. A block never lies in two.
    fn place(&self, offset: u64, len: usize) -> (String, u64) {
        let object_bytes = self.goal.object_bytes as u64;
        let within = offset % object_bytes;
        assert!(within + len as u64 <= object_bytes, "an operation lies in one object");
        (self.goal.object(offset / object_bytes), within)
    }

    fn failed(&self, operation: &'static str, offset: u64, len: usize, why: &str) -> Error {
        let (path, reason) = (self.name.clone(), why.to_owned());
        Error::Io { operation, path, offset, len: len as u64, reason }
    }
}

impl Disk for RadosDisk {
    fn path(&self) -> &str {
        &self.name
    }

    fn size(&self) -> u64 {
        self.goal.size_bytes
    }

    fn read(&self, offset: u64, len: usize) -> IoFuture<'_, AlignedBuf> {
        let (object, within) = self.place(offset, len);
        let read = self.objects.read(&object, within, len);
        Box::pin(async move {
            let found = read.await;
            let found =
                found.map_err(|refusal| self.failed("read", offset, len, &refusal.to_string()))?;
            if found.len() != len {
                return Err(self.failed("read", offset, len, "the object is shorter"));
            }
            let mut bytes = AlignedBuf::scratch(len);
            bytes.copy_from_slice(&found);
            Ok(bytes)
        })
    }

    fn write(&self, offset: u64, bytes: BufSlice, _: Persist) -> IoFuture<'_, ()> {
        let len = bytes.len();
        let (object, within) = self.place(offset, len);
        let is_whole = len == self.goal.object_bytes;
        let write = if is_whole { Write::Whole(bytes) } else { Write::At(within, bytes) };
        let changed = self
            .objects
            .change(&object, ObjectChange { write: Some(write), ..ObjectChange::default() });
        Box::pin(async move {
            let refused =
                |refusal: Refusal| self.failed("write", offset, len, &refusal.to_string());
            changed.await.map_err(refused)
        })
    }

    fn flush(&self) -> IoFuture<'_, ()> {
        // A change that was answered is durable.
        Box::pin(std::future::ready(Ok(())))
    }

    fn discard(&self, _: u64, _: u64) -> IoFuture<'_, ()> {
        Box::pin(std::future::ready(Ok(())))
    }
}

fn to_failure(error: &Error) -> Failure {
    Failure::new(error.to_string())
        .hint("--ceph-conf names Ceph's configuration, --ceph-user the user")
}
