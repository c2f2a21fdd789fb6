//! Shards of small pools on a memory disk, in the simulated loop.

mod aggregation;
mod census;
mod copies;
mod cut;
mod deaths;
mod deltas;
mod ended;
mod full;
mod marked_room;
mod peers;
mod pool;
mod read_cache;
mod read_only;
mod reduction;
mod redundant;
mod reservations;
mod sampling;
mod transactions;
mod verify;
mod versions;
mod withdrawn;
mod zones;
