//! Tests of the stored tables.

mod damage;
mod document;
mod round_trip;
mod rules;
pub(crate) mod samples;
