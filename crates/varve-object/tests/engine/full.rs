//! A full shard completes and aborts uploads whose parts it holds. Method: it is filled until it refuses an upload,
//! before each of several that end; what came of them is read, audited, and read again after a crash.

use bytes::Bytes;
use varve_object::{
    BucketId, BucketOptions, ChangeKey, Error, KeyChange, NewBody, ObjectStore, PartRef, Result,
    Select, UploadId, UploadPart,
};

use crate::changes::{data, replace_with};
use crate::rig::{Life, Rig, bytes_of};

const LANE: u64 = 16 << 20;
const PART_LEN: usize = 60 << 10;

/// Uploads that end on the full shard.
const UPLOADS: usize = 6;

/// More changes than fill it.
const CHANGES_MAX: usize = 20_000;

fn only(len: usize) -> ChangeKey {
    replace_with(len, Bytes::from_static(b"attributes"))
}

/// An upload whose parts are stored, and what it will hold.
struct Uploading {
    key: String,
    id: UploadId,
    parts: Vec<PartRef>,
    /// A part that is stored and not among them.
    unnamed: PartRef,
    contents: Bytes,
}

struct Filling {
    life: Life,
    bucket: BucketId,
}

impl Filling {
    /// Names on the shard of one of them.
    fn names(&self) -> impl Iterator<Item = String> + '_ {
        let home = self.life.home(self.bucket, "name-0");
        let names = (0..).map(|at| format!("name-{at}"));
        names.filter(move |name| self.life.home(self.bucket, name) == home)
    }

    async fn begin(&self, key: &str, seed: u64) -> Result<Uploading> {
        let id = self.life.store.create_upload(self.bucket, key, 0, Bytes::new()).await?.id;
        let contents = data(3 * PART_LEN, seed);
        let mut parts = Vec::new();
        for number in 1..=4_u16 {
            // The last one is not named.
            let at = usize::from(number - 1).min(2) * PART_LEN;
            let body = NewBody::Small(contents.slice(at..at + PART_LEN));
            let size = PART_LEN as u64;
            let part = UploadPart {
                number,
                generation: 0,
                size,
                modified_ms: 0,
                attributes: Bytes::new(),
            };
            let part = self.life.store.put_part(self.bucket, key, id, part, body).await?;
            parts.push(PartRef { number, generation: part.generation });
        }
        let unnamed = parts.pop().expect("there are four");
        Ok(Uploading { key: key.to_owned(), id, parts, unnamed, contents })
    }

    async fn complete(&self, upload: &Uploading) -> Result<KeyChange> {
        self.complete_by(upload, only(upload.contents.len())).await
    }

    async fn complete_by(&self, upload: &Uploading, change: ChangeKey) -> Result<KeyChange> {
        let body = NewBody::Parts { upload: upload.id, parts: upload.parts.clone() };
        self.life.store.change_key(self.bucket, &upload.key, None, body, change).await
    }

    /// Puts objects until the shard takes none, of either size.
    async fn fill(&self, names: &mut impl Iterator<Item = String>) {
        let mut names = (0..).zip(names.take(CHANGES_MAX));
        for len in [PART_LEN, 4096] {
            loop {
                let (seed, key) = names.next().expect("it is full in the end");
                let body = NewBody::Small(data(len, seed));
                match self.life.store.change_key(self.bucket, &key, None, body, only(len)).await {
                    Ok(_) => {}
                    Err(Error::NoSpace) => break,
                    Err(error) => panic!("{error}"),
                }
            }
        }
    }

    /// Begins uploads until there is no room for one.
    async fn fill_with_uploads(&self) {
        for _ in 0..CHANGES_MAX {
            match self.life.store.create_upload(self.bucket, "name-0", 0, Bytes::new()).await {
                Ok(_) => {}
                Err(Error::NoSpace) => return,
                Err(error) => panic!("{error}"),
            }
        }
        panic!("it is never full");
    }

    async fn check(&self, key: &str, contents: &Bytes) {
        let found = self.life.store.find(self.bucket, key, Select::Newest).await.expect("works");
        let body = found.expect("is there").body;
        assert!(bytes_of(&*body).await.expect("works") == *contents, "bytes of {key}");
    }
}

#[test]
fn a_full_shard_completes_and_aborts_uploads() {
    let mut rig = Rig::new(LANE);
    let completed = rig.live(async |life: Life| {
        let made = life.store.create_bucket("b", BucketOptions::default(), Bytes::new()).await;
        let filling = Filling { bucket: made.expect("works").id, life };
        let mut names = filling.names();
        let mut uploads = Vec::new();
        for (seed, key) in (1..).zip(names.by_ref().take(UPLOADS)) {
            uploads.push(filling.begin(&key, seed).await.expect("there is room"));
        }
        filling.fill(&mut names).await;
        let aborted = uploads.pop().expect("there are some");
        for upload in &uploads {
            filling.fill_with_uploads().await;
            filling.complete(upload).await.expect("it takes no space");
            filling.check(&upload.key, &upload.contents).await;
        }
        filling.fill_with_uploads().await;
        let abort = filling.life.store.abort_upload(filling.bucket, &aborted.key, aborted.id);
        abort.await.expect("it takes no space");
        filling.life.rest().await;
        let _audited = filling.life.left(filling.bucket.0).await;
        uploads
    });
    rig.live(async move |life: Life| {
        let bucket = life.store.bucket("b").await.expect("works").id;
        let filling = Filling { bucket, life };
        for upload in &completed {
            filling.check(&upload.key, &upload.contents).await;
        }
    });
}

#[test]
fn a_completion_that_is_refused_takes_nothing_of_its_upload() {
    Rig::new(LANE).live(async |life: Life| {
        let made = life.store.create_bucket("b", BucketOptions::default(), Bytes::new()).await;
        let filling = Filling { bucket: made.expect("works").id, life };
        let mut names = filling.names();
        let key = names.next().expect("there are names");
        let mut upload = filling.begin(&key, 1).await.expect("there is room");
        filling.fill(&mut names).await;
        filling.fill_with_uploads().await;
        // So many attributes stand in blocks.
        let change = replace_with(upload.contents.len(), data(4096, 2));
        let refused = filling.complete_by(&upload, change).await;
        assert!(matches!(refused, Err(Error::NoSpace)), "{refused:?}");
        // Then it is completed with the part that was not named.
        upload.parts.push(upload.unnamed);
        let last = upload.contents.slice(2 * PART_LEN..);
        upload.contents = [&upload.contents[..], &last[..]].concat().into();
        filling.complete(&upload).await.expect("it takes no space");
        filling.check(&upload.key, &upload.contents).await;
    });
}
