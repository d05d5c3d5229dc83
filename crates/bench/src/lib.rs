//! Workloads and experiments; ratios side by side.
