//! Tests of the stored tables.

mod damage;
mod document;
mod examples;
mod round_trip;
mod rules;
pub(crate) mod samples;
