//! Control groups for processors on this system: version 1 (`cpu` and `cpuacct`, together or apart) or
//! version 2.

use postgres::Error;
use std::path::{Path, PathBuf};

/// Version of the kernel's interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Version {
    /// A hierarchy per controller.
    One,
    /// One hierarchy for all of them.
    Two,
}

/// Places at which groups can be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Hierarchy {
    pub(super) version: Version,
    /// The groups below which ours go: first where quotas are set; then where use is counted, if that is another place.
    pub(super) places: Vec<PathBuf>,
}

impl Hierarchy {
    /// Below the groups in which we are ourselves, so that whatever limits us limits ours too.
    pub(super) fn find() -> Result<Hierarchy, Error> {
        let read = |file: &str| std::fs::read_to_string(file).unwrap_or_default();
        let (mounts, own) = (read("/proc/self/mountinfo"), read("/proc/self/cgroup"));
        let has = |place: &Path, file: &str| {
            let text = std::fs::read_to_string(place.join(file)).unwrap_or_default();
            text.split_whitespace().any(|word| word == "cpu")
        };
        first(&mounts, &own).or_else(|| second(&mounts, &own, has)).ok_or_else(|| {
            Error::Setup(
                "nodes with a CPU quota need control groups for CPU, and none are available: neither cpu and cpuacct of \
                 version 1 are mounted, nor version 2 with cpu in the cgroup.subtree_control of a group above this process"
                    .to_owned(),
            )
        })
    }
}

/// The places of version 1, if both controllers are mounted.
fn first(mounts: &str, own: &str) -> Option<Hierarchy> {
    let place = |controller: &str| {
        let (root, point) = mounts.lines().find_map(|line| mount(line, "cgroup", Some(controller)))?;
        let ours = own.lines().find_map(|line| {
            let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
            controllers.split(',').any(|name| name == controller).then_some(path)
        })?;
        Some(below(point, root, ours))
    };
    let mut places = vec![place("cpu")?, place("cpuacct")?];
    places.dedup();
    Some(Hierarchy { version: Version::One, places })
}

/// The place of version 2: the nearest group at or above our own that hands out processors to the groups
/// below it. `has` is true if `cpu` is among the words of a group's file.
fn second(mounts: &str, own: &str, has: impl Fn(&Path, &str) -> bool) -> Option<Hierarchy> {
    let (root, point) = mounts.lines().find_map(|line| mount(line, "cgroup2", None))?;
    let ours = own.lines().find_map(|line| line.strip_prefix("0::"))?;
    let ours = below(point, root, ours);
    let place = ours.ancestors().find(|place| has(place, "cgroup.subtree_control"))?;
    place.starts_with(point).then(|| Hierarchy { version: Version::Two, places: vec![place.to_owned()] })
}

/// From a line of `/proc/self/mountinfo`: the part of the file system that is mounted, and where, if it is of this type and
/// has this option of its own.
fn mount<'a>(line: &'a str, wanted: &str, option: Option<&str>) -> Option<(&'a str, &'a str)> {
    let (place, system) = line.split_once(" - ")?;
    let mut place = place.split(' ').skip(3);
    let (root, point) = (place.next()?, place.next()?);
    let mut system = system.split(' ');
    let (kind, _, options) = (system.next()?, system.next()?, system.next()?);
    let fits = kind == wanted && option.is_none_or(|option| options.split(',').any(|name| name == option));
    fits.then_some((root, point))
}

/// The folder of a group. In a container the names may be those outside: then what is mounted is all that we have.
fn below(point: &str, root: &str, group: &str) -> PathBuf {
    let inside = Path::new(group).strip_prefix(root).unwrap_or_else(|_| Path::new(""));
    // A path that ends with nothing would end with a slash.
    if inside.as_os_str().is_empty() { PathBuf::from(point) } else { Path::new(point).join(inside) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const APART: &str = "\
30 22 0:27 / /sys/fs/cgroup/cpu rw,relatime shared:9 - cgroup cgroup rw,cpu
31 22 0:28 / /sys/fs/cgroup/cpuacct rw,relatime shared:10 - cgroup cgroup rw,cpuacct
";
    const TOGETHER: &str = "30 22 0:27 /box /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n";
    const UNIFIED: &str = "30 22 0:27 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n";

    fn places(hierarchy: Option<Hierarchy>) -> Vec<String> {
        let places = hierarchy.map(|hierarchy| hierarchy.places).unwrap_or_default();
        places.iter().map(|place| place.display().to_string()).collect()
    }

    #[test]
    fn version_1_has_a_place_for_each_controller_or_one_for_both() {
        let own = "9:cpuset:/x\n2:cpuacct:/\n1:cpu:/low\n0::/\n";
        assert_eq!(places(first(APART, own)), ["/sys/fs/cgroup/cpu/low", "/sys/fs/cgroup/cpuacct"]);
        let own = "4:cpu,cpuacct:/box/inner\n0::/box\n";
        assert_eq!(places(first(TOGETHER, own)), ["/sys/fs/cgroup/cpu,cpuacct/inner"]);
        let own = "4:cpu,cpuacct:/outside\n";
        assert_eq!(
            places(first(TOGETHER, own)),
            ["/sys/fs/cgroup/cpu,cpuacct"],
            "names of another namespace"
        );
    }

    #[test]
    fn version_1_without_a_controller_is_no_place() {
        let only_quotas = APART.lines().next().unwrap();
        assert_eq!(first(only_quotas, "2:cpuacct:/\n1:cpu:/\n"), None);
        assert_eq!(first(UNIFIED, "0::/user.slice\n"), None);
    }

    #[test]
    fn version_2_goes_up_to_who_hands_out_processors() {
        let own = "0::/user.slice/user-1.slice/run.scope\n";
        let handed_out_by = |name: &'static str| move |place: &Path, _: &str| place.ends_with(name);
        let found = second(UNIFIED, own, handed_out_by("user.slice"));
        assert_eq!(found.as_ref().map(|found| found.version), Some(Version::Two));
        assert_eq!(places(found), ["/sys/fs/cgroup/user.slice"]);
        assert_eq!(second(UNIFIED, own, |_, _| false), None);
        assert_eq!(
            second(UNIFIED, own, handed_out_by("sys")),
            None,
            "above what is mounted nothing is a group"
        );
        assert_eq!(second(APART, own, |_, _| true), None);
    }
}
