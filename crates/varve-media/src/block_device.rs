//! Which device a drive is, or lies on, by what the kernel says in `/sys`.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// How many devices may lie below each other.
const DEPTH_MAX: usize = 8;
/// The kernel counts sectors of this size.
const SECTOR_BYTES: u64 = 512;

/// The devices of the system.
#[derive(Debug)]
pub struct BlockDevices {
    sys: PathBuf,
    mounts: PathBuf,
}

/// A whole device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BlockDevice {
    /// Its directory in `/sys`.
    directory: PathBuf,
    /// Its name in `/dev`.
    pub name: String,
    /// Whether a file system is between it and the path that was looked for.
    pub is_below_file_system: bool,
}

impl BlockDevice {
    /// Where programs find it.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        Path::new("/dev").join(&self.name)
    }

    /// Its directory in `/sys`.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Whether it turns; `None` where the system does not say.
    #[must_use]
    pub fn is_rotational(&self) -> Option<bool> {
        let text = fs::read_to_string(self.directory.join("queue/rotational")).ok()?;
        Some(text.trim() == "1")
    }

    /// `write back` or `write through`.
    #[must_use]
    pub fn write_cache(&self) -> Option<String> {
        let text = fs::read_to_string(self.directory.join("queue/write_cache")).ok()?;
        Some(text.trim().to_owned())
    }

    /// Bytes written to it since it is there.
    #[must_use]
    pub fn written_bytes(&self) -> Option<u64> {
        let text = fs::read_to_string(self.directory.join("stat")).ok()?;
        let sectors: u64 = text.split_ascii_whitespace().nth(6)?.parse().ok()?;
        Some(sectors.saturating_mul(SECTOR_BYTES))
    }
}

impl BlockDevices {
    /// Those of this machine.
    #[must_use]
    pub fn of_this_machine() -> Self {
        Self { sys: PathBuf::from("/sys"), mounts: PathBuf::from("/proc/self/mountinfo") }
    }

    /// The device that a path is, or that its file system is on: one that is mapped to others is itself.
    ///
    /// # Errors
    /// Why there is none, for people.
    pub fn at(&self, path: &Path) -> Result<BlockDevice, String> {
        let (directory, is_below_file_system) = self.named(path)?;
        Ok(BlockDevice { is_below_file_system, ..not_part(&directory)? })
    }

    /// The one device that a path is, or lies on, below all that are mapped to it.
    ///
    /// # Errors
    /// Why there is none, for people.
    pub fn below(&self, path: &Path) -> Result<BlockDevice, String> {
        self.search(path, DEPTH_MAX)
    }

    fn search(&self, path: &Path, depth: usize) -> Result<BlockDevice, String> {
        let (directory, is_below_file_system) = self.named(path)?;
        let device = self.whole(&directory, depth)?;
        let is_below_file_system = is_below_file_system || device.is_below_file_system;
        Ok(BlockDevice { is_below_file_system, ..device })
    }

    /// The directory of the device of a path, and whether a file system is between.
    fn named(&self, path: &Path) -> Result<(PathBuf, bool), String> {
        let failed = |error| format!("{}: {error}", path.display());
        let metadata = fs::metadata(path).map_err(failed)?;
        if metadata.file_type().is_block_device() {
            return Ok((self.directory(metadata.rdev()), false));
        }
        let directory = self.directory(metadata.dev());
        if directory.exists() {
            return Ok((directory, true));
        }
        Ok((self.directory(self.mounted_device(path)?), true))
    }

    fn directory(&self, device: u64) -> PathBuf {
        let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
        self.sys.join(format!("dev/block/{major}:{minor}"))
    }

    /// The device of which a partition is, or on which a mapped one or a loop lies.
    fn whole(&self, directory: &Path, depth: usize) -> Result<BlockDevice, String> {
        let device = not_part(directory)?;
        let depth = depth.checked_sub(1).ok_or("devices lie below each other without an end")?;
        let lower = fs::read_dir(device.directory.join("slaves")).into_iter().flatten().flatten();
        let lower: Vec<PathBuf> = lower.map(|entry| entry.path()).collect();
        match &lower[..] {
            [] => match fs::read_to_string(device.directory.join("loop/backing_file")) {
                Ok(file) => self.search(Path::new(file.trim_end()), depth),
                Err(_) => Ok(device),
            },
            [one] => self.whole(one, depth),
            several => Err(format!("/dev/{} lies on {} devices", device.name, several.len())),
        }
    }

    /// The device from which the file system with a path is mounted: some file systems, such as btrfs, have numbers of
    /// their own.
    fn mounted_device(&self, path: &Path) -> Result<u64, String> {
        let failed = |error| format!("{}: {error}", path.display());
        let path = fs::canonicalize(path).map_err(failed)?;
        let mounts = fs::read_to_string(&self.mounts).map_err(failed)?;
        let mount = mounts.lines().filter_map(Mount::parse).filter(|it| path.starts_with(&it.at));
        let Some(Mount { kind, source, .. }) = mount.max_by_key(|it| it.at.as_os_str().len())
        else {
            return Err(format!("{} is on no file system that is mounted", path.display()));
        };
        let device = fs::metadata(&source).ok().filter(|it| it.file_type().is_block_device());
        device.map(|it| it.rdev()).ok_or_else(|| format!("it is on {kind}, which has no device"))
    }
}

/// A device by its directory: the whole one, of a partition.
fn not_part(directory: &Path) -> Result<BlockDevice, String> {
    let failed = |error| format!("{}: {error}", directory.display());
    let mut directory = fs::canonicalize(directory).map_err(failed)?;
    if directory.join("partition").exists() {
        directory.pop();
    }
    let name = directory.file_name().unwrap_or_default().to_string_lossy().replace('!', "/");
    Ok(BlockDevice { directory, name, is_below_file_system: false })
}

/// A line of `mountinfo`.
struct Mount {
    at: PathBuf,
    kind: String,
    source: PathBuf,
}

impl Mount {
    fn parse(line: &str) -> Option<Self> {
        let (mount, what) = line.split_once(" - ")?;
        let at = mount.split(' ').nth(4)?;
        let mut what = what.split(' ');
        let (kind, source) = (what.next()?.to_owned(), what.next()?);
        Some(Self { at: unescaped(at).into(), kind, source: unescaped(source).into() })
    }
}

/// Blanks and backslashes are octal in it.
fn unescaped(text: &str) -> String {
    let escapes = [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")];
    escapes.iter().fold(text.to_owned(), |text, (escape, is)| text.replace(escape, is))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// Devices as in `/sys`, in a directory.
    struct Tree(tempfile::TempDir);

    impl Tree {
        fn new() -> Self {
            let tree = Self(tempfile::tempdir().unwrap());
            fs::create_dir_all(tree.sys("dev/block")).unwrap();
            tree
        }

        fn sys(&self, path: &str) -> PathBuf {
            self.0.path().join("sys").join(path)
        }

        /// A device with this number; `path` has its parent, if it is a partition.
        fn device(&self, number: &str, path: &str) -> PathBuf {
            let directory = self.sys("devices").join(path);
            fs::create_dir_all(directory.join("slaves")).unwrap();
            symlink(&directory, self.sys("dev/block").join(number)).unwrap();
            directory
        }

        fn devices(&self) -> BlockDevices {
            BlockDevices { sys: self.0.path().join("sys"), mounts: self.0.path().join("mounts") }
        }

        fn number(&self) -> String {
            let device = fs::metadata(self.0.path()).unwrap().dev();
            format!("{}:{}", rustix::fs::major(device), rustix::fs::minor(device))
        }
    }

    #[test]
    fn a_directory_is_on_the_disk_of_its_partition() {
        let tree = Tree::new();
        let partition = tree.device(&tree.number(), "nvme0n1/nvme0n1p2");
        fs::write(partition.join("partition"), "2\n").unwrap();
        let disk = partition.parent().unwrap();
        fs::create_dir(disk.join("queue")).unwrap();
        fs::write(disk.join("queue/write_cache"), "write back\n").unwrap();
        assert_eq!(tree.devices().at(tree.0.path()).unwrap().is_rotational(), None);
        fs::write(disk.join("queue/rotational"), "0\n").unwrap();
        fs::write(disk.join("stat"), " 9 0 80 5  70 0 4096 8 0 1 2 0\n").unwrap();
        let found = tree.devices().below(tree.0.path()).unwrap();
        assert_eq!(found.path(), Path::new("/dev/nvme0n1"));
        assert!(found.is_below_file_system);
        assert_eq!(found.write_cache().as_deref(), Some("write back"));
        assert_eq!(found.written_bytes(), Some(2 << 20));
        assert_eq!(found.is_rotational(), Some(false));
    }

    #[test]
    fn what_lies_on_one_device_is_that_device_and_what_lies_on_several_is_none() {
        let tree = Tree::new();
        let mapped = tree.device(&tree.number(), "dm-0");
        let disk = tree.device("8:0", "sda");
        let partition = tree.device("8:1", "sda/sda1");
        fs::write(partition.join("partition"), "1\n").unwrap();
        symlink(&partition, mapped.join("slaves/sda1")).unwrap();
        let found = tree.devices().below(tree.0.path()).unwrap();
        let itself = tree.devices().at(tree.0.path()).unwrap();
        assert_eq!((itself.name.as_str(), itself.is_below_file_system), ("dm-0", true));
        assert_eq!(
            (found.name.as_str(), &found.directory),
            ("sda", &fs::canonicalize(disk).unwrap())
        );
        symlink(tree.device("8:16", "sdb"), mapped.join("slaves/sdb")).unwrap();
        let refused = tree.devices().below(tree.0.path()).unwrap_err();
        assert_eq!(refused, "/dev/dm-0 lies on 2 devices");
    }

    #[test]
    fn a_loop_of_its_own_file_system_ends() {
        let tree = Tree::new();
        let device = tree.device(&tree.number(), "loop0");
        fs::create_dir(device.join("loop")).unwrap();
        let file = tree.0.path().display().to_string();
        fs::write(device.join("loop/backing_file"), file + "\n").unwrap();
        let refused = tree.devices().below(tree.0.path()).unwrap_err();
        assert!(refused.contains("without an end"), "{refused}");
    }

    #[test]
    fn a_file_system_without_a_device_is_named() {
        let tree = Tree::new();
        let at = fs::canonicalize(tree.0.path()).unwrap();
        let mounts = format!(
            "1 0 0:2 / / rw - ext4 /dev/none rw\n2 1 0:9 / {} rw,noatime shared:1 - tmpfs tmpfs rw\n",
            at.display()
        );
        fs::write(tree.0.path().join("mounts"), mounts).unwrap();
        let refused = tree.devices().below(tree.0.path()).unwrap_err();
        assert_eq!(refused, "it is on tmpfs, which has no device");
        let missing = tree.devices().below(&tree.0.path().join("nothing")).unwrap_err();
        assert!(missing.contains("No such file"), "{missing}");
    }
}
