//! The world a seed stands for: sizes, latencies, and what is going to go wrong.

use varve_media::{DriveSpec, RoomPolicy, SimLatency};
use varve_stdx::Rng;
use varve_types::{Compression, Dedup, PoolId, Reduction, ShardId};

use varve_engine::ShardConfig;

use crate::redundancy::{DriveFaults, PoolFigures, Redundancy};

/// Keeps what is written, and large reads.
const LARGE_BLOCK_CACHE: usize = 64 << 20;

/// Most bytes of a root: what fits one page beside its header.
const ROOT_BYTES_MAX: u32 = 4096;

/// Segments of a pool for more than which no host of a simulated machine has room, and those of them that each shard
/// has from the beginning.
const SEGMENTS_BEYOND_HOST: u32 = 4096;
const FIRST_SEGMENTS: u32 = SEGMENTS_BEYOND_HOST / 32;

/// Figures of one run, all drawn from its seed.
#[derive(Clone, Debug)]
pub struct WorldConfig {
    /// The seed.
    pub seed: u64,
    /// Bytes of a segment.
    pub segment_bytes: u32,
    /// Segments of the pool.
    pub segments: u32,
    /// Bytes of a lane.
    pub lane_bytes: u64,
    /// Shards.
    pub shards: u16,
    /// Write buffer of a shard.
    pub buffer_bytes: u64,
    /// Page cache of a shard.
    pub page_cache_bytes: usize,
    /// Set of overwritten chunks of a shard, in bytes.
    pub deaths_bytes: usize,
    /// Map updates that wait on a shard, in bytes.
    pub deltas_bytes: usize,
    /// How many of a thousand updates have to read a page before they wait.
    pub deltas_from_per_mille: u64,
    /// Block cache of a shard.
    pub block_cache_bytes: usize,
    /// Replay bound of a shard.
    pub checkpoint_entries: u64,
    /// Streams that live at one time on a shard.
    pub streams: usize,
    /// Blocks of a stream that are written.
    pub stream_blocks: u64,
    /// Tasks that work on a shard.
    pub workers: usize,
    /// Longest write in bytes.
    pub write_bytes_max: u64,
    /// Of a hundred writes, those that are large enough to bypass the lane.
    pub large_percent: u64,
    /// Of a hundred operations on blocks, those that hit a tenth of them.
    pub hot_percent: u64,
    /// How much slower segments are written than the rest.
    pub slow_slots: u64,
    /// Latencies of the disks.
    pub latency: SimLatency,
    /// How often the machine is started.
    pub lives: u32,
    /// Of a hundred operations, those on keys.
    pub key_percent: u64,
    /// Of a hundred operations, those on objects.
    pub object_percent: u64,
    /// Of a thousand operations on blocks, those that cut streams.
    pub cut_per_mille: u64,
    /// Of a thousand operations on blocks, those that promise space to a stream, or take it back.
    pub promise_per_mille: u64,
    /// Of a hundred requests that give much back, those that are left out, so that shards are full.
    pub keeps_percent: u64,
    /// Of a hundred operations on blocks, those that cover parts of a few blocks which others cover in part too. Above
    /// zero, most blocks are modelled by sectors.
    pub parts_percent: u64,
    /// Whether one shard after the other is filled while the others lose data, and power is cut soon after zones move.
    pub has_floods: bool,
    /// What goes wrong beside power cuts.
    pub faults: Faults,
    /// How streams are reduced.
    pub reduction: Reduction,
    /// Of a hundred blocks, those that are like others.
    pub duplicate_percent: u64,
    /// Of a hundred blocks, those that compress well.
    pub compressible_percent: u64,
    /// Index of stored blocks of a shard, in bytes.
    pub dedup_index_bytes: usize,
    /// Longest time of a message from one shard to another.
    pub message_nanos: u64,
    /// Mark passes of a life in which there is one, while requests are under way, and the longest pause before each.
    pub mark_passes: u32,
    /// See `mark_passes`.
    pub mark_pause_nanos: u64,
    /// Whether questions of shards to each other, and what they tell, get lost.
    pub loses_messages: bool,
    /// Drives of the pool.
    pub drives: u16,
    /// Whether each drive is one disk; if not, it is a directory with a file for each lane, for segments, and for the
    /// rest.
    pub one_disk: bool,
    /// What the host's file system does, on which segments lie in sparse files and which others fill now and then;
    /// none: it always has room.
    pub host_policy: Option<RoomPolicy>,
    /// Segments for which it has room while others take nothing.
    pub host_segments: u32,
    /// A redundant pool; none: drives are joined to one.
    pub redundancy: Option<Redundancy>,
    /// Steps between two power cuts of copies of the machine, about, on redundant drives; 0: there are none. The lives
    /// of the machine itself do not depend on it.
    pub side_cut_steps: u64,
}

/// What goes wrong beside power cuts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Faults {
    /// None that shows: bits flip on one side of roots and in copies of the superblock.
    None,
    /// Reads of some ranges fail for a while.
    Reads,
    /// Writes fail for a while: shards close and are opened again.
    Writes,
    /// Bits flip in segments after the last cut, or segments hold what belongs elsewhere, or what they held before.
    Bits,
    /// A lane is lost after the last cut, or is what it was before, in whole or in half.
    Lanes,
    /// Disks do not answer for seconds, one after the other; some end that with one write that fails.
    Stuck,
    /// Segments with pages are damaged after the last cut, or their copies; in a fourth of the worlds, both.
    Pages,
}

fn pick<T: Copy>(rng: &mut Rng, from: &[T]) -> T {
    from[rng.index(from.len())]
}

fn small_below(rng: &mut Rng, bound: u32) -> u32 {
    u32::try_from(rng.below(u64::from(bound))).expect("below a u32")
}

/// None in half of the worlds.
fn any_faults(rng: &mut Rng) -> Faults {
    let none = Faults::None;
    pick(rng, &[none, none, none, Faults::Reads, Faults::Writes, Faults::Bits])
}

fn lives(rng: &mut Rng, heavy: bool) -> u32 {
    if heavy { 4 + small_below(rng, 28) } else { 20 + small_below(rng, 100) }
}

fn block_cache_bytes(rng: &mut Rng, seed: u64) -> usize {
    let small = pick(rng, &[0, 64 << 10, 512 << 10]);
    if seed.is_multiple_of(5) { LARGE_BLOCK_CACHE } else { small }
}

fn any_reduction(rng: &mut Rng) -> Reduction {
    let dedup = pick(rng, &[Dedup::Off, Dedup::On, Dedup::Auto, Dedup::Auto]);
    let codecs = [Compression::Off, Compression::Lz4, Compression::Lz4, Compression::Zstd(1)];
    Reduction { dedup, compression: pick(rng, &codecs) }
}

impl WorldConfig {
    /// The world of `seed`.
    #[must_use]
    pub fn from_seed(seed: u64) -> Self {
        let mut rng = Rng::new(seed ^ 0x5741_5256_4553_494D);
        let segment_bytes = pick(&mut rng, &[32 << 10, 64 << 10, 64 << 10, 128 << 10, 256 << 10]);
        let lane_bytes: u64 = pick(&mut rng, &[256 << 10, 256 << 10, 512 << 10, 1 << 20]);
        let shards = pick(&mut rng, &[1, 1, 1, 2, 3]);
        let heavy = rng.chance(1, 6);
        let shards = if heavy { shards } else { 1 };
        let small = !heavy || rng.chance(1, 3);
        let per_shard = if small { 48 + rng.below(60) } else { 100 + rng.below(500) };
        let scale = pick(&mut rng, &[1, 4, 20, 100]);
        let streams = 1 + rng.index(4);
        let payload = u64::from(shards) * per_shard * u64::from(segment_bytes) / 4096;
        // From a few blocks to more than fit.
        let fill = pick(&mut rng, &[2, 5, 20, 60, 90, 160]);
        let stream_blocks =
            (payload * fill / 100 / (u64::from(shards) * streams as u64)).clamp(8, 4000);
        let stream_blocks =
            if heavy { stream_blocks } else { stream_blocks.min(8 + rng.below(200)) };
        Self {
            seed,
            segment_bytes,
            segments: u32::try_from(per_shard).expect("some hundreds") * u32::from(shards),
            lane_bytes,
            shards,
            buffer_bytes: pick(&mut rng, &[64 << 10, 256 << 10, 1 << 20]),
            page_cache_bytes: pick(&mut rng, &[0, 128 << 10, 512 << 10, 2 << 20]),
            block_cache_bytes: block_cache_bytes(&mut rng, seed),
            checkpoint_entries: pick(&mut rng, &[16, 100, 400, 5000]),
            streams,
            stream_blocks,
            workers: 1 + rng.index(8),
            write_bytes_max: pick(&mut rng, &[4 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10]),
            hot_percent: pick(&mut rng, &[0, 50, 90]),
            slow_slots: pick(&mut rng, &[1, 1, 1, 5, 50]),
            latency: SimLatency {
                read_nanos: 500 * scale..2_000 * scale,
                write_nanos: 200 * scale..3_000 * scale,
                flush_nanos: 200 * scale..3_000 * scale,
            },
            lives: lives(&mut rng, heavy),
            key_percent: pick(&mut rng, &[0, 10, 40]),
            faults: any_faults(&mut rng),
            large_percent: pick(&mut rng, &[0, 10, 40]),
            reduction: any_reduction(&mut rng),
            duplicate_percent: pick(&mut rng, &[0, 20, 60, 90]),
            compressible_percent: pick(&mut rng, &[0, 50]),
            dedup_index_bytes: pick(&mut rng, &[1 << 10, 16 << 10, 1 << 20]),
            cut_per_mille: pick(&mut rng, &[0, 10, 10, 60]),
            deaths_bytes: pick(&mut rng, &[64, 1 << 10, 1 << 20, 1 << 20]),
            object_percent: pick(&mut rng, &[0, 0, 10, 50]),
            message_nanos: 1 + 500 * scale * pick(&mut rng, &[1, 4, 40]),
            mark_passes: 1,
            mark_pause_nanos: 0,
            loses_messages: rng.chance(1, 3),
            promise_per_mille: 0,
            keeps_percent: 0,
            parts_percent: 0,
            has_floods: false,
            deltas_bytes: pick(&mut rng, &[0, 400, 2 << 10, 1 << 20, 1 << 20]),
            deltas_from_per_mille: pick(&mut rng, &[0, 0, 0, 50]),
            drives: 1,
            one_disk: false,
            host_policy: None,
            host_segments: 0,
            redundancy: None,
            side_cut_steps: 0,
        }
    }

    /// A world of several shards that write much of the same, from the same seed.
    #[must_use]
    pub fn sharing(seed: u64) -> Self {
        let spread = Self::spread(seed);
        Self {
            reduction: Reduction { dedup: Dedup::On, ..spread.reduction },
            duplicate_percent: 90,
            dedup_index_bytes: 1 << 20,
            object_percent: 0,
            workers: 6,
            ..spread
        }
    }

    /// A world of several shards with a bucket on them, whose objects are copied, from the same seed.
    #[must_use]
    pub fn objects(seed: u64) -> Self {
        Self { object_percent: 90, workers: 8, ..Self::spread(seed) }
    }

    /// A world of several shards, each as large as the seed has it, without keys.
    fn spread(seed: u64) -> Self {
        let seeded = Self::from_seed(seed);
        let per_shard = seeded.segments / u32::from(seeded.shards);
        let shards = if seed.is_multiple_of(3) { 3 } else { 2 };
        Self {
            shards,
            segments: per_shard * u32::from(shards),
            key_percent: 0,
            streams: seeded.streams.min(2),
            stream_blocks: seeded.stream_blocks.min(40),
            lives: seeded.lives.min(20),
            ..seeded
        }
    }

    /// A world that promises space to streams and is full most of the time, from the same seed.
    #[must_use]
    pub fn promising(seed: u64) -> Self {
        let seeded = Self::from_seed(seed);
        let shards = if seed.is_multiple_of(4) { 2 } else { 1 };
        let segment_bytes = 64 << 10;
        // A copy of what is promised to one has to fit beside it, and to be more than what is kept for writes that
        // overwrite.
        let fits_copy = seed.is_multiple_of(3);
        let more = if fits_copy { 140 } else { 0 };
        let per_shard = 140 + more + u32::try_from(seed % 100).expect("below 100");
        let streams = 3 + usize::from(seed.is_multiple_of(2));
        let payload = u64::from(per_shard) * u64::from(segment_bytes) / 4096;
        Self {
            shards,
            segments: per_shard * u32::from(shards),
            segment_bytes,
            streams,
            // What is promised to one fits; all of them, with copies, do not.
            stream_blocks: payload * if fits_copy { 2 } else { 4 } / 10,
            object_percent: 0,
            key_percent: 0,
            promise_per_mille: 20,
            keeps_percent: 95,
            large_percent: 40,
            cut_per_mille: 3,
            workers: 4 + seeded.workers,
            lives: seeded.lives.min(20),
            checkpoint_entries: 100,
            ..seeded
        }
    }

    /// A world in which requests overlap inside of blocks, from the same seed.
    #[must_use]
    pub fn overlapping(seed: u64) -> Self {
        let seeded = Self::from_seed(seed);
        Self { parts_percent: 70, workers: 4 + seeded.workers, key_percent: 0, ..seeded }
    }

    /// Of so many blocks, one is modelled as a whole and the others by sectors; 0: all as a whole.
    pub(crate) fn whole_each(&self) -> u64 {
        if self.parts_percent > 0 { 4 } else { 0 }
    }

    /// A world of several shards of which one after the other is filled while the others lose data, so that zones move;
    /// from the same seed.
    #[must_use]
    pub fn moving(seed: u64) -> Self {
        let seeded = Self::from_seed(seed);
        let shards = 2 + u16::try_from(seed % 3).expect("below 3");
        let segment_bytes = if seed.is_multiple_of(2) { 32 << 10 } else { 64 << 10 };
        let per_shard = 48 + u32::try_from(seed % 40).expect("below 40");
        let segments = per_shard * u32::from(shards);
        let payload = u64::from(segments) * u64::from(segment_bytes) / 4096;
        Self {
            has_floods: true,
            shards,
            segments,
            segment_bytes,
            streams: 2,
            // A flooded shard wants most of the pool.
            stream_blocks: payload / 2,
            write_bytes_max: 64 << 10,
            large_percent: 60,
            hot_percent: 0,
            object_percent: 0,
            key_percent: 0,
            cut_per_mille: seeded.cut_per_mille.min(5),
            // Mostly, segments become empty without a checkpoint.
            deaths_bytes: if seed % 4 == 1 { seeded.deaths_bytes } else { 1 << 20 },
            deltas_bytes: if seed % 4 == 2 { seeded.deltas_bytes } else { 0 },
            checkpoint_entries: if seed % 4 == 3 { seeded.checkpoint_entries } else { 5000 },
            page_cache_bytes: 2 << 20,
            workers: 3,
            lives: 8,
            ..seeded
        }
    }

    /// A world that loses its lanes after the last cut, from the same seed. Some lanes are so large that it shows when
    /// only a part is lost.
    #[must_use]
    pub fn losing_lanes(seed: u64) -> Self {
        let seeded = Self::from_seed(seed);
        Self {
            lane_bytes: if seed.is_multiple_of(3) { 16 << 20 } else { seeded.lane_bytes },
            faults: Faults::Lanes,
            lives: 2 + seeded.lives % 20,
            ..seeded
        }
    }

    /// A world of which segments with pages are damaged after the last cut, from the same seed.
    #[must_use]
    pub fn losing_pages(seed: u64) -> Self {
        let seeded = Self::from_seed(seed);
        Self { faults: Faults::Pages, lives: 2 + seeded.lives % 20, ..seeded }
    }

    /// A world on two or three drives, or on one that is one disk, from the same seed; half of them have several
    /// shards.
    #[must_use]
    pub fn on_drives(seed: u64) -> Self {
        let seeded =
            if seed.is_multiple_of(2) { Self::spread(seed) } else { Self::from_seed(seed) };
        let mut rng = Rng::new(seed ^ 0x4472_6976_6573);
        let drives = pick(&mut rng, &[1, 2, 3, 3]);
        // One drive in a directory is what other worlds have.
        Self { drives, one_disk: drives == 1 || rng.chance(1, 2), ..seeded }
    }

    /// A world whose drive is a file on a host that others fill, from the same seed.
    #[must_use]
    pub fn full_host(seed: u64) -> Self {
        let seeded = Self { faults: Faults::None, object_percent: 0, ..Self::from_seed(seed) };
        let mut rng = Rng::new(seed ^ 0x486F_7374);
        if rng.chance(1, 2) {
            let host_policy = Some(RoomPolicy::CopyOnWrite);
            // What is stored has to find room in the end, also for its copies.
            return Self { host_policy, host_segments: seeded.segments + 8, ..seeded };
        }
        let shards: u16 = if rng.chance(1, 3) { 2 } else { 1 };
        let host_segments = u32::from(shards) * FIRST_SEGMENTS + 32 + small_below(&mut rng, 400);
        // About seven blocks fit a segment.
        let blocks = u64::from(host_segments) * 7 * pick(&mut rng, &[60, 100, 160]) / 100;
        Self {
            shards,
            segments: SEGMENTS_BEYOND_HOST,
            segment_bytes: 32 << 10,
            host_policy: Some(RoomPolicy::Promised),
            host_segments,
            stream_blocks: (blocks / (u64::from(shards) * seeded.streams as u64)).clamp(8, 4000),
            write_bytes_max: 64 << 10,
            large_percent: 40,
            ..seeded
        }
    }

    /// A world on redundant drives, to which `faults` happen, from the same seed.
    #[must_use]
    pub fn on_redundant_drives(seed: u64, faults: DriveFaults) -> Self {
        let seeded = Self::from_seed(seed);
        let mut rng = Rng::new(seed ^ 0x5265_6475_6E64);
        let shards = if rng.chance(1, 3) { 2 } else { 1 };
        let figures = PoolFigures {
            segment_bytes: seeded.segment_bytes,
            segments: (64 + small_below(&mut rng, 60)) * u32::from(shards),
            lane_bytes: seeded.lane_bytes,
            shards,
        };
        let redundancy = Redundancy::draw(&mut rng, &figures, faults);
        let writes_much = faults == DriveFaults::None || rng.chance(1, 3);
        Self {
            shards,
            segments: redundancy.zones * redundancy.zone_segments,
            faults: Faults::None,
            object_percent: 0,
            streams: seeded.streams.min(3),
            stream_blocks: seeded.stream_blocks.min(8 + rng.below(200)),
            large_percent: if writes_much { 60 } else { seeded.large_percent },
            workers: if writes_much { 8 } else { seeded.workers },
            lives: 3 + small_below(&mut rng, 12),
            drives: 0,
            one_disk: rng.chance(1, 3),
            redundancy: Some(redundancy),
            ..seeded
        }
    }

    /// A world on redundant drives that are nearly full and of which some fail, from the same seed.
    #[must_use]
    pub fn full_degraded(seed: u64) -> Self {
        let redundant = Self::on_redundant_drives(seed, DriveFaults::Full);
        let payload = u64::from(redundant.segments) * u64::from(redundant.segment_bytes) / 4096;
        let streams = u64::from(redundant.shards) * redundant.streams as u64;
        Self {
            // From what nearly fits to more than that.
            stream_blocks: payload * (7 + seed % 5) / 10 / streams,
            keeps_percent: 90,
            hot_percent: 0,
            key_percent: 0,
            large_percent: 60,
            write_bytes_max: 64 << 10,
            cut_per_mille: redundant.cut_per_mille.min(5),
            workers: 4 + redundant.workers,
            ..redundant
        }
    }

    /// A world whose disks get stuck, from the same seed.
    #[must_use]
    pub fn stuck(seed: u64) -> Self {
        Self { faults: Faults::Stuck, ..Self::from_seed(seed) }
    }

    /// Segments of each drive: of a different number, mostly.
    pub(crate) fn segments_of_drives(&self) -> Vec<u32> {
        let mut rng = Rng::new(self.seed ^ 0x536C_6F74);
        let parts: Vec<u32> = (0..self.drives).map(|_| 1 + small_below(&mut rng, 3)).collect();
        let all: u32 = parts.iter().sum();
        let mut segments: Vec<u32> = parts.iter().map(|part| self.segments * part / all).collect();
        let left = self.segments - segments.iter().sum::<u32>();
        if let Some(last) = segments.last_mut() {
            *last += left;
        }
        segments
    }

    /// Figures of the pool.
    #[must_use]
    pub(crate) fn spec(&self) -> DriveSpec {
        DriveSpec {
            segment_bytes: self.segment_bytes,
            lane_bytes: self.lane_bytes,
            root_bytes_max: ROOT_BYTES_MAX,
            ..DriveSpec::new(self.pool(), self.shards)
        }
    }

    /// Identity of the pool.
    #[must_use]
    pub fn pool(&self) -> PoolId {
        let mut id = [0; 16];
        Rng::new(self.seed).fill(&mut id);
        PoolId(id)
    }

    /// What a shard is told.
    #[must_use]
    pub fn shard(&self, shard: ShardId) -> ShardConfig {
        ShardConfig {
            pool: self.pool(),
            shard,
            buffer_bytes: self.buffer_bytes,
            page_cache_bytes: self.page_cache_bytes,
            deaths_bytes: self.deaths_bytes,
            deltas_bytes: self.deltas_bytes,
            deltas_from_per_mille: self.deltas_from_per_mille,
            block_cache_bytes: self.block_cache_bytes,
            checkpoint_entries: self.checkpoint_entries,
            free_target_percent: 4,
            dedup_index_bytes: self.dedup_index_bytes,
            reduction: self.reduction,
            accept_lost_journal: false,
            mends_pages: true,
            is_read_only: false,
        }
    }
}
