//! Which parts of a volume or snapshot hold data, or changed since a snapshot: for exports, backups and people.

use varve_types::ByteRange;

use crate::name::{DatasetName, SNAPSHOT_MARK, SnapshotName};
use crate::volume::Volume;
use crate::{Datasets, Error, Mapped, Result};

/// Bytes of a volume looked at for one page: some thousand regions, each a message.
const PAGE_BYTES: u64 = 64 << 30;

/// A page of extents.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ExtentPage {
    /// Size of what was looked at, in bytes.
    pub size_bytes: u64,
    /// Extents, in order, none touching the next; their bytes.
    pub extents: Vec<ByteRange>,
    /// Where the next page begins; `None` at the end.
    pub next: Option<u64>,
}

impl Datasets {
    /// Extents of a volume or snapshot, from `offset` on, at most `max` of them: what holds data, or, with `since`, the name of a
    /// snapshot of the same volume, what may differ from it. A page may have none and still not be the last.
    ///
    /// # Errors
    /// `NotFound`.
    pub async fn extents(
        &self,
        name: &str,
        since: Option<&str>,
        offset: u64,
        max: usize,
    ) -> Result<ExtentPage> {
        let volume = self.open(name).await?;
        let since = match since {
            Some(since) => Some(self.open_of_family(name, since).await?),
            None => None,
        };
        extents(&volume, since.as_ref(), offset, max).await
    }

    /// Opens a snapshot, by its name alone, of the volume that `name` is or is a snapshot of.
    ///
    /// # Errors
    /// `NotFound`.
    pub async fn open_of_family(&self, name: &str, snapshot: &str) -> Result<Volume> {
        let volume = name.split_once(SNAPSHOT_MARK).map_or(name, |(volume, _)| volume);
        let snapshot = SnapshotName::of(&DatasetName::parse(volume)?, snapshot)?;
        self.open_snapshot(&snapshot.display()).await
    }
}

pub(crate) async fn extents(
    volume: &Volume,
    since: Option<&Volume>,
    offset: u64,
    max: usize,
) -> Result<ExtentPage> {
    let size_bytes = volume.size_bytes();
    if offset > size_bytes {
        return Err(Error::OutOfRange { offset, len: 0, size_bytes });
    }
    let end = size_bytes.min(offset.saturating_add(PAGE_BYTES));
    let mut page = ExtentPage { size_bytes, extents: Vec::new(), next: None };
    let mut at = offset;
    while at < end && page.extents.len() < max {
        // Every other run is an extent.
        let runs_max = 2 * (max - page.extents.len());
        let runs: Vec<(u64, bool)> = match since {
            None => {
                let runs = volume.block_status(at, end - at, runs_max).await?;
                runs.iter().map(|run| (run.len, run.mapped == Mapped::Data)).collect()
            }
            Some(since) => {
                let runs = volume.diff(since, at, end - at, runs_max).await?;
                runs.iter().map(|run| (run.len, run.differs)).collect()
            }
        };
        for (len, wanted) in runs {
            let touches = page.extents.last().is_some_and(|last| last.end == at);
            if wanted && !touches && page.extents.len() == max {
                break;
            }
            match page.extents.last_mut() {
                Some(last) if wanted && touches => last.end += len,
                _ if wanted => page.extents.push(ByteRange { start: at, end: at + len }),
                _ => {}
            }
            at += len;
        }
    }
    page.next = (at < size_bytes).then_some(at);
    Ok(page)
}
