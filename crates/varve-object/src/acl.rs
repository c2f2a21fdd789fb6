//! Access control lists: who may do what with a bucket or object, beside its owner.

use crate::error::Result;
use crate::fields::{TaggedReader, TaggedWriter};

/// What is granted. No grants at all: nothing to anybody, the owner's own rights aside.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Acl {
    /// The grants, in the order they were given.
    pub grants: Vec<Grant>,
}

/// One right of one grantee.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Grant {
    /// Who.
    pub grantee: Grantee,
    /// What.
    pub permission: Permission,
}

/// Whom a grant is for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Grantee {
    /// The user of this id.
    User(String),
    /// All, signed in or not.
    Everyone,
    /// All users.
    Users,
    /// The service that writes logs.
    LogDelivery,
}

/// What a grant allows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Permission {
    /// To list a bucket, to read an object.
    Read,
    /// To write and delete objects of a bucket.
    Write,
    /// To read the list.
    ReadAcp,
    /// To replace the list.
    WriteAcp,
    /// All of these.
    FullControl,
}

impl Permission {
    fn code(self) -> u8 {
        match self {
            Self::Read => 1,
            Self::Write => 2,
            Self::ReadAcp => 3,
            Self::WriteAcp => 4,
            Self::FullControl => 5,
        }
    }

    fn of(tag: u8) -> Option<Self> {
        [Self::Read, Self::Write, Self::ReadAcp, Self::WriteAcp, Self::FullControl]
            .into_iter()
            .find(|permission| permission.code() == tag)
    }
}

impl Acl {
    /// A list with one grant of everything.
    pub fn private(owner: &str) -> Self {
        Self {
            grants: vec![Grant {
                grantee: Grantee::User(owner.to_owned()),
                permission: Permission::FullControl,
            }],
        }
    }

    /// Whether a user (none: not signed in) has a permission.
    pub fn allows(&self, user: Option<&str>, permission: Permission) -> bool {
        self.grants.iter().any(|grant| {
            let meant = match &grant.grantee {
                Grantee::User(id) => user == Some(id.as_str()),
                Grantee::Everyone => true,
                Grantee::Users => user.is_some(),
                Grantee::LogDelivery => false,
            };
            meant && (grant.permission == permission || grant.permission == Permission::FullControl)
        })
    }

    /// Whether it grants anything to all, or to all users.
    pub fn is_public(&self) -> bool {
        self.grants.iter().any(|grant| matches!(grant.grantee, Grantee::Everyone | Grantee::Users))
    }

    /// As bytes.
    pub(crate) fn encode(&self) -> bytes::Bytes {
        let mut out = TaggedWriter::new();
        for grant in &self.grants {
            let (kind, id) = match &grant.grantee {
                Grantee::User(id) => (b'u', id.as_str()),
                Grantee::Everyone => (b'e', ""),
                Grantee::Users => (b'a', ""),
                Grantee::LogDelivery => (b'l', ""),
            };
            out.bytes(grant.permission.code(), &[&[kind], id.as_bytes()].concat());
        }
        out.finish()
    }

    /// From bytes. Fails with `Corrupt`.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self> {
        let mut fields = TaggedReader::new(bytes, "an access control list")?;
        let mut grants = Vec::new();
        while let Some((tag, value)) = fields.next()? {
            let permission = Permission::of(tag).ok_or_else(|| fields.damaged())?;
            let grantee = match value.split_first().ok_or_else(|| fields.damaged())? {
                (b'u', id) => Grantee::User(fields.text(id)?),
                (b'e', _) => Grantee::Everyone,
                (b'a', _) => Grantee::Users,
                (b'l', _) => Grantee::LogDelivery,
                _ => return Err(fields.damaged()),
            };
            grants.push(Grant { grantee, permission });
        }
        Ok(Self { grants })
    }
}
