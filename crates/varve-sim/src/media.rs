//! The media of the machine: drives, which are the files of a directory or one disk each, and where parts of the pool
//! lie on them.

use std::ops::Range;
use std::rc::Rc;

use varve_media::{Disk, DriveDisks, DriveSpec, SimLatency, SimMedium};
use varve_reactor::Reactor;
use varve_stdx::Rng;
use varve_types::{SegmentNumber, ShardId};

use crate::config::WorldConfig;

/// Bytes of superblocks and roots of a directory, generously.
const META_BYTES: u64 = 8 << 20;

/// A lane, or the segments of a drive.
#[derive(Clone)]
pub(crate) struct MediaPart {
    /// What it lies on.
    pub medium: SimMedium,
    /// Where it begins there.
    pub start: u64,
}

impl MediaPart {
    fn whole(name: &str, bytes: u64) -> Self {
        Self { medium: SimMedium::new(name, bytes), start: 0 }
    }

    /// The same part of a copy of its medium.
    pub(crate) fn copy(&self) -> Self {
        Self { medium: self.medium.copy(), start: self.start }
    }
}

/// One drive.
struct DriveMedia {
    /// Superblocks and roots, or the disk that holds everything.
    meta: SimMedium,
    lanes: Vec<MediaPart>,
    slots: MediaPart,
    segments: u32,
    is_one_disk: bool,
}

impl DriveMedia {
    /// An empty drive: number `index`, with so many segments.
    fn new(config: &WorldConfig, spec: &DriveSpec, index: usize, segments: u32) -> Self {
        let slots_bytes = u64::from(segments) * u64::from(config.segment_bytes);
        let (lane_starts, slots_start) = spec.starts_on_disk(index, usize::from(config.drives));
        if config.one_disk {
            let disk = SimMedium::new(&format!("disk{index}"), slots_start + slots_bytes);
            let part = |start| MediaPart { medium: disk.clone(), start };
            return Self {
                lanes: lane_starts.into_iter().map(part).collect(),
                slots: part(slots_start),
                meta: disk.clone(),
                segments,
                is_one_disk: true,
            };
        }
        let directory = if index == 0 { String::new() } else { format!("drive{index}/") };
        let lane = |lane| MediaPart::whole(&format!("{directory}lane{lane}"), config.lane_bytes);
        Self {
            meta: SimMedium::new(&format!("{directory}meta"), META_BYTES),
            lanes: (0..lane_starts.len()).map(lane).collect(),
            slots: MediaPart::whole(&format!("{directory}slots"), slots_bytes),
            segments,
            is_one_disk: false,
        }
    }

    /// Each medium once.
    fn all(&self) -> impl Iterator<Item = &SimMedium> {
        let parts = std::iter::once(&self.slots).chain(&self.lanes);
        let files = parts.map(|part| &part.medium).filter(move |_| !self.is_one_disk);
        std::iter::once(&self.meta).chain(files)
    }

    /// The disks of one life. Segments of a directory are written with a latency of their own.
    fn disks(&self, reactor: &Reactor, usual: &SimLatency, slots: &SimLatency) -> DriveDisks {
        let open = |medium: &SimMedium, latency: &SimLatency| -> Rc<dyn Disk> {
            Rc::new(medium.open(reactor, latency.clone()))
        };
        if self.is_one_disk {
            return DriveDisks::One(open(&self.meta, usual));
        }
        DriveDisks::Directory {
            meta: open(&self.meta, usual),
            lanes: self.lanes.iter().map(|lane| open(&lane.medium, usual)).collect(),
            slots: open(&self.slots.medium, slots),
        }
    }
}

/// All drives of the pool, in their order.
pub(crate) struct Media {
    drives: Vec<DriveMedia>,
    segment_bytes: u64,
}

impl Media {
    /// Empty drives.
    pub(crate) fn new(config: &WorldConfig, spec: &DriveSpec) -> Self {
        let drives = config.segments_of_drives().into_iter().enumerate();
        let drives = drives
            .map(|(index, segments)| DriveMedia::new(config, spec, index, segments))
            .collect();
        Self { drives, segment_bytes: u64::from(config.segment_bytes) }
    }

    /// The disks of each drive, for one life.
    pub(crate) fn disks(&self, reactor: &Reactor, config: &WorldConfig) -> Vec<DriveDisks> {
        let usual = &config.latency;
        let writes = &usual.write_nanos;
        let slow = writes.start..writes.end * config.slow_slots;
        let slots = SimLatency { write_nanos: slow, ..usual.clone() };
        self.drives.iter().map(|drive| drive.disks(reactor, usual, &slots)).collect()
    }

    /// Each medium once.
    pub(crate) fn all(&self) -> impl Iterator<Item = &SimMedium> {
        self.drives.iter().flat_map(DriveMedia::all)
    }

    /// What superblocks lie on, a medium for each drive; the roots are on the first.
    pub(crate) fn metas(&self) -> impl Iterator<Item = &SimMedium> {
        self.drives.iter().map(|drive| &drive.meta)
    }

    /// The lane of a shard.
    pub(crate) fn lane(&self, shard: ShardId) -> &MediaPart {
        let (shard, drives) = (usize::from(shard.0), self.drives.len());
        &self.drives[shard % drives].lanes[shard / drives]
    }

    /// The segments of each drive.
    pub(crate) fn slots(&self) -> impl Iterator<Item = &MediaPart> {
        self.drives.iter().map(|drive| &drive.slots)
    }

    /// Bytes of all segments: they are numbered one drive after the other, and so are their bytes here.
    pub(crate) fn slots_bytes(&self) -> u64 {
        self.drives.iter().map(|drive| u64::from(drive.segments) * self.segment_bytes).sum()
    }

    /// On which drive a byte of the segments lies, and where on what its segments lie on.
    fn place(&self, byte: u64) -> (usize, u64) {
        let mut first = 0;
        let found = self.drives.iter().enumerate().find_map(|(index, drive)| {
            let end = first + u64::from(drive.segments) * self.segment_bytes;
            let is_here = (first..end).contains(&byte);
            let place = is_here.then(|| (index, drive.slots.start + byte - first));
            first = end;
            place
        });
        found.expect("the byte lies in a segment")
    }

    /// Makes reads of a range of the segments fail.
    pub(crate) fn fail_reads(&self, range: &Range<u64>) {
        let mut first = 0;
        for drive in &self.drives {
            let end = first + u64::from(drive.segments) * self.segment_bytes;
            let (from, to) = (range.start.max(first), range.end.min(end));
            if from < to {
                let start = drive.slots.start;
                drive.slots.medium.fail_reads(start + from - first..start + to - first);
            }
            first = end;
        }
    }

    /// What a segment holds durably; `None` while some of it is only cached.
    pub(crate) fn segment(&self, number: SegmentNumber) -> Option<Vec<u8>> {
        let (drive, start) = self.place(u64::from(number.0) * self.segment_bytes);
        self.drives[drive].slots.medium.durable(start..start + self.segment_bytes)
    }

    /// Inverts a bit of the first `len` bytes of a segment.
    pub(crate) fn flip_in(&self, number: SegmentNumber, len: u64, rng: &mut Rng) {
        let bit = u8::try_from(rng.below(8)).expect("below 8");
        let (drive, start) = self.place(u64::from(number.0) * self.segment_bytes);
        self.drives[drive].slots.medium.flip_bit(start + rng.below(len), bit);
    }

    /// Inverts a bit of the segments.
    pub(crate) fn flip(&self, rng: &mut Rng) {
        let bit = u8::try_from(rng.below(8)).expect("below 8");
        let (drive, offset) = self.place(rng.below(self.slots_bytes()));
        self.drives[drive].slots.medium.flip_bit(offset, bit);
    }

    /// Puts what a segment of `others` holds, which are the segments of each drive, in the place of another one here.
    pub(crate) fn transplant(&self, to: u64, others: &[MediaPart], from: u64) {
        let ((drive, start), (other, from)) =
            (self.place(to * self.segment_bytes), self.place(from * self.segment_bytes));
        let to = start..start + self.segment_bytes;
        self.drives[drive].slots.medium.transplant(to, &others[other].medium, from);
    }
}
