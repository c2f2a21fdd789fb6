//! `docs/format.md` against the code: lengths of the tables of section 15. That their fields follow each other without
//! gaps is tested for all of its tables by `varve-logstore`.

use super::samples;
use crate::format::{DriveRecord, DriveTable, JournalRecord, LayoutPage, Row, StripLabel};

const DOCUMENT: &str = include_str!("../../../../../docs/format.md");

#[test]
fn lengths_are_those_of_the_code() {
    for (title, length) in [
        ("Drive table", DriveTable::LEN_MIN),
        ("Drive record", DriveRecord::LEN),
        ("Journal record", JournalRecord::LEN_MIN),
        ("Layout page", LayoutPage::LEN),
        ("Row", Row::LEN),
        ("Label", StripLabel::LEN),
    ] {
        let heading = format!("\n### {title} ({length} B)\n");
        assert!(DOCUMENT.contains(&heading), "{title} has {length} bytes");
    }
}

#[test]
fn tables_fit_their_sides() {
    let root_header = 64;
    assert!(DriveTable::LEN_MAX + root_header <= 64 << 10);
    assert!(JournalRecord::LEN_MAX + root_header <= 4096);
    assert_eq!(LayoutPage::LEN + root_header, 4096);
    assert_eq!(samples::drive_table().encode().len(), 136 + 2 * 24 + 2 * 16 + 4 * 128);
}
