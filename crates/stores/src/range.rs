//! Ranges of keys, in bytewise order.

use std::ops::Bound;

use bytes::Bytes;

/// Keys from one on, up to another. Keys compare byte by byte.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyRange {
    /// The first key of the range; empty: from the beginning.
    pub from: Bytes,
    /// The first key after the range; `None`: to the end.
    pub to: Option<Bytes>,
}

/// The order in which a scan answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Direction {
    /// The smallest key first.
    #[default]
    Forward,
    /// The largest key first.
    Reverse,
}

impl KeyRange {
    /// All keys.
    #[must_use]
    pub fn all() -> KeyRange {
        KeyRange::default()
    }

    /// Keys from `from` on, before `to`.
    #[must_use]
    pub fn new(from: impl Into<Bytes>, to: impl Into<Bytes>) -> KeyRange {
        KeyRange { from: from.into(), to: Some(to.into()) }
    }

    /// Keys that begin with the prefix.
    #[must_use]
    pub fn prefix(prefix: impl Into<Bytes>) -> KeyRange {
        let from: Bytes = prefix.into();
        let kept = from.iter().rposition(|byte| *byte < u8::MAX).map_or(0, |last| last + 1);
        let mut end = from[..kept].to_vec();
        let to = end.last_mut().map(|last| *last += 1).map(|()| Bytes::from(end));
        KeyRange { from, to }
    }

    /// Whether the key lies in the range.
    #[must_use]
    pub fn contains(&self, key: &[u8]) -> bool {
        key >= &self.from[..] && self.to.as_ref().is_none_or(|to| key < &to[..])
    }

    /// Whether no key can lie in the range.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.to.as_ref().is_some_and(|to| *to <= self.from)
    }

    /// The range as bounds of an ordered map of [`Bytes`].
    #[must_use]
    pub fn bounds(&self) -> (Bound<Bytes>, Bound<Bytes>) {
        let to = self.to.clone().map_or(Bound::Unbounded, Bound::Excluded);
        (Bound::Included(self.from.clone()), to)
    }

    /// The rest of the range after a scan in this direction has answered `key` last.
    #[must_use]
    pub fn after(&self, key: &[u8], direction: Direction) -> KeyRange {
        match direction {
            Direction::Forward => KeyRange { from: successor(key), to: self.to.clone() },
            Direction::Reverse => KeyRange { from: self.from.clone(), to: Some(Bytes::copy_from_slice(key)) },
        }
    }
}

/// The smallest key above a key.
#[must_use]
pub fn successor(key: &[u8]) -> Bytes {
    let mut next = Vec::with_capacity(key.len() + 1);
    next.extend_from_slice(key);
    next.push(0);
    Bytes::from(next)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefix_ends_at_next_prefix() {
        assert_eq!(KeyRange::prefix("ab"), KeyRange::new("ab", "ac"));
        assert_eq!(KeyRange::prefix(vec![1, 255]), KeyRange::new(vec![1, 255], vec![2]));
        assert_eq!(KeyRange::prefix(vec![255]).to, None);
        assert_eq!(KeyRange::prefix(""), KeyRange::all());
    }

    #[test]
    fn rest_of_a_scan_leaves_the_last_key_out() {
        let range = KeyRange::new("a", "d");
        assert!(!range.after(b"b", Direction::Forward).contains(b"b"));
        assert!(range.after(b"b", Direction::Forward).contains(b"b\0"));
        assert!(!range.after(b"b", Direction::Reverse).contains(b"b"));
        assert!(range.after(b"b", Direction::Reverse).contains(b"a"));
    }
}
