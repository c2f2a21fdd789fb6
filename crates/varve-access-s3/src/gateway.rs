//! What all operations share: the store, the users, the key, the options.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use s3s::S3Result;
use varve_object::{BucketId, BucketUsage, ObjectStore, Settings};
use varve_types::ErrorKind;

use crate::answers::error::{Result, of_store};
use crate::body::md5_queue::Md5Queue;
use crate::body::memory::{BodyMemory, Pressure};
use crate::body::seal::MasterKey;
use crate::bucket::moving::{ChangeTracker, StagedBodies, check_here};
use crate::bucket::view::{BucketView, BucketViews};
use crate::figures::{GatewayFigures, Metrics};
use crate::identity::owner;
use crate::identity::users::{NewKey, Users};
use crate::request::access_log::AccessLog;
use crate::request::hosts::Domains;

/// Settings of a gateway.
#[derive(Debug, Clone)]
pub struct Options {
    /// The region it says it is.
    pub region: String,
    /// Name of the user made at the first start, who may do everything.
    pub owner: String,
    /// Host names under which buckets are found as `bucket.domain`; none: only as paths.
    pub domains: Vec<String>,
    /// Whether presigned URLs of signature version 2 are accepted.
    pub signature_v2: bool,
    /// Host name under which buckets are served as websites at `bucket.domain`; none: they are not.
    pub website_domain: Option<String>,
    /// Length of a day for lifecycle rules. Anything but 24 h is for tests.
    pub day: Duration,
    /// Most connections at a time; more wait, or take the place of idle ones.
    pub connections_max: usize,
    /// Most connections of one address; 0: no bound.
    pub connections_per_address: usize,
    /// Most memory for bodies that come in, before the store takes them, in bytes.
    pub body_memory: u64,
    /// Time for a client to send the head of a request, to send more of a body or take more of an answer, and for a
    /// connection to be idle.
    pub idle: Duration,
    /// Most requests a second of one connection; 0: no limit.
    pub requests_per_second: u32,
    /// Directory for access logs; none: buckets have none.
    pub access_log: Option<PathBuf>,
    /// File that the owner's key is handed over in; none: only [`OpenedGateway`] tells it.
    pub owner_key: Option<PathBuf>,
    /// Refuse what changes something: what is written is not kept.
    pub is_read_only: bool,
}

/// What a start came to.
#[derive(Debug)]
pub struct OpenedGateway {
    /// The gateway.
    pub gateway: Gateway,
    /// The owner's key, created just now because there was no user.
    pub first_key: Option<NewKey>,
}

/// The S3 front-end over a store.
#[derive(Clone)]
pub struct Gateway {
    pub(crate) inner: Arc<GatewayInner>,
}

pub(crate) struct GatewayInner {
    pub(crate) store: Arc<dyn ObjectStore>,
    pub(crate) users: Arc<Users>,
    pub(crate) master: Arc<MasterKey>,
    pub(crate) options: Options,
    pub(crate) domains: Domains,
    pub(crate) pressure: Pressure,
    pub(crate) bodies: BodyMemory,
    pub(crate) figures: Metrics,
    pub(crate) access_log: Option<AccessLog>,
    pub(crate) md5: Md5Queue,
    pub(crate) staged: StagedBodies,
    pub(crate) noting: ChangeTracker,
    views: BucketViews,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            region: "us-east-1".to_owned(),
            owner: "owner".to_owned(),
            domains: Vec::new(),
            signature_v2: false,
            website_domain: None,
            day: Duration::from_secs(24 * 3600),
            connections_max: 4096,
            connections_per_address: 2048,
            body_memory: 64 << 20,
            idle: Duration::from_secs(60),
            requests_per_second: 0,
            access_log: None,
            owner_key: None,
            is_read_only: false,
        }
    }
}

impl std::fmt::Debug for Gateway {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gateway").field("options", &self.inner.options).finish_non_exhaustive()
    }
}

impl Gateway {
    /// Loads the users; at the first start makes the owner.
    ///
    /// # Errors
    /// Those of the store, `Key` when secrets were sealed with another key, `File` for the directory of access logs.
    pub async fn open(
        store: Arc<dyn ObjectStore>,
        master: MasterKey,
        options: Options,
    ) -> Result<OpenedGateway> {
        let master = Arc::new(master);
        let users = Arc::new(Users::load(Arc::clone(&store), Arc::clone(&master)).await?);
        let first_key = owner::create(&users, &options.owner, options.owner_key.as_deref()).await?;
        let access_log = options.access_log.clone().map(AccessLog::start).transpose()?;
        let (figures, md5, views) =
            (Metrics::default(), Md5Queue::default(), BucketViews::default());
        let (staged, noting) = (StagedBodies::default(), ChangeTracker::default());
        let (domains, pressure) = (Domains::new(&options.domains), Pressure::default());
        let bodies = BodyMemory::new(options.body_memory, pressure.clone());
        let inner = GatewayInner {
            store,
            users,
            master,
            options,
            domains,
            pressure,
            bodies,
            figures,
            access_log,
            md5,
            staged,
            noting,
            views,
        };
        Ok(OpenedGateway { gateway: Self { inner: Arc::new(inner) }, first_key })
    }

    /// What it has done since the start.
    pub fn figures(&self) -> GatewayFigures {
        let log_lines_dropped = self.inner.access_log.as_ref().map_or(0, AccessLog::dropped);
        GatewayFigures { log_lines_dropped, ..self.inner.figures.now() }
    }

    /// Why lists of users and buckets may lack some, if they may.
    #[must_use]
    pub fn unread(&self) -> Option<String> {
        self.inner.store.check_all_read().err().map(|unread| unread.to_string())
    }

    /// Users and their keys.
    pub fn users(&self) -> &Arc<Users> {
        &self.inner.users
    }
}

impl GatewayInner {
    /// A bucket by name, for a client: one that is here.
    pub(crate) async fn view(&self, name: &str) -> S3Result<Arc<BucketView>> {
        let bucket = self.store.bucket(name).await.map_err(of_store)?;
        check_here(&bucket).map_err(of_store)?;
        self.view_of(bucket)
    }

    /// What a bucket holds; none while a shard that may hold some of it cannot be asked.
    pub(crate) async fn counted(&self, id: BucketId) -> varve_object::Result<Option<BucketUsage>> {
        match self.store.usage(id).await {
            Ok(usage) => Ok(Some(usage)),
            Err(error) if matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Corrupt) => {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// What was read of a bucket, if that is still here: of one that left and is being deleted, there may be less.
    pub(crate) async fn still<T>(
        &self,
        view: &BucketView,
        read: varve_object::Result<T>,
    ) -> S3Result<T> {
        let name = &view.bucket.name;
        match self.store.bucket(name).await {
            Ok(now) if now.id == view.id() => check_here(&now).map_err(of_store)?,
            Ok(_) | Err(varve_object::Error::NoBucket { .. }) => {
                let what = format!("bucket `{name}`, which was deleted meanwhile,");
                return Err(of_store(varve_object::Error::Unavailable { what }));
            }
            Err(error) => return Err(of_store(error)),
        }
        read.map_err(of_store)
    }

    pub(crate) fn view_of(&self, bucket: Arc<varve_object::Bucket>) -> S3Result<Arc<BucketView>> {
        self.parsed(bucket).map_err(of_store)
    }

    pub(crate) fn parsed(
        &self,
        bucket: Arc<varve_object::Bucket>,
    ) -> varve_object::Result<Arc<BucketView>> {
        self.views.of(bucket)
    }

    /// Changes a bucket's settings.
    pub(crate) async fn change(
        &self,
        name: &str,
        edit: impl FnOnce(&mut Settings) -> varve_object::Result<()> + Send + 'static,
    ) -> S3Result<()> {
        self.edit(name, edit).await.map(drop).map_err(of_store)
    }

    /// The same, and the bucket as it is then.
    pub(crate) async fn edit(
        &self,
        name: &str,
        edit: impl FnOnce(&mut Settings) -> varve_object::Result<()> + Send + 'static,
    ) -> varve_object::Result<Arc<varve_object::Bucket>> {
        let change = Box::new(move |record: Option<&bytes::Bytes>| {
            let mut settings = Settings::decode(record.map_or(&[], |record| record))?;
            edit(&mut settings)?;
            Ok(Some(settings.encode()))
        });
        self.store.change_bucket(name, change).await
    }
}
