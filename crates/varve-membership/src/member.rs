//! One node's part in the table: what it makes of what it reads, what it wants to put in its place, what it is to open and close.
//!
//! ```text
//!  outside ──joins──▶ inside ──leave()──▶ leaving ──has nothing left──▶ outside
//!                        └──others took it out──▶ given up
//! ```
//!
//! B1. Silence is counted by this node's clock, from when a read had returned that showed a beat first, and whoever raises it meanwhile makes the replacement fail
//!     that gives it up: so the beat stood still for all of that time. No clocks of two nodes are compared.
//! B2. Silence counts while this node reads regularly only. What stands in the way of its reads may stand in the way of others' beats.
//! B3. A node that was taken out does not come back: it holds nothing that is its own any more.

use std::collections::{BTreeMap, BTreeSet};

use varve_types::{PoolId, ShardId};

use crate::{Error, Node, NodeId, Result, ShardEntry, Table};

/// Pause between two beats of a node, in ns.
pub const BEAT_NS: u64 = 500_000_000;

/// A node whose beat stands still for so long is given up, in ns: as many beats as a busy cluster may swallow. It loses what it has, but no data.
pub const SILENCE_NS: u64 = 3_000_000_000;

/// Reads that lie further apart than this, in ns, are not regular (B2): some beats.
const GAP_NS: u64 = 3 * BEAT_NS;

const _: () = assert!(GAP_NS < SILENCE_NS);

/// Where a node stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Standing {
    /// Not in the table yet.
    Outside,
    /// In the table.
    Inside,
    /// On its way out.
    Leaving,
    /// Out of the table, as it wanted.
    Left,
    /// Others took it out (B3).
    GivenUp,
}

/// What a node is to do.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Orders {
    /// To be claimed and opened; then [`Member::opened`].
    pub open: Vec<ShardId>,
    /// To be closed and given back; then [`Member::closed`].
    pub close: Vec<ShardId>,
    /// To be dropped without a word: it is another's.
    pub abandon: Vec<ShardId>,
}

/// When a beat was seen first.
struct Seen {
    beat: u64,
    since_ns: u64,
}

/// One node's view of the table.
pub struct Member {
    node: Node,
    pool: PoolId,
    shard_count: u16,
    standing: Standing,
    wants_to_leave: bool,
    table: Option<Table>,
    seen: BTreeMap<NodeId, Seen>,
    silent: BTreeSet<NodeId>,
    /// When the last read had returned.
    read_ns: Option<u64>,
    /// Shards that were opened, with the epochs of their claims.
    open: BTreeMap<ShardId, u64>,
    /// Those of them that were closed again, until the table shows it.
    closed: BTreeSet<ShardId>,
    /// Those of these that the proposal under way tells of.
    said: BTreeSet<ShardId>,
    /// Shards that are being opened.
    opening: BTreeSet<ShardId>,
}

impl Member {
    /// A node that has not joined yet.
    ///
    /// # Errors
    /// [`Error::AddressTooLong`].
    pub fn new(node: Node, pool: PoolId, shard_count: u16) -> Result<Self> {
        node.check()?;
        Ok(Self {
            node,
            pool,
            shard_count,
            standing: Standing::Outside,
            wants_to_leave: false,
            table: None,
            seen: BTreeMap::new(),
            silent: BTreeSet::new(),
            read_ns: None,
            open: BTreeMap::new(),
            closed: BTreeSet::new(),
            said: BTreeSet::new(),
            opening: BTreeSet::new(),
        })
    }

    /// Its identity.
    #[must_use]
    pub fn id(&self) -> NodeId {
        self.node.id
    }

    /// Where it stands.
    #[must_use]
    pub fn standing(&self) -> Standing {
        self.standing
    }

    /// The table as it was last seen.
    #[must_use]
    pub fn table(&self) -> Option<&Table> {
        self.table.as_ref()
    }

    /// A shard as it was last seen.
    #[must_use]
    pub fn shard(&self, shard: ShardId) -> Option<&ShardEntry> {
        self.table.as_ref()?.shard(shard)
    }

    /// The epoch of the claim with which it serves a shard, if it does.
    #[must_use]
    pub fn serves(&self, shard: ShardId) -> Option<u64> {
        self.open.get(&shard).copied().filter(|_| !self.closed.contains(&shard))
    }

    /// From now on it wants to be out.
    pub fn leave(&mut self) {
        self.wants_to_leave = true;
        if self.standing == Standing::Outside {
            self.standing = Standing::Left;
        }
    }

    /// Takes in what a read found that has returned now, by a clock that goes on while the machine sleeps.
    ///
    /// # Errors
    /// When it is not the table that is to be there: then nothing is taken in.
    pub fn saw(&mut self, found: Option<Table>, now_ns: u64) -> Result<()> {
        self.check(found.as_ref())?;
        let last_ns = self.read_ns.replace(now_ns).unwrap_or(now_ns);
        let is_regular = now_ns.saturating_sub(last_ns) <= GAP_NS;
        let entries = found.as_ref().map_or(&[][..], |table| &table.nodes);
        self.silent.clear();
        let mut seen = BTreeMap::new();
        for entry in entries.iter().filter(|entry| entry.node.id != self.node.id) {
            let (id, beat) = (entry.node.id, entry.beat);
            let before = self.seen.get(&id).filter(|before| before.beat == beat && is_regular); // B2
            let since_ns = before.map_or(now_ns, |before| before.since_ns);
            if now_ns.saturating_sub(since_ns) >= SILENCE_NS {
                self.silent.insert(id); // B1
            }
            seen.insert(id, Seen { beat, since_ns });
        }
        self.seen = seen;
        self.table = found;
        self.stand();
        Ok(())
    }

    fn check(&self, found: Option<&Table>) -> Result<()> {
        let known = self.table.as_ref().map_or(0, |table| table.version);
        let version = found.map_or(0, |table| table.version);
        if version < known {
            return Err(Error::WentBack { known, found: version });
        }
        match found {
            Some(Table { pool, shards, .. })
                if *pool != self.pool || shards.len() != usize::from(self.shard_count) =>
            {
                Err(Error::OfAnother { pool: *pool, shards: shards.len() })
            }
            _ => Ok(()),
        }
    }

    /// Where it stands by the table it has.
    fn stand(&mut self) {
        let entry = self.table.as_ref().and_then(|table| table.node(self.node.id));
        // Whether by its own replacement, whose answer was lost, or by others.
        let has_left = self.wants_to_leave && self.holds_none();
        self.standing = match (entry, self.standing) {
            (_, Standing::GivenUp) => Standing::GivenUp, // B3
            (_, Standing::Left) => Standing::Left,
            (Some(entry), _) if entry.is_leaving => Standing::Leaving,
            (Some(_), _) => Standing::Inside,
            (None, Standing::Outside) => Standing::Outside,
            (None, Standing::Inside | Standing::Leaving) if has_left => Standing::Left,
            (None, Standing::Inside | Standing::Leaving) => Standing::GivenUp, // B3
        };
        // What the table shows as passed on need not be said again.
        let passed = self.closed.iter().copied().filter(|shard| !self.owns(*shard));
        for shard in passed.collect::<Vec<_>>() {
            self.closed.remove(&shard);
            self.open.remove(&shard);
        }
    }

    /// It has nothing to give back.
    fn holds_none(&self) -> bool {
        self.opening.is_empty() && self.open.len() == self.closed.len()
    }

    fn owns(&self, shard: ShardId) -> bool {
        self.shard(shard).is_some_and(|entry| entry.owner == Some(self.node.id))
    }

    /// The table that it wants in the place of the one it saw last; nothing once it is out.
    ///
    /// # Errors
    /// [`Error::TooManyNodes`].
    pub fn proposal(&mut self) -> Result<Option<Table>> {
        if matches!(self.standing, Standing::GivenUp | Standing::Left) {
            return Ok(None);
        }
        let id = self.node.id;
        let mut table =
            self.table.clone().unwrap_or_else(|| Table::new(self.pool, self.shard_count));
        table.version += 1;
        for silent in &self.silent {
            table.remove(*silent);
        }
        table.join(self.node.clone())?;
        if let Some(entry) = table.node_mut(id) {
            entry.beat += 1;
            entry.is_leaving |= self.wants_to_leave;
        }
        for shard in (0..self.shard_count).map(ShardId) {
            let is_wanted = table.shard(shard).is_some_and(|entry| entry.next.is_some());
            let is_idle = !self.open.contains_key(&shard) && !self.opening.contains(&shard);
            if self.closed.contains(&shard) || is_wanted && is_idle {
                table.closed(shard, id); // Also what it was to pass on before it had opened it.
            } else if let Some(epoch) = self.open.get(&shard) {
                table.opened(shard, id, *epoch);
            }
        }
        self.said.clone_from(&self.closed);
        table.assign();
        if self.wants_to_leave && self.holds_none() {
            table.remove(id);
            table.assign(); // What it was to open, and did not begin with.
        }
        Ok(Some(table))
    }

    /// Its proposal is the table now.
    pub fn accepted(&mut self, table: Table) {
        for shard in std::mem::take(&mut self.said) {
            self.closed.remove(&shard);
            self.open.remove(&shard);
        }
        self.table = Some(table);
        if self.wants_to_leave && self.standing == Standing::Inside {
            self.standing = Standing::Leaving;
        }
        self.stand();
    }

    /// What it is to do by the table that it saw last. Says it again until it is done.
    #[must_use]
    pub fn orders(&self) -> Orders {
        let mut orders = Orders::default();
        let id = self.node.id;
        let is_in = matches!(self.standing, Standing::Inside | Standing::Leaving);
        let stays = self.table.as_ref().is_some_and(|table| {
            table.nodes.iter().any(|entry| !entry.is_leaving && entry.node.id != id)
        });
        for shard in (0..self.shard_count).map(ShardId) {
            let entry = self.shard(shard).filter(|entry| is_in && entry.owner == Some(id));
            let is_last = self.standing == Standing::Leaving && !stays;
            match entry {
                None if self.serves(shard).is_some() => orders.abandon.push(shard),
                Some(entry)
                    if self.serves(shard).is_some() && (entry.next.is_some() || is_last) =>
                {
                    orders.close.push(shard);
                }
                Some(entry)
                    if self.standing == Standing::Inside
                        && entry.next.is_none()
                        && !self.open.contains_key(&shard)
                        && !self.opening.contains(&shard) =>
                {
                    orders.open.push(shard);
                }
                _ => {}
            }
        }
        orders
    }

    /// It has begun to claim and open a shard; [`Self::opened`] or [`Self::dropped`] follows.
    pub fn opening(&mut self, shard: ShardId) {
        self.opening.insert(shard);
    }

    /// It serves a shard, with a claim of that epoch.
    pub fn opened(&mut self, shard: ShardId, epoch: u64) {
        self.opening.remove(&shard);
        self.closed.remove(&shard);
        self.said.remove(&shard);
        self.open.insert(shard, epoch);
    }

    /// It has closed a shard and given it back.
    pub fn closed(&mut self, shard: ShardId) {
        if self.open.contains_key(&shard) {
            self.closed.insert(shard);
        }
    }

    /// A shard was not opened, or is not served any more, as somebody else has claimed it. While the table names this node, the order to open it
    /// comes again.
    pub fn dropped(&mut self, shard: ShardId) {
        self.opening.remove(&shard);
        self.open.remove(&shard);
        self.closed.remove(&shard);
        self.stand();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Fingerprint;

    #[test]
    fn who_was_taken_out_does_not_come_back() {
        let (id, shard) = (NodeId(1), ShardId(0));
        let node = Node { id, address: "a:1".to_owned(), fingerprint: Fingerprint([0; 32]) };
        let mut member = Member::new(node, PoolId([7; 16]), 1).expect("the address is short");
        member.saw(None, 0).expect("there was no table");
        let table = member.proposal().expect("there is room").expect("it wants to join");
        member.accepted(table.clone());
        assert_eq!(member.orders().open, [shard]);
        member.opening(shard);
        member.opened(shard, 3);
        let mut without = table.clone();
        without.remove(id);
        without.version += 1;
        let again = Table { version: without.version + 1, ..table };
        for later in [without, again] {
            member.saw(Some(later), 1).expect("it is a later table");
            assert_eq!(member.standing(), Standing::GivenUp); // B3
            assert_eq!(member.proposal(), Ok(None));
            let orders = member.orders();
            assert_eq!((orders.open.len(), orders.close.len()), (0, 0));
            assert_eq!(orders.abandon, [shard]);
        }
    }
}
