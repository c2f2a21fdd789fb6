//! Pages of the layout of a redundant pool, of whatever pool and number they say. Input that is shorter gets zeros.
#![no_main]

use libfuzzer_sys::fuzz_target;
use varve_fuzz::{bytes_at, with_trailing_checksum};
use varve_media_redundancy::format::LayoutPage;
use varve_types::PoolId;

fuzz_target!(|bytes: &[u8]| {
    let mut whole = bytes.to_vec();
    whole.resize(LayoutPage::LEN, 0);
    with_trailing_checksum(&whole, |bytes| {
        let page = u32::from_le_bytes(bytes_at(bytes, 12));
        if let Ok(page) = LayoutPage::decode(PoolId(bytes_at(bytes, 16)), page, bytes) {
            assert_eq!(page.encode(), bytes);
            assert!(!page.to_string().is_empty());
        }
    });
});
