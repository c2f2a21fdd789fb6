//! The planner as its callers see it, one subject a module.

mod figures;
mod fixtures;
mod plans;
mod properties;
