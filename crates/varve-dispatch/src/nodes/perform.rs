//! What a shard does for another node.

use varve_engine::{CutId, ReadPart, ReservationSize, Shard};
use varve_stdx::{AlignedBuf, BufSlice};
use varve_types::ErrorKind;

use super::wire::{DATA_BYTES_MAX, KEY_BYTES_MAX, Operation, Outcome, Part};

impl Operation {
    /// Does it on a shard. What is changed is durable on return.
    pub(crate) async fn run(&self, shard: &Shard) -> Outcome {
        let outcome = match self.try_run(shard).await {
            Ok(outcome) => outcome,
            Err(error) => Outcome::Failed { kind: error.kind(), text: error.to_string() },
        };
        if fits(&outcome) {
            return outcome;
        }
        let text = "the answer is larger than a message".to_owned();
        Outcome::Failed { kind: ErrorKind::Unsupported, text }
    }

    async fn try_run(&self, shard: &Shard) -> varve_engine::Result<Outcome> {
        match self {
            Self::Read { .. } | Self::Write { .. } | Self::Clear { .. } => {
                self.run_on_bytes(shard).await
            }
            Self::Status { .. } | Self::Diff { .. } | Self::CountBlocks { .. } => {
                self.run_on_map(shard).await
            }
            Self::KeyGet { .. }
            | Self::KeyScan { .. }
            | Self::KeyPut { .. }
            | Self::KeyDelete { .. } => self.run_on_keys(shard).await,
            Self::MarkWish => Ok(Outcome::Wish(shard.mark_wish())),
            Self::ReadChunks { chunks } => {
                let found = shard.read_chunks(chunks).await?;
                let bytes = |chunk: &Option<BufSlice>| chunk.as_ref().map(|chunk| chunk.to_vec());
                Ok(Outcome::Chunks(found.iter().map(bytes).collect()))
            }
            Self::ChunkSizes { chunks } => {
                Ok(Outcome::Sizes(shard.stored_bytes(chunks).await?))
            }
            Self::DropStream { .. }
            | Self::Apply
            | Self::Cut { .. }
            | Self::ReleaseCut { .. }
            | Self::Reserve { .. }
            | Self::ReleaseReservation { .. }
            | Self::PrepareCut { .. } => {
                self.change(shard).await?;
                Ok(Outcome::Done)
            }
        }
    }

    async fn run_on_bytes(&self, shard: &Shard) -> varve_engine::Result<Outcome> {
        match self {
            Self::Read { stream, offset, len } => {
                let parts = shard.read(*stream, *offset, *len as usize).await?;
                return Ok(Outcome::Read(parts.iter().map(part).collect()));
            }
            Self::Write { stream, offset, reduction, data } => {
                // Said with every write: a shard that was reopened has forgotten it.
                shard.set_reduction(*stream, *reduction);
                let data = AlignedBuf::from_slice(data).freeze();
                shard.write(*stream, *offset, data).await?;
            }
            Self::Clear { stream, range, keep_allocated: None } => {
                shard.trim(*stream, *range).await?;
            }
            Self::Clear { stream, range, keep_allocated: Some(keep) } => {
                shard.write_zeroes(*stream, *range, *keep).await?;
            }
            _ => unreachable!("not about bytes"),
        }
        Ok(Outcome::Done)
    }

    async fn run_on_map(&self, shard: &Shard) -> varve_engine::Result<Outcome> {
        match self {
            Self::Status { stream, range, max } => {
                let mut runs = shard.block_status(*stream, *range, *max as usize).await?;
                runs.truncate(*max as usize);
                Ok(Outcome::Status(runs))
            }
            Self::Diff { from, to, range, max } => {
                let mut runs = shard.diff(*from, *to, *range, *max as usize).await?;
                runs.truncate(*max as usize);
                Ok(Outcome::Diff(runs))
            }
            Self::CountBlocks { stream } => {
                Ok(Outcome::Number(shard.count_blocks(*stream).await?))
            }
            _ => unreachable!("not about a map"),
        }
    }

    async fn run_on_keys(&self, shard: &Shard) -> varve_engine::Result<Outcome> {
        match self {
            Self::KeyGet { key } => Ok(Outcome::Value(shard.key_get(key).await?)),
            Self::KeyScan { prefix, after, max } => {
                let keys = shard.key_scan(prefix, after.as_deref(), *max as usize).await?;
                Ok(Outcome::Keys(keys))
            }
            Self::KeyPut { key, value } => {
                shard.key_put(key, value).await?;
                Ok(Outcome::Done)
            }
            Self::KeyDelete { key } => {
                shard.key_delete(key).await?;
                Ok(Outcome::Done)
            }
            _ => unreachable!("not about keys"),
        }
    }

    async fn change(&self, shard: &Shard) -> varve_engine::Result<()> {
        match self {
            Self::DropStream { stream } => shard.drop_stream(*stream).await,
            Self::Apply => shard.apply_acknowledged().await,
            Self::Cut { id, pairs } => shard.cut(CutId(*id), pairs).await,
            Self::ReleaseCut { id } => {
                shard.release_cut(CutId(*id));
                Ok(())
            }
            Self::Reserve { stream, blocks, pages, is_fresh } => {
                let size = ReservationSize { blocks: *blocks, pages: *pages };
                shard.reserve(*stream, size, *is_fresh).await
            }
            Self::ReleaseReservation { stream } => shard.release_reservation(*stream).await,
            Self::PrepareCut { sources } => shard.prepare_cut(sources).await,
            _ => unreachable!("no such change"),
        }
    }
}

fn part(part: &ReadPart) -> Part {
    match part {
        ReadPart::Zero(len) => Part::Zero(u32::try_from(*len).expect("within the answer's limit")),
        ReadPart::Data(data) => Part::Data(data.to_vec()),
    }
}

/// Whether a message holds it.
fn fits(outcome: &Outcome) -> bool {
    match outcome {
        Outcome::Chunks(chunks) => {
            let bytes: usize = chunks.iter().flatten().map(Vec::len).sum();
            bytes <= DATA_BYTES_MAX as usize
        }
        Outcome::Keys(keys) => keys.iter().all(|(key, value)| {
            key.len() <= KEY_BYTES_MAX && value.len() <= KEY_BYTES_MAX
        }),
        Outcome::Value(value) => value.as_ref().is_none_or(|value| value.len() <= KEY_BYTES_MAX),
        _ => true,
    }
}
