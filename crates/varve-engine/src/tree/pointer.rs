//! Page pointers inside pages in memory, and their hash.
//!
//! PT1. A name is never reused for another content: ids and memory numbers only grow, a location carries its
//! segment's generation.

use varve_logstore::format::pointer::PagePtr;

/// Tag of a pointer to a page that has no location yet. It exists in memory only; the stored format refuses it.
const TAG_MEMORY: u8 = 3;

const _: () = assert!(PagePtr::LEN >= 12, "a memory number fits a pointer");

/// A well-mixed hash; one multiplication.
#[inline]
pub(super) fn hash64(ptr: PagePtr) -> u64 {
    let word = match ptr {
        PagePtr::Null => 0,
        PagePtr::Chunk(id) => id.get(),
        PagePtr::Location(at) => {
            (at.segment.generation.get() << 16 | u64::from(at.offset_512)) ^ 1 << 63
        }
        PagePtr::Memory(number) => number ^ 3 << 62,
    };
    let wide = u128::from(word ^ 0x9E37_79B9_7F4A_7C15) * 0xD6E8_FEB8_6659_FD93;
    #[expect(clippy::cast_possible_truncation, reason = "folds both halves of the product")]
    let folded = (wide >> 64) as u64 ^ wide as u64;
    folded
}

/// The bytes of a pointer as a page holds it: the stored format, and memory numbers beside.
pub(super) fn encode(ptr: PagePtr) -> [u8; PagePtr::LEN] {
    let mut bytes = [0; PagePtr::LEN];
    if let PagePtr::Memory(number) = ptr {
        bytes[0] = TAG_MEMORY;
        bytes[4..12].copy_from_slice(&number.to_le_bytes());
    } else {
        ptr.encode(&mut bytes);
    }
    debug_assert_eq!(is_memory(&bytes), matches!(ptr, PagePtr::Memory(_)), "tags tell them apart");
    bytes
}

/// Whether an encoded pointer names a page that has no location yet.
pub(super) fn is_memory(bytes: &[u8]) -> bool {
    bytes.first() == Some(&TAG_MEMORY)
}

/// Reads what [`encode`] wrote.
#[inline]
pub(super) fn decode(bytes: &[u8]) -> PagePtr {
    debug_assert_eq!(bytes.len(), PagePtr::LEN, "a child is a pointer");
    if is_memory(bytes) {
        let number = bytes[4..12].try_into().expect("the slice has 8 bytes");
        return PagePtr::Memory(u64::from_le_bytes(number));
    }
    PagePtr::decode(bytes).expect("pointers are checked when a page is decoded")
}
