//! Progress that only moves forward.

/// Progress of a task. The mark only moves forward; to wait for something is to wait for a watermark.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Watermark<T>(T);

impl<T: Copy + Ord> Watermark<T> {
    /// A watermark that stands at `value`.
    pub const fn new(value: T) -> Watermark<T> {
        Watermark(value)
    }

    /// Current mark.
    pub const fn get(self) -> T {
        self.0
    }

    /// Moves it forward to `to`. Does nothing if it stands there or beyond.
    pub fn advance(&mut self, to: T) {
        if to > self.0 {
            self.0 = to;
        }
    }

    /// True if it has come to `goal`.
    pub fn reached(self, goal: T) -> bool {
        self.0 >= goal
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_never_moves_back() {
        let mut mark = Watermark::new(5);
        mark.advance(3);
        assert_eq!(mark.get(), 5);
        mark.advance(8);
        assert!(mark.reached(8) && !mark.reached(9));
    }
}
