//! Operations on objects of one RADOS pool: what media are made of. Fulfilled by librados and in memory.
//!
//! OBJECTS-1. An operation starts when it is called, not when its future is polled, and dropping the future does not
//!     stop it.
//! OBJECTS-2. A change that returned `Ok` is durable in all copies that the pool keeps. It is atomic: all of it
//!     happened, or nothing.
//! OBJECTS-3. Operations on one object by one client take effect in the order in which they were called.

use std::future::Future;
use std::pin::Pin;

use varve_stdx::BufSlice;

/// An operation under way.
pub type RadosFuture<T> = Pin<Box<dyn Future<Output = Result<T, Refusal>>>>;

/// Why an operation was refused: an error number of Linux, positive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Refusal(pub i32);

impl Refusal {
    /// There is no such object, attribute or pool.
    pub const NOT_FOUND: Self = Self(2);
    /// An object that should be new exists.
    pub const EXISTS: Self = Self(17);
    /// The change makes no sense.
    pub const INVALID: Self = Self(22);
    /// The pool is full, or its quota is used up.
    pub const NO_SPACE: Self = Self(28);
    /// The pool cannot do that: erasure-coded ones write objects whole.
    pub const UNSUPPORTED: Self = Self(95);
    /// The cluster shut this client out.
    pub const SHUT_OUT: Self = Self(108);
    /// The quota of the pool is used up.
    pub const QUOTA: Self = Self(122);
    /// An expectation of the change does not hold.
    pub const UNEXPECTED: Self = Self(125);
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::io::Error::from_raw_os_error(self.0).fmt(f)
    }
}

/// What a change does to the bytes of an object.
#[derive(Clone, Debug)]
pub enum Write {
    /// They become these.
    Whole(BufSlice),
    /// These bytes are put at an offset; erasure-coded pools refuse it.
    At(u64, BufSlice),
    /// The object goes.
    Remove,
}

/// What happens to an object, as a whole (OBJECTS-2): expectations and bounds first, then creation, bytes and
/// attributes.
#[derive(Clone, Debug, Default)]
pub struct ObjectChange {
    /// Attributes that must have these values, else nothing happens: `UNEXPECTED`, or `NOT_FOUND` where there is no
    /// object.
    pub expects: Vec<(&'static str, Vec<u8>)>,
    /// An attribute that must not be above this, in the order of bytes, else nothing happens: as above.
    pub at_most: Option<(&'static str, Vec<u8>)>,
    /// The object must not be there: `EXISTS`.
    pub creates: bool,
    /// Its bytes.
    pub write: Option<Write>,
    /// Attributes that it gets.
    pub sets: Vec<(&'static str, Vec<u8>)>,
}

/// The objects of a pool.
pub trait Objects {
    /// Name of the pool.
    fn pool(&self) -> &str;

    /// Bytes that writes should be a multiple of: a stripe of an erasure-coded pool; 1 if there is no such thing.
    fn alignment(&self) -> u64;

    /// Changes an object (OBJECTS-1, OBJECTS-3).
    fn change(&self, object: &str, change: ObjectChange) -> RadosFuture<()>;

    /// Reads `len` bytes at `offset`; fewer at the end of the object.
    fn read(&self, object: &str, offset: u64, len: usize) -> RadosFuture<Vec<u8>>;

    /// An attribute of an object, of at most 4 KiB; none if the object has no such one.
    fn attribute(&self, object: &str, name: &str) -> RadosFuture<Option<Vec<u8>>>;

    /// Names of all objects, in no order. Takes long for large pools, on a thread of its own; what changes meanwhile
    /// may be in it or not.
    fn list(&self) -> RadosFuture<Vec<String>>;
}
