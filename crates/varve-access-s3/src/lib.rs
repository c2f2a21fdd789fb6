//! The S3 front-end: HTTP and the protocol, users and their rights, over any [`ObjectStore`](varve_object::ObjectStore).
//!
//! ```text
//!   server     sockets, TLS, limits
//!     front    request ids, cross-origin answers, complete errors
//!       s3s    HTTP <-> typed operations, signatures, XML (the library; nothing of it shows outside this crate)
//!         access    may this caller do this?
//!         ops       the operations
//!           given, receive, cipher, sums    what a request says; bodies on their way
//!             varve-object                  rules, records, store
//! ```

mod access;
mod acl;
mod bucket_view;
mod cipher;
mod clock;
mod cors;
mod error;
mod form;
mod front;
mod gateway;
mod given;
mod lifecycle;
mod ops;
mod policy;
mod query;
mod receive;
mod seal;
mod server;
mod service;
mod signed;
mod sums;
mod users;
mod wording;

pub use error::{Error, Result};
pub use gateway::{Gateway, Opened, Options};
pub use seal::MasterKey;
pub use server::Tls;
pub use users::{NewKey, Users};
