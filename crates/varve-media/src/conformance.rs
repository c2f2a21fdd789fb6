//! What every implementation of the contracts must do, as plain functions that panic where it does not.
//!
//! Called by the tests of each implementation and wrapper, over media that hold an empty, newly made pool.

use varve_stdx::{BufSlice, Rng};
use varve_types::limits::MEDIA_ALIGN;
use varve_types::{ErrorKind, Generation, SegmentNumber};

use crate::contract::{
    Fence, JournalStore, Media, RootKey, RootStore, RootVersion, SegmentId, SegmentStore,
};

/// Runs everything below over one thread's media; `shard_root` is the root that belongs to it.
pub async fn all(media: &Media, shard_root: RootKey) {
    segments(&*media.segments).await;
    journal(&*media.journal).await;
    roots(&*media.roots, shard_root).await;
    roots(&*media.roots, RootKey::Pool).await;
    fence(&*media.fence);
}

/// `len` random bytes.
#[must_use]
pub fn noise(rng: &mut Rng, len: usize) -> BufSlice {
    let mut bytes = vec![0; len];
    rng.fill(&mut bytes);
    BufSlice::copy_from(&bytes)
}

fn id(number: u32, generation: u64) -> SegmentId {
    SegmentId { number: SegmentNumber(number), generation: Generation::new(generation) }
}

/// Whole and partial segments come back, at any alignment; slots do not touch each other; bounds are errors.
pub async fn segments(store: &dyn SegmentStore) {
    let geometry = store.geometry();
    assert!(geometry.segment_count >= 2, "the suite needs two slots");
    assert!(geometry.segment_bytes as usize >= 4 * MEDIA_ALIGN, "the suite needs four blocks");
    assert!((geometry.segment_bytes as usize).is_multiple_of(MEDIA_ALIGN));
    let (whole, last) = (geometry.segment_bytes as usize, geometry.segment_count - 1);
    let mut rng = Rng::new(1);
    let full = noise(&mut rng, whole);
    let part = noise(&mut rng, 2 * MEDIA_ALIGN);
    store.put(id(0, 1), full.clone()).await.expect("put a whole segment");
    store.put(id(last, 2), part.clone()).await.expect("put a partial segment");
    let (get_full, get_part) = (
        store.get(id(0, 1), 0, geometry.segment_bytes),
        store.get(id(last, 2), 0, narrow(2 * MEDIA_ALIGN)),
    );
    assert_eq!(*get_part.await.expect("get beside another get"), *part);
    assert_eq!(*get_full.await.expect("get a whole segment"), *full);
    for _ in 0..20 {
        let offset = rng.index(whole - 1);
        let len = 1 + rng.index((whole - offset).min(3 * MEDIA_ALIGN));
        let got = store.get(id(0, 1), narrow(offset), narrow(len)).await.expect("get a range");
        assert_eq!(*got, full[offset..offset + len], "{len} bytes at {offset}");
    }
    read_again(store, id(0, 1), &full).await;
    // A slot is used again, shorter than before.
    store.delete(id(0, 1)).await.expect("delete");
    store.put(id(0, 3), part.clone()).await.expect("put into a used slot");
    let got = store.get(id(0, 3), 0, narrow(part.len())).await.expect("get the new contents");
    assert_eq!(*got, *part);
    let outside = store.get(id(0, 3), geometry.segment_bytes, 1).await;
    assert_eq!(outside.expect_err("a range outside the slot").kind(), ErrorKind::Invalid);
    let outside = store.get(id(last + 1, 3), 0, 1).await;
    assert_eq!(outside.expect_err("a slot outside the store").kind(), ErrorKind::Invalid);
    let outside = store.put(id(last + 1, 3), part).await;
    assert_eq!(outside.expect_err("a slot outside the store").kind(), ErrorKind::Invalid);
}

/// Whole contents stay what they are when they are read in other ways, of which there is an end, and are completed.
async fn read_again(store: &dyn SegmentStore, id: SegmentId, bytes: &BufSlice) {
    let mut attempt = 1;
    while let Some(again) = store
        .get_again(id, 0, narrow(2 * MEDIA_ALIGN), attempt)
        .await
        .expect("read whole contents again")
    {
        assert_eq!(*again, bytes[..2 * MEDIA_ALIGN], "attempt {attempt}");
        attempt += 1;
        assert!(attempt < 100, "reading again has an end");
    }
    store.complete(id, bytes.clone()).await.expect("complete what is whole");
    let got = store.get(id, 0, narrow(bytes.len())).await.expect("read what was completed");
    assert_eq!(*got, **bytes);
}

fn narrow(len: usize) -> u32 {
    u32::try_from(len).expect("a segment fits 32 bits")
}

/// The ring keeps the newest lap at every position; appends may overlap in time.
pub async fn journal(store: &dyn JournalStore) {
    let (capacity, block) = (store.capacity(), MEDIA_ALIGN as u64);
    assert!(capacity >= 8 * block && capacity.is_multiple_of(block));
    let mut rng = Rng::new(2);
    let (first, second) = (noise(&mut rng, MEDIA_ALIGN), noise(&mut rng, 3 * MEDIA_ALIGN));
    let both = (store.append(0, first.clone()), store.append(block, second.clone()));
    both.1.await.expect("append");
    both.0.await.expect("append beside another");
    let got = store.read(0, narrow(4 * MEDIA_ALIGN)).await.expect("read two frames");
    assert_eq!(got[..MEDIA_ALIGN], *first);
    assert_eq!(got[MEDIA_ALIGN..], *second);
    // The last block, then the first of the next lap.
    let (last, lap) = (noise(&mut rng, MEDIA_ALIGN), noise(&mut rng, MEDIA_ALIGN));
    store.append(capacity - block, last.clone()).await.expect("append at the end");
    store.append(capacity, lap.clone()).await.expect("append to the next lap");
    let read_block = |position| store.read(position, narrow(MEDIA_ALIGN));
    assert_eq!(*read_block(capacity - block).await.expect("read the last block"), *last);
    assert_eq!(*read_block(capacity).await.expect("read the next lap"), *lap);
    assert_eq!(*read_block(0).await.expect("read through the lap before"), *lap);
    assert_eq!(*read_block(block).await.expect("read a neighbour"), second[..MEDIA_ALIGN]);
    store.settle().await.expect("settle");
    assert_eq!(*read_block(capacity).await.expect("read what was settled"), *lap);
    assert!(store.copies() >= 1, "frames are somewhere");
    for copy in 0..store.copies() {
        store.restore(capacity, lap.clone(), copy).await.expect("restore a copy");
        if store.copy_since(copy) <= capacity {
            let got = store.read_copy(capacity, narrow(MEDIA_ALIGN), copy).await;
            assert_eq!(*got.expect("read a copy"), *lap, "copy {copy}");
        }
    }
}

/// Roots begin empty, change only by compare-and-swap, and hold every length up to their bound.
pub async fn roots(store: &dyn RootStore, key: RootKey) {
    assert_eq!(store.read(key).await.expect("read a new root"), (RootVersion(0), Vec::new()));
    let max = store.bytes_max() as usize;
    let mut version = RootVersion(0);
    let mut rng = Rng::new(3);
    for len in [1, 0, max, MEDIA_ALIGN.min(max), 17] {
        let bytes = noise(&mut rng, len).to_vec();
        let next = store.replace(key, version, bytes.clone()).await.expect("replace");
        assert!(next > version, "versions grow");
        assert_eq!(store.read(key).await.expect("read"), (next, bytes.clone()));
        let stale = store.replace(key, version, vec![1]).await;
        assert_eq!(stale.expect_err("a stale version").kind(), ErrorKind::Conflict);
        assert_eq!(store.read(key).await.expect("read again"), (next, bytes));
        version = next;
    }
    let long = store.replace(key, version, vec![0; max + 1]).await;
    assert_eq!(long.expect_err("longer than the bound").kind(), ErrorKind::Invalid);
    // Of two at once, one wins.
    let (one, two) = (store.replace(key, version, vec![1]), store.replace(key, version, vec![2]));
    let won = futures_util::future::join(one, two).await;
    assert_eq!(u32::from(won.0.is_ok()) + u32::from(won.1.is_ok()), 1, "{won:?}");
}

/// The only owner may write.
pub fn fence(fence: &dyn Fence) {
    fence.check().expect("nobody else owns the pool");
}
