//! Superblocks. Input is the fields alone: the reserved rest of the 4096 bytes is added.
#![no_main]

use libfuzzer_sys::fuzz_target;
use varve_fuzz::with_trailing_checksum;
use varve_media::fuzz;

fuzz_target!(|bytes: &[u8]| {
    fuzz::superblock(bytes);
    let mut whole = bytes.to_vec();
    whole.resize(fuzz::SUPERBLOCK_LEN, 0);
    with_trailing_checksum(&whole, fuzz::superblock);
});
