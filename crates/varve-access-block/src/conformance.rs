//! What every export must do, as a plain function that panics where it does not. Called by the tests of each export.

use std::ops::Range;

use futures_util::future::join;
use varve_stdx::{BufSlice, ReadPart, Rng};
use varve_types::{ByteOffset, ErrorKind};

use crate::export::{Export, ExtentKind};

/// Bytes in which requests lie: those of three windows are compared with a model.
const WINDOW_BYTES: u64 = 1 << 20;

/// Requests to a window.
const REQUESTS: u32 = 200;

/// Longest request, in units of its alignment.
const UNITS_MAX: u64 = 40;

/// Random requests at the beginning, the middle and the end of an export that reads as zeros and may be written to.
///
/// # Panics
/// When a read finds something else than what was done, or bounds do not hold.
pub async fn check(export: &impl Export, seed: u64) {
    let info = export.info();
    assert!(info.size_bytes >= 3 * WINDOW_BYTES, "the suite needs three windows");
    assert!(info.block_bytes.is_power_of_two() && !info.read_only);
    let last = info.size_bytes - WINDOW_BYTES;
    let mut rng = Rng::new(seed);
    for start in [0, last / 2, last] {
        let contents = vec![0; index(WINDOW_BYTES)];
        let mut window = ExportWindow { export, start, contents, rng: rng.split() };
        for _ in 0..REQUESTS {
            window.request().await;
        }
        export.flush().await.expect("flush");
        window.read(0..WINDOW_BYTES).await;
        window.cross().await;
    }
    let outside = export.read(ByteOffset(info.size_bytes - 1), 2).await;
    assert!(outside.is_err(), "a read across the end");
    let outside = export.write(ByteOffset(info.size_bytes), BufSlice::copy_from(&[1])).await;
    assert!(outside.is_err(), "a write behind the end");
    assert_eq!(export.info(), info);
}

fn index(bytes: u64) -> usize {
    usize::try_from(bytes).expect("within a window")
}

/// Part of an export, and what it holds.
struct ExportWindow<'a, X> {
    export: &'a X,
    start: u64,
    contents: Vec<u8>,
    rng: Rng,
}

impl<X: Export> ExportWindow<'_, X> {
    fn range(&mut self) -> Range<u64> {
        let unit = [1, 512, 4096][self.rng.index(3)];
        let units = WINDOW_BYTES / unit;
        let start = self.rng.below(units);
        let end = units.min(start + 1 + self.rng.below(UNITS_MAX));
        start * unit..end * unit
    }

    async fn request(&mut self) {
        let range = self.range();
        let (offset, len) = (ByteOffset(self.start + range.start), range.end - range.start);
        match self.rng.below(6) {
            0 => self.read(range).await,
            1 => self.status(range).await,
            2 | 3 => {
                let mut data = vec![0; index(len)];
                self.rng.fill(&mut data);
                let written = self.export.write(offset, BufSlice::copy_from(&data)).await;
                written.expect("write");
                self.part(range).copy_from_slice(&data);
            }
            4 => {
                self.export.trim(offset, len).await.expect("trim");
                self.part(range).fill(0);
            }
            _ => {
                let keep_allocated = self.rng.chance(1, 2);
                match self.export.write_zeroes(offset, len, keep_allocated).await {
                    Ok(()) => self.part(range).fill(0),
                    Err(kind) => assert_eq!(kind, ErrorKind::Unsupported, "write zeroes"),
                }
            }
        }
    }

    fn part(&mut self, range: Range<u64>) -> &mut [u8] {
        &mut self.contents[index(range.start)..index(range.end)]
    }

    async fn read(&mut self, range: Range<u64>) {
        let len = u32::try_from(range.end - range.start).expect("within a window");
        let parts =
            self.export.read(ByteOffset(self.start + range.start), len).await.expect("read");
        let mut found = Vec::new();
        for part in parts {
            match part {
                ReadPart::Zero(len) => found.resize(found.len() + len, 0),
                ReadPart::Data(data) => found.extend_from_slice(&data),
            }
        }
        let start = self.start;
        assert!(found == self.part(range.clone()), "{range:?} of the window at {start}");
    }

    /// Extents lie within their bounds, and what is told to be zeros is.
    async fn status(&mut self, range: Range<u64>) {
        let extents_max = 1 + self.rng.index(4);
        let (offset, len) = (ByteOffset(self.start + range.start), range.end - range.start);
        let extents = self.export.block_status(offset, len, extents_max).await;
        let extents = extents.expect("block status");
        assert!((1..=extents_max).contains(&extents.len()));
        let mut at = range.start;
        for extent in extents {
            assert!(extent.len > 0);
            let end = range.end.min(at.saturating_add(extent.len));
            match extent.kind {
                ExtentKind::Hole | ExtentKind::Zero => {
                    let zeros = self.part(at..end);
                    assert!(zeros.iter().all(|byte| *byte == 0), "{at}..{end} is told to be zeros");
                }
                ExtentKind::Data => {}
            }
            at = end;
        }
    }

    /// Requests to different bytes of one block run at the same time and do not disturb each other (BLOCK-EXPORT-2).
    async fn cross(&mut self) {
        let (export, start) = (self.export, self.start);
        let write =
            |at: u64, byte| export.write(ByteOffset(start + at), BufSlice::copy_from(&[byte; 700]));
        let (low, high) = join(write(100, 1), write(2000, 2)).await;
        low.and(high).expect("two writes");
        self.part(100..800).fill(1);
        self.part(2000..2700).fill(2);
        self.read(0..4096).await;
    }
}
