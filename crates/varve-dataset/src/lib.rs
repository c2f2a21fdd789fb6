//! Datasets: names and their semantics over streams. Volumes so far.

mod catalog;
mod datasets;
mod error;
mod mark;
mod name;
mod open;
mod record;
mod reduction;
mod space;
mod volume;

pub use catalog::CatalogueEntry;
pub use datasets::{Datasets, Shared};
pub use error::{Error, Result};
pub use mark::MarkSummary;
pub use record::VolumeInfo;
pub use space::{Space, VolumeSpace};
pub use varve_dispatch::{BlockStatus, Mapped, ReadPart};
pub use volume::{Volume, VolumeSpec};
