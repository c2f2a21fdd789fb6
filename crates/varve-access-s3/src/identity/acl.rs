//! Access control lists as the protocol has them: canned names, grant headers, XML.

use s3s::dto;
use s3s::{S3Result, s3_error};
use varve_object::{Acl, Grant, Grantee, Permission};

use crate::answers::error::of_store;
use crate::gateway::GatewayInner;

const EVERYONE: &str = "http://acs.amazonaws.com/groups/global/AllUsers";
const USERS: &str = "http://acs.amazonaws.com/groups/global/AuthenticatedUsers";
const LOGS: &str = "http://acs.amazonaws.com/groups/s3/LogDelivery";
/// Most grants of a list.
const GRANTS_MAX: usize = 100;

/// What headers of a request say about a list.
#[derive(Debug, Default, Clone)]
pub(crate) struct AclHeaders {
    pub(crate) canned: Option<String>,
    pub(crate) full_control: Option<String>,
    pub(crate) read: Option<String>,
    pub(crate) read_acp: Option<String>,
    pub(crate) write: Option<String>,
    pub(crate) write_acp: Option<String>,
}

/// Whom a list belongs to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Owners<'a> {
    pub(crate) owner: &'a str,
    /// Owner of the bucket that the object is in.
    pub(crate) bucket: &'a str,
}

impl AclHeaders {
    pub(crate) fn is_empty(&self) -> bool {
        self.canned.is_none() && self.grants().iter().all(|(value, _)| value.is_none())
    }

    fn grants(&self) -> [(&Option<String>, Permission); 5] {
        [
            (&self.read, Permission::Read),
            (&self.write, Permission::Write),
            (&self.read_acp, Permission::ReadAcp),
            (&self.write_acp, Permission::WriteAcp),
            (&self.full_control, Permission::FullControl),
        ]
    }

    /// The list they ask for; without any the owner alone.
    pub(crate) fn acl(&self, inner: &GatewayInner, owners: Owners<'_>) -> S3Result<Acl> {
        let granted = self.grants().iter().any(|(value, _)| value.is_some());
        match &self.canned {
            Some(_) if granted => Err(s3_error!(
                InvalidRequest,
                "Specifying both Canned ACLs and Header Grants is not allowed."
            )),
            Some(name) => canned(name, owners),
            None if granted => {
                let mut grants = Vec::new();
                for (value, permission) in self.grants() {
                    for part in value.iter().flat_map(|value| value.split(',')) {
                        grants.push(Grant { grantee: grantee_of_header(inner, part)?, permission });
                    }
                }
                bounded(grants)
            }
            None => Ok(Acl::private(owners.owner)),
        }
    }
}

fn bounded(grants: Vec<Grant>) -> S3Result<Acl> {
    if grants.len() > GRANTS_MAX {
        return Err(s3_error!(MalformedACLError, "A list has at most {GRANTS_MAX} grants"));
    }
    Ok(Acl { grants })
}

fn canned(name: &str, owners: Owners<'_>) -> S3Result<Acl> {
    let everyone = |permission| Grant { grantee: Grantee::Everyone, permission };
    let bucket =
        |permission| Grant { grantee: Grantee::User(owners.bucket.to_owned()), permission };
    let logs = |permission| Grant { grantee: Grantee::LogDelivery, permission };
    let mut grants = match name {
        "private" => vec![],
        "public-read" => vec![everyone(Permission::Read)],
        "public-read-write" => vec![everyone(Permission::Read), everyone(Permission::Write)],
        "authenticated-read" => {
            vec![Grant { grantee: Grantee::Users, permission: Permission::Read }]
        }
        "bucket-owner-read" | "bucket-owner-full-control" if owners.bucket == owners.owner => {
            vec![]
        }
        "bucket-owner-read" => vec![bucket(Permission::Read)],
        "bucket-owner-full-control" => vec![bucket(Permission::FullControl)],
        "log-delivery-write" => vec![logs(Permission::Write), logs(Permission::ReadAcp)],
        _ => return Err(s3_error!(InvalidArgument, "Unknown canned ACL")),
    };
    // Groups come first, as clients expect.
    grants.extend(Acl::private(owners.owner).grants);
    Ok(Acl { grants })
}

/// A grantee as `id="…"`; the id of a user may also stand alone, as a principal of a policy may.
fn grantee_of_header(inner: &GatewayInner, text: &str) -> S3Result<Grantee> {
    let Some((kind, value)) = text.split_once('=') else {
        let format = || s3_error!(InvalidArgument, "Argument format not recognized");
        return user_of(inner, text.trim())?.ok_or_else(format);
    };
    let value = value.trim().trim_matches('"');
    match kind.trim().to_ascii_lowercase().as_str() {
        "id" => by_id(inner, value),
        "emailaddress" => by_email(inner, value),
        "uri" => by_uri(value),
        _ => Err(s3_error!(InvalidArgument, "Argument format not recognized")),
    }
}

/// A user, if there is one.
fn user_of(inner: &GatewayInner, id: &str) -> S3Result<Option<Grantee>> {
    let known = inner.users.known(id).map_err(of_store)?;
    Ok(known.map(|known| Grantee::User(known.user.id.clone())))
}

fn by_id(inner: &GatewayInner, id: &str) -> S3Result<Grantee> {
    user_of(inner, id)?.ok_or_else(|| s3_error!(InvalidArgument, "Invalid id"))
}

fn by_email(inner: &GatewayInner, email: &str) -> S3Result<Grantee> {
    let user = inner.users.by_email(email);
    if user.is_none() {
        inner.store.check_all_read().map_err(of_store)?;
    }
    let user = user.ok_or_else(|| {
        s3_error!(
            UnresolvableGrantByEmailAddress,
            "The email address you provided does not match any account"
        )
    })?;
    Ok(Grantee::User(user.user.id.clone()))
}

fn by_uri(uri: &str) -> S3Result<Grantee> {
    match uri {
        EVERYONE => Ok(Grantee::Everyone),
        USERS => Ok(Grantee::Users),
        LOGS => Ok(Grantee::LogDelivery),
        _ => Err(s3_error!(InvalidArgument, "Invalid group uri")),
    }
}

/// The list of a document; its owner must be the one there is.
pub(crate) fn of_policy(
    inner: &GatewayInner,
    policy: &dto::AccessControlPolicy,
    owner: &str,
) -> S3Result<Acl> {
    let named = policy.owner.as_ref().and_then(|owner| owner.id.as_deref());
    if named.is_none_or(str::is_empty) {
        return Err(s3_error!(MalformedACLError));
    }
    if named.is_some_and(|named| named != owner) {
        return Err(s3_error!(AccessDenied, "The owner of the list is another"));
    }
    let kinds = [dto::Type::CANONICAL_USER, dto::Type::GROUP, dto::Type::AMAZON_CUSTOMER_BY_EMAIL];
    let grants = policy.grants.iter().flatten().map(|grant| {
        let grantee = grant.grantee.as_ref().ok_or_else(|| s3_error!(MalformedACLError))?;
        if !kinds.contains(&grantee.type_.as_str()) {
            return Err(s3_error!(MalformedACLError));
        }
        let permission =
            grant.permission.as_ref().and_then(|permission| permission_of(permission.as_str()));
        let permission = permission.ok_or_else(|| s3_error!(MalformedACLError))?;
        let grantee = match (&grantee.id, &grantee.uri, &grantee.email_address) {
            (Some(id), _, _) => by_id(inner, id)?,
            (None, Some(uri), _) => by_uri(uri)?,
            (None, None, Some(email)) => by_email(inner, email)?,
            (None, None, None) => return Err(s3_error!(MalformedACLError)),
        };
        Ok(Grant { grantee, permission })
    });
    bounded(grants.collect::<S3Result<_>>()?)
}

fn permission_of(name: &str) -> Option<Permission> {
    Some(match name {
        dto::Permission::READ => Permission::Read,
        dto::Permission::WRITE => Permission::Write,
        dto::Permission::READ_ACP => Permission::ReadAcp,
        dto::Permission::WRITE_ACP => Permission::WriteAcp,
        dto::Permission::FULL_CONTROL => Permission::FullControl,
        _ => return None,
    })
}

/// A list's grants for an answer.
pub(crate) fn grants(inner: &GatewayInner, acl: &Acl) -> Vec<dto::Grant> {
    let grantee = |grantee: &Grantee| {
        let group = |uri: &str| dto::Grantee {
            uri: Some(uri.to_owned()),
            type_: dto::Type::from_static(dto::Type::GROUP),
            display_name: None,
            email_address: None,
            id: None,
        };
        match grantee {
            Grantee::User(id) => dto::Grantee {
                display_name: owner(inner, id).display_name,
                id: Some(id.clone()),
                type_: dto::Type::from_static(dto::Type::CANONICAL_USER),
                email_address: None,
                uri: None,
            },
            Grantee::Everyone => group(EVERYONE),
            Grantee::Users => group(USERS),
            Grantee::LogDelivery => group(LOGS),
        }
    };
    let permission = |permission| {
        dto::Permission::from_static(match permission {
            Permission::Read => dto::Permission::READ,
            Permission::Write => dto::Permission::WRITE,
            Permission::ReadAcp => dto::Permission::READ_ACP,
            Permission::WriteAcp => dto::Permission::WRITE_ACP,
            Permission::FullControl => dto::Permission::FULL_CONTROL,
        })
    };
    let grant = |grant: &Grant| dto::Grant {
        grantee: Some(grantee(&grant.grantee)),
        permission: Some(permission(grant.permission)),
    };
    acl.grants.iter().map(grant).collect()
}

/// An owner for an answer.
pub(crate) fn owner(inner: &GatewayInner, id: &str) -> dto::Owner {
    let name = inner.users.user(id).map(|known| known.user.name.clone());
    dto::Owner {
        display_name: Some(name.unwrap_or_else(|| id.to_owned())),
        id: Some(id.to_owned()),
    }
}
