//! Where an archive is read from: standard input or a file, in order. Its bytes are nobody's: each length is checked
//! before it is used.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::Path;

use varve_client::{Failure, Result};
use varve_dataset::{ArchiveChain, ArchiveHeader, ArchiveRecord};

/// What is read ahead, in bytes.
const BUFFER_BYTES: usize = 1 << 20;

/// An archive that is being read.
pub(super) struct ArchiveSource {
    input: Box<dyn Read>,
    name: String,
    position: u64,
    /// Length of the archive, where it is a file.
    len_bytes: Option<u64>,
}

impl ArchiveSource {
    /// The archive in `path`, `-` for standard input.
    pub(super) fn open(path: &Path) -> Result<Self> {
        if path == Path::new("-") {
            let input = BufReader::with_capacity(BUFFER_BYTES, io::stdin());
            let name = "standard input".to_owned();
            return Ok(Self { input: Box::new(input), name, position: 0, len_bytes: None });
        }
        let file = File::open(path)
            .map_err(|error| Failure::new(format!("open {}: {error}", path.display())))?;
        Self::file(&file, path)
    }

    /// The archive in an open file, from its beginning.
    pub(super) fn file(file: &File, path: &Path) -> Result<Self> {
        let name = path.display().to_string();
        let begin = || -> io::Result<(File, Option<u64>)> {
            let mut file = file.try_clone()?;
            let metadata = file.metadata()?;
            file.seek(SeekFrom::Start(0))?;
            Ok((file, metadata.is_file().then_some(metadata.len())))
        };
        let (file, len_bytes) =
            begin().map_err(|error| Failure::new(format!("read {name}: {error}")))?;
        let input = BufReader::with_capacity(BUFFER_BYTES, file);
        Ok(Self { input: Box::new(input), name, position: 0, len_bytes })
    }

    /// Length of the archive in bytes, where it is a file.
    pub(super) fn len_bytes(&self) -> Option<u64> {
        self.len_bytes
    }

    /// Bytes read so far.
    pub(super) fn position(&self) -> u64 {
        self.position
    }

    /// An error of the archive, with its name.
    pub(super) fn bad(&self, error: &varve_dataset::Error) -> Failure {
        let hint = match error {
            varve_dataset::Error::BadArchive { record: 0, .. } => {
                "name an archive that `varve volume export` wrote, or export again; `nbdcopy` and `qemu-img convert` write a raw image to a volume"
            }
            _ => "compare it with what was exported, or export again",
        };
        Failure::new(format!("{}: {error}", self.name)).hint(hint)
    }

    fn fill(&mut self, bytes: &mut [u8]) -> Result<()> {
        let position = self.position;
        self.input.read_exact(bytes).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => Failure::new(format!(
                "{} ends at byte {position}, before the archive does",
                self.name
            ))
            .hint("the export was cut short: run it again with --resume, then import again"),
            _ => Failure::new(format!("read {} at byte {position}: {error}", self.name)),
        })?;
        self.position += bytes.len() as u64;
        Ok(())
    }

    /// The header, which comes first.
    pub(super) fn header(&mut self) -> Result<ArchiveHeader> {
        let mut prefix = [0; ArchiveHeader::PREFIX_LEN];
        self.fill(&mut prefix)?;
        let len = ArchiveHeader::len_of(&prefix).map_err(|error| self.bad(&error))?;
        let mut bytes = vec![0; len];
        let (front, rest) = bytes.split_at_mut(prefix.len());
        front.copy_from_slice(&prefix);
        self.fill(rest)?;
        ArchiveHeader::decode(&bytes).map_err(|error| self.bad(&error))
    }

    /// The next record, with its payload in `payload`.
    pub(super) fn record(
        &mut self,
        chain: &mut ArchiveChain,
        payload: &mut Vec<u8>,
    ) -> Result<ArchiveRecord> {
        let mut head = [0; ArchiveChain::RECORD_LEN];
        self.fill(&mut head)?;
        let len = chain.payload_len(&head).map_err(|error| self.bad(&error))?;
        payload.resize(len, 0);
        self.fill(payload)?;
        chain.accept(&head, payload).map_err(|error| self.bad(&error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_says_how_long_it_is_and_a_device_does_not() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("archive");
        std::fs::write(&path, [0; 300]).unwrap();
        assert_eq!(ArchiveSource::open(&path).unwrap().len_bytes(), Some(300));
        assert_eq!(ArchiveSource::open(Path::new("/dev/zero")).unwrap().len_bytes(), None);
    }
}
