//! Who asks and what he may: users and their keys, signatures of bodies, access control lists, policies, the decision.

pub(crate) mod access;
pub(crate) mod acl;
pub(crate) mod chain;
pub(crate) mod owner;
pub(crate) mod policy;
pub(crate) mod principal;
pub(crate) mod stored_users;
pub(crate) mod users;
