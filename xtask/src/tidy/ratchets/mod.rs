//! Counts that only go down, each with a goal, one file a count.
//!
//! `xtask/ratchets.txt` holds today's figure and the goal of each. More than the figure fails, and so does less, until
//! `cargo xtask tidy --bless` has lowered it: what was gained is not lost again. Nothing but an edit by hand raises a
//! figure.

mod comment_columns;
mod commits;
mod declarations;
mod figures;
mod invariants;
mod module_cycles;
mod open_fields;
mod participle_types;
mod past_tense_functions;
mod place;
mod ratchet;
mod report;
mod reused_type_names;
mod sources;
mod tuple_parameters;

pub(crate) use self::ratchet::{bless, findings, run};
pub(crate) use self::report::{json, places, table};
