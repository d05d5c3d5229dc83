//! Numbers and names of TPC-C: sizes of the tables, non-uniform random numbers, last names, strings.

use load_clients::chance::{letters_and_digits, within};

/// Districts of a warehouse.
pub(crate) const DISTRICTS: i32 = 10;

/// Constants of the non-uniform random numbers (2.1.6.1): for loading and for running they differ by 85, as
/// they must by 65 to 119 and neither 96 nor 112.
const LAST_NAME_LOAD: i32 = 123;
const LAST_NAME_RUN: i32 = 208;
const CUSTOMER: i32 = 259;
const ITEM: i32 = 7911;

/// The syllables of last names (4.3.2.3).
const SYLLABLES: [&str; 10] =
    ["BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING"];

/// Sizes of the tables.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    pub(crate) warehouses: i32,
    pub(crate) items: i32,
    /// Customers of a district, and its orders at the beginning.
    pub(crate) customers: i32,
    clients: u64,
}

impl Size {
    /// A number of warehouses, each with a part of the rows that the specification asks for.
    pub(crate) fn new(warehouses: i32, shrink: i32, clients: u64) -> Size {
        Size { warehouses, items: (100_000 / shrink).max(100), customers: (3000 / shrink).max(30), clients }
    }

    /// The client's own warehouse; none where there are not enough clients for all.
    pub(crate) fn home(self, number: u64) -> Option<i32> {
        let warehouses = u64::try_from(self.warehouses).unwrap_or(1);
        (self.clients >= warehouses)
            .then(|| i32::try_from(number % warehouses).expect("below a 32-bit number") + 1)
    }

    /// The first of the orders that are loaded without a carrier: the last 30 % (2,101 of 3,000).
    pub(crate) fn undelivered_from(self) -> i32 {
        self.customers / 10 * 7 + 1
    }

    /// A last name for each of the first so many customers: a thousand, if there are as many.
    pub(crate) fn names(self) -> i32 {
        self.customers.min(1000)
    }
}

/// Chance as TPC-C wants it.
pub(crate) struct Rules {
    pub(crate) size: Size,
    pub(crate) chance: fastrand::Rng,
}

impl Rules {
    pub(crate) fn new(size: Size, chance: fastrand::Rng) -> Rules {
        Rules { size, chance }
    }

    /// NURand(A, x, y) of 2.1.6.
    fn non_uniform(&mut self, a: i32, constant: i32, x: i32, y: i32) -> i32 {
        let (left, right) = (within(&mut self.chance, 0, a), within(&mut self.chance, x, y));
        ((left | right) + constant % (a + 1)) % (y - x + 1) + x
    }

    pub(crate) fn warehouse(&mut self) -> i32 {
        within(&mut self.chance, 1, self.size.warehouses)
    }

    /// Another warehouse than this, if there is one.
    pub(crate) fn other_warehouse(&mut self, than: i32) -> i32 {
        if self.size.warehouses == 1 {
            return than;
        }
        let other = within(&mut self.chance, 1, self.size.warehouses - 1);
        if other >= than { other + 1 } else { other }
    }

    pub(crate) fn district(&mut self) -> i32 {
        within(&mut self.chance, 1, DISTRICTS)
    }

    pub(crate) fn customer(&mut self) -> i32 {
        self.non_uniform(1023, CUSTOMER, 1, self.size.customers)
    }

    pub(crate) fn item(&mut self) -> i32 {
        self.non_uniform(8191, ITEM, 1, self.size.items)
    }

    /// A customer by last name in 60 of 100, by number in 40.
    pub(crate) fn who(&mut self) -> Who {
        if self.chance.u8(0..100) < 60 {
            let number = self.non_uniform(255, LAST_NAME_RUN, 0, self.size.names() - 1);
            Who::LastName(last_name(number))
        } else {
            Who::Number(self.customer())
        }
    }

    /// The last name of a customer to be loaded.
    pub(crate) fn loaded_name(&mut self, customer: i32) -> String {
        let names = self.size.names();
        if customer <= names {
            last_name(customer - 1)
        } else {
            last_name(self.non_uniform(255, LAST_NAME_LOAD, 0, names - 1))
        }
    }

    pub(crate) fn within(&mut self, least: i32, most: i32) -> i32 {
        within(&mut self.chance, least, most)
    }

    pub(crate) fn text(&mut self, least: usize, most: usize) -> String {
        letters_and_digits(&mut self.chance, least, most)
    }

    /// A text for items and stock: one in ten holds the word ORIGINAL (4.3.3.1).
    pub(crate) fn data(&mut self) -> String {
        let mut text = self.text(26, 50);
        if self.chance.u8(0..10) == 0 {
            let at = self.chance.usize(0..=text.len() - 8);
            text.replace_range(at..at + 8, "ORIGINAL");
        }
        text
    }
}

/// Key of a customer: the number or the last name.
#[derive(Clone, Debug)]
pub(crate) enum Who {
    LastName(String),
    Number(i32),
}

/// The last name of a number below 1,000 (4.3.2.3).
pub(crate) fn last_name(number: i32) -> String {
    let syllable = |digit: i32| SYLLABLES[usize::try_from(digit % 10).expect("digits are not negative")];
    [number / 100, number / 10, number].map(syllable).concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_names_are_made_of_digits() {
        assert_eq!(last_name(371), "PRICALLYOUGHT");
        assert_eq!(last_name(40), "BARPRESBAR");
    }

    #[test]
    fn chance_is_not_uniform_and_stays_within_its_bounds() {
        let mut rules = Rules::new(Size::new(3, 1, 8), fastrand::Rng::with_seed(7));
        let mut counts = vec![0_u32; 100_001];
        for _ in 0..200_000 {
            counts[usize::try_from(rules.item()).unwrap()] += 1;
            assert!((1..=3000).contains(&rules.customer()));
            assert!([1, 3].contains(&rules.other_warehouse(2)));
        }
        counts.sort_unstable_by(|a, b| b.cmp(a));
        let tenth: u32 = counts[..10_000].iter().sum();
        assert!(tenth > 60_000, "a tenth of the items takes {tenth} of 200000");
    }

    #[test]
    fn clients_have_homes_where_there_are_enough() {
        assert_eq!(Size::new(3, 1, 8).home(4), Some(2));
        assert_eq!(Size::new(9, 1, 8).home(4), None);
        let size = Size::new(1, 1, 1);
        assert_eq!((size.undelivered_from(), size.names()), (2101, 1000));
    }
}
