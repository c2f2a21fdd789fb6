//! Buckets as wholes: names, settings and documents that are kept with them, and what those do.

pub(crate) mod administration;
pub(crate) mod cors;
pub(crate) mod info;
pub(crate) mod lifecycle;
pub(crate) mod moving;
pub(crate) mod name;
pub(crate) mod view;
pub(crate) mod website;
