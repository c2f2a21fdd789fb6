//! The table of nodes, and how it changes.
//!
//! T1. Every owner, and whoever is to be one, is in the table.
//! T2. A shard leaves its owner only by that one's word, or with it.
//! T3. The epoch of a shard never falls.
//! T4. Among nodes that stay, with no shard on its way, none has two shards more than another.
//! T5. Departures rise with every node that goes: who knows the same number of them knows the same nodes as gone.

use std::collections::BTreeMap;

use varve_types::{PoolId, ShardId};

use crate::{Error, Node, NodeId, Result};

/// Nodes of a pool at most: beats of more would get in each other's way at one object.
pub const NODES_MAX: usize = 64;

/// A node in the table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NodeEntry {
    /// The node.
    pub node: Node,
    /// Rises while it lives.
    pub beat: u64,
    /// It is on its way out, and gets no shard any more.
    pub is_leaving: bool,
}

/// A shard in the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ShardEntry {
    /// Who is to serve it. None while there is nobody.
    pub owner: Option<NodeId>,
    /// Who is to get it from the owner.
    pub next: Option<NodeId>,
    /// Whether the owner said that it serves it.
    pub is_open: bool,
    /// The epoch of the claim with which it is served, or was last.
    pub epoch: u64,
}

/// Who is there, and who has what.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Table {
    /// Whose nodes these are.
    pub pool: PoolId,
    /// Rises by one with each replacement.
    pub version: u64,
    /// Nodes that were there and are not any more.
    pub departures: u64,
    /// In the order of their identities.
    pub nodes: Vec<NodeEntry>,
    /// By number.
    pub shards: Vec<ShardEntry>,
}

impl Table {
    /// A table without nodes, that was never stored.
    ///
    /// # Panics
    /// With more shards than a pool can have.
    #[must_use]
    pub fn new(pool: PoolId, shard_count: u16) -> Self {
        assert!(shard_count <= ShardId::COUNT_MAX, "{shard_count} shards");
        let shards = vec![ShardEntry::default(); usize::from(shard_count)];
        Self { pool, version: 0, departures: 0, nodes: Vec::new(), shards }
    }

    /// The entry of a node.
    #[must_use]
    pub fn node(&self, id: NodeId) -> Option<&NodeEntry> {
        let at = self.nodes.binary_search_by_key(&id, |entry| entry.node.id).ok()?;
        self.nodes.get(at)
    }

    /// The entry of a shard.
    #[must_use]
    pub fn shard(&self, shard: ShardId) -> Option<&ShardEntry> {
        self.shards.get(usize::from(shard.0))
    }

    /// Shards of an owner.
    pub fn shards_of(&self, owner: NodeId) -> impl Iterator<Item = (ShardId, &ShardEntry)> {
        let numbered = (0..).map(ShardId).zip(&self.shards);
        numbered.filter(move |(_, entry)| entry.owner == Some(owner))
    }

    pub(crate) fn node_mut(&mut self, id: NodeId) -> Option<&mut NodeEntry> {
        let at = self.nodes.binary_search_by_key(&id, |entry| entry.node.id).ok()?;
        self.nodes.get_mut(at)
    }

    pub(crate) fn shard_mut(&mut self, shard: ShardId) -> Option<&mut ShardEntry> {
        self.shards.get_mut(usize::from(shard.0))
    }

    pub(crate) fn join(&mut self, node: Node) -> Result<()> {
        node.check()?;
        let Err(at) = self.nodes.binary_search_by_key(&node.id, |entry| entry.node.id) else {
            return Ok(());
        };
        if self.nodes.len() >= NODES_MAX {
            return Err(Error::TooManyNodes { limit: NODES_MAX });
        }
        self.nodes.insert(at, NodeEntry { node, beat: 0, is_leaving: false });
        Ok(())
    }

    /// Takes a node out: whatever it has is without an owner (T1, T2).
    pub(crate) fn remove(&mut self, id: NodeId) {
        let count = self.nodes.len();
        self.nodes.retain(|entry| entry.node.id != id);
        self.departures += (count - self.nodes.len()) as u64; // T5
        for shard in &mut self.shards {
            if shard.owner == Some(id) {
                (shard.owner, shard.is_open) = (None, false);
            }
            if shard.next == Some(id) {
                shard.next = None;
            }
        }
    }

    /// The owner's word that it serves a shard (T3).
    pub(crate) fn opened(&mut self, shard: ShardId, owner: NodeId, epoch: u64) {
        if let Some(entry) = self.shard_mut(shard)
            && entry.owner == Some(owner)
            && entry.epoch <= epoch
        {
            (entry.is_open, entry.epoch) = (true, epoch);
        }
    }

    /// The owner's word that it has given a shard back (T2).
    pub(crate) fn closed(&mut self, shard: ShardId, owner: NodeId) {
        if let Some(entry) = self.shard_mut(shard)
            && entry.owner == Some(owner)
        {
            (entry.owner, entry.next, entry.is_open) = (entry.next, None, false);
        }
    }

    /// Gives shards that nobody has to somebody, and moves as few as balance needs: one at a time from a node, and one at a time to one. All of a
    /// node that leaves.
    pub(crate) fn assign(&mut self) {
        let staying = self.nodes.iter().filter(|entry| !entry.is_leaving);
        let mut loads = Loads(staying.map(|entry| (entry.node.id, 0)).collect());
        for shard in &mut self.shards {
            let is_staying = |node: &NodeId| loads.0.contains_key(node);
            shard.next = shard.next.filter(|node| is_staying(node) && shard.owner != Some(*node));
            if shard.owner.is_none() {
                (shard.owner, shard.next) = (shard.next, None);
            }
            loads.add(shard.next.or(shard.owner), 1);
        }
        for shard in &mut self.shards {
            let goes_on = shard.owner.is_some_and(|owner| loads.0.contains_key(&owner));
            if goes_on || shard.next.is_some() {
                continue;
            }
            let Some((_, lightest)) = loads.lightest() else { return };
            match shard.owner {
                None => shard.owner = Some(lightest),
                Some(_) => shard.next = Some(lightest), // It leaves.
            }
            loads.add(Some(lightest), 1);
        }
        while self.balance_once(&mut loads) {}
    }

    /// Moves one shard from who has most to who has least, if they differ by two and are in no move. Says whether it did.
    fn balance_once(&mut self, loads: &mut Loads) -> bool {
        let moving = self.shards.iter().filter(|shard| shard.next.is_some());
        let busy: Vec<NodeId> =
            moving.flat_map(|shard| [shard.owner, shard.next]).flatten().collect();
        let (Some((most, heaviest)), Some((least, lightest))) =
            (loads.heaviest(), loads.lightest())
        else {
            return false;
        };
        if most < least + 2 || busy.contains(&heaviest) || busy.contains(&lightest) {
            return false;
        }
        let mut candidates = self.shards.iter_mut();
        // One that is being opened is left to it.
        let Some(shard) = candidates.find(|shard| shard.owner == Some(heaviest) && shard.is_open)
        else {
            return false;
        };
        shard.next = Some(lightest);
        loads.add(Some(heaviest), -1);
        loads.add(Some(lightest), 1);
        true
    }
}

/// How many shards each node that stays will have.
struct Loads(BTreeMap<NodeId, i32>);

impl Loads {
    fn add(&mut self, node: Option<NodeId>, count: i32) {
        if let Some(load) = node.and_then(|node| self.0.get_mut(&node)) {
            *load += count;
        }
    }

    fn lightest(&self) -> Option<(i32, NodeId)> {
        self.0.iter().map(|(node, load)| (*load, *node)).min()
    }

    fn heaviest(&self) -> Option<(i32, NodeId)> {
        self.0.iter().map(|(node, load)| (*load, *node)).max()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Fingerprint;

    fn node(number: u128) -> Node {
        Node { id: NodeId(number), address: "a:1".to_owned(), fingerprint: Fingerprint([0; 32]) }
    }

    #[test]
    fn only_the_owner_says_what_becomes_of_a_shard_and_epochs_never_fall() {
        let (one, other) = (NodeId(1), NodeId(2));
        let mut table = Table::new(PoolId([7; 16]), 1);
        table.join(node(1)).expect("there is room");
        table.join(node(2)).expect("there is room");
        table.assign();
        let shard = ShardId(0);
        assert_eq!(table.shards[0].owner, Some(one));
        table.opened(shard, one, 5);
        let before = table.clone();
        table.opened(shard, one, 4); // T3
        table.opened(shard, other, 6); // T2
        table.closed(shard, other);
        table.opened(ShardId(9), one, 9);
        assert_eq!(table, before);
        table.closed(shard, one);
        table.assign();
        assert_eq!(table.shards[0].epoch, 5);
    }

    #[test]
    fn a_full_table_takes_no_more() {
        let mut table = Table::new(PoolId([7; 16]), 1);
        for number in 0..NODES_MAX {
            table.join(node(number as u128)).expect("there is room");
        }
        assert_eq!(table.join(node(1000)), Err(Error::TooManyNodes { limit: NODES_MAX }));
        assert_eq!(table.join(node(3)), Ok(()), "it is there already");
        assert!(Table::decode(&table.encode()) == Ok(table));
    }

    #[test]
    fn an_address_that_cannot_be_kept_is_refused() {
        let long = Node { address: "a".repeat(256), ..node(1) };
        let refused = Table::new(PoolId([7; 16]), 1).join(long);
        assert_eq!(refused, Err(Error::AddressTooLong { len: 256, limit: 255 }));
    }
}
