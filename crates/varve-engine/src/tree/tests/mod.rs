//! Model tests: random operations over a tiny cache, a store that keeps encoded pages and serves faults, random
//! checkpoints, and a checker that knows every page.

mod btree_model;
mod cache;
mod checker;
mod codec;
mod copies;
mod map_model;
mod store;
