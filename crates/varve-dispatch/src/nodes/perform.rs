//! What a shard does for another node.

use varve_engine::{ReadPart, Shard};
use varve_stdx::AlignedBuf;

use super::wire::{Operation, Outcome, Part};

impl Operation {
    /// Does it on a shard. What is changed is durable on return.
    pub(crate) async fn run(&self, shard: &Shard) -> Outcome {
        match self.try_run(shard).await {
            Ok(outcome) => outcome,
            Err(error) => Outcome::Failed { kind: error.kind(), text: error.to_string() },
        }
    }

    async fn try_run(&self, shard: &Shard) -> varve_engine::Result<Outcome> {
        match self {
            Self::Read { stream, offset, len } => {
                let parts = shard.read(*stream, *offset, *len as usize).await?;
                Ok(Outcome::Read(parts.iter().map(part).collect()))
            }
            Self::Write { stream, offset, reduction, data } => {
                // Said with every write: a shard that was reopened has forgotten it.
                shard.set_reduction(*stream, *reduction);
                let data = AlignedBuf::from_slice(data).freeze();
                shard.write(*stream, *offset, data).await?;
                Ok(Outcome::Done)
            }
            Self::Clear { stream, range, keep_allocated } => {
                match keep_allocated {
                    None => shard.trim(*stream, *range).await?,
                    Some(keep) => shard.write_zeroes(*stream, *range, *keep).await?,
                }
                Ok(Outcome::Done)
            }
        }
    }
}

fn part(part: &ReadPart) -> Part {
    match part {
        ReadPart::Zero(len) => Part::Zero(u32::try_from(*len).expect("within the answer's limit")),
        ReadPart::Data(data) => Part::Data(data.to_vec()),
    }
}
