//! One process: sockets, clocks, configuration, metrics; runs the flows.
