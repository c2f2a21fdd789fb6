//! Images of Ceph's RBD into volumes and back, by Ceph's own command `rbd`. It finds the cluster as it always does: by
//! ceph.conf, `CEPH_CONF` and `CEPH_ARGS`.
//!
//! RBD-1. An import makes its volume, and deletes it when it fails or is interrupted. Killed, it leaves a part of it.
//!     One that was there is never touched.
//! RBD-2. An export makes IMAGE.partial and renames it when it is whole: `rbd import` takes the end of its input for
//!     the end of the image. One that was there is never touched.

use std::ffi::OsStr;
use std::io::{self, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Output, Stdio};

use hyper::Method;
use varve_access_admin::v1::{CreateVolume, Volume};
use varve_access_admin::volume_path;
use varve_client::{Client, Extents, Failure, Progress, Result};
use varve_types::ByteCount;

use super::export::{BLOCK_BYTES, ExportPlan, delete_soon, read_extents};
use super::import::ImportPlan;
use super::nbd::{Nbd, REQUEST_BYTES_MAX};

/// What `rbd info` ends with where there is no such image.
const ABSENT: i32 = 2;

/// Zeros to write where a volume holds nothing.
static ZEROS: [u8; REQUEST_BYTES_MAX] = [0; REQUEST_BYTES_MAX];

/// The image that a source or target names, such as `rbd:pool/vm1@monday`; `None` for a file.
pub(super) fn image(path: &Path) -> Result<Option<&str>> {
    let Some(name) = path.to_str().and_then(|path| path.strip_prefix("rbd:")) else {
        return Ok(None);
    };
    let (pool, image) = name.split_once('/').unwrap_or_default();
    if pool.is_empty() || image.is_empty() || name.starts_with('-') {
        return Err(Failure::misuse(format!("`rbd:{name}` names no image"))
            .hint("write rbd:POOL/IMAGE, or rbd:POOL/IMAGE@SNAPSHOT"));
    }
    Ok(Some(name))
}

/// Makes a volume of an image; what there is to say.
pub(super) fn import_image(client: &Client, image: &str, plan: &ImportPlan) -> Result<String> {
    if plan.changes {
        return Err(Failure::misuse("an image holds no changes since a snapshot")
            .hint("`varve volume import` creates a volume from it"));
    }
    let size_bytes = size(image)?;
    let spec = CreateVolume {
        name: plan.volume.clone(),
        size_bytes,
        block_size_bytes: None,
        dedup: None,
        compression: None,
        quota_bytes: None,
        reservation: None,
        exclusive: None,
        beside: None,
    };
    client.send::<Volume>(Method::POST, "/v1/volumes", &spec)?;
    let data_bytes = fill_volume(client, image, plan, size_bytes).map_err(|failure| {
        match delete_soon(client, &volume_path(&plan.volume)) {
            Ok(()) => failure, // RBD-1
            Err(_) => failure
                .hint(format!("`varve volume delete {}`, which has a part of it", plan.volume)),
        }
    })?;
    let (volume, size, data) = (&plan.volume, ByteCount(size_bytes), ByteCount(data_bytes));
    Ok(format!("imported {image} as volume {volume} of {size}, {data} of data\n"))
}

/// Writes what an image holds, several writes at a time; how many bytes of it are not zeros.
fn fill_volume(client: &Client, image: &str, plan: &ImportPlan, size_bytes: u64) -> Result<u64> {
    let mut nbd = Nbd::attach(client, plan.nbd.as_ref(), &plan.volume)?;
    let mut tool = Tool::start(&["export", "--no-progress", image, "-"])?;
    let mut from = tool.child.stdout.take().expect("it is a pipe");
    let watch = Progress::start();
    watch.say(format!("import {image}"));
    watch.expect_bytes(size_bytes);
    let mut copy = || -> Result<u64> {
        let (mut at, mut data_bytes) = (0, 0);
        let mut buffer = vec![0; REQUEST_BYTES_MAX];
        loop {
            if watch.is_stopped() {
                return Err(Failure::new("interrupted"));
            }
            let len = fill(&mut from, &mut buffer)
                .map_err(|error| Failure::new(format!("read from `rbd export`: {error}")))?;
            if len == 0 {
                break;
            }
            for (offset, run) in runs_of_data(&buffer[..len]) {
                while !nbd.has_room() {
                    nbd.next()?;
                }
                nbd.send_write(at + offset as u64, run)?;
                data_bytes += run.len() as u64;
            }
            at += len as u64;
            watch.did_bytes(len as u64);
        }
        nbd.drain()?;
        tool.succeed()?;
        if at != size_bytes {
            return Err(Failure::new(format!("`rbd export` gave {at} bytes of {size_bytes}"))
                .hint("see whether the image was resized meanwhile; a snapshot of it is not"));
        }
        Ok(data_bytes)
    };
    let copied = copy();
    watch.end();
    let data_bytes = copied?;
    nbd.end()?;
    Ok(data_bytes)
}

/// Makes an image of an open snapshot; what there is to say.
pub(super) fn export_image(
    client: &Client,
    name: &str,
    image: &str,
    plan: &ExportPlan,
) -> Result<String> {
    if plan.since.is_some() || plan.resume {
        return Err(Failure::misuse("an image is exported as a whole")
            .hint("leave out --resume, and use export instead of export-diff"));
    }
    if image.contains('@') {
        return Err(Failure::misuse(format!("{image} is a snapshot, which cannot be written")));
    }
    let partial = format!("{image}.partial");
    for (name, advice) in [
        (image, "choose another name, or remove it with `rbd rm`"),
        (&partial, "an export that did not end well left it: remove it with `rbd rm`"),
    ] {
        if exists(name)? {
            return Err(Failure::new(format!("image {name} exists")).hint(advice));
        }
    }
    let size = fill_image(client, name, &partial, plan).map_err(|failure| {
        failure.hint(format!(
            "what there is of it, {partial}, goes with `rbd rm`, 30 s later, when Ceph has forgotten its writer"
        ))
    })?;
    let renamed = run(&["rename", &partial, image])?; // RBD-2
    check("rbd rename", &renamed)?;
    Ok(format!("exported {name}, {}, to image {image}\n", ByteCount(size)))
}

/// Writes all of a snapshot to a new image; its size.
fn fill_image(client: &Client, name: &str, image: &str, plan: &ExportPlan) -> Result<u64> {
    let mut nbd = Nbd::attach(client, plan.nbd.as_ref(), name)?;
    let size_bytes = nbd.size_bytes();
    let mut tool = Tool::start(&["import", "--no-progress", "-", image])?;
    let mut to = PaddedStream { out: tool.child.stdin.take().expect("it is a pipe"), at: 0 };
    let watch = Progress::start();
    watch.say(format!("export {name}"));
    watch.expect_bytes(size_bytes);
    let extents = Extents::new(client, name, None, 0);
    let stop = || watch.is_stopped().then(|| Failure::new("interrupted"));
    let mut write = |offset, data: &[u8]| -> Result<()> {
        watch.did_bytes(to.write(offset, data)?);
        Ok(())
    };
    let copied = read_extents(extents, 0, &mut nbd, stop, |found| write(found.offset, &found.data))
        .and_then(|()| write(size_bytes, &[]));
    watch.end();
    if let Err(failure) = copied {
        tool.end(); // RBD-2: before its input ends.
        return Err(failure);
    }
    drop(to);
    tool.succeed()?;
    nbd.end()?;
    Ok(size_bytes)
}

/// A stream of all bytes from the first one on, given some of them.
struct PaddedStream<W> {
    out: W,
    at: u64,
}

impl<W: Write> PaddedStream<W> {
    /// Writes bytes, and zeros up to them; how far that went.
    fn write(&mut self, offset: u64, data: &[u8]) -> Result<u64> {
        let begin = self.at;
        let end = offset + data.len() as u64;
        while self.at < offset {
            let len = usize::try_from(offset - self.at).unwrap_or(usize::MAX).min(ZEROS.len());
            self.put(&ZEROS[..len])?;
        }
        // Extents do not overlap; a part that was written is not written again.
        let known = usize::try_from(self.at - offset).unwrap_or(usize::MAX).min(data.len());
        self.put(&data[known..])?;
        Ok(self.at.max(end) - begin)
    }

    fn put(&mut self, bytes: &[u8]) -> Result<()> {
        self.at += bytes.len() as u64;
        let put = self.out.write_all(bytes);
        put.map_err(|error| Failure::new(format!("write to `rbd import`: {error}")))
    }
}

/// Reads until the buffer is full or the input ends.
fn fill(from: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut len = 0;
    while len < buffer.len() {
        match from.read(&mut buffer[len..]) {
            Ok(0) => break,
            Ok(count) => len += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(len)
}

/// Runs of blocks that are not zeros: where each begins, and its bytes.
fn runs_of_data(bytes: &[u8]) -> Vec<(usize, &[u8])> {
    let mut runs = Vec::new();
    let mut begin = None;
    for at in (0..bytes.len()).step_by(BLOCK_BYTES) {
        let block = &bytes[at..bytes.len().min(at + BLOCK_BYTES)];
        match (begin, block.iter().all(|byte| *byte == 0)) {
            (None, false) => begin = Some(at),
            (Some(from), true) => {
                runs.push((from, &bytes[from..at]));
                begin = None;
            }
            _ => {}
        }
    }
    runs.extend(begin.map(|from| (from, &bytes[from..])));
    runs
}

/// `rbd` at work on a stream. It ends with this: what it makes is not whole then.
struct Tool {
    child: Child,
    what: String,
}

impl Tool {
    fn start(arguments: &[&str]) -> Result<Self> {
        let started = command(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let child = started.map_err(|error| not_run(&error))?;
        Ok(Self { child, what: format!("rbd {}", arguments.first().unwrap_or(&"")) })
    }

    /// Waits for its end, which has to be a good one. Its input has ended.
    fn succeed(&mut self) -> Result<()> {
        drop(self.child.stdin.take());
        let status = self.child.wait();
        let status = status.map_err(|error| Failure::new(format!("{}: {error}", self.what)))?;
        judge(&self.what, status, "its own message is above")
    }

    fn end(&mut self) {
        // Ended already is fine as well.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Tool {
    fn drop(&mut self) {
        self.end();
    }
}

/// `rbd`, out of reach of Ctrl-C: who started it ends it.
fn command(arguments: &[impl AsRef<OsStr>]) -> Command {
    let mut command = Command::new("rbd");
    command.args(arguments).process_group(0);
    command
}

fn run(arguments: &[&str]) -> Result<Output> {
    command(arguments).stdin(Stdio::null()).output().map_err(|error| not_run(&error))
}

fn not_run(error: &io::Error) -> Failure {
    let failure = Failure::new(format!("run `rbd`: {error}"));
    match error.kind() {
        io::ErrorKind::NotFound => {
            failure.hint("install Ceph's command-line tools (Debian: ceph-common)")
        }
        _ => failure,
    }
}

fn check(what: &str, output: &Output) -> Result<()> {
    let said = String::from_utf8_lossy(&output.stderr);
    judge(what, output.status, said.trim())
}

fn judge(what: &str, status: ExitStatus, said: &str) -> Result<()> {
    if status.success() {
        return Ok(());
    }
    Err(Failure::new(format!("`{what}` failed, {status}: {said}"))
        .hint("see whether ceph.conf, CEPH_CONF and CEPH_ARGS name the cluster and a user, and the pool is there"))
}

fn exists(image: &str) -> Result<bool> {
    let output = run(&["info", image])?;
    match output.status.code() {
        Some(0) => Ok(true),
        Some(ABSENT) => Ok(false),
        _ => check("rbd info", &output).map(|()| true),
    }
}

fn size(image: &str) -> Result<u64> {
    let output = run(&["info", "--format", "json", image])?;
    check("rbd info", &output)?;
    let told: Option<serde_json::Value> = serde_json::from_slice(&output.stdout).ok();
    told.and_then(|told| told.get("size")?.as_u64()).ok_or_else(|| {
        Failure::new(format!("`rbd info` shows no size of {image}"))
            .hint("see what `rbd info --format json` prints")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_are_told_from_files() {
        assert_eq!(image(Path::new("rbd:p/i@s")).unwrap(), Some("p/i@s"));
        assert_eq!(image(Path::new("rbd:p/n/i")).unwrap(), Some("p/n/i"));
        assert_eq!(image(Path::new("rbd")).unwrap(), None);
        assert_eq!(image(Path::new("./rbd:p/i")).unwrap(), None);
        for wrong in ["rbd:", "rbd:i", "rbd:p/", "rbd:/i", "rbd:--all/x"] {
            assert_eq!(image(Path::new(wrong)).unwrap_err().exit_code(), 2, "{wrong}");
        }
    }

    #[test]
    fn zeros_are_not_written() {
        let block = |byte: u8| vec![byte; BLOCK_BYTES];
        let bytes = [block(0), block(1), block(2), block(0), block(3), vec![4; 100]].concat();
        let runs = runs_of_data(&bytes);
        let found: Vec<_> = runs.iter().map(|(at, run)| (*at, run.len())).collect();
        assert_eq!(found, [(BLOCK_BYTES, 2 * BLOCK_BYTES), (4 * BLOCK_BYTES, BLOCK_BYTES + 100)]);
        assert!(runs_of_data(&block(0)).is_empty() && runs_of_data(&[]).is_empty());
    }

    #[test]
    fn holes_are_padded() {
        let mut to = PaddedStream { out: Vec::new(), at: 0 };
        assert_eq!(to.write(3, b"abc").unwrap(), 6);
        assert_eq!(to.write(6, b"d").unwrap(), 1);
        let far = 6 + REQUEST_BYTES_MAX as u64 * 2;
        assert_eq!(to.write(far, &[]).unwrap(), far - 7);
        assert_eq!(to.out.len() as u64, far);
        assert_eq!(to.out[..8], *b"\0\0\0abcd\0");
    }

    #[test]
    fn a_stream_is_read_in_whole_buffers() {
        struct Slow<'a>(&'a [u8]);
        impl Read for Slow<'_> {
            fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
                let len = into.len().min(3).min(self.0.len());
                self.0.read(&mut into[..len])
            }
        }
        let (mut from, mut buffer) = (Slow(&[7; 20]), [0; 16]);
        assert_eq!(fill(&mut from, &mut buffer).unwrap(), 16);
        assert_eq!(fill(&mut from, &mut buffer).unwrap(), 4);
        assert_eq!(fill(&mut from, &mut buffer).unwrap(), 0);
    }
}
