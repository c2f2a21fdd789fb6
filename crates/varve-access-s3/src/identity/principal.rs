//! Who sent a request, and where from. Known to all who look at a request; knows none of them.

use std::net::IpAddr;
use std::sync::Arc;

use crate::bucket::view::BucketView;
use crate::compat::signed;
use crate::identity::users::KnownUser;
use crate::request::query::query_value;

/// Of a signed address.
pub(crate) const SIGNATURE: &str = "X-Amz-Signature";

/// Who sent a request; none: nobody in particular.
#[derive(Clone, Debug, Default)]
pub(crate) struct Principal {
    pub(crate) user: Option<Arc<KnownUser>>,
    /// The address was signed, not the headers.
    pub(crate) presigned: bool,
    /// By the second version of signatures.
    pub(crate) signature_v2: bool,
    /// Of a website: told what is not there.
    pub(crate) visitor: bool,
}

/// Where it came from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer {
    pub(crate) address: Option<IpAddr>,
    pub(crate) tls: bool,
}

/// Whose signature has been checked already.
#[derive(Clone)]
pub(crate) struct VerifiedPrincipal(pub(crate) Principal);

impl Principal {
    /// Of a request with this query.
    pub(crate) fn new(user: Option<Arc<KnownUser>>, query: &str) -> Self {
        let signature_v2 = signed::is_v2(query);
        let presigned = signature_v2 || query_value(query, SIGNATURE).is_some();
        Self { user, presigned, signature_v2, visitor: false }
    }

    /// Its id; empty for nobody.
    pub(crate) fn id(&self) -> &str {
        self.user.as_ref().map_or("", |known| &known.user.id)
    }

    pub(crate) fn is_admin(&self) -> bool {
        self.user.as_ref().is_some_and(|known| known.user.admin)
    }

    /// Owns what a bucket holds, without rules of its own.
    pub(super) fn owns(&self, view: &BucketView) -> bool {
        self.user
            .as_ref()
            .is_some_and(|known| known.policy.is_none() && known.user.id == view.owner())
    }
}
