//! Where in a list a value stands.

use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};

use hashbrown::HashTable;

/// Finds positions in a list by value, in six to twelve bytes for each: a window of a million rows is looked through twice.
#[derive(Debug)]
pub struct Positions<F> {
    value: F,
    table: HashTable<u32>,
}

impl<F: Fn(usize) -> u64> Positions<F> {
    /// The positions below `len` of a list whose values `value` tells. Of equal values any one is found.
    pub fn new(len: usize, value: F) -> Self {
        let mut table = HashTable::with_capacity(len);
        for position in 0..u32::try_from(len).unwrap_or(u32::MAX) {
            table.insert_unique(hash(value(position as usize)), position, |other| {
                hash(value(*other as usize))
            });
        }
        Self { value, table }
    }

    /// Where this value stands.
    pub fn find(&self, wanted: u64) -> Option<usize> {
        let found = self.table.find(hash(wanted), |position| (self.value)(*position as usize) == wanted);
        found.map(|position| *position as usize)
    }
}

fn hash(value: u64) -> u64 {
    BuildHasherDefault::<DefaultHasher>::default().hash_one(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_value_is_found_where_it_stands_and_no_other() {
        let values = [7, 1 << 48, 0, u64::MAX];
        let positions = Positions::new(values.len(), |position| values[position]);
        assert_eq!(values.map(|value| positions.find(value)), [Some(0), Some(1), Some(2), Some(3)]);
        assert_eq!(positions.find(8), None);
        let twice = Positions::new(3, |position| [5, 6, 5][position]);
        assert!(matches!(twice.find(5), Some(0 | 2)));
        assert_eq!(Positions::new(0, |_| 1).find(1), None);
    }
}
