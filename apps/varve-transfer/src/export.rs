//! Writes an archive of a snapshot, whole or as what changed since an earlier one.
//!
//! EXPORT-1. The export is of a snapshot that is held open meanwhile, so it is of one moment. For a volume, one is
//!     taken and deleted again.

use std::path::PathBuf;

use hyper::Method;
use varve_access_admin::v1::{CreateSnapshots, Extent, Snapshot, SnapshotPage};
use varve_access_admin::{ListenAddress, snapshot_path};
use varve_client::age::now_unix_ms;
use varve_client::{Client, Extents, Failure, Progress, Result};
use varve_dataset::{ArchiveBase, ArchiveHeader, ArchiveRecord};
use varve_nbd::FoundData;
use varve_types::ByteCount;

use super::nbd::{Nbd, REQUEST_BYTES_MAX};
use super::rbd;
use super::target::{ArchiveTarget, ExportRun};

/// Bytes that are data or zeros as a whole.
pub(super) const BLOCK_BYTES: usize = 4096;

/// What to export, and where to.
pub struct ExportPlan {
    /// `volume@snapshot`, or a volume.
    pub name: String,
    /// Snapshot to compare with; only its name, without the volume.
    pub since: Option<String>,
    /// File, `-`, or an image such as `rbd:pool/vm1`.
    pub file: PathBuf,
    /// Whether to go on with a file that was not completed.
    pub resume: bool,
    /// Address of the daemon's NBD server, instead of the one that it names.
    pub nbd: Option<ListenAddress>,
}

/// Exports; what there is to say.
pub fn export(client: &Client, plan: ExportPlan) -> Result<String> {
    if plan.name.contains('@') {
        return export_snapshot(client, &plan.name, &plan);
    }
    if plan.resume {
        return Err(Failure::misuse(
            "an export of a volume cannot be resumed: its snapshot went with it",
        )
        .hint("take a snapshot with `varve volume snapshot create`, and export that"));
    }
    // EXPORT-1
    let name = format!("{}@export-{}", plan.name, now_unix_ms());
    let spec = CreateSnapshots { names: vec![name.clone()], expects: None };
    client.send::<SnapshotPage>(Method::POST, "/v1/snapshots", &spec)?;
    let exported = export_snapshot(client, &name, &plan);
    let deleted = delete_soon(client, &snapshot_path(&name));
    let text = exported?;
    deleted?;
    Ok(text)
}

/// Deletes what was just read or written: the daemon may not have seen the end of that yet.
pub(super) fn delete_soon(client: &Client, path: &str) -> Result<()> {
    let mut deleted = client.delete(path);
    for _ in 0..20 {
        if deleted.is_ok() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(100));
        deleted = client.delete(path);
    }
    deleted
}

fn export_snapshot(client: &Client, name: &str, plan: &ExportPlan) -> Result<String> {
    let snapshot = client.get::<Snapshot>(&snapshot_path(name))?.value;
    if let Some(image) = rbd::image(&plan.file)? {
        return rbd::export_image(client, name, image, plan);
    }
    let header = header(client, &snapshot, plan.since.as_deref())?;
    let mut nbd = Nbd::attach(client, plan.nbd.as_ref(), name)?;
    let run = match plan.name.contains('@') {
        false => ExportRun::Only,
        true if plan.resume => ExportRun::Resumed,
        true => ExportRun::First,
    };
    let mut target = ArchiveTarget::open(&plan.file, &header, run)?;
    let watch = Progress::start();
    watch.say(format!("export {name}"));
    let begin = target.chain().offset();
    let copied = stored_bytes(Extents::new(client, name, plan.since.as_deref(), begin))
        .map(|bytes| watch.expect_bytes(bytes))
        .and_then(|()| copy(client, name, plan, &mut nbd, &mut target, &watch));
    watch.end();
    copied?;
    let data_bytes = target.chain().data_bytes();
    target.end()?;
    nbd.end()?;
    if plan.file.as_os_str() == "-" {
        return Ok(String::new());
    }
    let what = if plan.since.is_some() { "changes" } else { "data" };
    Ok(format!(
        "exported {name}, {} of {what}, to {}\n",
        ByteCount(data_bytes),
        plan.file.display()
    ))
}

fn header(client: &Client, snapshot: &Snapshot, since: Option<&str>) -> Result<ArchiveHeader> {
    let from = match since {
        None => None,
        Some(since) => {
            let path = snapshot_path(&format!("{}@{since}", snapshot.volume));
            let base = client.get::<Snapshot>(&path)?.value;
            let identity = identity(&base)?;
            Some(ArchiveBase { snapshot: since.to_owned(), identity })
        }
    };
    let name = snapshot.name.split_once('@').map_or("", |(_, name)| name);
    Ok(ArchiveHeader {
        volume: snapshot.volume.clone(),
        snapshot: name.to_owned(),
        identity: identity(snapshot)?,
        from,
        size_bytes: snapshot.size_bytes,
        block_size_bytes: snapshot.block_size_bytes,
        created_unix_ms: snapshot.created_unix_ms,
    })
}

fn identity(snapshot: &Snapshot) -> Result<varve_dataset::SnapshotIdentity> {
    snapshot.identity.parse().map_err(|error| {
        Failure::new(format!("identity of {}: {error}", snapshot.name))
            .hint("compare `varve --version` with the daemon's version in `varve status --json`")
    })
}

/// Writes what is read of extents to the archive.
fn copy(
    client: &Client,
    name: &str,
    plan: &ExportPlan,
    nbd: &mut Nbd,
    target: &mut ArchiveTarget,
    watch: &Progress,
) -> Result<()> {
    let (begin, zeros) = (target.chain().offset(), plan.since.is_some());
    let extents = Extents::new(client, name, plan.since.as_deref(), begin);
    read_extents(
        extents,
        begin,
        nbd,
        || watch.is_stopped().then(|| interrupted(plan)),
        |found| {
            add(target, found, zeros)?;
            watch.did_bytes(found.data.len() as u64);
            Ok(())
        },
    )
}

/// Bytes of extents: what there is to read, however large the volume is.
pub(super) fn stored_bytes(mut extents: impl Iterator<Item = Result<Extent>>) -> Result<u64> {
    extents.try_fold(0, |bytes: u64, extent| Ok(bytes.saturating_add(extent?.len)))
}

/// Reads extent after extent from `begin` on, several reads at a time, and hands them on in order, until `stop` says
/// why not to go on.
pub(super) fn read_extents(
    extents: impl Iterator<Item = Result<Extent>>,
    begin: u64,
    nbd: &mut Nbd,
    stop: impl Fn() -> Option<Failure>,
    mut take: impl FnMut(&FoundData) -> Result<()>,
) -> Result<()> {
    for extent in extents {
        let extent = extent?;
        let end = extent.offset.saturating_add(extent.len).min(nbd.size_bytes());
        let mut at = extent.offset.max(begin);
        while at < end {
            if let Some(failure) = stop() {
                return Err(failure);
            }
            if !nbd.has_room()
                && let Some(found) = nbd.next()?
            {
                take(&found)?;
            }
            let len = usize::try_from(end - at).unwrap_or(usize::MAX).min(REQUEST_BYTES_MAX);
            nbd.send_read(at, len)?;
            at += len as u64;
        }
    }
    while let Some(found) = nbd.next()? {
        take(&found)?;
    }
    Ok(())
}

fn interrupted(plan: &ExportPlan) -> Failure {
    let failure = Failure::new("interrupted");
    match plan.name.contains('@') && plan.file.as_os_str() != "-" {
        true => failure.hint("the same command with --resume goes on where it ended"),
        false => failure.hint("export a snapshot to be able to go on where it ended"),
    }
}

/// Adds what was read: runs of data, and runs of zeros where these are told.
fn add(target: &mut ArchiveTarget, found: &FoundData, zeros: bool) -> Result<()> {
    let mut at = 0;
    while at < found.data.len() {
        let is_zero = |block: &[u8]| block.iter().all(|byte| *byte == 0);
        let mut blocks = found.data.get(at..).unwrap_or_default().chunks(BLOCK_BYTES);
        let first = blocks.next().unwrap_or_default();
        let kind = is_zero(first);
        let more =
            blocks.take_while(|block| is_zero(block) == kind).map(<[u8]>::len).sum::<usize>();
        let end = at + first.len() + more;
        let (offset, len) = (found.offset + at as u64, (end - at) as u64);
        let run = found.data.get(at..end).unwrap_or_default();
        match kind {
            true if zeros => target.add(ArchiveRecord::Zeros { offset, len }, &[])?,
            true => {}
            false => target.add(ArchiveRecord::Data { offset, len }, run)?,
        }
        at = end;
    }
    Ok(())
}
