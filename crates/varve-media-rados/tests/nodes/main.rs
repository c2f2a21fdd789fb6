//! Goal: several nodes share the shards of a pool, and whatever becomes of nodes, links and clients, nothing that was acknowledged is lost or overwritten by
//! something older, nothing old is answered, and once it is calm every shard is served again. Method: whole shards, opened and closed by keepers as the table of
//! nodes says, and reached by the shipped routers and inboxes, over the cluster in memory and a network of messages, in simulated time, by seeds; a model of every
//! block. `NODES_SEEDS=FIRST..LAST` chooses seeds. Then guards are taken away, one at a time, and seeds have to tell.
#![expect(clippy::unwrap_used, reason = "a test")]

mod clients;
mod network;
mod pool;
mod seeds;
mod slept;
mod world;
