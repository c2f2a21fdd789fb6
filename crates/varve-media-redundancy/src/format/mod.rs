//! The tables of a redundant pool as stored bytes: types, encoders and decoders, no I/O. Described in `docs/format.md`.

mod drives;
mod fault;
mod fields;
mod journal;
mod label;
mod page;
mod text;

pub use drives::{
    DriveRecord, DriveRemoval, DriveRoles, DriveState, DriveTable, EarlierHistory, FeatureWords,
    HeldUnits,
};
pub use fault::FormatFault;
pub use journal::{JournalCopy, JournalCopyState, JournalPlaceKind, JournalRecord};
pub use label::StripLabel;
pub use page::{LayoutPage, MoveReason, Row, RowState, StripForm, StripPlace, StripSet};

#[cfg(test)]
pub(crate) mod tests;
