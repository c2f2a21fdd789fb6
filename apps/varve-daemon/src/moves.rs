//! Where a volume or bucket is on its way between two pools, as the admin API says it and as its record does.

use varve_access_admin::v1::{self, VolumeMove};
use varve_dataset::{Move, MoveState};

pub(super) fn shown_move(moves: Move) -> VolumeMove {
    let Move { state, peer } = moves;
    let state = match state {
        MoveState::Arriving => v1::MoveState::Arriving,
        MoveState::Leaving => v1::MoveState::Leaving,
        MoveState::Left => v1::MoveState::Left,
        MoveState::Arrived => v1::MoveState::Arrived,
    };
    VolumeMove { state, peer }
}

/// What records call a move.
pub(super) fn wanted_move(moves: VolumeMove) -> Move {
    let VolumeMove { state, peer } = moves;
    let state = match state {
        v1::MoveState::Arriving => MoveState::Arriving,
        v1::MoveState::Leaving => MoveState::Leaving,
        v1::MoveState::Left => MoveState::Left,
        v1::MoveState::Arrived => MoveState::Arrived,
    };
    Move { state, peer }
}
