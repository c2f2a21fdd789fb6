//! Which blocks of a stream with automatic deduplication are fingerprinted: all while that pays, otherwise a sample.
//!
//! ```text
//!            few of a window were found
//!  all of them ───────────────────────▶ a sample
//!            ◀───────────────────────
//!   some of a sample were found, or it is time to look again
//! ```
//!
//! The sample is chosen by contents, so equal blocks of all streams are in it or none is. What else lies beside a block
//! of the sample in its segment is fingerprinted when such blocks come again (`dedup.rs`), so that a first copy costs
//! little and is found nevertheless.
//!
//! Nothing of this is stored: a stream begins with all of its blocks.

/// Of so many blocks one is in the sample: some 16 of a segment.
const SAMPLE_INTERVAL: u64 = 32;

/// Fingerprinted blocks after which it is decided whether they go on being it: 4 MiB.
const WINDOW_BLOCKS: u32 = 1024;

/// Of a window, so many have to be found for all blocks to go on being fingerprinted.
const WINDOW_FOUND_MIN: u32 = WINDOW_BLOCKS / 32;

const _: () = assert!(WINDOW_FOUND_MIN > 0 && WINDOW_FOUND_MIN < WINDOW_BLOCKS);

/// Blocks of the sample of which two that are found are no chance.
const SAMPLE_BLOCKS: u32 = 32;

/// See [`SAMPLE_BLOCKS`].
const SAMPLE_FOUND_MIN: u32 = 2;

const _: () =
    assert!(SAMPLE_FOUND_MIN > 1 && SAMPLE_FOUND_MIN < SAMPLE_BLOCKS, "one may be chance");

/// Samples in vain after which all blocks of a window are looked at once more, as blocks that are met often may all be
/// outside of the sample: after some 256 MiB.
const SAMPLES_IN_VAIN_MAX: u32 = 64;

/// Whether a block with this checksum is in the sample.
pub(crate) const fn is_sample(checksum: u64) -> bool {
    checksum.is_multiple_of(SAMPLE_INTERVAL)
}

/// Which blocks are fingerprinted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum FingerprintScope {
    /// None.
    None,
    /// Those of the sample.
    Sample,
    /// All.
    All,
}

impl FingerprintScope {
    /// Whether a block is fingerprinted that has this checksum.
    pub(crate) fn takes(self, checksum: impl FnOnce() -> u64) -> bool {
        match self {
            Self::None => false,
            Self::Sample => is_sample(checksum()),
            Self::All => true,
        }
    }
}

/// What fingerprints of a stream were good for.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SamplingState {
    samples_only: bool,
    /// Blocks that were looked up since the last decision, and those of them that were found.
    looked_up: u32,
    found: u32,
    samples_in_vain: u32,
}

impl SamplingState {
    pub(crate) fn fingerprinted(&self) -> FingerprintScope {
        if self.samples_only { FingerprintScope::Sample } else { FingerprintScope::All }
    }

    /// A fingerprinted block was stored, or found.
    pub(crate) fn note(&mut self, is_found: bool) {
        self.looked_up += 1;
        self.found += u32::from(is_found);
        assert!(self.found <= self.looked_up, "what is found was looked up");
        if self.samples_only {
            let pays = self.found >= SAMPLE_FOUND_MIN;
            if pays || self.looked_up >= SAMPLE_BLOCKS {
                self.samples_in_vain += 1;
                let samples_only = !pays && self.samples_in_vain < SAMPLES_IN_VAIN_MAX;
                let samples_in_vain = if samples_only { self.samples_in_vain } else { 0 };
                *self = Self { samples_only, samples_in_vain, ..Self::default() };
            }
        } else if self.looked_up >= WINDOW_BLOCKS {
            *self = Self { samples_only: self.found < WINDOW_FOUND_MIN, ..Self::default() };
        }
        assert!(self.looked_up < WINDOW_BLOCKS, "it is decided in time");
    }
}

#[cfg(test)]
mod tests {
    use varve_stdx::Rng;

    use super::*;

    /// Blocks of `count` that are fingerprinted, of a stream of which `found_percent` are found.
    fn fingerprinted(sampling: &mut SamplingState, count: u32, found_percent: u64) -> u32 {
        let mut rng = Rng::new(1);
        let mut all = 0;
        for _ in 0..count {
            if sampling.fingerprinted().takes(|| rng.next_u64()) {
                sampling.note(rng.below(100) < found_percent);
                all += 1;
            }
        }
        all
    }

    #[test]
    fn all_blocks_are_fingerprinted_while_that_pays() {
        let mut sampling = SamplingState::default();
        assert_eq!(fingerprinted(&mut sampling, 100_000, 10), 100_000);
        assert_eq!(sampling.fingerprinted(), FingerprintScope::All);
    }

    #[test]
    fn a_sample_of_unique_blocks_is_fingerprinted() {
        let mut sampling = SamplingState::default();
        fingerprinted(&mut sampling, WINDOW_BLOCKS, 0);
        assert_eq!(sampling.fingerprinted(), FingerprintScope::Sample);
        let count = fingerprinted(&mut sampling, 1_000_000, 0);
        assert!((30_000..60_000).contains(&count), "{count} of a million");
        assert!(count > 40_000, "{count}: all are looked at now and then");
    }

    #[test]
    fn duplicates_after_unique_blocks_are_noticed_soon() {
        for (found_percent, blocks_max) in [(100, 500), (30, 2000), (10, 5000)] {
            let mut sampling = SamplingState::default();
            fingerprinted(&mut sampling, 20_000, 0);
            let mut blocks = 0;
            while sampling.fingerprinted() == FingerprintScope::Sample && blocks < 100_000 {
                fingerprinted(&mut sampling, 100, found_percent);
                blocks += 100;
            }
            assert!(blocks <= blocks_max, "{found_percent} %: after {blocks}");
        }
    }

    #[test]
    fn what_pays_little_is_given_up() {
        let mut sampling = SamplingState::default();
        fingerprinted(&mut sampling, WINDOW_BLOCKS, 100);
        assert_eq!(sampling.fingerprinted(), FingerprintScope::All);
        fingerprinted(&mut sampling, WINDOW_BLOCKS, 1);
        assert_eq!(sampling.fingerprinted(), FingerprintScope::Sample);
    }
}
