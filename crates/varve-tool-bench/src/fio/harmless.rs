//! Whether fio would leave what is there as it is. What is not known for certain to read only counts as what writes.

use crate::fio::file::{FioFile, FioOption};

/// Engines that read what `rw` says and do nothing beside it.
const ENGINES: [&str; 15] = [
    "sync", "psync", "vsync", "pvsync", "pvsync2", "libaio", "posixaio", "io_uring", "mmap",
    "splice", "sg", "nbd", "rbd", "rados", "null",
];

/// Options that make a job that reads do something else too: replay, remove files, run commands.
const OTHERWISE: [&str; 8] = [
    "read_iolog",
    "profile",
    "unlink",
    "unlink_each_loop",
    "exec_prerun",
    "exec_postrun",
    "overwrite",
    "file_append",
];

impl FioFile {
    /// Whether all jobs of a job file only read. Files that fio makes because they are missing are nobody's loss.
    #[must_use]
    pub fn only_reads(text: &str) -> bool {
        let only_reads = |file: Self| {
            let mut options = file.sections.iter().flat_map(|section| &section.options);
            options.all(is_harmless)
        };
        Self::read(text).is_ok_and(only_reads)
    }
}

fn is_harmless(option: &FioOption) -> bool {
    let FioOption { name, value, .. } = option;
    match name.as_str() {
        "rw" | "readwrite" => matches!(value.split(':').next(), Some("read" | "randread")),
        "ioengine" => ENGINES.contains(&value.as_str()),
        other => !OTHERWISE.contains(&other) && !other.starts_with("trim"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_write_is_told_from_what_reads() {
        for text in [
            "[a]\nfilename=x\n",
            "[global]\nioengine=libaio\nrw=randread\n[a]\n[b]\nreadwrite=read:4\nverify=crc32c\n",
        ] {
            assert!(FioFile::only_reads(text), "{text}");
        }
        for text in [
            "[a]\nrw=randread\n[b]\nrw=randrw\n",
            "[global]\nrw=write\n[a]\n",
            "[a]\nrw=trim\n",
            "[a]\nioengine=filedelete\n",
            "[a]\nread_iolog=log\n",
            "[a]\nunlink=1\n",
            // What is filled in, or stands elsewhere, nobody knows.
            "[a]\nrw=${KIND}\n",
            "include other.fio\n[a]\n",
            "",
        ] {
            assert!(!FioFile::only_reads(text), "{text}");
        }
    }
}
