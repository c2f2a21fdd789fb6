//! What other software leaves where a drive begins, so that a refusal can name it.

/// Bytes at an offset, and what has them there.
const SIGNATURES: &[(usize, &[u8], &str)] = &[
    (0, b"LUKS\xBA\xBE", "LUKS"),
    (0, b"XFSB", "xfs"),
    (0, b"bluestore block device", "Ceph BlueStore"),
    (0, b"QFI\xFB", "a qcow2 image"),
    (3, b"NTFS    ", "NTFS"),
    (512, b"EFI PART", "a GPT partition table"),
    (512, b"LABELONE", "an LVM physical volume"),
    (1080, b"\x53\xEF", "ext2, ext3 or ext4"),
    (4086, b"SWAPSPACE2", "swap"),
    (4096, b"\xFC\x4E\x2B\xA9", "a Linux RAID member"),
    (65600, b"_BHRfS_M", "btrfs"),
    (82, b"FAT32   ", "FAT"),
    (54, b"FAT16   ", "FAT"),
    (510, b"\x55\xAA", "a partition table"),
];

/// What begins with these bytes, if anybody knows.
pub(crate) fn name_of(begin: &[u8]) -> Option<&'static str> {
    let has = |(offset, bytes, _): &&(usize, &[u8], &str)| {
        begin.get(*offset..).is_some_and(|rest| rest.starts_with(bytes))
    };
    SIGNATURES.iter().find(has).map(|(_, _, name)| *name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_is_named() {
        for (offset, bytes, name) in SIGNATURES {
            let mut begin = vec![0; 70_000];
            begin[*offset..offset + bytes.len()].copy_from_slice(bytes);
            assert_eq!(name_of(&begin), Some(*name));
            assert_eq!(name_of(&begin[..*offset]), None);
        }
        assert_eq!(name_of(&[7; 5000]), None);
    }
}
