//! Planted bugs: switches that each leave out one rule, so that tests show that checkers notice.
//!
//! A crate lists its bugs with [`bugs!`], keeps a set of them in its options, and asks `bugs.has(Bug::Name)` where the
//! rule stands. Without the feature `planted` the set has no content, [`Bugs::has`] is always `false`, and the compiler
//! removes each branch that asks. Only the simulator and tests turn the feature on.

use std::fmt::Debug;
use std::marker::PhantomData;

/// The bugs of one part of a crate. Made by [`bugs!`].
pub trait Named: Copy + Eq + Debug + 'static {
    /// All of them.
    const ALL: &'static [Self];

    /// The bug's place in [`ALL`](Named::ALL).
    fn place(self) -> usize;
}

/// A set of planted bugs: empty, unless a test or the simulator plants one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bugs<B> {
    /// One bit for each bug, by its place.
    #[cfg(feature = "planted")]
    planted: u64,
    of: PhantomData<B>,
}

impl<B> Default for Bugs<B> {
    fn default() -> Bugs<B> {
        Bugs {
            #[cfg(feature = "planted")]
            planted: 0,
            of: PhantomData,
        }
    }
}

#[cfg(not(feature = "planted"))]
impl<B: Named> Bugs<B> {
    /// Whether the bug is planted: never in this build.
    #[inline(always)]
    pub const fn has(self, _bug: B) -> bool {
        false
    }

    /// Whether no bug is planted: always in this build.
    #[inline(always)]
    pub const fn is_empty(self) -> bool {
        true
    }
}

#[cfg(feature = "planted")]
impl<B: Named> Bugs<B> {
    /// The set with this bug alone.
    pub fn only(bug: B) -> Bugs<B> {
        let mut bugs = Bugs::default();
        bugs.plant(bug);
        bugs
    }

    /// Whether the bug is planted.
    pub fn has(self, bug: B) -> bool {
        self.planted & bit(bug) != 0
    }

    /// Whether no bug is planted.
    pub fn is_empty(self) -> bool {
        self.planted == 0
    }

    /// Plants the bug.
    pub fn plant(&mut self, bug: B) {
        self.planted |= bit(bug);
    }

    /// Plants the bug of this name; returns whether there is one.
    pub fn plant_named(&mut self, name: &str) -> bool {
        let bug = B::ALL.iter().find(|bug| snake_case(&format!("{bug:?}")) == name);
        bug.map(|bug| self.plant(*bug)).is_some()
    }
}

#[cfg(feature = "planted")]
fn bit<B: Named>(bug: B) -> u64 {
    assert!(B::ALL.len() <= 64, "a set has 64 places");
    1 << bug.place()
}

/// The name as tests and the command line of the simulator write it.
#[cfg(feature = "planted")]
fn snake_case(name: &str) -> String {
    let mut words = String::new();
    for letter in name.chars() {
        if letter.is_uppercase() && !words.is_empty() {
            words.push('_');
        }
        words.extend(letter.to_lowercase());
    }
    words
}

/// Defines a public enum of bugs, each with a sentence about what it leaves out, and `Bugs`, the type of their sets.
#[macro_export]
macro_rules! bugs {
    ($(#[$about:meta])* pub enum $name:ident { $($(#[$what:meta])* $bug:ident,)+ }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name {
            $($(#[$what])* $bug,)+
        }

        impl $crate::Named for $name {
            const ALL: &'static [$name] = &[$($name::$bug),+];

            fn place(self) -> usize {
                self as usize
            }
        }

        /// A set of them, empty in production.
        pub type Bugs = $crate::Bugs<$name>;
    };
}
