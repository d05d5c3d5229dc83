//! What the primary has shown: gauges and decoded commits in; settled gauges and doubts out.
