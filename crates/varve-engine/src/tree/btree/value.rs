//! An owned value that needs no allocation when it is as short as a chunk-table entry.

use std::ops::Deref;

use varve_logstore::format::chunk::ChunkEntry;

const INLINE_MAX: usize = 30;

const _: () = assert!(ChunkEntry::LEN <= INLINE_MAX && INLINE_MAX <= u8::MAX as usize);

#[derive(Clone)]
enum Repr {
    Inline { len: u8, bytes: [u8; INLINE_MAX] },
    Heap(Box<[u8]>),
}

/// A value taken out of a tree.
#[derive(Clone)]
pub struct Value(Repr);

impl From<&[u8]> for Value {
    fn from(value: &[u8]) -> Self {
        let mut bytes = [0; INLINE_MAX];
        match (u8::try_from(value.len()), bytes.get_mut(..value.len())) {
            (Ok(len), Some(inline)) => {
                inline.copy_from_slice(value);
                Self(Repr::Inline { len, bytes })
            }
            _ => Self(Repr::Heap(value.into())),
        }
    }
}

impl Deref for Value {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.0 {
            Repr::Inline { len, bytes } => &bytes[..usize::from(*len)],
            Repr::Heap(bytes) => bytes,
        }
    }
}

impl PartialEq for Value {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for Value {}

impl std::fmt::Debug for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        (**self).fmt(f)
    }
}
