//! Where a volume or bucket is on its way between two pools, as the admin API says it and as its record does.

use varve_access_admin::v1::{self, VolumeMove};
use varve_dataset::{Move, MoveLast, MoveRemark, MoveState};

pub(super) fn shown_move(moves: Move) -> VolumeMove {
    let Move { state, pool, address, run, remark, last } = moves;
    let state = match state {
        MoveState::Arriving => v1::MoveState::Arriving,
        MoveState::Leaving => v1::MoveState::Leaving,
        MoveState::Left => v1::MoveState::Left,
        MoveState::Arrived => v1::MoveState::Arrived,
    };
    let remark = remark.map(|remark| match remark {
        MoveRemark::Parked => v1::MoveRemark::Parked,
        MoveRemark::GivenUp => v1::MoveRemark::GivenUp,
        MoveRemark::Kept => v1::MoveRemark::Kept,
    });
    let (snapshot, bucket) = match last {
        None => (None, None),
        Some(MoveLast::Snapshot(identity)) => (Some(identity), None),
        Some(MoveLast::Bucket(number)) => (None, Some(number)),
    };
    VolumeMove { state, pool, address, run, remark, snapshot, bucket }
}

/// What records call a move.
pub(super) fn wanted_move(moves: VolumeMove) -> Move {
    let VolumeMove { state, pool, address, run, remark, snapshot, bucket } = moves;
    let state = match state {
        v1::MoveState::Arriving => MoveState::Arriving,
        v1::MoveState::Leaving => MoveState::Leaving,
        v1::MoveState::Left => MoveState::Left,
        v1::MoveState::Arrived => MoveState::Arrived,
    };
    let remark = remark.map(|remark| match remark {
        v1::MoveRemark::Parked => MoveRemark::Parked,
        v1::MoveRemark::GivenUp => MoveRemark::GivenUp,
        v1::MoveRemark::Kept => MoveRemark::Kept,
    });
    let last = snapshot.map(MoveLast::Snapshot).or(bucket.map(MoveLast::Bucket));
    Move { state, pool, address, run, remark, last }
}
