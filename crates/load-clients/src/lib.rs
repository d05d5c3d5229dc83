//! Clients of a load: sessions against any address, checks of what they see, tallies, tables of results; and the mix of bank and
//! catalogue that the demo runs. It knows Consort by nothing but an address.

pub mod chance;
pub mod console;
pub mod ground;
pub mod knowledge;
pub mod latency;
pub mod mix;
pub mod pause;
pub mod progress;
pub mod result_files;
pub mod session;
pub mod share;
pub mod stop;
pub mod table;
pub mod tally;
pub mod value;
pub mod verdict;
