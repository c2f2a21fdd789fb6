//! What commands share: calls of the daemon's admin API, failures with what to do about them, progress, and text for
//! people.

pub mod age;
mod client;
mod extents;
mod failure;
mod progress;
pub mod table;
mod text_file;

pub use client::{ApiAnswer, Client};
pub use extents::Extents;
pub use failure::{Failure, Result};
pub use progress::Progress;
pub use text_file::{read_file, read_file_up_to};
