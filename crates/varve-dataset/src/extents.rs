//! Which parts of a volume or snapshot hold data, or changed since a snapshot: for exports, backups and people.

use varve_types::{ByteRange, SnapshotIdentity};

use crate::name::{DatasetName, SNAPSHOT_MARK, SnapshotName};
use crate::volume::Volume;
use crate::{Datasets, Error, Result};

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

/// Of what extents are told. Names may be another's from one page to the next; with the identities, that is refused.
#[derive(Clone, Debug, Default)]
pub struct ExtentSpec {
    /// A volume, or a snapshot as `volume@snapshot`.
    pub name: String,
    /// Identity of that snapshot.
    pub identity: Option<SnapshotIdentity>,
    /// Name alone of a snapshot of the same volume: what may differ from it is told instead of what holds data.
    pub since: Option<String>,
    /// Identity of that one.
    pub since_identity: Option<SnapshotIdentity>,
    /// Where the page begins, in bytes.
    pub offset: u64,
    /// Most extents in it.
    pub max: usize,
}

impl Datasets {
    /// A page of extents of a volume or snapshot. It may have none and still not be the last. A volume that is on its
    /// way is told of to who moves it ([`Self::expecting`]), one that arrives to nobody else.
    ///
    /// # Errors
    /// `NotFound`; `Conflict` when a snapshot does not have the identity, or the volume moves otherwise than is
    /// expected.
    pub async fn extents(&self, spec: &ExtentSpec) -> Result<ExtentPage> {
        let volume = match spec.name.contains(SNAPSHOT_MARK) {
            true => self.open_identified(&spec.name, spec.identity).await?,
            false if spec.identity.is_some() => {
                return Err(Error::NoSnapshot { name: spec.name.clone() });
            }
            false => self.open_on_its_way(&spec.name).await?,
        };
        let since = match &spec.since {
            Some(since) => {
                let since = of_family(&spec.name, since)?;
                Some(self.open_identified(&since, spec.since_identity).await?)
            }
            None => None,
        };
        extents(&volume, since.as_ref(), spec.offset, spec.max).await
    }

    /// Opens a volume, to be looked at by who moves it, if anybody does.
    async fn open_on_its_way(&self, name: &str) -> Result<Volume> {
        if self.expects.is_none() {
            return self.open(name).await;
        }
        let name = DatasetName::parse(name)?;
        let _held = self.hold_open(&name).await?;
        let record = self.record(&name).await?;
        self.check_move(&name, &record)?;
        Ok(self.opened(&name, &record))
    }

    /// Opens a snapshot, by its name alone, of the volume that `name` is or is a snapshot of.
    ///
    /// # Errors
    /// `NotFound`.
    pub async fn open_of_family(&self, name: &str, snapshot: &str) -> Result<Volume> {
        self.open_snapshot(&of_family(name, snapshot)?).await
    }
}

/// The full name of a snapshot of the volume that `name` is or is a snapshot of.
fn of_family(name: &str, snapshot: &str) -> Result<String> {
    let volume = name.split_once(SNAPSHOT_MARK).map_or(name, |(volume, _)| volume);
    Ok(SnapshotName::of(&DatasetName::parse(volume)?, snapshot)?.display())
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
    let range = ByteRange { start: offset, end: size_bytes };
    let mut found = volume.extents(since, range, max).await?;
    let mut next = found.until;
    if let Some(behind) = found.extents.get(max) {
        next = behind.start; // Extents that touch were one.
        found.extents.truncate(max);
    }
    let next = (next < size_bytes).then_some(next);
    Ok(ExtentPage { size_bytes, extents: found.extents, next })
}
