//! Numbers and names of TPC-W: sizes of the tables, non-uniform random numbers, names of syllables.

use load_clients::chance::{letters_and_digits, within};

/// The subjects of books (4.6.2.12).
pub(super) const SUBJECTS: [&str; 24] = [
    "ARTS",
    "BIOGRAPHIES",
    "BUSINESS",
    "CHILDREN",
    "COMPUTERS",
    "COOKING",
    "HEALTH",
    "HISTORY",
    "HOME",
    "HUMOR",
    "LITERATURE",
    "MYSTERY",
    "NON-FICTION",
    "PARENTING",
    "POLITICS",
    "REFERENCE",
    "RELIGION",
    "ROMANCE",
    "SELF-HELP",
    "SCIENCE-NATURE",
    "SCIENCE-FICTION",
    "SPORTS",
    "YOUTH",
    "TRAVEL",
];

const SYLLABLES: [&str; 10] = ["BA", "OG", "AL", "RI", "RE", "SE", "AT", "UL", "IN", "NG"];

/// Sizes of the tables.
#[derive(Clone, Copy, Debug)]
pub(super) struct Size {
    pub(super) items: i32,
    pub(super) customers: i32,
}

impl Size {
    /// For so many emulated browsers: each has 2,880 customers.
    pub(super) fn new(items: i32, browsers: i32, shrink: i32) -> Size {
        Size { items: (items / shrink).max(100), customers: (browsers * (2880 / shrink)).max(100) }
    }

    pub(super) fn addresses(self) -> i32 {
        2 * self.customers
    }

    pub(super) fn authors(self) -> i32 {
        self.items / 4
    }

    pub(super) fn orders(self) -> i32 {
        self.customers / 10 * 9
    }

    /// Number of different names with which titles and authors begin: a search finds some ten.
    pub(super) fn names(self) -> i32 {
        (self.items / 10).max(1)
    }
}

/// Chance as TPC-W wants it.
pub(super) struct Rules {
    pub(super) size: Size,
    pub(super) chance: fastrand::Rng,
}

impl Rules {
    pub(super) fn new(size: Size, chance: fastrand::Rng) -> Rules {
        Rules { size, chance }
    }

    pub(super) fn within(&mut self, least: i32, most: i32) -> i32 {
        within(&mut self.chance, least, most)
    }

    pub(super) fn text(&mut self, least: usize, most: usize) -> String {
        letters_and_digits(&mut self.chance, least, most)
    }

    /// NURand(A, 1, n) of 2.1.13: the larger the table, the larger A.
    fn non_uniform(&mut self, a: i32, most: i32) -> i32 {
        ((within(&mut self.chance, 0, a) | within(&mut self.chance, 1, most)) % most) + 1
    }

    pub(super) fn customer(&mut self) -> i32 {
        let a = match self.size.customers {
            ..10_000 => 1023,
            10_000..40_000 => 4095,
            40_000..160_000 => 16_383,
            160_000..640_000 => 65_535,
            _ => 262_143,
        };
        self.non_uniform(a, self.size.customers)
    }

    pub(super) fn item(&mut self) -> i32 {
        let a = match self.size.items {
            ..10_000 => 63,
            10_000..100_000 => 511,
            100_000..1_000_000 => 4095,
            _ => 32_767,
        };
        self.non_uniform(a, self.size.items)
    }

    pub(super) fn subject(&mut self) -> &'static str {
        SUBJECTS[self.chance.usize(0..SUBJECTS.len())]
    }

    /// Prefix of a search for a title or an author.
    pub(super) fn searched(&mut self) -> String {
        let number = within(&mut self.chance, 0, self.size.names() - 1);
        format!("{}%", name(number))
    }
}

/// A syllable for each digit (4.6.2.10).
pub(super) fn user_name(number: i32) -> String {
    let syllable =
        |digit: char| digit.to_digit(10).and_then(|digit| SYLLABLES.get(usize::try_from(digit).ok()?));
    number.to_string().chars().filter_map(syllable).copied().collect()
}

/// A name of seven syllables.
pub(super) fn name(number: i32) -> String {
    let digits = format!("{number:07}");
    let leading = digits.chars().take_while(|&digit| digit == '0').count().min(6);
    SYLLABLES[0].repeat(leading) + &user_name(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_made_of_syllables() {
        assert_eq!(user_name(2019), "ALBAOGNG");
        assert_eq!(name(2019), "BABABAALBAOGNG");
        assert_eq!(name(0), "BABABABABABABA");
    }

    #[test]
    fn chance_stays_within_the_tables() {
        let size = Size::new(1000, 1, 1);
        let mut rules = Rules::new(size, fastrand::Rng::with_seed(1));
        for _ in 0..10_000 {
            assert!((1..=2880).contains(&rules.customer()) && (1..=1000).contains(&rules.item()));
        }
    }
}
