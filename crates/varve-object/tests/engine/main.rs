//! The store on the engine: pools of two shards on a memory disk, in the simulated loop. Dropping the loop is a crash;
//! the disk stays.

mod bodies;
mod changes;
mod copies;
mod full;
mod listings;
mod moves;
mod reduction;
mod rig;
mod twin;
mod unread;
