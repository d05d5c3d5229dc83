//! The command `consort bench mix`: runs the demo's mix alone.

use crate::Error;
use load_clients::mix::{Options, demo, side_by_side};
use load_clients::progress::Progress;
use load_clients::stop::Stop;
use load_clients::verdict::Verdict;

/// Runs the subcommand and prints its results.
///
/// # Errors
/// The address cannot be used or a file cannot be written.
pub(crate) async fn run(options: &Options) -> Result<Verdict, Error> {
    let report = demo(options, &Stop::at_ctrl_c(), &mut Progress::new()).await?;
    let table = side_by_side(&[("result", &report)]);
    print!("{table}");
    if let Some(transfers) = &report.transfers {
        println!("{transfers}");
    }
    options.files.write(&table, &report)?;
    Ok(Verdict::clean_if(report.is_clean()))
}
