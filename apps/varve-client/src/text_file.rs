//! Files that people hand to commands: text of a bounded length, or standard input.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use crate::failure::{Failure, Result};

/// Longest file that is read, in bytes: what the admin API takes.
const FILE_BYTES_MAX: u64 = 64 << 10;

/// A text file, or standard input for `-`.
pub fn read_file(path: &Path) -> Result<String> {
    read_file_up_to(path, FILE_BYTES_MAX)
}

/// The same of up to that many bytes.
pub fn read_file_up_to(path: &Path, bytes_max: u64) -> Result<String> {
    let mut text = String::new();
    let read = if path == Path::new("-") {
        io::stdin().take(bytes_max + 1).read_to_string(&mut text)
    } else {
        File::open(path).and_then(|file| file.take(bytes_max + 1).read_to_string(&mut text))
    };
    read.map_err(|error| Failure::new(format!("read {}: {error}", path.display())))?;
    if text.len() as u64 > bytes_max {
        let what = format!("{} is longer than {bytes_max} bytes", path.display());
        return Err(Failure::misuse(what));
    }
    Ok(text)
}
