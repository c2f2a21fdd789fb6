//! The table of nodes, and how it changes.
//!
//! TABLE-1. Who serves a cell is in the table, and a cell is served by nobody only while no node has room for it: a
//!     move that only begins takes nobody's room from it.
//! TABLE-2. A cell leaves its owner only by that one's word, or with it.
//! TABLE-3. A cell without an owner goes to the node that has fewest; of several, to who joined first.
//! TABLE-4. Cells move only from nodes that have at least two more than the receiver, one at a time: where the numbers
//!     are as near to each other as room allows, nothing moves.

use varve_types::{CellId, PoolId};

use crate::{Error, Node, NodeId, Result};

/// Nodes of a pool at most: beats of more would get in each other's way at one object.
pub const NODES_MAX: usize = 64;

/// Beats of a node before cells are moved to it: one that comes and goes takes only what nobody serves.
pub const SETTLED_BEATS: u64 = 20;

/// A node in the table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NodeEntry {
    /// The node.
    pub node: Node,
    /// Rises while it lives.
    pub beat: u64,
    /// Cells that it serves at most, from 1 to those of the pool.
    pub room: u16,
}

/// Who serves a cell.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CellEntry {
    /// Who is to serve it now; none while nobody is there, or has room.
    pub owner: Option<NodeId>,
    /// Who is to serve it once its owner has closed it.
    pub next: Option<NodeId>,
}

/// Who is there, and who has which cells.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MemberTable {
    /// Whose nodes these are.
    pub pool: PoolId,
    /// Rises by one with each replacement.
    pub version: u64,
    /// In the order in which they joined.
    pub nodes: Vec<NodeEntry>,
    /// By their numbers; at least one.
    pub cells: Vec<CellEntry>,
}

impl MemberTable {
    /// A table without nodes, that was never stored, of a pool of one cell.
    #[must_use]
    pub fn new(pool: PoolId) -> Self {
        Self::of_cells(pool, 1)
    }

    /// The same, of a pool of several.
    ///
    /// # Panics
    /// When there is none, or more than [`CellId::COUNT_MAX`].
    #[must_use]
    pub fn of_cells(pool: PoolId, count: u16) -> Self {
        assert!((1..=CellId::COUNT_MAX).contains(&count), "a pool has cells, within their limit");
        let cells = vec![CellEntry::default(); usize::from(count)];
        Self { pool, version: 0, nodes: Vec::new(), cells }
    }

    /// The entry of a node.
    #[must_use]
    pub fn node(&self, id: NodeId) -> Option<&NodeEntry> {
        self.nodes.iter().find(|entry| entry.node.id == id)
    }

    /// The entry of a cell.
    #[must_use]
    pub fn cell(&self, cell: CellId) -> Option<&CellEntry> {
        self.cells.get(usize::from(cell.0))
    }

    /// Who is to serve a cell now.
    #[must_use]
    pub fn owner(&self, cell: CellId) -> Option<NodeId> {
        self.cell(cell)?.owner
    }

    /// The cells with their numbers.
    pub fn numbered(&self) -> impl Iterator<Item = (CellId, &CellEntry)> {
        (0..).map(CellId).zip(&self.cells)
    }

    /// A node lives: it is in the table from then on.
    pub(crate) fn beat(&mut self, node: &Node, room: u16) -> Result<()> {
        if let Some(entry) = self.nodes.iter_mut().find(|entry| entry.node.id == node.id) {
            entry.beat += 1;
            return Ok(());
        }
        node.check()?;
        if self.nodes.len() >= NODES_MAX {
            return Err(Error::TooManyNodes { limit: NODES_MAX });
        }
        let cells = u16::try_from(self.cells.len()).expect("within their limit");
        self.nodes.push(NodeEntry { node: node.clone(), beat: 1, room: room.clamp(1, cells) });
        self.assign();
        Ok(())
    }

    /// Takes a node out, and what it has goes to others (TABLE-2).
    pub(crate) fn remove(&mut self, id: NodeId) {
        self.nodes.retain(|entry| entry.node.id != id);
        self.assign();
    }

    /// An owner's word that it has closed a cell (TABLE-2): it goes on to who is next. Nobody may be any more; then it
    /// may come back to the same.
    pub(crate) fn give(&mut self, cell: CellId, by: NodeId) {
        let given = self.cells.get_mut(usize::from(cell.0)).filter(|cell| cell.owner == Some(by));
        if let Some(given) = given {
            given.owner = None;
            self.assign();
        }
    }

    /// Gives every cell an owner that is there (TABLE-1, TABLE-3). A move is dropped where its receiver's room is
    /// needed for that.
    fn assign(&mut self) {
        let there: Vec<NodeId> = self.nodes.iter().map(|entry| entry.node.id).collect();
        for cell in &mut self.cells {
            cell.next = cell.next.filter(|next| there.contains(next));
            cell.owner = cell.owner.filter(|owner| there.contains(owner));
            if cell.owner.is_none() {
                cell.owner = cell.next.take();
            }
        }
        for index in 0..self.cells.len() {
            if self.cells[index].owner.is_some() {
                continue;
            }
            self.cells[index].owner = self.emptiest(|_| true);
            if self.cells[index].owner.is_none() {
                self.cells.iter_mut().for_each(|cell| cell.next = None);
                self.cells[index].owner = self.emptiest(|_| true);
            }
        }
    }

    /// Begins a move where one node has too many, and drops one that is of no use any more (TABLE-4).
    pub(crate) fn balance(&mut self) {
        if let Some(index) = self.cells.iter().position(|cell| cell.next.is_some()) {
            let CellEntry { owner, next } = self.cells[index];
            let (giver, receiver) = (self.planned(owner) + 1, self.planned(next).saturating_sub(1));
            if giver < receiver + 2 {
                self.cells[index].next = None;
            }
            return;
        }
        let receiver = self.emptiest(|entry| entry.beat >= SETTLED_BEATS);
        // The last one with most of them: the first ones have waited for longest to be left in peace.
        let giver = self.nodes.iter().map(|entry| entry.node.id);
        let giver = giver.max_by_key(|node| self.planned(Some(*node)));
        if receiver.is_none() || self.planned(giver) < self.planned(receiver) + 2 {
            return;
        }
        let given = self.cells.iter_mut().rfind(|cell| cell.owner == giver);
        given.expect("who has most has one").next = receiver;
    }

    /// The node with fewest cells among those that have room for one more (TABLE-3).
    fn emptiest(&self, may: impl Fn(&NodeEntry) -> bool) -> Option<NodeId> {
        let have_room = self.nodes.iter().filter(|entry| {
            let id = Some(entry.node.id);
            let taken = self.cells.iter().filter(|cell| cell.owner == id || cell.next == id);
            taken.count() < usize::from(entry.room) && may(entry)
        });
        have_room.map(|entry| entry.node.id).min_by_key(|node| self.planned(Some(*node)))
    }

    /// Cells that a node has once all moves are done.
    fn planned(&self, node: Option<NodeId>) -> usize {
        self.cells.iter().filter(|cell| cell.next.or(cell.owner) == node).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Fingerprint, NodeAddress};

    fn node(number: u128) -> Node {
        let address = "127.0.0.1:1".parse().expect("an address");
        let reach = Some(NodeAddress::new(address, Fingerprint([1; 32])));
        Node { id: NodeId(number), place: "a".to_owned(), reach }
    }

    fn join(table: &mut MemberTable, number: u128, room: u16) {
        table.beat(&node(number), room).expect("there is room");
    }

    /// A node that may be moved to.
    fn settle(table: &mut MemberTable, number: u128) {
        for _ in 0..SETTLED_BEATS {
            join(table, number, u16::MAX);
        }
    }

    fn owners(table: &MemberTable) -> Vec<u128> {
        table.cells.iter().map(|cell| cell.owner.map_or(0, |owner| owner.0)).collect()
    }

    #[test]
    fn the_pool_stays_with_its_owner_and_then_goes_to_who_waited_longest() {
        let mut table = MemberTable::new(PoolId([7; 16]));
        for number in [5, 9, 1] {
            join(&mut table, number, 1);
            assert_eq!(owners(&table), [5]);
        }
        table.remove(NodeId(9));
        assert_eq!(owners(&table), [5]);
        join(&mut table, 9, 1);
        table.remove(NodeId(5));
        assert_eq!(owners(&table), [1]);
        table.remove(NodeId(1));
        table.remove(NodeId(9));
        assert_eq!(owners(&table), [0]);
    }

    #[test]
    fn cells_of_who_has_gone_go_to_who_has_fewest() {
        let mut table = MemberTable::of_cells(PoolId([7; 16]), 5);
        join(&mut table, 1, u16::MAX);
        assert_eq!(owners(&table), [1, 1, 1, 1, 1]);
        join(&mut table, 2, u16::MAX);
        join(&mut table, 3, u16::MAX);
        assert_eq!(owners(&table), [1, 1, 1, 1, 1], "TABLE-2");
        table.remove(NodeId(1));
        assert_eq!(owners(&table), [2, 3, 2, 3, 2]);
    }

    #[test]
    fn a_newcomer_gets_its_share_one_by_one_by_the_word_of_who_has_it() {
        let mut table = MemberTable::of_cells(PoolId([7; 16]), 5);
        join(&mut table, 1, u16::MAX);
        join(&mut table, 2, u16::MAX);
        table.balance();
        assert!(table.cells.iter().all(|cell| cell.next.is_none()), "it came just now");
        settle(&mut table, 2);
        for moved in 1..=2 {
            table.balance();
            table.balance();
            let moves: Vec<_> = table.numbered().filter(|(_, cell)| cell.next.is_some()).collect();
            let [(cell, CellEntry { owner, next })] = moves[..] else {
                panic!("TABLE-4: {table:?}")
            };
            assert_eq!((*owner, *next), (Some(NodeId(1)), Some(NodeId(2))));
            table.give(cell, NodeId(2));
            assert_eq!(table.owner(cell), Some(NodeId(1)), "TABLE-2");
            table.give(cell, NodeId(1));
            assert_eq!(owners(&table).iter().filter(|owner| **owner == 2).count(), moved);
        }
        let calm = table.clone();
        table.balance();
        assert_eq!(table, calm, "three and two are near enough");
    }

    #[test]
    fn a_move_whose_receiver_has_gone_or_has_enough_is_dropped() {
        let mut table = MemberTable::of_cells(PoolId([7; 16]), 4);
        join(&mut table, 1, u16::MAX);
        settle(&mut table, 2);
        table.balance();
        let moving = CellId(3);
        assert_eq!(table.cells[3].next, Some(NodeId(2)));
        let mut alone = table.clone();
        alone.remove(NodeId(2));
        assert_eq!(alone.cells[3].next, None);
        alone.give(moving, NodeId(1));
        assert_eq!(alone.owner(moving), Some(NodeId(1)), "nobody else is there");
        for cell in &mut table.cells[..2] {
            cell.owner = Some(NodeId(2));
        }
        table.balance();
        assert_eq!(table.cells[3].next, None);
    }

    #[test]
    fn who_has_no_room_gets_nothing_and_what_nobody_takes_waits() {
        let mut table = MemberTable::of_cells(PoolId([7; 16]), 5);
        join(&mut table, 1, 2);
        join(&mut table, 2, 0);
        assert_eq!(owners(&table), [1, 1, 2, 0, 0], "TABLE-1");
        settle(&mut table, 3);
        assert_eq!(owners(&table), [1, 1, 2, 3, 3]);
        table.remove(NodeId(3));
        assert_eq!(owners(&table), [1, 1, 2, 0, 0]);
    }

    #[test]
    fn a_cell_that_nobody_serves_does_not_wait_for_a_move() {
        let mut table = MemberTable::of_cells(PoolId([7; 16]), 6);
        join(&mut table, 1, 4);
        join(&mut table, 2, 2);
        join(&mut table, 3, 1);
        table.beat(&node(4), 1).expect("there is room");
        assert_eq!(owners(&table), [1, 1, 1, 1, 2, 2], "TABLE-3");
        settle(&mut table, 3);
        table.balance();
        assert_eq!(table.cells[3].next, Some(NodeId(3)));
        table.remove(NodeId(2));
        assert_eq!(owners(&table), [1, 1, 1, 1, 4, 3], "TABLE-1");
        assert_eq!(table.cells[3].next, None, "its receiver has no room any more");
        table.give(CellId(3), NodeId(1));
        assert_eq!(owners(&table), [1, 1, 1, 1, 4, 3], "it goes back to who closed it");
    }

    #[test]
    fn a_full_table_takes_no_more() {
        let mut table = MemberTable::new(PoolId([7; 16]));
        for number in 0..NODES_MAX {
            join(&mut table, number as u128, 1);
        }
        assert_eq!(table.beat(&node(1000), 1), Err(Error::TooManyNodes { limit: NODES_MAX }));
        assert_eq!(table.beat(&node(3), 1), Ok(()), "it is there already");
        assert!(MemberTable::decode(&table.encode()) == Ok(table));
    }

    #[test]
    fn a_place_that_cannot_be_kept_is_refused() {
        let long = Node { place: "a".repeat(256), ..node(1) };
        let refused = MemberTable::new(PoolId([7; 16])).beat(&long, 1);
        assert_eq!(refused, Err(Error::PlaceTooLong { len: 256, limit: 255 }));
    }
}
