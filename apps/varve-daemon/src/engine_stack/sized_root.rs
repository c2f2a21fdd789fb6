//! The pool's root as its sizer needs it.

use std::rc::Rc;

use varve_dispatch::OpenPool;
use varve_media::{Error, IoFuture};
use varve_media_redundancy::{ZoneIndex, ZoneRoot};

/// See [`ZoneRoot`].
pub(super) struct SizedRoot(pub(super) Rc<OpenPool>);

impl ZoneRoot for SizedRoot {
    fn zones(&self) -> u32 {
        self.0.zone_count()
    }

    fn is_withdrawn(&self, zone: ZoneIndex) -> bool {
        self.0.is_withdrawn(zone.0)
    }

    fn ask_back(&self, zones: u32) {
        self.0.ask_back(zones);
    }

    fn resize(&self, zones: u32) -> IoFuture<'_, u32> {
        let failed = |error: varve_engine::Error| Error::TableChange { reason: error.to_string() };
        Box::pin(async move { self.0.resize(zones).await.map_err(failed) })
    }
}
