//! Volumes as NBD exports, and snapshots as exports that are read only.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Instant;

use varve_access_block::{Change, Export, ExportInfo, Exports, Extent, ExtentKind, Peer, ReadPart};
use varve_dataset::{
    AdmittedConnection, BlockMapping, BlockStatus, Datasets, Move, Volume, VolumeInfo,
};
use varve_stdx::BufSlice;
use varve_types::{ByteOffset, ErrorKind};

use super::request_times::RequestTimes;

/// What stands before the run that moves a volume that arrives from another pool, a colon and the volume's name: the
/// export for who fills it. No name of a volume has a colon.
pub(crate) const ARRIVING: &str = "arriving:";

/// Every volume of the pool.
pub(crate) struct VolumeExports {
    datasets: Datasets,
    times: Rc<RequestTimes>,
    is_read_only: bool,
}

/// One open volume or snapshot, with the snapshots since which it tells changes; none of them can be deleted while this
/// lives.
pub(crate) struct VolumeExport {
    datasets: Datasets,
    volume: Volume,
    /// The connection that has it open, once it was admitted.
    connection: RefCell<Option<AdmittedConnection>>,
    /// Name under which the client opened it, for messages.
    name: Rc<str>,
    since: Vec<String>,
    bases: Vec<Volume>,
    times: Rc<RequestTimes>,
    /// Whether the pool takes no change.
    is_read_only: bool,
}

impl VolumeExports {
    pub(crate) fn new(datasets: Datasets, times: Rc<RequestTimes>) -> Self {
        Self { datasets, times, is_read_only: false }
    }

    /// The same of a pool that takes no change, if it is one.
    pub(crate) fn with_read_only(self, is_read_only: bool) -> Self {
        Self { is_read_only, ..self }
    }
}

impl Exports for VolumeExports {
    type Export = VolumeExport;

    async fn list(&self) -> Result<Vec<String>, ErrorKind> {
        let volumes = self.datasets.volumes().await.map_err(|error| lasting(&error))?;
        let is_here = |volume: &VolumeInfo| volume.moves.as_ref().is_none_or(Move::is_here);
        let volumes = volumes.into_iter().filter(is_here).collect::<Vec<_>>();
        Ok(volumes.into_iter().map(|volume| volume.name).collect())
    }

    async fn open(&self, name: &str) -> Result<VolumeExport, ErrorKind> {
        self.open_since(name, &[]).await
    }

    async fn open_since(&self, name: &str, since: &[String]) -> Result<VolumeExport, ErrorKind> {
        let opened = match name.strip_prefix(ARRIVING) {
            Some(rest) => {
                let (run, name) = rest.split_once(':').ok_or(ErrorKind::NotFound)?;
                let run = run.parse().map_err(|_| ErrorKind::NotFound)?;
                self.datasets.open_arriving(name, run).await
            }
            None => self.datasets.open(name).await,
        };
        let volume = opened.map_err(|error| match (&error, error.kind()) {
            // It is for its clients to know, not a sign that another node serves it.
            (varve_dataset::Error::Moves { .. }, _) => ErrorKind::Conflict,
            // A name that no volume can have names no volume.
            (_, ErrorKind::Invalid) => ErrorKind::NotFound,
            _ => lasting(&error),
        })?;
        let datasets = self.datasets.clone();
        let (mut known, mut bases) = (Vec::new(), Vec::new());
        for snapshot in since {
            match datasets.open_of_family(name, snapshot).await {
                Ok(base) => {
                    known.push(snapshot.clone());
                    bases.push(base);
                }
                Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::Invalid) => {}
                Err(error) => return Err(lasting(&error)),
            }
        }
        let times = Rc::clone(&self.times);
        let name = name.into();
        let connection = RefCell::default();
        let (since, is_read_only) = (known, self.is_read_only);
        Ok(VolumeExport { datasets, volume, connection, name, since, bases, times, is_read_only })
    }
}

impl VolumeExport {
    /// Whether it was opened to be filled while it arrives, for which several connections are used.
    fn is_filled(&self) -> bool {
        self.name.starts_with(ARRIVING)
    }
}

fn extent(run: &BlockStatus) -> Extent {
    let kind = match run.mapped {
        BlockMapping::Hole => ExtentKind::Hole,
        BlockMapping::Zero => ExtentKind::Zero,
        BlockMapping::Data => ExtentKind::Data,
    };
    Extent { len: run.len, kind }
}

/// The kind of a failed look at names. Whoever is told `Unavailable` may ask another node in vain while a shard is
/// damaged.
fn lasting(error: &varve_dataset::Error) -> ErrorKind {
    match error {
        varve_dataset::Error::Dispatch(varve_dispatch::Error::ShardClosed {
            is_damaged: true,
            ..
        }) => ErrorKind::Corrupt,
        error => error.kind(),
    }
}

/// The kind of a failed request. The shard logs what happened to it; what only this request met is logged here.
fn failed(what: &'static str) -> impl Fn(varve_dataset::Error) -> ErrorKind {
    move |error| {
        let kind = error.kind();
        match kind {
            ErrorKind::Corrupt | ErrorKind::Internal => tracing::error!(%error, "{what} failed"),
            _ => tracing::debug!(%error, "{what} refused"),
        }
        kind
    }
}

impl Export for VolumeExport {
    type Parts = Vec<ReadPart>;

    fn info(&self) -> ExportInfo {
        ExportInfo {
            size_bytes: self.volume.size_bytes(),
            block_bytes: self.volume.block_size_bytes(),
            read_only: self.is_read_only || self.volume.is_snapshot(),
            exclusive: self.volume.is_exclusive() && !self.is_filled(),
        }
    }

    fn admit(&self, peer: &Peer) -> Result<(), String> {
        if !self.is_filled() {
            *self.connection.borrow_mut() = Some(self.volume.admit(&peer.to_string())?);
        }
        Ok(())
    }

    fn holder(&self) -> Option<String> {
        self.volume.holder().filter(|_| !self.is_filled())
    }

    async fn read(&self, offset: ByteOffset, len: u32) -> Result<Vec<ReadPart>, ErrorKind> {
        let _pending = self.times.begin("a read of", &self.name);
        let began = Instant::now();
        let parts = self.volume.read(offset, len).await.map_err(failed("read"))?;
        self.times.read(began);
        Ok(parts)
    }

    async fn write(&self, offset: ByteOffset, data: BufSlice) -> Result<(), ErrorKind> {
        let _pending = self.times.begin("a write to", &self.name);
        let began = Instant::now();
        self.volume.write(offset, data).await.map_err(failed("write"))?;
        self.times.wrote(began);
        Ok(())
    }

    async fn trim(&self, offset: ByteOffset, len: u64) -> Result<(), ErrorKind> {
        let _pending = self.times.begin("a trim of", &self.name);
        self.volume.trim(offset, len).await.map_err(failed("trim"))
    }

    async fn write_zeroes(
        &self,
        offset: ByteOffset,
        len: u64,
        keep_allocated: bool,
    ) -> Result<(), ErrorKind> {
        let _pending = self.times.begin("zeroing a range of", &self.name);
        self.volume.write_zeroes(offset, len, keep_allocated).await.map_err(failed("write zeroes"))
    }

    async fn flush(&self) -> Result<(), ErrorKind> {
        let _pending = self.times.begin("a flush of", &self.name);
        self.volume.flush().await.map_err(failed("flush"))
    }

    async fn block_status(
        &self,
        offset: ByteOffset,
        len: u64,
        extents_max: usize,
    ) -> Result<Vec<Extent>, ErrorKind> {
        let runs = self.volume.block_status(offset, len, extents_max).await;
        Ok(runs.map_err(failed("block status"))?.iter().map(extent).collect())
    }

    fn since(&self) -> &[String] {
        &self.since
    }

    async fn snapshots(&self, max: usize) -> Result<Vec<String>, ErrorKind> {
        let name = self.volume.info().name;
        let volume = name.split_once('@').map_or(name.as_str(), |(volume, _)| volume);
        let found = self.datasets.snapshots(Some(volume), None, max).await;
        let found = found.map_err(failed("list of snapshots"))?;
        let own_name = |name: String| name.split_once('@').map(|(_, snapshot)| snapshot.to_owned());
        Ok(found.into_iter().filter_map(|snapshot| own_name(snapshot.name)).collect())
    }

    async fn changes(
        &self,
        since: usize,
        offset: ByteOffset,
        len: u64,
        extents_max: usize,
    ) -> Result<Vec<Change>, ErrorKind> {
        let base = self.bases.get(since).ok_or(ErrorKind::Invalid)?;
        let runs = self.volume.diff(base, offset, len, extents_max).await;
        let runs = runs.map_err(failed("block status"))?;
        Ok(runs.iter().map(|run| Change { len: run.len, dirty: run.differs }).collect())
    }
}

#[cfg(test)]
mod tests {
    use varve_access_block::conformance;
    use varve_dataset::VolumeSpec;
    use varve_types::{ByteCount, ShardId};

    use super::*;
    use crate::config::{DriveSetting, Settings};
    use crate::event_loop;
    use crate::home::PoolLocation;
    use crate::in_process::InProcess;

    #[test]
    fn a_volume_is_what_an_export_must_be() {
        let dir = tempfile::tempdir().unwrap();
        let drive = DriveSetting { path: dir.path().join("drive"), size: Some(ByteCount(1 << 30)) };
        let settings = Settings {
            data: dir.path().join("data"),
            drives: vec![drive],
            shards: 2,
            lane: ByteCount(32 << 20),
            ..Settings::default()
        };
        std::fs::create_dir(&settings.data).unwrap();
        let home = PoolLocation::choose(&settings).unwrap();
        let media = home.open(&settings).unwrap();
        home.remember(&settings, media.pool()).unwrap();
        drop(media);
        let pool = InProcess::open(&Settings { drives: Vec::new(), ..settings }).unwrap();
        let way = pool.way();
        let mut event_loop = event_loop::start().unwrap();
        let reactor = event_loop.handle();
        event_loop.run(async move {
            let datasets = way.datasets(&reactor);
            // Its middle is where one shard's part of it ends and the other's begins.
            let spec = VolumeSpec {
                name: "v".to_owned(),
                size_bytes: 128 << 20,
                block_size_bytes: 4096,
                dedup: None,
                compression: None,
                quota_bytes: None,
                reserved: false,
                exclusive: false,
                receiving: None,
                moves: None,
            };
            datasets.create_volume(spec).await.unwrap();
            let exports = VolumeExports::new(datasets, Rc::default());
            conformance::check(&exports.open("v").await.unwrap(), 1).await;
        });
        pool.close().unwrap();
    }

    #[test]
    fn a_damaged_shard_sends_nobody_to_another_node() {
        let closed = |is_damaged| {
            let (shard, reason) = (ShardId(1), "a test says so".to_owned());
            let closed = varve_dispatch::Error::ShardClosed { shard, reason, is_damaged };
            varve_dataset::Error::Dispatch(closed)
        };
        let kinds = [false, true].map(|is_damaged| lasting(&closed(is_damaged)));
        assert_eq!(kinds, [ErrorKind::Unavailable, ErrorKind::Corrupt]);
    }
}
