//! MD5 of the bodies of all requests. Hashed together, up to eight bodies cost little more than one
//! ([`varve_stdx::Md5`]), so a body puts its bytes off until it has [`PUT_OFF_BYTES_MAX`] or ends; then it hashes them,
//! and takes along what others have put off.
//!
//! Before it hashes it steps back once, so that tasks that are ready put off theirs first; no task goes through a whole
//! body while others have none. Nothing waits for others to come: a lone body hashes as much as without others, when it
//! has to.
//!
//! 1. What a body has put off stays in the queue until it is hashed, also while a task hashes it: if that task panics,
//!    nothing is lost.
//! 2. Only one task at a time hashes a body: it is `taken`. Tasks hash without awaiting, so one that goes away leaves
//!    nothing taken.
//! 3. A body has at most [`PUT_OFF_BYTES_MAX`] and one piece in the queue, all together have [`QUEUE_BYTES_MAX`] and
//!    one piece each, and what is gathered, up to two of [`GATHERED_BYTES`]. They go with the body.

use std::cmp::Reverse;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::{Buf, Bytes, BytesMut};
use tokio::sync::Notify;
use varve_stdx::Md5;

/// Bytes of a body that are put off at most. Half of them are hashed in one go, so that others that began at other
/// times have some too; alone they take a processor 0.15 ms.
const PUT_OFF_BYTES_MAX: usize = 128 << 10;
/// Bytes of all bodies that are put off at most.
const QUEUE_BYTES_MAX: usize = 8 << 20;
/// Pieces with fewer bytes are gathered into larger ones.
const PIECE_BYTES_MIN: usize = 16 << 10;
/// Bytes of gathered pieces: what each body holds beside the queue.
const GATHERED_BYTES: usize = 16 << 10;
/// The rest of a body with fewer bytes is hashed alone: that costs less than the queue.
const REST_BYTES_MIN: usize = 1 << 10;
/// Bodies that are hashed together at most.
const TOGETHER_MAX: usize = 8;

const _: () = assert!(PIECE_BYTES_MIN <= GATHERED_BYTES && GATHERED_BYTES <= PUT_OFF_BYTES_MAX);

/// Bodies that have put off bytes.
#[derive(Default)]
pub(crate) struct Md5Queue {
    /// Held for moments, and no other lock within.
    waiting: Mutex<QueuedBodies>,
}

#[derive(Default)]
struct QueuedBodies {
    bodies: HashMap<u64, QueuedBody>,
    /// Bytes of all of them.
    bytes: usize,
    /// Ids given out.
    ids: u64,
}

struct QueuedBody {
    md5: Md5,
    pieces: VecDeque<Bytes>,
    /// Bytes of all pieces.
    bytes: usize,
    taken: bool,
    /// The body is no longer taken. Only its own task waits.
    back: Arc<Notify>,
}

/// The MD5 of a body.
pub(crate) struct BodyMd5<'a> {
    queue: &'a Md5Queue,
    gathered: BytesMut,
    /// In the queue, from the first piece on.
    id: Option<u64>,
}

/// Bodies that a task hashes.
struct HashBatch<'a> {
    queue: &'a Md5Queue,
    taken: Vec<BatchBody>,
}

struct BatchBody {
    id: u64,
    md5: Md5,
    pieces: VecDeque<Bytes>,
    /// Bytes of the pieces that have been hashed.
    hashed: usize,
}

impl<'a> BodyMd5<'a> {
    pub(crate) fn new(queue: &'a Md5Queue) -> Self {
        Self { queue, gathered: BytesMut::new(), id: None }
    }

    /// Takes in the next bytes of the body.
    pub(crate) async fn update(&mut self, data: Bytes) {
        if self.gathered.is_empty() && data.len() >= PIECE_BYTES_MIN {
            return self.put(data).await;
        }
        self.gathered.extend_from_slice(&data);
        if self.gathered.len() >= GATHERED_BYTES {
            let gathered = self.gathered.split().freeze();
            self.put(gathered).await;
        }
    }

    /// The MD5 of all of them.
    pub(crate) async fn finish(mut self) -> [u8; 16] {
        if self.gathered.len() >= REST_BYTES_MIN {
            let rest = self.gathered.split().freeze();
            self.put(rest).await;
        }
        let mut md5 = match self.id {
            None => Md5::default(),
            Some(id) => {
                self.queue.hash(id, 0).await;
                self.id = None;
                self.queue.lock().remove(id).map(|body| body.md5).unwrap_or_default()
            }
        };
        md5.update(&self.gathered);
        md5.finish()
    }

    async fn put(&mut self, data: Bytes) {
        let (id, left_max) = self.queue.lock().put(self.id, data);
        self.id = Some(id);
        self.queue.hash(id, left_max).await;
    }
}

impl Drop for BodyMd5<'_> {
    fn drop(&mut self) {
        if let Some(id) = self.id {
            self.queue.lock().remove(id);
        }
    }
}

impl Md5Queue {
    /// Hashes the bytes of a body but `left_max`, and those of others beside them.
    async fn hash(&self, id: u64, left_max: usize) {
        let mut has_stepped_back = false;
        loop {
            let back = {
                let mut waiting = self.lock();
                let body = waiting.bodies.get(&id).expect("a body stays until its end");
                if body.bytes <= left_max {
                    return;
                }
                if !has_stepped_back {
                    None
                } else if body.taken {
                    Some(Arc::clone(&body.back))
                } else {
                    let bytes = body.bytes - left_max;
                    let taken = waiting.take(id);
                    drop(waiting);
                    return HashBatch { queue: self, taken }.hash(bytes);
                }
            };
            match back {
                Some(back) => back.notified().await,
                None => tokio::task::yield_now().await,
            }
            has_stepped_back = true;
        }
    }

    fn lock(&self) -> MutexGuard<'_, QueuedBodies> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl QueuedBodies {
    /// Puts off a piece of a body, which is new if it has no id yet. Returns the id and how many bytes it may leave put
    /// off.
    fn put(&mut self, id: Option<u64>, data: Bytes) -> (u64, usize) {
        let id = id.unwrap_or_else(|| {
            self.ids += 1;
            self.ids
        });
        let body = self.bodies.entry(id).or_insert_with(|| QueuedBody {
            md5: Md5::default(),
            pieces: VecDeque::new(),
            bytes: 0,
            taken: false,
            back: Arc::default(),
        });
        self.bytes += data.len();
        body.bytes += data.len();
        body.pieces.push_back(data);
        let left_max = match body.bytes {
            _ if self.bytes > QUEUE_BYTES_MAX => 0,
            bytes if bytes < PUT_OFF_BYTES_MAX => bytes,
            _ => PUT_OFF_BYTES_MAX / 2,
        };
        (id, left_max)
    }

    /// Takes a body, which must not be taken, and those of the others that have put off most.
    fn take(&mut self, id: u64) -> Vec<BatchBody> {
        let mut others: Vec<_> = self
            .bodies
            .iter()
            .filter(|(other, body)| **other != id && !body.taken && body.bytes > 0)
            .map(|(other, body)| (Reverse(body.bytes), *other))
            .collect();
        if others.len() >= TOGETHER_MAX {
            others.select_nth_unstable(TOGETHER_MAX - 1);
            others.truncate(TOGETHER_MAX - 1);
        }
        let ids = std::iter::once(id).chain(others.into_iter().map(|(_, other)| other));
        let taken = ids.filter_map(|id| {
            let body = self.bodies.get_mut(&id)?;
            assert!(!body.taken, "a body is hashed by one task");
            body.taken = true;
            Some(BatchBody { id, md5: body.md5.clone(), pieces: body.pieces.clone(), hashed: 0 })
        });
        taken.collect()
    }

    fn remove(&mut self, id: u64) -> Option<QueuedBody> {
        let body = self.bodies.remove(&id)?;
        self.bytes -= body.bytes;
        Some(body)
    }
}

impl HashBatch<'_> {
    /// Hashes `left` bytes of the first body, and as many of each other, or all it has.
    fn hash(mut self, mut left: usize) {
        while left > 0 {
            let fronts = self.taken.iter().filter_map(|body| body.pieces.front());
            let len =
                fronts.map(Bytes::len).min().expect("a body has what is to be hashed").min(left);
            let mut messages: Vec<_> = self
                .taken
                .iter_mut()
                .filter_map(|body| Some((&mut body.md5, &body.pieces.front()?[..len])))
                .collect();
            Md5::update_together(&mut messages);
            for body in &mut self.taken {
                body.hashed += advance(&mut body.pieces, len);
            }
            left -= len;
        }
    }
}

impl Drop for HashBatch<'_> {
    /// What has been hashed leaves the queue; nothing does in a panic, which leaves a hash halfway.
    fn drop(&mut self) {
        let is_whole = !std::thread::panicking();
        let waiting = &mut *self.queue.lock();
        for taken in self.taken.drain(..) {
            // One that has gone away has left already.
            let Some(body) = waiting.bodies.get_mut(&taken.id) else { continue };
            if is_whole {
                let mut hashed = taken.hashed;
                while hashed > 0 {
                    hashed -= advance(&mut body.pieces, hashed);
                }
                body.md5 = taken.md5;
                body.bytes -= taken.hashed;
                waiting.bytes -= taken.hashed;
            }
            body.taken = false;
            body.back.notify_one();
        }
    }
}

/// Drops at most `len` bytes of the first piece; returns how many.
fn advance(pieces: &mut VecDeque<Bytes>, len: usize) -> usize {
    let Some(front) = pieces.front_mut() else { return 0 };
    let len = len.min(front.len());
    front.advance(len);
    if front.is_empty() {
        pieces.pop_front();
    }
    len
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use futures_util::poll;
    use s3s::crypto::{Checksum as _, Md5 as Reference};
    use varve_stdx::Rng;

    use super::*;

    fn random(rng: &mut Rng, len: usize) -> Bytes {
        let mut bytes = vec![0; len];
        rng.fill(&mut bytes);
        bytes.into()
    }

    /// Hashes `body` in pieces of as many bytes as a network may bring.
    async fn hashed(queue: &Md5Queue, body: Bytes, mut rng: Rng) -> [u8; 16] {
        let (mut md5, mut left) = (BodyMd5::new(queue), body);
        while !left.is_empty() {
            let most = [100, 5_000, 70_000, 300_000][rng.index(4)];
            md5.update(left.split_to(left.len().min(1 + rng.index(most)))).await;
        }
        md5.finish().await
    }

    impl Md5Queue {
        fn is_empty(&self) -> bool {
            let waiting = self.lock();
            waiting.bodies.is_empty() && waiting.bytes == 0
        }
    }

    #[tokio::test]
    async fn a_lone_body_is_hashed() {
        let (queue, mut rng) = (Md5Queue::default(), Rng::new(1));
        for len in [0, 1, 4096, 65_536, 1_000_003] {
            let body = random(&mut rng, len);
            assert_eq!(hashed(&queue, body.clone(), rng.split()).await, Reference::checksum(&body));
        }
        assert!(queue.is_empty());
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 3)]
    async fn bodies_of_many_tasks_agree_with_the_reference_while_others_go_away() {
        let (queue, mut rng) = (Arc::new(Md5Queue::default()), Rng::new(2));
        let mut tasks = Vec::new();
        for at in 0..150 {
            let len = [3_000, 50_000, 2_000_000][rng.index(3)];
            let len = rng.index(len);
            let (body, queue, rng) = (random(&mut rng, len), Arc::clone(&queue), rng.split());
            let task = tokio::spawn(async move {
                assert_eq!(hashed(&queue, body.clone(), rng).await, Reference::checksum(&body));
            });
            // Every third goes away wherever it is by then.
            tasks.push((at % 3 == 0, task));
            if at % 10 == 9 {
                tokio::task::yield_now().await;
                tasks.iter().filter(|(goes, _)| *goes).for_each(|(_, task)| task.abort());
            }
        }
        for (goes, task) in tasks {
            let ended = task.await;
            assert!(ended.is_ok() || goes && ended.is_err_and(|error| error.is_cancelled()));
        }
        assert!(queue.is_empty());
    }

    /// Bodies that have put off a piece each.
    async fn put_off<'a>(queue: &'a Md5Queue, pieces: &[Bytes]) -> Vec<BodyMd5<'a>> {
        let mut bodies = Vec::new();
        for piece in pieces {
            let mut body = BodyMd5::new(queue);
            body.update(piece.clone()).await;
            bodies.push(body);
        }
        bodies
    }

    #[tokio::test]
    async fn a_body_takes_others_along_as_far_as_it_goes() {
        let (queue, mut rng) = (Md5Queue::default(), Rng::new(3));
        let lens = [20_000, 16_384, 30_000, 20_064];
        let pieces = lens.map(|len| random(&mut rng, len));
        let mut bodies = put_off(&queue, &pieces).await;
        assert_eq!(queue.lock().bytes, lens.iter().sum::<usize>());
        assert_eq!(bodies.remove(0).finish().await, Reference::checksum(&pieces[0]));
        let left = 10_000 + 64;
        assert_eq!(queue.lock().bytes, left, "20000 bytes of each are hashed");
        for (body, piece) in bodies.into_iter().zip(&pieces[1..]) {
            assert_eq!(body.finish().await, Reference::checksum(piece));
        }
        assert!(queue.is_empty());
    }

    #[tokio::test]
    async fn what_is_put_off_is_bounded() {
        let (queue, mut rng) = (Md5Queue::default(), Rng::new(4));
        let piece = random(&mut rng, 100_000);
        let mut bodies = Vec::new();
        for _ in 0..200 {
            bodies.push(BodyMd5::new(&queue));
        }
        for _ in 0..3 {
            for body in &mut bodies {
                body.update(piece.clone()).await;
                assert!(queue.lock().bytes <= QUEUE_BYTES_MAX);
            }
            assert!(queue.lock().bodies.values().all(|body| body.bytes <= PUT_OFF_BYTES_MAX));
        }
        let reference = Reference::checksum(&piece.repeat(3));
        for body in bodies {
            assert_eq!(body.finish().await, reference);
        }
        assert!(queue.is_empty());
    }

    #[tokio::test]
    async fn a_body_that_another_task_has_taken_goes_on_until_it_must_wait() {
        let (queue, mut rng) = (Md5Queue::default(), Rng::new(5));
        let piece = random(&mut rng, 100_000);
        let mut body = put_off(&queue, std::slice::from_ref(&piece)).await.remove(0);
        let batch = HashBatch { queue: &queue, taken: queue.lock().take(1) };
        body.update(piece.slice(..20_000)).await;
        let mut finish = Box::pin(body.finish());
        assert!(poll!(&mut finish).is_pending());
        batch.hash(50_000);
        assert_eq!(queue.lock().bytes, 70_000);
        let whole = [&piece[..], &piece[..20_000]].concat();
        assert_eq!(finish.await, Reference::checksum(&whole));
    }

    #[tokio::test]
    async fn a_body_goes_away_with_its_bytes_whoever_has_taken_it() {
        let (queue, mut rng) = (Md5Queue::default(), Rng::new(6));
        let pieces = [1, 2, 3].map(|_| random(&mut rng, 50_000));
        let mut bodies = put_off(&queue, &pieces).await;
        drop(bodies.remove(0));
        assert_eq!(queue.lock().bytes, 100_000);
        let batch = HashBatch { queue: &queue, taken: queue.lock().take(2) };
        assert_eq!(batch.taken.len(), 2);
        drop(bodies.remove(0));
        batch.hash(50_000);
        assert_eq!(queue.lock().bytes, 0);
        assert_eq!(queue.lock().bodies.len(), 1);
        assert_eq!(bodies.remove(0).finish().await, Reference::checksum(&pieces[2]));
        assert!(queue.is_empty());
    }

    #[tokio::test]
    async fn a_panic_while_hashing_leaves_all_as_it_was() {
        let (queue, mut rng) = (Md5Queue::default(), Rng::new(7));
        let pieces = [1, 2].map(|_| random(&mut rng, 50_000));
        let bodies = put_off(&queue, &pieces).await;
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let mut batch = HashBatch { queue: &queue, taken: queue.lock().take(1) };
            batch.taken[1].md5.update(b"halfway");
            // More than there is to hash.
            batch.hash(usize::MAX);
        }));
        assert!(panicked.is_err());
        assert_eq!(queue.lock().bytes, 100_000);
        for (body, piece) in bodies.into_iter().zip(&pieces) {
            assert_eq!(body.finish().await, Reference::checksum(piece));
        }
    }
}
