//! The raw image of one volume or snapshot, and the list of what of it cannot be read.

use std::fs::File;
use std::io::ErrorKind;
use std::ops::{ControlFlow, Range};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use varve_client::Result;
use varve_engine::{BLOCK_BYTES, MapItem};
use varve_types::limits::REGION_BYTES;
use varve_types::{BlockIndex, ByteOffset, ChunkId, ShardId};

use super::report::CopyOutcome;
use super::unreadable::Unreadable;
use super::{OpenedPool, SalvageTarget, failed};

const BLOCK: u64 = BLOCK_BYTES as u64;

/// Longest name of a file that is used as it is, in bytes; what follows the dot has room beside it.
const FILE_NAME_MAX: usize = 240;

/// Blocks looked up before they are copied.
const BLOCKS_AT_ONCE: usize = 1024;

/// An image that is being written.
pub(super) struct Image {
    name: String,
    path: PathBuf,
    file: File,
    size_bytes: u64,
    data_bytes: u64,
    unreadable: Unreadable,
}

impl Image {
    /// An image of zeros, which takes no room yet. Where it would be longer than files may be, it ends with the last
    /// data that fit.
    pub(super) fn create(to: &Path, target: &SalvageTarget) -> Result<Self> {
        let SalvageTarget { name, size_bytes, .. } = target;
        let path = to.join(format!("{}.raw", file_name(target)));
        let created = File::create_new(&path).and_then(|file| match file.set_len(*size_bytes) {
            Err(error) if error.kind() != ErrorKind::FileTooLarge => Err(error),
            _ => Ok(file),
        });
        let file = created.map_err(|error| failed(&path, &error))?;
        let unreadable = Unreadable::new(path.with_extension("unreadable"));
        let (name, size_bytes) = (name.clone(), *size_bytes);
        Ok(Self { name, path, file, size_bytes, data_bytes: 0, unreadable })
    }

    fn write(&mut self, block: BlockIndex, bytes: &[u8]) -> Result<()> {
        let offset = block.0.saturating_mul(BLOCK);
        let len = self.size_bytes.saturating_sub(offset).min(bytes.len() as u64);
        let bytes = bytes.get(..usize::try_from(len).unwrap_or(0)).unwrap_or(bytes);
        match self.file.write_all_at(bytes, offset) {
            Ok(()) => {
                self.data_bytes += len;
                Ok(())
            }
            Err(error) if error.kind() == ErrorKind::FileTooLarge => {
                self.lose(offset..offset.saturating_add(BLOCK), "files cannot be that long here")
            }
            Err(error) => Err(failed(&self.path, &error)),
        }
    }

    /// Notes that bytes of a range cannot be read.
    fn lose(&mut self, bytes: Range<u64>, why: &str) -> Result<()> {
        let bytes = bytes.start..bytes.end.min(self.size_bytes);
        if bytes.is_empty() {
            return Ok(());
        }
        self.unreadable.add("", bytes, why)
    }

    /// Makes the image durable.
    pub(super) fn end(self) -> Result<CopyOutcome> {
        let Self { name, path, file, data_bytes, unreadable, .. } = self;
        file.sync_all().map_err(|error| failed(&path, &error))?;
        let unreadable_bytes = unreadable.end()?;
        Ok(CopyOutcome { name, data_bytes, unreadable_bytes })
    }
}

/// The name of a target's files, without what follows the dot.
fn file_name(target: &SalvageTarget) -> String {
    let name = target.name.replace('/', "%2F");
    if name.len() <= FILE_NAME_MAX {
        return name;
    }
    format!(
        "{}~{}",
        &name[..name.floor_char_boundary(FILE_NAME_MAX / 2)],
        target.route.stream.get()
    )
}

/// What a step of the walk over a map found.
#[derive(Default)]
struct WalkStep {
    data: Vec<(BlockIndex, ShardId, ChunkId)>,
    unreadable: Vec<(Range<BlockIndex>, String)>,
    next: Option<BlockIndex>,
}

impl OpenedPool {
    /// Copies everything of a volume or snapshot that can be read.
    pub(super) async fn copy(&self, target: &SalvageTarget, image: &mut Image) -> Result<()> {
        for (id, shard) in self.shards.iter().enumerate() {
            if shard.is_some() {
                self.copy_shard(id, target, image).await?;
            }
        }
        for region in 0..target.size_bytes.div_ceil(REGION_BYTES) {
            let start = region * REGION_BYTES;
            let home = self.placement.shard_of(target.route.placement, start);
            if !matches!(self.shards.get(usize::from(home.0)), Some(Some(_))) {
                image.lose(start..start + REGION_BYTES, &format!("shard {home} cannot be read"))?;
            }
        }
        Ok(())
    }

    async fn copy_shard(&self, id: usize, target: &SalvageTarget, image: &mut Image) -> Result<()> {
        let mut from = BlockIndex::ZERO;
        loop {
            let found = match self.look_up(id, target, from).await {
                Ok(found) => found,
                Err(error) => return self.lose_shard(id, target, image, &error.to_string()),
            };
            for (block, home, chunk) in found.data {
                let shard = self.shards.get(usize::from(home.0)).and_then(Option::as_ref);
                let read = match shard {
                    Some(shard) => {
                        shard.salvage_chunk(chunk).await.map_err(|error| error.to_string())
                    }
                    None => Err(format!("shard {home} cannot be read")),
                };
                match read {
                    Ok(bytes) => image.write(block, &bytes)?,
                    Err(why) => {
                        let start = block.0.saturating_mul(BLOCK);
                        image.lose(start..start.saturating_add(BLOCK), &why)?;
                    }
                }
            }
            for (blocks, why) in found.unreadable {
                self.lose_blocks(id, target, image, blocks, &why)?;
            }
            match found.next {
                Some(next) => from = next,
                None => return Ok(()),
            }
        }
    }

    /// The next blocks that hold data, from block `from` on.
    async fn look_up(
        &self,
        id: usize,
        target: &SalvageTarget,
        from: BlockIndex,
    ) -> varve_engine::Result<WalkStep> {
        let mut found = WalkStep::default();
        let Some(shard) = self.shards.get(id).and_then(Option::as_ref) else { return Ok(found) };
        let mut visit = |item| {
            match item {
                MapItem::Page { .. } => {}
                MapItem::Data { block, home, chunk } => {
                    if found.data.len() == BLOCKS_AT_ONCE {
                        found.next = Some(block);
                        return ControlFlow::Break(());
                    }
                    found.data.push((block, home, chunk));
                }
                MapItem::Unreadable { blocks, error, .. } => {
                    found.unreadable.push((blocks, error.to_string()));
                }
            }
            ControlFlow::Continue(())
        };
        shard.walk_map(target.route.stream, from, &mut visit).await?;
        Ok(found)
    }

    /// Of blocks whose page is damaged, those that lie on the shard.
    fn lose_blocks(
        &self,
        id: usize,
        target: &SalvageTarget,
        image: &mut Image,
        blocks: Range<BlockIndex>,
        why: &str,
    ) -> Result<()> {
        let end = (blocks.end.0.saturating_mul(BLOCK)).min(target.size_bytes);
        let mut start = blocks.start.0.saturating_mul(BLOCK);
        while start < end {
            let next = (start / REGION_BYTES + 1) * REGION_BYTES;
            let home = self.placement.shard_of(target.route.placement, start);
            if usize::from(home.0) == id {
                image.lose(start..next.min(end), why)?;
            }
            start = next;
        }
        Ok(())
    }

    fn lose_shard(
        &self,
        id: usize,
        target: &SalvageTarget,
        image: &mut Image,
        why: &str,
    ) -> Result<()> {
        let end = ByteOffset(target.size_bytes).next_block();
        self.lose_blocks(id, target, image, BlockIndex::ZERO..end, why)
    }
}
