//! Sends one snapshot: whole, or as what changed since one that the target has. Then both are read and compared
//! (MIGRATE-4), and only then the target gets a snapshot with this identity: what was not compared to the end is
//! compared when it is gone on with.
//!
//! MIGRATE-COPY-1. A whole snapshot that was sent in part is gone on with: what the target holds already is compared,
//!     up to the first byte that it lacks. A part of a difference is undone and sent anew, for nobody can tell from
//!     which snapshot it counted; a target that has any snapshot holds none other.

use std::iter::Peekable;

use hyper::Method;
use varve_access_admin::v1::{BeginReceive, EndReceive, Extent, Snapshot, Volume};
use varve_access_admin::volume_path;
use varve_client::{Extents, Failure, Progress, Result};
use varve_types::{ByteCount, ErrorKind};

use super::side::{MigrationRun, MigrationSide, own_name, query, soon, soon_at_all};
use crate::export::{BLOCK_BYTES, read_extents};
use crate::import::holds;
use crate::nbd::{Nbd, REQUEST_BYTES_MAX};

/// What is sent: a snapshot of a volume, and the one from which changes count.
pub(super) struct SentSnapshot<'a> {
    pub(super) run: &'a MigrationRun,
    pub(super) volume: &'a str,
    pub(super) snapshot: &'a Snapshot,
    pub(super) base: Option<&'a Snapshot>,
}

/// Connects to an export; who was connected before may take a moment to be gone.
fn attach(side: &MigrationSide, export: &str) -> Result<Nbd> {
    soon_at_all(|| Nbd::attach(&side.client, side.nbd.as_ref(), export))
}

/// Connects to a snapshot, which is not deleted while it is open: it is this one from then on, or another took its name
/// before.
fn attach_to(side: &MigrationSide, snapshot: &Snapshot) -> Result<Nbd> {
    let nbd = attach(side, &snapshot.name)?;
    side.check_identity(snapshot)?;
    Ok(nbd)
}

impl SentSnapshot<'_> {
    /// Sends it; how many bytes it took.
    pub(super) fn send(&self, watch: &Progress) -> Result<u64> {
        let MigrationRun { source, target, .. } = self.run;
        let before = target.volume(self.volume)?;
        let resumes = self.clear(before.as_ref())?;
        self.begin()?;
        let mut from = attach_to(source, self.snapshot)?;
        let mut to = attach(target, &self.run.export(self.volume))?;
        let sizes = (from.size_bytes(), to.size_bytes(), self.snapshot.size_bytes);
        if sizes.0 != sizes.1 || sizes.0 != sizes.2 {
            return Err(Failure::new(format!(
                "{} is of {} at the source and of {} at the target",
                self.snapshot.name,
                ByteCount(sizes.0),
                ByteCount(sizes.1)
            ))
            .hint("run the command again; if that does not help, --cancel it and begin anew"));
        }
        let sent_bytes = self.copy(&mut from, &mut to, resumes, watch)?;
        self.compare(&mut from, &mut to, watch)?;
        to.end()?;
        from.end()?;
        let path = format!("{}/received", volume_path(self.volume));
        let identity = self.snapshot.identity.clone();
        let arriving = self.run.arriving();
        let snapshot = own_name(self.snapshot).to_owned();
        let end = EndReceive { identity, snapshot, expects: Some(arriving.clone()) };
        target.client.send::<Snapshot>(Method::POST, &path, &end)?;
        if self.snapshot.protected {
            target.protect(self.snapshot, true, Some(&arriving))?;
        }
        Ok(sent_bytes)
    }

    /// Undoes what was sent of another snapshot, or of a difference (MIGRATE-COPY-1); whether a part of this one is
    /// there.
    fn clear(&self, before: Option<&Volume>) -> Result<bool> {
        let target = &self.run.target;
        let Some(before) = before else { return Ok(false) };
        match (self.base, &before.receiving) {
            (None, Some(receiving)) if *receiving == self.snapshot.identity => Ok(true),
            (None, _) => {
                let given_up = self.run.given_up();
                target.step(self.volume, Some(&self.run.arriving()), Some(given_up.clone()))?;
                target.delete_volume(self.volume, &given_up)?;
                Ok(false)
            }
            (Some(base), Some(_)) => {
                target.roll_back(self.volume, base, self.run.arriving()).map(|()| false)
            }
            (Some(_), None) => Ok(false),
        }
    }

    fn begin(&self) -> Result<()> {
        let target = &self.run.target;
        let path = format!("{}/receive", volume_path(self.volume));
        let begin = BeginReceive {
            identity: self.snapshot.identity.clone(),
            from: self.base.map(|base| base.identity.clone()),
            size_bytes: self.snapshot.size_bytes,
            block_size_bytes: self.snapshot.block_size_bytes,
            expects: Some(self.run.arriving()),
        };
        let send = || target.client.send::<Volume>(Method::POST, &path, &begin).map(drop);
        match (soon(send), self.base) {
            (Err(failure), Some(base)) if failure.is(ErrorKind::Conflict) => {
                // Something was written that is not of this volume.
                target.roll_back(self.volume, base, self.run.arriving())?;
                send()
            }
            (begun, _) => begun,
        }
    }

    /// What is to be sent.
    fn extents(&self) -> Extents<'_> {
        Extents::of(&self.run.source.client, self.snapshot, self.base)
    }

    /// What the target's part says it has of it.
    fn extents_here(&self) -> Extents<'_> {
        let moves = query(&self.run.arriving());
        Extents::of_moving(&self.run.target.client, self.volume, self.base, &moves)
    }

    fn stopped(&self, watch: &Progress) -> Option<Failure> {
        watch.is_stopped().then(|| {
            Failure::new(format!("interrupted while {} was sent", self.volume))
                .hint("the same command goes on where it ended; --cancel gives it up")
        })
    }

    fn copy(&self, from: &mut Nbd, to: &mut Nbd, resumes: bool, watch: &Progress) -> Result<u64> {
        let (mut sent_bytes, mut compares) = (0, resumes);
        let zeros = self.base.is_some();
        let extents = self.extents();
        let take = |found: &varve_nbd::FoundData| {
            for (at, run, is_zero) in runs(&found.data) {
                let offset = found.offset + at as u64;
                match is_zero {
                    true if zeros => to.send_zeroes(offset, run.len() as u64)?,
                    true => {}
                    false => {
                        compares = compares && holds(to, offset, run)?; // MIGRATE-COPY-1
                        if !compares {
                            while !to.has_room() {
                                to.next()?;
                            }
                            to.send_write(offset, run)?;
                        }
                        sent_bytes += run.len() as u64;
                    }
                }
            }
            watch.did_bytes(found.data.len() as u64);
            Ok(())
        };
        read_extents(extents, 0, from, || self.stopped(watch), take)?;
        to.drain()?;
        Ok(sent_bytes)
    }

    /// Reads what was sent, and what the target says it has, at both, and compares.
    fn compare(&self, there: &mut Nbd, here: &mut Nbd, watch: &Progress) -> Result<()> {
        let both = Union { one: self.extents().peekable(), other: self.extents_here().peekable() };
        for extent in both {
            let Extent { offset, len } = extent?;
            let (mut at, end) = (offset, offset.saturating_add(len).min(there.size_bytes()));
            while at < end {
                if let Some(failure) = self.stopped(watch) {
                    return Err(failure);
                }
                if !there.has_room() {
                    self.compare_next(there, here)?;
                }
                let len = usize::try_from(end - at).unwrap_or(usize::MAX).min(REQUEST_BYTES_MAX);
                there.send_read(at, len)?;
                here.send_read(at, len)?;
                at += len as u64;
            }
        }
        while self.compare_next(there, here)? {}
        Ok(())
    }

    fn compare_next(&self, there: &mut Nbd, here: &mut Nbd) -> Result<bool> {
        let (Some(one), Some(other)) = (there.next()?, here.next()?) else { return Ok(false) };
        if one.data != other.data {
            let name = &self.snapshot.name;
            let at = one.data.iter().zip(&other.data).position(|(a, b)| a != b).unwrap_or(0);
            let at = one.offset + at as u64;
            return Err(Failure::new(format!("{name} differs at byte {at} between the two pools"))
                .hint("--cancel the move and begin anew; the source is whole. `varve check` shows whether the target's drives are"));
        }
        Ok(true)
    }
}

/// Runs of blocks that are data or zeros: where they begin, their bytes, and whether these are zeros.
fn runs(data: &[u8]) -> Vec<(usize, &[u8], bool)> {
    let mut runs: Vec<(usize, &[u8], bool)> = Vec::new();
    for (number, block) in data.chunks(BLOCK_BYTES).enumerate() {
        let (at, is_zero) = (number * BLOCK_BYTES, block.iter().all(|byte| *byte == 0));
        match runs.last_mut() {
            Some((begin, run, kind)) if *kind == is_zero => {
                *run = data.get(*begin..at + block.len()).unwrap_or_default();
            }
            _ => runs.push((at, block, is_zero)),
        }
    }
    runs
}

/// What one of two lists of extents has, in order, once.
struct Union<A: Iterator, B: Iterator> {
    one: Peekable<A>,
    other: Peekable<B>,
}

/// Takes the next extent, if it begins at or before `end`; an error in any case.
fn take_until<I: Iterator<Item = Result<Extent>>>(
    from: &mut Peekable<I>,
    end: u64,
) -> Option<Result<Extent>> {
    from.next_if(|next| next.as_ref().map_or(true, |extent| extent.offset <= end))
}

impl<A, B> Iterator for Union<A, B>
where
    A: Iterator<Item = Result<Extent>>,
    B: Iterator<Item = Result<Extent>>,
{
    type Item = Result<Extent>;

    fn next(&mut self) -> Option<Result<Extent>> {
        let begin = |next: Option<&Result<Extent>>| match next {
            None => u64::MAX,
            Some(Ok(extent)) => extent.offset,
            Some(Err(_)) => 0,
        };
        let first = match begin(self.one.peek()) <= begin(self.other.peek()) {
            true => self.one.next()?,
            false => self.other.next()?,
        };
        let Extent { offset, len } = match first {
            Ok(extent) => extent,
            failed => return Some(failed),
        };
        let mut end = offset.saturating_add(len);
        while let Some(more) =
            take_until(&mut self.one, end).or_else(|| take_until(&mut self.other, end))
        {
            match more {
                Ok(more) => end = end.max(more.offset.saturating_add(more.len)),
                failed => return Some(failed),
            }
        }
        Some(Ok(Extent { offset, len: end - offset }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extents(list: &[(u64, u64)]) -> Vec<Extent> {
        list.iter().map(|(offset, len)| Extent { offset: *offset, len: *len }).collect()
    }

    fn union(one: &[(u64, u64)], other: &[(u64, u64)]) -> Vec<Extent> {
        let of = |list| extents(list).into_iter().map(Ok).peekable();
        Union { one: of(one), other: of(other) }.map(|extent| extent.ok().unwrap()).collect()
    }

    #[test]
    fn what_either_side_has_is_compared_once() {
        assert_eq!(union(&[], &[]), []);
        assert_eq!(union(&[(0, 8), (16, 8)], &[]), extents(&[(0, 8), (16, 8)]));
        assert_eq!(union(&[(16, 8)], &[(0, 8)]), extents(&[(0, 8), (16, 8)]));
        assert_eq!(union(&[(0, 8), (20, 4)], &[(4, 16), (40, 1)]), extents(&[(0, 24), (40, 1)]));
        assert_eq!(union(&[(0, 100)], &[(1, 2), (5, 2), (100, 1)]), extents(&[(0, 101)]));
    }

    #[test]
    fn an_error_of_either_side_ends_the_comparison() {
        let failed = || vec![Err(Failure::new("gone"))].into_iter().peekable();
        let good = || extents(&[(0, 8)]).into_iter().map(Ok).peekable();
        assert!(Union { one: failed(), other: good() }.any(|extent| extent.is_err()));
        assert!(Union { one: good(), other: failed() }.any(|extent| extent.is_err()));
    }

    #[test]
    fn zeros_are_told_from_data() {
        let block = |byte: u8| vec![byte; BLOCK_BYTES];
        let data = [block(0), block(0), block(1), block(2), block(0), vec![7; 10]].concat();
        let found: Vec<_> =
            runs(&data).iter().map(|(at, run, zero)| (*at, run.len(), *zero)).collect();
        let b = BLOCK_BYTES;
        let expected =
            [(0, 2 * b, true), (2 * b, 2 * b, false), (4 * b, b, true), (5 * b, 10, false)];
        assert_eq!(found, expected);
        assert!(runs(&[]).is_empty());
    }
}
