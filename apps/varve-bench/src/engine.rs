//! The engine in this process as a target: a volume of a pool that no daemon serves meanwhile, with no protocol
//! between.
//!
//! Each job has its own thread, as for any target, and sends its requests to the threads of the shards, as the daemon's
//! S3 gateway does: one message there and one back. What that costs less than an export of the same volume is the
//! protocol's.

use std::fmt;
use std::path::Path;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};

use varve_client::{Failure, Result};
use varve_daemon::InProcess;
use varve_daemon::config::{Settings, read_data};
use varve_dataset::{ReadPart, Volume};
use varve_media::{Disk, Error, IoFuture, Persist};
use varve_reactor::Reactor;
use varve_stdx::{AlignedBuf, BufSlice};
use varve_types::ByteOffset;

/// A volume of the pool of a data directory.
#[derive(Clone)]
pub struct EngineGoal {
    settings: Arc<Settings>,
    pub(crate) volume: String,
    /// The pool, once a load needs it.
    pool: Arc<Mutex<Option<InProcess>>>,
}

impl fmt::Debug for EngineGoal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "engine:{}", self.volume)
    }
}

impl EngineGoal {
    /// A volume of the pool of a data directory. Nothing is opened yet.
    pub fn of(data: &Path, volume: &str) -> Result<Self> {
        let (settings, volume) = (Arc::new(read_data(data)?), volume.to_owned());
        Ok(Self { settings, volume, pool: Arc::default() })
    }

    /// Opens the pool, unless a load before has.
    pub(super) fn start(&self) -> Result<()> {
        let mut pool = self.pool.lock().unwrap_or_else(PoisonError::into_inner);
        if pool.is_none() {
            *pool = Some(InProcess::open(&self.settings)?);
        }
        Ok(())
    }

    /// The volume as a disk, for the thread of `reactor`.
    pub(super) async fn open(&self, reactor: &Reactor) -> Result<Rc<dyn Disk>> {
        let way = {
            let pool = self.pool.lock().unwrap_or_else(PoisonError::into_inner);
            pool.as_ref().map(InProcess::way)
        };
        let datasets = way.expect("it is started before jobs are").datasets(reactor);
        let volume = datasets.open(&self.volume).await.map_err(|error| {
            Failure::new(format!("open volume {}: {error}", self.volume))
                .hint("serve the pool, and see `varve volume list`")
        })?;
        Ok(Rc::new(VolumeDisk { volume, name: format!("engine:{}", self.volume) }))
    }

    /// Leaves a clean pool, if one was opened. No job is left by then.
    pub(super) fn close(&self) -> Result<()> {
        let pool = self.pool.lock().unwrap_or_else(PoisonError::into_inner).take();
        pool.map_or(Ok(()), InProcess::close)
    }
}

/// An open volume.
struct VolumeDisk {
    volume: Volume,
    name: String,
}

impl VolumeDisk {
    fn failed(
        &self,
        operation: &'static str,
        offset: u64,
        len: u64,
        error: &varve_dataset::Error,
    ) -> Error {
        let (path, reason) = (self.name.clone(), error.to_string());
        Error::Io { operation, path, offset, len, reason }
    }
}

impl Disk for VolumeDisk {
    fn path(&self) -> &str {
        &self.name
    }

    fn size(&self) -> u64 {
        self.volume.size_bytes()
    }

    fn read(&self, offset: u64, len: usize) -> IoFuture<'_, AlignedBuf> {
        Box::pin(async move {
            let wanted = u32::try_from(len).expect("an operation is shorter than 4 GiB");
            let parts = self.volume.read(ByteOffset(offset), wanted).await;
            let parts = parts.map_err(|error| self.failed("read", offset, len as u64, &error))?;
            let mut bytes = AlignedBuf::scratch(len);
            let mut at = 0;
            for part in parts {
                let end = at + part.len();
                match part {
                    ReadPart::Zero(_) => bytes[at..end].fill(0),
                    ReadPart::Data(data) => bytes[at..end].copy_from_slice(&data),
                }
                at = end;
            }
            assert_eq!(at, len, "parts are all that was asked for");
            Ok(bytes)
        })
    }

    fn write(&self, offset: u64, bytes: BufSlice, _: Persist) -> IoFuture<'_, ()> {
        Box::pin(async move {
            let len = bytes.len() as u64;
            let written = self.volume.write(ByteOffset(offset), bytes).await;
            written.map_err(|error| self.failed("write", offset, len, &error))
        })
    }

    fn flush(&self) -> IoFuture<'_, ()> {
        Box::pin(async move {
            self.volume.flush().await.map_err(|error| self.failed("flush", 0, 0, &error))
        })
    }

    fn discard(&self, offset: u64, len: u64) -> IoFuture<'_, ()> {
        Box::pin(async move {
            let trimmed = self.volume.trim(ByteOffset(offset), len).await;
            trimmed.map_err(|error| self.failed("discard", offset, len, &error))
        })
    }
}
