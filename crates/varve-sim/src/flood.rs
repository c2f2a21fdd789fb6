//! One shard that fills up, and others that lose data meanwhile: what makes zones go from shard to shard.

use std::rc::Rc;

use varve_reactor::Reactor;
use varve_stdx::Rng;

use crate::model::ModelStream;
use crate::workload::{BLOCK, HUGE, SimClient};

/// Blocks of the writes of a flood, at least, and how many more at most.
const BLOCKS_MIN: u64 = 16;
const BLOCKS_MORE: u64 = 32;

/// Refused writes after which a worker gives up to fill its shard.
const REFUSALS_MAX: u32 = 3;

/// Trims before a shard gives zones away.
const LOST_TRIMS: u64 = 4;

/// Requests of a worker in an ebb, and the longest pause between two of them, in ns.
const EBB_REQUESTS: u64 = 40;
const EBB_PAUSE_NANOS: u64 = 20_000_000;

impl SimClient {
    /// Writes one stretch after the other until writes are refused.
    pub(crate) async fn flood(self, mut rng: Rng) {
        let blocks = self.world.config.stream_blocks;
        let mut refusals = 0;
        let mut block = rng.below(blocks);
        for _ in 0..blocks / BLOCKS_MIN {
            if self.is_over() || refusals == REFUSALS_MAX {
                return;
            }
            let len = (BLOCKS_MIN + rng.below(BLOCKS_MORE)).min(blocks - block);
            let stream = self.any_stream(&mut rng);
            let refused = self.model().refused.get();
            self.write_at(&mut rng, &stream, block * BLOCK, len * BLOCK).await;
            refusals += u32::from(self.model().refused.get() > refused);
            block = (block + len) % blocks;
        }
    }

    /// Trims and drops what the shard holds, and writes a little.
    pub(crate) async fn ebb(self, reactor: Reactor, mut rng: Rng) {
        for _ in 0..EBB_REQUESTS {
            if self.is_over() {
                return;
            }
            let stream = self.any_stream(&mut rng);
            match rng.below(8) {
                0 => self.clear_at(&mut rng, &stream, 0, HUGE).await,
                1 => self.drop_stream(&mut rng, &stream).await,
                2 | 3 => self.write_at(&mut rng, &stream, 0, BLOCK).await,
                _ => self.trim_some(&mut rng, &stream).await,
            }
            reactor.sleep(rng.below(EBB_PAUSE_NANOS)).await;
        }
    }

    /// Loses much, in the trees as well, before the shard gives zones away.
    pub(crate) async fn lose(&self, rng: &mut Rng) {
        for _ in 0..LOST_TRIMS {
            if self.is_over() || self.model().streams.borrow().is_empty() {
                return;
            }
            let stream = self.any_stream(rng);
            self.trim_some(rng, &stream).await;
        }
        self.settle(self.shard.apply_acknowledged().await, "apply");
    }

    async fn trim_some(&self, rng: &mut Rng, stream: &Rc<ModelStream>) {
        let first = rng.below(self.world.config.stream_blocks) * BLOCK;
        self.clear_at(rng, stream, first, 1 << 20).await;
    }

    fn any_stream(&self, rng: &mut Rng) -> Rc<ModelStream> {
        let streams = self.model().streams.borrow();
        Rc::clone(&streams[rng.index(streams.len())])
    }
}
