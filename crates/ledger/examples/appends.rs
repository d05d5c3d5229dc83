//! The cost of an append, and the size of groups on a slow disk: `cargo run --release -p ledger --example appends [folder]`.
//!
//! The folder is where the disk is that is to be measured; a new folder in it is made and removed.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use disk::{Disk, Fault, Faults};
use history::Version;
use ledger::{Ledger, Options, points};

const RECORD: usize = 300;

fn main() {
    let place = std::env::args().nth(1).map_or_else(std::env::temp_dir, PathBuf::from);
    let folder = place.join(format!("ledger-appends-{}", std::process::id()));
    println!("{RECORD} bytes a record, {}", place.display());
    println!(
        "{:34} {:>9} {:>9} {:>9} {:>8} {:>10} {:>10}",
        "", "records", "a second", "a sync", "sync ms", "append us", "in all us"
    );
    let faults = Faults::new();
    faults.always(points::SYNC, Fault::Delay(Duration::from_millis(8)));
    for waiting in [1, 32, 1_000] {
        measure(&format!("{waiting} wait at a time"), &folder, &Disk::new(), waiting, Duration::from_secs(2));
    }
    for waiting in [1, 32, 1_000] {
        let name = format!("{waiting} wait, sync + 8 ms");
        measure(&name, &folder, &Disk::with_faults(&faults), waiting, Duration::from_secs(2));
    }
    read(&folder);
}

/// Appends for so long, with at most so many records that are not durable. "append us" is what the appending thread uses,
/// "in all us" what the process uses, in processor time a record.
fn measure(name: &str, folder: &Path, disk: &Disk, waiting: u64, time: Duration) {
    drop(std::fs::remove_dir_all(folder));
    let (ledger, _) = Ledger::open_with(folder, disk, Options::default()).expect("the folder can be used");
    let bytes = vec![0x5A; RECORD];
    let (process, thread, begun) = (cpu_time("self"), cpu_time("thread-self"), Instant::now());
    let mut version = 0;
    while begun.elapsed() < time {
        // As many as have become durable since.
        let room = (ledger.newest_durable().get() + waiting).saturating_sub(version);
        for _ in 0..room {
            version += 1;
            drop(ledger.append(Version::new(version), &bytes));
        }
        ledger.durable(Version::new((version + 1).saturating_sub(waiting))).wait().expect("the disk works");
    }
    ledger.durable(Version::new(version)).wait().expect("the disk works");
    let (took, counters) = (begun.elapsed(), ledger.counters());
    let (thread, process) = (cpu_time("thread-self") - thread, cpu_time("self") - process);
    let per_record = |time: Duration| time.as_secs_f64() * 1e6 / version as f64;
    println!(
        "{name:34} {version:>9} {:>9.0} {:>9.1} {:>8.2} {:>10.2} {:>10.2}",
        version as f64 / took.as_secs_f64(),
        counters.records as f64 / counters.syncs as f64,
        counters.sync_time_us as f64 / 1e3 / counters.syncs as f64,
        per_record(thread),
        per_record(process),
    );
}

/// Opens what the last run has left, and reads it.
fn read(folder: &Path) {
    let begun = Instant::now();
    let (ledger, reader) = Ledger::open(folder, &Disk::new()).expect("it opens");
    let opened = begun.elapsed();
    let begun = Instant::now();
    let records = reader.inspect(|record| assert!(record.is_ok())).count();
    let read = begun.elapsed();
    println!(
        "{records} records in {} segments: opened in {opened:.1?}, read in {read:.1?}",
        ledger.counters().segments
    );
    drop(ledger);
    std::fs::remove_dir_all(folder).expect("the folder can be removed");
}

/// Processor time in all threads of this process, or in this one.
fn cpu_time(of: &str) -> Duration {
    let nanos = |path: &Path| -> u64 {
        let text = std::fs::read_to_string(path.join("schedstat")).unwrap_or_default();
        text.split(' ').next().and_then(|nanos| nanos.parse().ok()).unwrap_or(0)
    };
    let place = Path::new("/proc").join(of);
    if of == "thread-self" {
        return Duration::from_nanos(nanos(&place));
    }
    let threads = std::fs::read_dir(place.join("task")).expect("Linux tells it").flatten();
    Duration::from_nanos(threads.map(|thread| nanos(&thread.path())).sum())
}
