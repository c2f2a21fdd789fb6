//! The table of nodes, and how it changes.
//!
//! T1. The owner is in the table, and there is one whenever anybody is.
//! T2. The pool leaves its owner only by that one's word, or with it.
//! T3. The next owner is who has stood by for longest.

use varve_types::PoolId;

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
}

/// Who is there, and who has the pool.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Table {
    /// Whose nodes these are.
    pub pool: PoolId,
    /// Rises by one with each replacement.
    pub version: u64,
    /// In the order in which they joined.
    pub nodes: Vec<NodeEntry>,
    /// Who is to serve the pool; none while nobody is there.
    pub owner: Option<NodeId>,
}

impl Table {
    /// A table without nodes, that was never stored.
    #[must_use]
    pub fn new(pool: PoolId) -> Self {
        Self { pool, version: 0, nodes: Vec::new(), owner: None }
    }

    /// The entry of a node.
    #[must_use]
    pub fn node(&self, id: NodeId) -> Option<&NodeEntry> {
        self.nodes.iter().find(|entry| entry.node.id == id)
    }

    /// A node lives: it is in the table from then on.
    pub(crate) fn beat(&mut self, node: &Node) -> Result<()> {
        if let Some(entry) = self.nodes.iter_mut().find(|entry| entry.node.id == node.id) {
            entry.beat += 1;
            return Ok(());
        }
        node.check()?;
        if self.nodes.len() >= NODES_MAX {
            return Err(Error::TooManyNodes { limit: NODES_MAX });
        }
        self.nodes.push(NodeEntry { node: node.clone(), beat: 1 });
        self.assign();
        Ok(())
    }

    /// Takes a node out, and what it has goes to another (T2).
    pub(crate) fn remove(&mut self, id: NodeId) {
        self.nodes.retain(|entry| entry.node.id != id);
        self.assign();
    }

    fn assign(&mut self) {
        let owner = self.owner.filter(|owner| self.node(*owner).is_some());
        self.owner = owner.or_else(|| self.nodes.first().map(|entry| entry.node.id)); // T1, T3
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Fingerprint, Reach};

    fn node(number: u128) -> Node {
        let address = "127.0.0.1:1".parse().expect("an address");
        let reach = Some(Reach::new(address, Fingerprint([1; 32])));
        Node { id: NodeId(number), place: "a".to_owned(), reach }
    }

    #[test]
    fn the_pool_stays_with_its_owner_and_then_goes_to_who_waited_longest() {
        let mut table = Table::new(PoolId([7; 16]));
        for number in [5, 9, 1] {
            table.beat(&node(number)).expect("there is room");
            assert_eq!(table.owner, Some(NodeId(5)));
        }
        table.remove(NodeId(9));
        assert_eq!(table.owner, Some(NodeId(5)));
        table.beat(&node(9)).expect("there is room");
        table.remove(NodeId(5));
        assert_eq!(table.owner, Some(NodeId(1)));
        table.remove(NodeId(1));
        table.remove(NodeId(9));
        assert_eq!(table.owner, None);
    }

    #[test]
    fn a_full_table_takes_no_more() {
        let mut table = Table::new(PoolId([7; 16]));
        for number in 0..NODES_MAX {
            table.beat(&node(number as u128)).expect("there is room");
        }
        assert_eq!(table.beat(&node(1000)), Err(Error::TooManyNodes { limit: NODES_MAX }));
        assert_eq!(table.beat(&node(3)), Ok(()), "it is there already");
        assert!(Table::decode(&table.encode()) == Ok(table));
    }

    #[test]
    fn a_place_that_cannot_be_kept_is_refused() {
        let long = Node { place: "a".repeat(256), ..node(1) };
        let refused = Table::new(PoolId([7; 16])).beat(&long);
        assert_eq!(refused, Err(Error::PlaceTooLong { len: 256, limit: 255 }));
    }
}
