//! Appends to all current copies of a journal, and puts another copy in the place of one that is lost or silent.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use futures_util::StreamExt;
use futures_util::future::{Either, select};
use futures_util::stream::FuturesUnordered;
use varve_media::planted::{Bug, planted};
use varve_media::{Error, IoFuture, Persist, Result};
use varve_reactor::{Nanos, Notify};
use varve_stdx::BufSlice;
use varve_types::ErrorKind;

use super::JournalPatience;
use super::copies::{JournalCopies, copy_place};
use crate::change::Change;
use crate::class::MediumKinds;
use crate::exposure::is_readable;
use crate::format::{
    DriveRecord, DriveRoles, DriveState, DriveTable, JournalCopy, JournalCopyState,
    JournalPlaceKind,
};
use crate::handles::DriveHandle;
use crate::ids::{DriveNumber, Epoch};
use crate::plan::{journal_kinds, takes_new_places};
use crate::view::LayoutView;

/// Of the last 8 appends, so many late ones are too many.
const LATE_MAX: u32 = 4;

/// How long no other copy is asked for after there was no drive for one: room comes back without a sign of it.
const ASK_AGAIN_NANOS: u64 = Nanos::seconds(1);

/// A drive that has no copy, as none has the number: only a copy is to come.
const NO_COPY: u8 = DriveNumber::COUNT - 1;

/// What tells copies apart.
#[derive(Clone, Copy, PartialEq, Eq)]
struct CopyKey {
    drive: DriveNumber,
    place: JournalPlaceKind,
}

impl CopyKey {
    const fn of(copy: &JournalCopy) -> Self {
        Self { drive: copy.drive, place: copy.place }
    }
}

/// A copy that is to end.
struct EndedCopy {
    key: CopyKey,
    until: u64,
}

/// How the write to one copy ended.
struct CopyOutcome {
    copy: JournalCopy,
    result: Result<()>,
}

/// When a copy had a frame.
#[derive(Clone, Copy)]
struct CopyAnswer {
    at: Nanos,
    drive: DriveNumber,
}

/// An append that was not answered, or was while an earlier one was not: a copy that comes in before it needs it.
struct AppendEntry {
    bytes: BufSlice,
    durable_on: Vec<CopyKey>,
    is_answered: bool,
}

#[derive(Default)]
struct AppendState {
    /// By position. As many as callers have under way, and those behind the first of them.
    entries: BTreeMap<u64, AppendEntry>,
    /// Behind all appends that began; 0 while that is not known.
    end: u64,
    /// No replay begins before it.
    tail: u64,
    /// A bit for each of the last 8 appends of a drive: whether it was late.
    lateness: BTreeMap<DriveNumber, u8>,
    /// The first position of a copy that is being asked for: what lies behind is not answered without it.
    substitute_since: Option<u64>,
    /// When there was no drive for a substitute.
    refused_at: Option<Nanos>,
    /// Copies with writes that may land yet, each as often as it has such writes.
    open_writes: Vec<CopyKey>,
    /// Current copies at the last look.
    seen: Vec<CopyKey>,
    is_trimming: bool,
}

struct WriterInner {
    copies: JournalCopies,
    patience: JournalPatience,
    state: RefCell<AppendState>,
    /// A substitute came, or did not.
    substituted: Notify,
    losses: Cell<u64>,
    losses_told: Cell<u64>,
    lost: Notify,
    /// Epoch of the table for which a copy on a slow drive was looked for another drive.
    slow_asked: Cell<Epoch>,
    /// For which tables copies were asked to go to drives of another kind.
    kinds_asked: Cell<KindsAsked>,
}

/// How often copies were asked to go to drives of another kind.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct KindsAsked {
    /// Epoch of the drive table.
    table: Epoch,
    /// Epoch of the journal's record when it was asked last.
    record: u64,
    /// How often, by that table.
    count: usize,
}

/// Appends to a journal.
pub(super) struct JournalWriter {
    inner: Rc<WriterInner>,
}

impl JournalWriter {
    pub(super) fn new(copies: JournalCopies, patience: JournalPatience) -> Self {
        let seen = copies.current().iter().map(CopyKey::of).collect();
        let state = RefCell::new(AppendState { seen, ..AppendState::default() });
        let (losses, losses_told) = (Cell::new(0), Cell::new(0));
        let (substituted, lost) = (Notify::new(), Notify::new());
        let inner = WriterInner {
            copies,
            patience,
            state,
            substituted,
            losses,
            losses_told,
            lost,
            slow_asked: Cell::default(),
            kinds_asked: Cell::default(),
        };
        Self { inner: Rc::new(inner) }
    }

    /// Writes a frame to all current copies (JOURNAL-COPIES-1). It is under way when this returns.
    pub(super) fn append(&self, position: u64, bytes: BufSlice) -> IoFuture<'static, ()> {
        let inner = Rc::clone(&self.inner);
        inner.begin(position, &bytes);
        let reactor = inner.copies.reactor().clone();
        // MEDIA-4: it goes on when the future is dropped.
        Box::pin(reactor.spawn_join(async move {
            let result = inner.write_everywhere(position, &bytes).await;
            inner.end(position);
            result
        }))
    }

    /// No replay begins before `tail`, and the next append is at `head` or behind it.
    pub(super) fn note_tail(&self, tail: u64, head: u64) {
        let inner = &self.inner;
        let mut state = inner.state.borrow_mut();
        let was_unknown = state.end == 0;
        state.tail = state.tail.max(tail);
        state.end = state.end.max(head);
        drop(state);
        if was_unknown {
            inner.look_after_idle_copies();
        } else {
            inner.trim();
        }
    }

    /// Returns when a copy was lost since the last time that it returned.
    pub(super) async fn exposed(&self) {
        let inner = &self.inner;
        loop {
            let (lost, changed) = (inner.lost.notified(), inner.copies.tables().changed());
            inner.look_for_losses();
            inner.look_after_idle_copies();
            if inner.losses_told.replace(inner.losses.get()) != inner.losses.get() {
                return;
            }
            select(lost, changed).await;
        }
    }
}

impl WriterInner {
    fn begin(self: &Rc<Self>, position: u64, bytes: &BufSlice) {
        let mut state = self.state.borrow_mut();
        let entry =
            AppendEntry { bytes: bytes.clone(), durable_on: Vec::new(), is_answered: false };
        state.entries.insert(position, entry);
        state.end = state.end.max(position + bytes.len() as u64);
        // What is a lap behind is written over.
        state.tail = state.tail.max(position.saturating_sub(self.copies.lane_bytes()));
        drop(state);
        self.look_for_losses();
        self.look_after_copies();
    }

    fn end(&self, position: u64) {
        let mut state = self.state.borrow_mut();
        if let Some(entry) = state.entries.get_mut(&position) {
            entry.is_answered = true;
        }
        while state.entries.first_key_value().is_some_and(|(_, entry)| entry.is_answered) {
            state.entries.pop_first();
        }
    }

    /// Notes that a copy which was current is not any more: what the journal holds has a copy less.
    fn look_for_losses(&self) {
        let now: Vec<CopyKey> = self.copies.current().iter().map(CopyKey::of).collect();
        let before = std::mem::replace(&mut self.state.borrow_mut().seen, now.clone());
        if before.iter().any(|copy| !now.contains(copy)) {
            self.note_loss();
        }
    }

    /// Has the shard seal what the journal holds.
    fn note_loss(&self) {
        self.losses.set(self.losses.get() + 1);
        self.lost.notify_all();
    }

    /// Asks for a copy where there are fewer than there should be, and lets go of former ones that the ring has passed.
    fn look_after_copies(self: &Rc<Self>) {
        let view = self.copies.view();
        let table = view.drives();
        let wanted = wanted_copies(&view);
        if self.copies.current().len() < wanted {
            let shard = self.copies.shard();
            let record = view.journals().find(|record| record.shard == shard);
            let gone = record
                .and_then(|record| record.current().find(|copy| !is_readable(table, copy.drive)));
            let none = DriveNumber::new(NO_COPY).expect("below 255");
            let without = gone.map_or(none, |copy| copy.drive);
            let this = Rc::clone(self);
            self.copies.reactor().spawn(async move {
                this.substitute(without, Some(wanted)).await;
            });
        } else if let Some(copy) = self.copies.current().into_iter().find(|copy| {
            let drive = table.drive(copy.drive);
            drive.is_some_and(|drive| {
                drive.state == DriveState::Leaving
                    || self.ends_slow(&view, drive)
                    || self.ends_misplaced(&view, drive)
            })
        }) {
            // Former, it goes once what it has is in segments, and the drive can go.
            let this = Rc::clone(self);
            self.copies.reactor().spawn(async move {
                this.substitute(copy.drive, None).await;
            });
        }
        self.trim();
    }

    /// Whether a copy is to go as its drive is slow: asked for once for each table, where another drive takes copies.
    fn ends_slow(&self, view: &LayoutView, drive: &DriveRecord) -> bool {
        let epoch = view.drives().epoch;
        if !drive.is_slow || self.slow_asked.get() == epoch {
            return false;
        }
        self.slow_asked.set(epoch);
        self.has_taker(view.drives(), MediumKinds::ALL)
    }

    /// Whether a drive of some kinds takes a copy that has none.
    fn has_taker(&self, table: &DriveTable, kinds: MediumKinds) -> bool {
        let has_copy = |number| self.copies.current().iter().any(|copy| copy.drive == number);
        table.drives.iter().any(|drive| {
            takes_new_places(drive, DriveRoles::JOURNALS)
                && kinds.has(drive.kind)
                && !has_copy(drive.number)
        })
    }

    /// Whether a copy is to go as journals are to be on drives of another kind, of which one takes copies. Asked for
    /// once for each record, and for each table as often as there are copies: those drives may have no room.
    fn ends_misplaced(&self, view: &LayoutView, drive: &DriveRecord) -> bool {
        let (drives, wanted) = (view.drives(), view.drives().journal_kinds);
        // Nearly always the first: appends look at this.
        if wanted.has(drive.kind)
            || journal_kinds(drives) != wanted
            || !self.has_taker(drives, wanted)
        {
            return false;
        }
        let (table, record) = (drives.epoch, self.copies.journal_epoch());
        let before = self.kinds_asked.get();
        let count = if before.table == table { before.count } else { 0 };
        let is_asked = before.table == table && before.record == record;
        if is_asked || count >= wanted_copies(view) {
            return false;
        }
        self.kinds_asked.set(KindsAsked { table, record, count: count + 1 });
        true
    }

    /// Where nothing is appended, copies are looked after when the journal has opened, and when tables change. Before
    /// that nobody here knows which positions a new copy would lack.
    fn look_after_idle_copies(self: &Rc<Self>) {
        let is_known = self.state.borrow().end > 0;
        if is_known {
            self.look_after_copies();
        }
    }

    /// A former copy has nothing that is needed once the tail has passed its end (JOURNAL-COPIES-5). Its place may have
    /// another use then, so no write to it may land any more (JOURNAL-COPIES-4). A current copy that is one more than
    /// are wanted ends.
    fn trim(self: &Rc<Self>) {
        let tail = self.state.borrow().tail;
        let is_passed = |copy: &JournalCopy| match copy.state {
            JournalCopyState::Former { until } => {
                let is_needed = until > tail && !planted(Bug::FormerCopyForgotten);
                !is_needed && (!self.may_change(copy) || planted(Bug::FormerCopyFreedEarly))
            }
            JournalCopyState::Current => false,
        };
        let view = self.copies.view();
        let shard = self.copies.shard();
        let Some(record) = view.journals().find(|record| record.shard == shard) else { return };
        let excess = self.excess(wanted_copies(&view));
        if !record.copies.iter().any(is_passed) && excess.is_none() {
            return;
        }
        if std::mem::replace(&mut self.state.borrow_mut().is_trimming, true) {
            return;
        }
        let mut copies = record.copies.clone();
        copies.retain(|copy| !is_passed(copy));
        if let Some(EndedCopy { key, until }) = excess {
            let ended = copies.iter_mut().filter(|copy| CopyKey::of(copy) == key);
            ended.for_each(|copy| copy.state = JournalCopyState::Former { until });
            // It is no loss.
            self.state.borrow_mut().seen.retain(|seen| *seen != key);
        }
        let change = Change::JournalCopies { shard, expected: record.journal_epoch, copies };
        self.copies.reactor().spawn(Rc::clone(self).replace_copies(change));
    }

    /// Has the record replaced, and looks once more: others may be passed meanwhile, and what was refused, as another
    /// change came first, is asked for again, whether or not anything is appended.
    async fn replace_copies(self: Rc<Self>, change: Change) {
        let replaced = self.copies.tables().change(change).await;
        self.state.borrow_mut().is_trimming = false;
        let Err(error) = replaced else { return self.trim() };
        tracing::debug!(%error, "copies of a journal that are not needed stay in its record");
        let reactor = self.copies.reactor().clone();
        let journal = Rc::downgrade(&self);
        drop(self); // Who closes the journal does not wait for this.
        reactor.sleep(ASK_AGAIN_NANOS).await;
        if let Some(journal) = journal.upgrade()
            && journal.copies.tables().tables().failure().is_none()
        {
            journal.trim();
        }
    }

    /// A copy that is one more than are wanted, and the first position that it may lack: what is under way goes to the
    /// others in any case (JOURNAL-COPIES-1). One on a drive that leaves comes first, and then the latest.
    fn excess(&self, wanted: usize) -> Option<EndedCopy> {
        let current = self.copies.current();
        let state = self.state.borrow();
        // What is asked for may be there already, and its first frames not.
        if current.len() <= wanted || state.substitute_since.is_some() {
            return None;
        }
        let view = self.copies.view();
        let leaves = |copy: &JournalCopy| {
            let record = view.drives().drive(copy.drive);
            record.is_some_and(|record| record.state == DriveState::Leaving)
        };
        let copy = current.iter().max_by_key(|copy| (leaves(copy), copy.since))?;
        let until = state.first_not_on(copy);
        // One that proves nothing yet is waited for.
        (copy.since < until).then_some(EndedCopy { key: CopyKey::of(copy), until })
    }

    /// JOURNAL-COPIES-1
    async fn write_everywhere(self: &Rc<Self>, position: u64, bytes: &BufSlice) -> Result<()> {
        loop {
            self.substitute_decided(position).await;
            let current = self.copies.current();
            let mut having = current.iter().filter(|copy| copy.has(position)).peekable();
            if having.peek().is_none() {
                return Err(self.copies.none());
            }
            let lacking: Vec<JournalCopy> =
                having.filter(|copy| !self.is_durable_on(position, copy)).copied().collect();
            if lacking.is_empty() {
                return Ok(());
            }
            self.write_to(position, bytes, lacking).await?;
            if planted(Bug::AckAfterFirstCopy) {
                return Ok(());
            }
        }
    }

    /// Waits while a copy is being asked for that may have to have `position`.
    async fn substitute_decided(&self, position: u64) {
        loop {
            let decided = self.substituted.notified();
            let since = self.state.borrow().substitute_since;
            if since.is_none_or(|since| since > position) {
                return;
            }
            decided.await;
        }
    }

    /// Writes to copies at once, until none of them is both current and without an answer.
    async fn write_to(
        self: &Rc<Self>,
        position: u64,
        bytes: &BufSlice,
        copies: Vec<JournalCopy>,
    ) -> Result<()> {
        let mut drives = Vec::new();
        for copy in copies {
            if let Some(drive) = self.copies.writable(copy.drive).await? {
                drives.push((drive, copy));
            }
        }
        let open = drives.iter().map(|(_, copy)| CopyKey::of(copy)).collect();
        let is_left = Rc::new(Cell::new(false));
        let writes = drives.into_iter().map(|(drive, copy)| {
            let (this, bytes, is_left) = (Rc::clone(self), bytes.clone(), Rc::clone(&is_left));
            async move {
                if is_left.get() {
                    return CopyOutcome { copy, result: Ok(()) }; // Nobody asks for it any more.
                }
                this.write_copy(drive, copy, position, bytes).await
            }
        });
        let mut writes: FuturesUnordered<_> = writes.collect();
        let result = self.await_writes(position, open, &mut writes).await;
        if !writes.is_empty() {
            // JOURNAL-COPIES-4: those that began are known to be open until they have landed.
            is_left.set(true);
            let left = async move { while writes.next().await.is_some() {} };
            self.copies.reactor().spawn(left);
        }
        result
    }

    /// Takes in how the writes of an append end, until all that are left are to former copies.
    async fn await_writes(
        self: &Rc<Self>,
        position: u64,
        mut open: Vec<CopyKey>,
        writes: &mut FuturesUnordered<impl Future<Output = CopyOutcome>>,
    ) -> Result<()> {
        let reactor = self.copies.reactor();
        let mut answers: Vec<CopyAnswer> = Vec::new();
        while self.are_current(&open) {
            let alarm = reactor.sleep(self.patience.substitute_nanos);
            let CopyOutcome { copy, result } = match select(writes.next(), alarm).await {
                Either::Left((Some(answer), _)) => answer,
                Either::Left((None, _)) => break,
                Either::Right(((), _)) => {
                    if self.is_durable_somewhere(position) {
                        for copy in open.clone() {
                            self.substitute(copy.drive, None).await;
                        }
                    }
                    continue;
                }
            };
            open.retain(|other| *other != CopyKey::of(&copy));
            match result {
                Ok(()) => {
                    self.note_durable(position, &copy);
                    answers.push(CopyAnswer { at: reactor.now(), drive: copy.drive });
                    if planted(Bug::AckAfterFirstCopy) {
                        return Ok(());
                    }
                }
                Err(error) => {
                    self.copies.fail(copy.drive, error).await?; // KEEPER-1
                    self.look_for_losses();
                    self.look_after_copies();
                }
            }
        }
        self.note_lateness(&answers);
        Ok(())
    }

    async fn write_copy(
        &self,
        drive: Rc<DriveHandle>,
        copy: JournalCopy,
        position: u64,
        bytes: BufSlice,
    ) -> CopyOutcome {
        let key = CopyKey::of(&copy);
        self.state.borrow_mut().open_writes.push(key);
        let result = match copy_place(&copy) {
            Ok(begins) => {
                let at = begins + position % self.copies.lane_bytes();
                drive.note_client();
                drive.write(at, vec![bytes], Persist::Durable).await
            }
            Err(error) => Err(error),
        };
        if result.is_ok() {
            // What failed, or had no answer, may land yet (HANDLES-1).
            let open = &mut self.state.borrow_mut().open_writes;
            let at = open.iter().position(|open| *open == key);
            open.swap_remove(at.expect("each write notes its own"));
        }
        CopyOutcome { copy, result }
    }

    /// Whether a write to a copy may land yet.
    fn may_change(&self, copy: &JournalCopy) -> bool {
        self.state.borrow().open_writes.contains(&CopyKey::of(copy))
    }

    fn are_current(&self, open: &[CopyKey]) -> bool {
        let current = self.copies.current();
        current.iter().any(|copy| open.contains(&CopyKey::of(copy)))
    }

    fn is_durable_on(&self, position: u64, copy: &JournalCopy) -> bool {
        let state = self.state.borrow();
        let entry = state.entries.get(&position);
        entry.is_some_and(|entry| entry.durable_on.contains(&CopyKey::of(copy)))
    }

    fn is_durable_somewhere(&self, position: u64) -> bool {
        let state = self.state.borrow();
        state.entries.get(&position).is_some_and(|entry| !entry.durable_on.is_empty())
    }

    fn note_durable(&self, position: u64, copy: &JournalCopy) {
        if let Some(entry) = self.state.borrow_mut().entries.get_mut(&position) {
            entry.durable_on.push(CopyKey::of(copy));
        }
    }

    /// Has a copy that is late too often replaced by another one, beside what is appended.
    fn note_lateness(self: &Rc<Self>, answers: &[CopyAnswer]) {
        let [.., before, last] = answers else { return };
        let is_late = last.at.since(before.at) >= self.patience.late_nanos;
        let mut state = self.state.borrow_mut();
        for CopyAnswer { drive, .. } in answers {
            let bits = state.lateness.entry(*drive).or_default();
            *bits = (*bits << 1) | u8::from(is_late && *drive == last.drive);
        }
        let late = state.lateness.get_mut(&last.drive).filter(|bits| bits.count_ones() >= LATE_MAX);
        if let Some(bits) = late {
            *bits = 0;
            let (this, drive) = (Rc::clone(self), last.drive);
            self.copies.reactor().spawn(async move {
                this.substitute(drive, None).await;
            });
        }
    }

    /// Asks for a copy in the place of the one on `without`: with `wanted` only while there are fewer than so many,
    /// else only while it is a current one. False when there is no drive for it.
    async fn substitute(&self, without: DriveNumber, wanted: Option<usize>) -> bool {
        loop {
            let decided = self.substituted.notified();
            if self.state.borrow().substitute_since.is_none() {
                break;
            }
            decided.await;
        }
        let current = self.copies.current();
        let ends = current.iter().find(|copy| copy.drive == without);
        let is_needed = wanted.map_or(ends.is_some(), |wanted| current.len() < wanted);
        let reactor = self.copies.reactor();
        let refused_at = self.state.borrow().refused_at;
        let is_resting = refused_at.is_some_and(|at| reactor.now().since(at) < ASK_AGAIN_NANOS);
        if !is_needed || is_resting {
            return !is_needed;
        }
        let until = {
            let mut state = self.state.borrow_mut();
            let until = match ends {
                Some(copy) => state.first_not_on(copy),
                // JOURNAL-COPIES-1: what is under way gets the new copy too.
                None => state.entries.keys().next().copied().unwrap_or(state.end),
            };
            state.substitute_since = Some(until);
            until
        };
        let (shard, expected) = (self.copies.shard(), self.copies.journal_epoch());
        let change = Change::JournalSubstitute { shard, expected, without, until };
        let answer = match self.copies.tables().change(change).await {
            Ok(_) => self.catch_up(until).await,
            Err(error) => Err(error),
        };
        let mut state = self.state.borrow_mut();
        state.substitute_since = None;
        let has_no_room = |error: &Error| error.kind() == ErrorKind::NoSpace;
        let is_refused = answer.as_ref().err().is_some_and(has_no_room);
        state.refused_at = is_refused.then(|| reactor.now());
        drop(state);
        self.substituted.notify_all();
        self.look_for_losses();
        if answer.is_ok() {
            self.note_loss(); // What was answered before has a copy less, whenever the last one was noted.
        }
        if let Err(error) = &answer {
            tracing::warn!(shard = shard.0, drive = without.get(), %error, "no other journal copy");
        }
        answer.is_ok()
    }

    /// Writes to copies that came in what they must have and was answered already.
    async fn catch_up(&self, since: u64) -> Result<()> {
        let answered: Vec<(u64, BufSlice)> = {
            let state = self.state.borrow();
            let entries = state.entries.range(since..).filter(|(_, entry)| entry.is_answered);
            entries.map(|(position, entry)| (*position, entry.bytes.clone())).collect()
        };
        for (position, bytes) in answered {
            for copy in self.copies.current() {
                if !copy.has(position) || self.is_durable_on(position, &copy) {
                    continue;
                }
                let Some(drive) = self.copies.writable(copy.drive).await? else { continue };
                let written = self.write_copy(drive, copy, position, bytes.clone()).await;
                match written.result {
                    Ok(()) => self.note_durable(position, &copy),
                    Err(error) => self.copies.fail(copy.drive, error).await?,
                }
            }
        }
        Ok(())
    }
}

/// While zones are converted to a class that survives less, those that survive more are there still.
fn wanted_copies(view: &LayoutView) -> usize {
    usize::from(view.drives().drops_max) + 1
}

impl AppendState {
    /// The first position that a copy may lack.
    fn first_not_on(&self, copy: &JournalCopy) -> u64 {
        let key = CopyKey::of(copy);
        let mut entries = self.entries.iter();
        let lacking = entries
            .find(|(position, entry)| copy.has(**position) && !entry.durable_on.contains(&key));
        lacking.map_or(self.end, |(position, _)| *position).max(copy.since)
    }
}
