//! A lane at an opening: whether what it lost is accepted, and the frames that a mount begins it with.

use std::rc::Rc;

use varve_logstore::format::frame::{FRAME_ALIGN, LogPosition};
use varve_logstore::lane::{FRAMES_KEPT, Journal};

use crate::{Result, Shard};

impl Shard {
    /// Whether records are gone, and the shard opens nevertheless because it was told to (RECOVERY-9).
    pub(crate) fn accept_loss(&self, checked: varve_logstore::Result<()>) -> Result<bool> {
        match checked {
            Ok(()) => Ok(false),
            Err(error) if error.is_lane_lost() && self.config.accept_lost_journal => {
                let shard = self.config.shard;
                tracing::warn!(%shard, %error, "the loss of acknowledged writes is accepted");
                Ok(true)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Writes the first frames of this mount behind what was replayed, so that the checkpoint names a point with frames
    /// before it (LANE-5). A lane that is full to its last block, as only earlier versions leave it, is left alone: an
    /// opening that is cut off replays it again.
    pub(crate) async fn begin_lane(
        &self,
        start: LogPosition,
        head: LogPosition,
    ) -> Result<LogPosition> {
        let end = head.position + FRAMES_KEPT as u64 * u64::from(FRAME_ALIGN);
        if end > start.position + self.media.journal.capacity() {
            return Ok(head);
        }
        let (journal, fence) = (Rc::clone(&self.media.journal), Rc::clone(&self.media.fence));
        let (owner, under_way) = (self.lane_owner(), self.begin_write()?);
        // A task of its own: begun, it goes on to its end whatever becomes of this one.
        let begun = self.reactor.spawn_join(async move {
            let mut begun = Ok(head);
            for _ in 0..FRAMES_KEPT {
                if let Ok(head) = begun {
                    begun = Journal::begin(&journal, &fence, owner, head).await;
                }
            }
            drop(under_way);
            begun
        });
        let begun = begun.await?;
        assert!(begun.frame_seq >= head.frame_seq, "the lane only goes on"); // LANE-5
        Ok(begun)
    }
}
