//! Every stored structure: round trips, truncation, damage, and the worked examples of the format document.

mod damage;
mod document;
mod examples;
mod round_trip;
mod rules;
mod samples;
