//! Small machines out of a large one: each server, with all that it starts, in a control group of its own that may use only
//! a part of a core. So a few cores stand for several small computers, and the kernel counts what each has used.
//!
//! The experiment shows the distribution of work: processors are divided, not disks, memory, caches or
//! networks. The kernel hands out each quota in turns of 100 ms, so a single statement that needs more than
//! its node's part waits for the next turn. Times of single statements say little, sums and ratios do. The
//! quotas together must leave room for clients.
//!
//! ```text
//! <our own group>/<family>/<machine>    in each hierarchy that has to do with processors
//! ```

mod hierarchy;

use crate::guard::Guard;
use crate::processes;
use hierarchy::{Hierarchy, Version};
use postgres::Error;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Period after which the kernel hands out a quota again.
const TURN_US: u64 = 100_000;

/// The small machines of one folder of servers. Dropped, or when this process ends in whatever way, the servers of the
/// folder and all else that lives in the groups are ended, the groups are removed, and the folder too.
#[derive(Debug)]
pub struct SmallMachines {
    version: Version,
    /// Folders of the quotas, and of the usage, if that is another place.
    families: Vec<PathBuf>,
    _guard: Guard,
}

impl SmallMachines {
    /// Prepares machines for servers that will be made in `folder`.
    ///
    /// # Errors
    /// [`Error::Setup`] that says what this system lacks: control groups for processors, or the right to make one.
    pub fn make(folder: &Path) -> Result<SmallMachines, Error> {
        SmallMachines::make_in(&Hierarchy::find()?, folder)
    }

    fn make_in(hierarchy: &Hierarchy, folder: &Path) -> Result<SmallMachines, Error> {
        let name = folder.file_name().unwrap_or_else(|| "consort".as_ref());
        let families: Vec<PathBuf> = hierarchy.places.iter().map(|place| place.join(name)).collect();
        let guard = Guard::over(folder, &families)
            .map_err(|error| Error::Setup(format!("cannot run sh for the clean-up: {error}")))?;
        for family in &families {
            std::fs::create_dir(family).map_err(|error| no_right(family, &error))?;
            if hierarchy.version == Version::Two {
                write(family, "cgroup.subtree_control", "+cpu")?;
            }
        }
        Ok(SmallMachines { version: hierarchy.version, families, _guard: guard })
    }

    /// A new machine, empty and without a limit.
    ///
    /// # Errors
    /// [`Error::Setup`] if there is one of this name, or the kernel refuses it.
    pub fn add(&self, name: &str) -> Result<SmallMachine, Error> {
        let places: Vec<PathBuf> = self.families.iter().map(|family| family.join(name)).collect();
        for place in &places {
            std::fs::create_dir(place).map_err(|error| no_right(place, &error))?;
        }
        Ok(SmallMachine { name: name.to_owned(), version: self.version, places })
    }
}

/// One of them.
#[derive(Debug)]
pub struct SmallMachine {
    name: String,
    version: Version,
    places: Vec<PathBuf>,
}

impl SmallMachine {
    /// The name that it was given.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Moves a process here with all its threads and children. Its further children are here, too.
    ///
    /// # Errors
    /// [`Error::Setup`] if it is gone or may not be moved.
    pub fn take(&self, process: i32) -> Result<(), Error> {
        self.places.iter().try_for_each(|place| write(place, "cgroup.procs", &process.to_string()))?;
        for child in processes::children(process) {
            for place in &self.places {
                // One that has ended meanwhile needs no place.
                if let Err(error) = std::fs::write(place.join("cgroup.procs"), child.to_string())
                    && processes::is_alive(child)
                {
                    return Err(no_right(place, &error));
                }
            }
        }
        Ok(())
    }

    /// From now on all processes here together may use so many hundredths of a core; `None`: as much as there is.
    ///
    /// # Errors
    /// [`Error::Setup`] if the kernel refuses it: less than 1, or more than the groups above may use.
    pub fn limit(&self, percent: Option<u32>) -> Result<(), Error> {
        let quota_us = percent.map(|percent| u64::from(percent) * TURN_US / 100);
        let place = &self.places[0];
        match self.version {
            Version::One => {
                write(place, "cpu.cfs_period_us", &TURN_US.to_string())?;
                let quota = quota_us.map_or_else(|| "-1".to_owned(), |quota_us| quota_us.to_string());
                write(place, "cpu.cfs_quota_us", &quota)
            }
            Version::Two => {
                let quota = quota_us.map_or_else(|| "max".to_owned(), |quota_us| quota_us.to_string());
                write(place, "cpu.max", &format!("{quota} {TURN_US}"))
            }
        }
    }

    /// The time that processors have worked for it since it was made, by the kernel's own count.
    ///
    /// # Errors
    /// [`Error::Setup`] if the kernel does not report it.
    pub fn used(&self) -> Result<Duration, Error> {
        let place = self.places.last().expect("there is at least one hierarchy");
        match self.version {
            Version::One => {
                let text = read(place, "cpuacct.usage")?;
                text.trim().parse().map(Duration::from_nanos).map_err(|_| unreadable(place, &text))
            }
            Version::Two => {
                let text = read(place, "cpu.stat")?;
                used_us(&text).map(Duration::from_micros).ok_or_else(|| unreadable(place, &text))
            }
        }
    }
}

/// From `cpu.stat` of the second version.
fn used_us(text: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix("usage_usec ")?.parse().ok())
}

fn read(place: &Path, file: &str) -> Result<String, Error> {
    let file = place.join(file);
    std::fs::read_to_string(&file)
        .map_err(|error| Error::Setup(format!("cannot read {}: {error}", file.display())))
}

fn write(place: &Path, file: &str, text: &str) -> Result<(), Error> {
    let file = place.join(file);
    std::fs::write(&file, text)
        .map_err(|error| Error::Setup(format!("cannot write {text:?} to {}: {error}", file.display())))
}

fn unreadable(place: &Path, text: &str) -> Error {
    Error::Setup(format!("unknown format of {}: {text:?}", place.display()))
}

fn no_right(place: &Path, error: &io::Error) -> Error {
    Error::Setup(format!(
        "cannot use the control group {}: {error}; nodes with a CPU quota need root, or a group delegated to this user (with systemd: systemd-run --user --scope -p Delegate=yes ..), and a writable file system",
        place.display()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_version_counts_microseconds() {
        assert_eq!(used_us("usage_usec 1234\nuser_usec 1000\nnr_throttled 3\n"), Some(1234));
        assert_eq!(used_us("user_usec 1000\n"), None);
    }

    #[test]
    fn who_may_not_make_a_group_is_told_what_is_missing() {
        // No process can make a folder there.
        let hierarchy = Hierarchy { version: Version::One, places: vec![PathBuf::from("/proc/self")] };
        let folder = std::env::temp_dir().join(format!("consort-no-right-{}", std::process::id()));
        let error = SmallMachines::make_in(&hierarchy, &folder).unwrap_err().to_string();
        assert!(error.contains("/proc/self/consort-no-right-") && error.contains("need root"), "{error}");
    }
}
