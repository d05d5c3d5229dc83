//! Where and when a statement may run: freshness index, proof, choice of a node.
