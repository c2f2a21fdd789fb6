//! Large files stay for ever in everybody's clone.

use crate::tidy::tree::{Finding, Tree};

const SIZE_BYTES_MAX: u64 = 256 << 10;

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let large = tree.files.iter().filter(|file| file.size_bytes > SIZE_BYTES_MAX);
    large
        .map(|file| {
            let kib = file.size_bytes >> 10;
            Finding::file(
                &file.path,
                format!("{kib} KiB are more than 256: generate it, or keep a smaller sample"),
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::findings_of;

    #[test]
    fn large_files_are_found() {
        let large = "x".repeat((256 << 10) + 1);
        let found = findings_of(check, &[("a.bin", &large), ("b.bin", &large[1..])]);
        assert_eq!(found.len(), 1, "{found:?}");
    }
}
