//! Where an archive is written: standard output, or a file that gets its name when it is whole.
//!
//! TARGET-1. Until then it is FILE.partial, and what is whole of it can be gone on with.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, IsTerminal, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use varve_client::{Failure, Result};
use varve_dataset::{ArchiveChain, ArchiveHeader, ArchiveRecord};

use super::source::ArchiveSource;

/// What is gathered before it is written, in bytes.
const BUFFER_BYTES: usize = 1 << 20;

/// An archive that is being written.
pub(super) struct ArchiveTarget {
    out: Box<dyn Write>,
    chain: ArchiveChain,
    file: Option<PartFile>,
}

struct PartFile {
    file: File,
    partial: PathBuf,
    path: PathBuf,
    run: ExportRun,
}

/// What an earlier run left, and what this one leaves for a later one when it ends early.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ExportRun {
    /// Nothing either way: what is exported is there for this run only.
    Only,
    /// Nothing was left; what this one leaves can be gone on with.
    First,
    /// Goes on with what was left, if anything was.
    Resumed,
}

impl Drop for PartFile {
    fn drop(&mut self) {
        if self.run == ExportRun::Only {
            // Under its name by now, or of no use.
            let _ = fs::remove_file(&self.partial);
        }
    }
}

impl ArchiveTarget {
    /// Begins an archive in `path`, `-` for standard output, or goes on with one.
    pub(super) fn open(path: &Path, header: &ArchiveHeader, run: ExportRun) -> Result<Self> {
        if path == Path::new("-") {
            return Self::standard_output(header, run);
        }
        let failed = |what: &str, path: &Path, error: &io::Error| {
            Failure::new(format!("{what} {}: {error}", path.display()))
        };
        if path.exists() {
            return Err(Failure::new(format!("{} exists", path.display()))
                .hint("remove it, or choose another name"));
        }
        let mut partial = path.as_os_str().to_owned();
        partial.push(".partial");
        let partial = PathBuf::from(partial);
        let mut options = OpenOptions::new();
        // It holds what the volume does, whoever may read the directory.
        options.read(true).write(true).mode(0o600);
        let opened = match run {
            ExportRun::Resumed => options.create(true).truncate(false).open(&partial),
            ExportRun::First | ExportRun::Only => options.create_new(true).open(&partial),
        };
        let mut file = opened.map_err(|error| {
            let failure = failed("open", &partial, &error);
            match error.kind() {
                io::ErrorKind::AlreadyExists if run == ExportRun::Only => failure.hint(
                    "an export is under way, or one was killed; if none is, remove the file and run this again",
                ),
                io::ErrorKind::AlreadyExists => {
                    failure.hint("go on with it by --resume, or remove it")
                }
                _ => failure,
            }
        })?;
        let (chain, whole_bytes) = whole_part(&file, &partial, header)?;
        let end = file.set_len(whole_bytes).and_then(|()| file.seek(SeekFrom::End(0)));
        end.map_err(|error| failed("go on with", &partial, &error))?;
        let out = file.try_clone().map_err(|error| failed("open", &partial, &error))?;
        let out: Box<dyn Write> = Box::new(BufWriter::with_capacity(BUFFER_BYTES, out));
        let file = Some(PartFile { file, partial, path: path.to_owned(), run });
        let mut target = Self { out, chain, file };
        if whole_bytes == 0 {
            target.write(&header.encode())?;
        }
        Ok(target)
    }

    fn standard_output(header: &ArchiveHeader, run: ExportRun) -> Result<Self> {
        let stdout = io::stdout();
        if run == ExportRun::Resumed {
            return Err(Failure::misuse("nothing is known of what was written to standard output")
                .hint("--resume needs a file"));
        }
        if stdout.is_terminal() {
            return Err(Failure::misuse("an archive is not for a terminal")
                .hint("name a file, or pipe it into another command"));
        }
        let out: Box<dyn Write> = Box::new(BufWriter::with_capacity(BUFFER_BYTES, stdout));
        let mut target = Self { out, chain: ArchiveChain::new(header), file: None };
        target.write(&header.encode())?;
        Ok(target)
    }

    /// How far it is.
    pub(super) fn chain(&self) -> &ArchiveChain {
        &self.chain
    }

    /// Adds a record.
    pub(super) fn add(&mut self, record: ArchiveRecord, payload: &[u8]) -> Result<()> {
        let head = self.chain.encode(record, payload);
        self.write(&head)?;
        self.write(payload)
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.out.write_all(bytes).map_err(|error| self.failed(&error))
    }

    fn failed(&self, error: &io::Error) -> Failure {
        let name = self.file.as_ref().map(|file| file.partial.display().to_string());
        let name = name.unwrap_or_else(|| "standard output".to_owned());
        let failure = Failure::new(format!("write to {name}: {error}"));
        match self.file.as_ref().map(|file| file.run) {
            Some(ExportRun::First | ExportRun::Resumed) => {
                failure.hint("what is whole stays: --resume goes on with it when there is room")
            }
            Some(ExportRun::Only) => failure.hint("run it again when there is room"),
            None => failure,
        }
    }

    /// Ends the archive: durable under its name on return, if it is a file.
    pub(super) fn end(mut self) -> Result<()> {
        if !self.chain.is_ended() {
            self.add(ArchiveRecord::End, &[])?;
        }
        self.out.flush().map_err(|error| self.failed(&error))?;
        let Some(PartFile { file, partial, path, .. }) = &self.file else { return Ok(()) };
        let named = || -> io::Result<()> {
            file.sync_all()?;
            fs::rename(partial, path)?;
            let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
            File::open(parent.unwrap_or(Path::new(".")))?.sync_all()
        };
        named().map_err(|error| self.failed(&error))
    }
}

/// How much of a file is a whole part of the archive with this header, in records and bytes (TARGET-1).
fn whole_part(file: &File, path: &Path, header: &ArchiveHeader) -> Result<(ArchiveChain, u64)> {
    let begun = ArchiveChain::new(header);
    let len = file.metadata().map_or(0, |metadata| metadata.len());
    if len == 0 {
        return Ok((begun, 0));
    }
    let found = ArchiveSource::file(file, path).and_then(|mut source| source.header());
    match found {
        Ok(found) if found == *header => {}
        // Not even the header was written.
        Err(_) if len < header.encode().len() as u64 => return Ok((begun, 0)),
        _ => {
            let what = format!("{} is of another snapshot", path.display());
            return Err(Failure::new(what).hint("remove it, or choose another name"));
        }
    }
    let mut source = ArchiveSource::file(file, path)?;
    source.header()?;
    let (mut chain, mut whole_bytes) = (begun, source.position());
    let mut payload = Vec::new();
    while !chain.is_ended() && source.record(&mut chain, &mut payload).is_ok() {
        whole_bytes = source.position();
    }
    Ok((chain, whole_bytes))
}
