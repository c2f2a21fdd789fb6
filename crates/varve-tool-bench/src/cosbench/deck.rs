//! A shuffled deck: each card as often as its weight says, dealt without putting back, and a new deck after the last
//! card. So shares are exact after each whole deck, and near it in between; drawn one by one they would stray.

use std::sync::{Mutex, PoisonError};

use varve_stdx::Rng;

/// Cards that are left, of each kind. Workers share one.
#[derive(Default, Debug)]
pub(crate) struct Deck {
    left: Mutex<Vec<u64>>,
}

impl Deck {
    /// The kind of the next card; a full deck has `weights` cards of each kind. Costs O(kinds).
    ///
    /// # Panics
    /// When the weights have no sum above 0 in 64 bits.
    pub(crate) fn deal(&self, weights: impl Iterator<Item = u64>, rng: &mut Rng) -> usize {
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        if left.iter().all(|count| *count == 0) {
            *left = weights.collect();
        }
        let mut place = rng.below(left.iter().sum());
        for (kind, count) in left.iter_mut().enumerate() {
            if place < *count {
                *count -= 1;
                return kind;
            }
            place -= *count;
        }
        unreachable!("the place is below the sum of all counts")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_whole_deck_has_every_card_and_no_order() {
        let (deck, mut rng) = (Deck::default(), Rng::new(4));
        let mut deal = || -> Vec<usize> {
            (0..10).map(|_| deck.deal([7, 0, 3].into_iter(), &mut rng)).collect()
        };
        let decks: Vec<Vec<usize>> = (0..20).map(|_| deal()).collect();
        for deck in &decks {
            assert_eq!(
                [0, 1, 2].map(|kind| deck.iter().filter(|card| **card == kind).count()),
                [7, 0, 3]
            );
        }
        assert!(decks.windows(2).any(|two| two[0] != two[1]), "all decks lie alike");
        assert!(decks.iter().any(|deck| deck.is_sorted()) as usize <= 2);
    }
}
