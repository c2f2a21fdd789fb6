//! The worked examples of tables and labels, `docs/format-examples/redundancy.md`.

use varve_stdx::ExamplesPage;

use super::samples;
use crate::format::{DriveRecord, DriveTable, JournalRecord, LayoutPage, Row, StripLabel};

/// Where the first row of a layout page is.
const ROWS_OFFSET: usize = 56;

#[test]
fn the_page_shows_what_is_stored() {
    let table = samples::drive_table().encode();
    assert_eq!(DriveTable::decode(samples::POOL, &table), Ok(samples::drive_table()));
    let journal = samples::journal_record().encode();
    let decoded = JournalRecord::decode(samples::POOL, samples::SHARD, &journal);
    assert_eq!(decoded, Ok(samples::journal_record()));
    let page = samples::layout_page().encode();
    let decoded = LayoutPage::decode(samples::POOL, samples::PAGE, &page);
    assert_eq!(decoded, Ok(samples::layout_page()));
    let label = samples::label_bytes(&samples::strip_label());
    assert_eq!(StripLabel::decode(&label), Ok(samples::strip_label()));

    let drives = &table[..table.len() - 8];
    let last_drive = &drives[drives.len() - DriveRecord::LEN..];
    let moving_row = &page[ROWS_OFFSET + Row::LEN..][..Row::LEN];
    ExamplesPage::new("redundancy", "redundant pools", "varve-media-redundancy")
        .example("Drive table", &table)
        .example("Drive record", last_drive)
        .example("Journal record", &journal)
        .example("Layout page", &page)
        .example("Row", moving_row)
        .example("Label", &label)
        .compare();
}
