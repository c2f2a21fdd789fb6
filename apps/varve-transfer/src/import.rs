//! Reads an archive into a volume, and makes it a snapshot there with the identity it has.
//!
//! IMPORT-1. The daemon knows what the volume is receiving, so an import that ended early is gone on with by running it
//!     again: what the volume holds already is compared and not written, up to the first byte that it lacks.

use std::path::PathBuf;

use hyper::Method;
use varve_access_admin::v1::{BeginReceive, EndReceive, Snapshot, Volume};
use varve_access_admin::{ListenAddress, volume_path};
use varve_client::{Client, Failure, Progress, Result};
use varve_dataset::{ArchiveChain, ArchiveHeader, ArchiveRecord};
use varve_types::ByteCount;

use super::nbd::Nbd;
use super::rbd;
use super::source::ArchiveSource;

/// What to import, and where to.
pub struct ImportPlan {
    /// File, `-`, or an image such as `rbd:pool/vm1`.
    pub file: PathBuf,
    /// The volume to write to.
    pub volume: String,
    /// Whether the archive should hold changes, or all.
    pub changes: bool,
    /// Address of the daemon's NBD server, instead of the one that it names.
    pub nbd: Option<ListenAddress>,
}

/// Imports; what there is to say.
pub fn import(client: &Client, plan: &ImportPlan) -> Result<String> {
    if let Some(image) = rbd::image(&plan.file)? {
        return rbd::import_image(client, image, plan);
    }
    let mut source = ArchiveSource::open(&plan.file)?;
    let header = source.header()?;
    check_kind(&header, plan.changes)?;
    let path = volume_path(&plan.volume);
    let identity = header.identity.to_string();
    // A volume that is there has a part of this snapshot, or is refused below.
    let before = client.get::<Volume>(&path).ok().and_then(|volume| volume.value.receiving);
    let resumes = before.as_ref() == Some(&identity);
    let begin = BeginReceive {
        identity: identity.clone(),
        from: header.from.as_ref().map(|from| from.identity.to_string()),
        size_bytes: header.size_bytes,
        block_size_bytes: header.block_size_bytes,
        expects: None,
    };
    client.send::<Volume>(Method::POST, &format!("{path}/receive"), &begin)?;
    let mut nbd = Nbd::attach(client, plan.nbd.as_ref(), &plan.volume)?;
    if nbd.size_bytes() != header.size_bytes {
        return Err(Failure::new(format!(
            "volume {} is of {}, the archive of {}",
            plan.volume,
            ByteCount(nbd.size_bytes()),
            ByteCount(header.size_bytes)
        ))
        .hint("it was resized since the import began: delete it, and import again"));
    }
    let watch = Progress::start();
    watch.say(format!("import {}", plan.volume));
    match source.len_bytes() {
        Some(bytes) => watch.expect_bytes(bytes),
        None => watch.expect_unknown_bytes(),
    }
    let copied = copy(&mut source, &header, &mut nbd, resumes, &watch);
    watch.end();
    let data_bytes = copied?;
    nbd.end()?;
    let end = EndReceive { identity, snapshot: header.snapshot, expects: None };
    let snapshot = client.send::<Snapshot>(Method::POST, &format!("{path}/received"), &end)?.value;
    Ok(format!("imported {}, {} of data\n", snapshot.name, ByteCount(data_bytes)))
}

fn check_kind(header: &ArchiveHeader, changes: bool) -> Result<()> {
    match (&header.from, changes) {
        (Some(from), false) => Err(Failure::misuse(format!(
            "the archive holds changes since snapshot {:?}, not a whole snapshot",
            from.snapshot
        ))
        .hint("`varve volume import-diff` adds them to a volume that has that snapshot")),
        (None, true) => Err(Failure::misuse("the archive holds a whole snapshot, not changes")
            .hint("`varve volume import` creates a volume from it")),
        _ => Ok(()),
    }
}

/// Writes what the archive holds, several writes at a time; how many bytes of data it has.
fn copy(
    source: &mut ArchiveSource,
    header: &ArchiveHeader,
    nbd: &mut Nbd,
    resumes: bool,
    watch: &Progress,
) -> Result<u64> {
    let mut chain = ArchiveChain::new(header);
    let mut payload = Vec::new();
    let mut compares = resumes; // IMPORT-1
    let mut done = 0;
    loop {
        if watch.is_stopped() {
            return Err(Failure::new("interrupted").hint("the same command goes on where it ended"));
        }
        match source.record(&mut chain, &mut payload)? {
            ArchiveRecord::End => break,
            ArchiveRecord::Zeros { offset, len } => nbd.send_zeroes(offset, len)?,
            ArchiveRecord::Data { offset, .. } => {
                compares = compares && holds(nbd, offset, &payload)?;
                if !compares {
                    while !nbd.has_room() {
                        nbd.next()?;
                    }
                    nbd.send_write(offset, &payload)?;
                }
            }
        }
        watch.did_bytes(source.position() - done);
        done = source.position();
    }
    nbd.drain()?;
    Ok(chain.data_bytes())
}

/// Whether the volume holds these bytes already.
pub(super) fn holds(nbd: &mut Nbd, offset: u64, data: &[u8]) -> Result<bool> {
    nbd.drain()?;
    nbd.send_read(offset, data.len())?;
    Ok(nbd.next()?.is_some_and(|found| found.data == data))
}
