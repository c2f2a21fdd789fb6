//! A pool with redundancy over its drives, with the thread of its keeper.
//!
//! ```text
//!  open: thread of the keeper opens the pool on its loop ──files──▶ control thread, and threads of shards
//!  drop: locks stay ── tables go ──▶ the keeper ends ──▶ locks go
//! ```
//!
//! REDUNDANT-POOL-1. The keeper has a thread of its own, so that a change of tables waits for no shard. It ends when
//!     nobody has tables any more, and the locks of the drives go after it.
//! REDUNDANT-POOL-2. The end of the keeper is waited for as long as its operations may take, and no longer. A keeper
//!     that has not ended may still write: then the locks stay until the process ends.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError, mpsc};
use std::thread;
use std::time::Duration;

use varve_client::Failure;
use varve_media_redundancy::{DriveLocks, DriveNumber, FilesOptions, RedundantFiles};
use varve_reactor::{Loop, LoopConfig};

use crate::drive_changes::DriveChanges;
use crate::event_loop;

/// How long the keeper's end is waited for: a change of its tables may be under way, on drives that do not answer.
const END_MAX: Duration = Duration::from_secs(15);

/// Locks of pools whose keepers have not ended (REDUNDANT-POOL-2); the mutex guards the list only.
static KEPT: Mutex<Vec<DriveLocks>> = Mutex::new(Vec::new());

/// See the module.
pub(crate) struct RedundantPool {
    /// There until it is dropped.
    files: Option<RedundantFiles>,
    changes: DriveChanges,
    /// Hears when the keeper's thread has ended; the mutex guards nothing else.
    ended: Mutex<mpsc::Receiver<()>>,
    thread: Option<thread::JoinHandle<()>>,
}

/// Why it does not open.
#[derive(Debug)]
pub(crate) enum OpenFailure {
    /// What the media say.
    Media(varve_media::Error),
    /// There is no loop or thread.
    Loop(io::Error),
    /// The thread panicked.
    Died,
}

impl RedundantPool {
    /// Opens the pool by the drives at the paths that `locate` says, each time it is asked, which the data directory
    /// remembers. Blocks; also while it waits for missing drives.
    pub(crate) fn open(
        locate: impl Fn() -> Vec<PathBuf> + Send + 'static,
        data: &Path,
        options: &FilesOptions,
    ) -> Result<Self, OpenFailure> {
        let (report, opened) = mpsc::channel();
        let (alive, ended) = mpsc::channel();
        let options = options.clone();
        let thread = thread::Builder::new()
            .name("keeper".to_owned())
            .spawn(move || keep(locate, &options, &report, alive))
            .map_err(OpenFailure::Loop)?;
        let files = opened.recv().map_err(|_| OpenFailure::Died)??;
        let changes = DriveChanges::new(data);
        Ok(Self { files: Some(files), changes, ended: Mutex::new(ended), thread: Some(thread) })
    }

    /// Its files.
    pub(crate) fn files(&self) -> &RedundantFiles {
        self.files.as_ref().expect("it is taken only when the pool is dropped")
    }

    /// Changes of its drives.
    pub(crate) const fn changes(&self) -> &DriveChanges {
        &self.changes
    }

    /// Drives that the pool was opened without.
    pub(crate) fn missing(&self) -> &[DriveNumber] {
        &self.files().opened().missing
    }
}

impl fmt::Debug for RedundantPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedundantPool").field("missing", &self.missing()).finish_non_exhaustive()
    }
}

impl Drop for RedundantPool {
    fn drop(&mut self) {
        let locks = self.files.take().map(RedundantFiles::into_locks); // REDUNDANT-POOL-1
        let ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        // REDUNDANT-POOL-2. The sender goes when the thread ends, however it ends.
        if ended.recv_timeout(END_MAX) == Err(mpsc::RecvTimeoutError::Timeout) {
            tracing::warn!("the keeper of the pool's tables has not ended: a drive hangs");
            KEPT.lock().unwrap_or_else(PoisonError::into_inner).extend(locks);
            return;
        }
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the keeper of the pool's tables panicked");
        }
        drop(locks);
    }
}

/// The thread of the keeper; `alive` is dropped with it.
fn keep(
    locate: impl Fn() -> Vec<PathBuf> + 'static,
    options: &FilesOptions,
    report: &mpsc::Sender<Result<RedundantFiles, OpenFailure>>,
    alive: mpsc::Sender<()>,
) {
    let mut event_loop = match Loop::new(LoopConfig::default()) {
        Ok(event_loop) => event_loop,
        Err(error) => {
            // Whoever opens the pool is told; nobody else is.
            let _ = report.send(Err(OpenFailure::Loop(error)));
            return;
        }
    };
    let reactor = event_loop.handle();
    let (options, report) = (options.clone(), report.clone());
    event_loop.run(async move {
        let _alive = alive;
        match RedundantFiles::open_located(&reactor, &locate, &options).await {
            Ok((files, keeper)) => {
                if report.send(Ok(files)).is_ok() {
                    drop(report);
                    keeper.run().await;
                }
            }
            Err(error) => {
                let _ = report.send(Err(OpenFailure::Media(error)));
            }
        }
    });
}

impl OpenFailure {
    /// Whether another process has a drive.
    pub(crate) fn is_in_use(&self) -> bool {
        matches!(self, Self::Media(varve_media::Error::InUse { .. }))
    }

    /// For people, where media have no part in it.
    pub(crate) fn of_thread(self) -> Result<varve_media::Error, Failure> {
        match self {
            Self::Media(error) => Ok(error),
            Self::Loop(error) => {
                Err(event_loop::failure(&error).within("start the thread of the pool's keeper"))
            }
            Self::Died => Err(Failure::new("the keeper of the pool's tables panicked")
                .hint("nothing acknowledged is lost; report the message above, then start again")),
        }
    }
}
