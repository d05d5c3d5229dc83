//! Files and folders as they are, and with what a test makes happen to them.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use disk::{Disk, Fault, Faults, File, Hold};

/// A folder that is removed with the test.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Folder {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let name = format!("disk-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let folder = Folder(std::env::temp_dir().join(name));
        Disk::new().create_folder("test.folder", &folder.0).expect("it can be made");
        folder
    }

    fn join(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.0));
    }
}

fn read(path: &Path) -> Vec<u8> {
    std::fs::read(path).expect("the file is there")
}

/// A file that is synced with these bytes.
fn synced(disk: &Disk, path: &Path, bytes: &[u8]) -> File {
    let file = disk.create("test.create", path).expect("it can be made");
    file.write_at("test.write", bytes, 0).expect("it can be written");
    file.sync("test.sync").expect("it can be synced");
    file
}

#[test]
fn file_is_written_read_and_cut() {
    let folder = Folder::new();
    let file = Disk::new().create("test.create", &folder.join("a")).unwrap();
    assert!(file.is_empty().unwrap());
    file.write_at("test.write", b"abcdef", 2).unwrap();
    file.sync("test.sync").unwrap();
    let mut buffer = [9; 10];
    assert_eq!(file.read_at(&mut buffer, 1).unwrap(), 7);
    assert_eq!(&buffer, b"\0abcdef\x09\x09\x09");
    file.set_len("test.cut", 4).unwrap();
    assert_eq!((file.len().unwrap(), file.path()), (4, folder.join("a").as_path()));
    assert_eq!(read(file.path()), b"\0\0ab");
}

#[test]
fn names_are_listed_renamed_and_removed() {
    let (folder, disk) = (Folder::new(), Disk::new());
    for name in ["b", "c", "a"] {
        disk.create("test.create", &folder.join(name)).unwrap();
    }
    disk.rename("test.rename", &folder.join("a"), &folder.join("d")).unwrap();
    disk.remove("test.remove", &folder.join("b")).unwrap();
    disk.sync_folder("test.sync_folder", &folder.0).unwrap();
    assert_eq!(disk.list(&folder.0).unwrap(), ["c", "d"]);
    assert_eq!(disk.open(&folder.join("a")).unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(disk.open_to_read(&folder.join("a")).unwrap_err().kind(), ErrorKind::NotFound);
}

#[test]
fn lock_is_given_once() {
    let (folder, disk) = (Folder::new(), Disk::new());
    let lock = disk.lock(&folder.join("lock")).unwrap();
    assert!(lock.is_some());
    assert!(disk.lock(&folder.join("lock")).unwrap().is_none());
    drop(lock);
    assert!(disk.lock(&folder.join("lock")).unwrap().is_some());
}

/// A program that is started at the same time inherits the open file for a moment: the lock is free all the same.
#[test]
fn dropped_lock_is_free_while_programs_start() {
    let (folder, disk) = (Folder::new(), Disk::new());
    let path = folder.join("lock");
    std::thread::scope(|scope| {
        let programs = scope.spawn(|| {
            (0..50).for_each(|_| drop(std::process::Command::new("true").output()));
        });
        while !programs.is_finished() {
            assert!(disk.lock(&path).unwrap().is_some());
        }
    });
}

/// Plans are met in their order, one operation each; then what is always met; other points are free.
#[test]
fn faults_are_met_in_their_order() {
    let (folder, faults) = (Folder::new(), Faults::new());
    let file = synced(&Disk::with_faults(&faults), &folder.join("a"), b"");
    faults.plan("test.write", Fault::full());
    faults.plan("test.write", Fault::Torn(2));
    let error = file.write_at("test.write", b"1234", 0).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::StorageFull);
    assert!(error.to_string().contains("fault at test.write"), "{error}");
    assert_eq!(read(file.path()), b"");
    file.write_at("test.write", b"1234", 0).unwrap_err();
    assert_eq!(read(file.path()), b"12");
    file.write_at("test.write", b"1234", 0).unwrap();
    faults.always("test.write", Fault::broken());
    for _ in 0..3 {
        file.write_at("test.write", b"5678", 0).unwrap_err();
    }
    file.write_at("test.other", b"9", 3).unwrap();
    faults.clear("test.write");
    file.write_at("test.write", b"0", 0).unwrap();
    assert_eq!(read(file.path()), b"0239");
    assert_eq!((faults.hits("test.write"), faults.hits("test.other"), faults.hits("test.none")), (8, 1, 0));
}

#[test]
fn each_operation_meets_its_point() {
    let (folder, faults) = (Folder::new(), Faults::new());
    let disk = Disk::with_faults(&faults);
    let path = folder.join("a");
    let file = synced(&disk, &path, b"1234");
    faults.always("test.fault", Fault::Torn(1));
    file.sync("test.fault").unwrap_err();
    file.set_len("test.fault", 0).unwrap_err();
    disk.create("test.fault", &path).unwrap_err();
    disk.rename("test.fault", &path, &folder.join("b")).unwrap_err();
    disk.remove("test.fault", &path).unwrap_err();
    disk.sync_folder("test.fault", &folder.0).unwrap_err();
    disk.create_folder("test.fault", &folder.join("c")).unwrap_err();
    assert_eq!((read(&path), faults.hits("test.fault")), (b"1234".to_vec(), 7));
    assert_eq!(disk.list(&folder.0).unwrap(), ["a"]);
}

#[test]
fn held_operation_waits_for_its_release() {
    let (folder, faults, hold) = (Folder::new(), Faults::new(), Hold::new());
    let file = synced(&Disk::with_faults(&faults), &folder.join("a"), b"1");
    faults.plan("test.write", Fault::Hold(hold.clone()));
    assert!(!hold.wait_for_arrival(Duration::ZERO));
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| file.write_at("test.write", b"2", 0));
        assert!(hold.wait_for_arrival(Duration::from_secs(60)));
        assert_eq!(read(file.path()), b"1");
        hold.release();
        writer.join().unwrap().unwrap();
    });
    assert_eq!(read(file.path()), b"2");
}

#[test]
fn delayed_operation_takes_longer() {
    let (folder, faults) = (Folder::new(), Faults::new());
    let file = synced(&Disk::with_faults(&faults), &folder.join("a"), b"1");
    faults.plan("test.sync", Fault::Delay(Duration::from_millis(20)));
    let begun = Instant::now();
    file.sync("test.sync").unwrap();
    assert!(begun.elapsed() >= Duration::from_millis(20));
}

/// The states of two sectors, written after a sync, that many losses of power leave.
fn left(prepare: impl Fn(&File, &Faults)) -> Vec<[u8; 2]> {
    let left = (0..64).map(|seed| {
        let (folder, faults) = (Folder::new(), Faults::new());
        let file = synced(&Disk::with_faults(&faults), &folder.join("a"), &[b'-'; 1024]);
        prepare(&file, &faults);
        faults.lose_power(seed).expect("the file can be written");
        let bytes = read(file.path());
        assert!(bytes[..512].iter().all(|byte| *byte == bytes[0]), "a sector is whole");
        [bytes[0], bytes[512]]
    });
    let mut left: Vec<_> = left.collect();
    left.sort_unstable();
    left.dedup();
    left
}

#[test]
fn lost_power_takes_back_unsynced_sectors() {
    let written = left(|file, _| file.write_at("test.write", &[b'x'; 1024], 0).unwrap());
    assert_eq!(written, [*b"--", *b"-x", *b"x-", *b"xx"]);
    let twice = left(|file, _| {
        file.write_at("test.write", &[b'x'; 512], 0).unwrap();
        file.write_at("test.write", &[b'y'; 512], 0).unwrap();
    });
    assert_eq!(twice, [*b"--", *b"x-", *b"y-"]);
    let synced = left(|file, _| {
        file.write_at("test.write", &[b'x'; 1024], 0).unwrap();
        file.sync("test.sync").unwrap();
        file.write_at("test.write", &[b'y'; 512], 512).unwrap();
    });
    assert_eq!(synced, [*b"xx", *b"xy"]);
}

/// The sync after a failed one returns, and has brought nothing to the disk but what was written in between.
#[test]
fn sync_after_a_failed_one_proves_nothing() {
    let dropped = left(|file, faults| {
        file.write_at("test.write", &[b'x'; 1024], 0).unwrap();
        faults.plan("test.sync", Fault::broken());
        file.sync("test.sync").unwrap_err();
        file.write_at("test.write", &[b'y'; 512], 512).unwrap();
        file.sync("test.sync").unwrap();
    });
    assert_eq!(dropped, [*b"-y", *b"xy"]);
}

/// A file has its old length or the new one; what was cut off without a sync may come back.
#[test]
fn lost_power_takes_back_lengths() {
    let mut lengths: Vec<(usize, bool)> = (0..64)
        .map(|seed| {
            let (folder, faults) = (Folder::new(), Faults::new());
            let file = synced(&Disk::with_faults(&faults), &folder.join("a"), &[b'-'; 1024]);
            file.set_len("test.cut", 512).unwrap();
            faults.lose_power(seed).unwrap();
            let bytes = read(file.path());
            (bytes.len(), bytes.get(512) == Some(&b'-'))
        })
        .collect();
    lengths.sort_unstable();
    lengths.dedup();
    assert_eq!(lengths, [(512, false), (1024, false), (1024, true)]);
}

#[test]
fn faults_are_read_from_text() {
    let folder = Folder::new();
    let faults: Faults = "test.write=torn:1@2, test.sync=full ,test.cut=delay:0,".parse().unwrap();
    let file = Disk::with_faults(&faults).create("test.create", &folder.join("a")).unwrap();
    file.write_at("test.write", b"12", 0).unwrap();
    file.write_at("test.write", b"34", 0).unwrap_err();
    file.write_at("test.write", b"56", 2).unwrap();
    for _ in 0..2 {
        assert_eq!(file.sync("test.sync").unwrap_err().kind(), ErrorKind::StorageFull);
    }
    file.set_len("test.cut", 3).unwrap();
    assert_eq!(read(file.path()), b"325");
    assert!("".parse::<Faults>().is_ok());
    for wrong in ["x", "=fail", "x=", "x=fail@0", "x=fail@", "x=torn", "x=torn:-1", "x=delay:1s", "x=fail:1"]
    {
        let error = wrong.parse::<Faults>().unwrap_err().to_string();
        assert!(error.starts_with(&format!("\"{wrong}\" is no fault: point=fail")), "{error}");
    }
}

/// Not a test of its own: what the child does.
#[test]
fn child_meets_an_abort() {
    let Ok(folder) = std::env::var("DISK_TEST_CHILD") else { return };
    let faults: Faults = "test.write=abort@2".parse().unwrap();
    let file = Disk::with_faults(&faults).create("test.create", &Path::new(&folder).join("a")).unwrap();
    file.write_at("test.write", b"1", 0).unwrap();
    file.write_at("test.write", b"2", 0).unwrap();
}

#[test]
fn abort_ends_the_process_before_the_operation() {
    let folder = Folder::new();
    let mut child = std::process::Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "child_meets_an_abort"]).env("DISK_TEST_CHILD", &folder.0);
    let output = child.output().unwrap();
    assert_eq!(output.status.code(), None, "a signal has ended it");
    assert_eq!(read(&folder.join("a")), b"1");
}

#[test]
fn files_in_memory_behave_as_files() {
    let disk = Disk::with_faults(&Faults::in_memory());
    let (folder, path) = (Path::new("/nowhere"), Path::new("/nowhere/one"));
    disk.create_folder("test.folder", folder).expect("it can be made");
    assert_eq!(disk.open(path).expect_err("nothing is there").kind(), ErrorKind::NotFound);
    let file = synced(&disk, path, b"abc");
    file.write_at("test.write", b"z", 5).expect("it can be written");
    file.set_len("test.cut", 7).expect("it can be extended");
    let mut bytes = [9; 8];
    assert_eq!(file.read_at(&mut bytes, 1).expect("it can be read"), 6);
    assert_eq!(bytes, *b"bc\0\0z\0\x09\x09");
    disk.rename("test.rename", path, &folder.join("two")).expect("it is there");
    assert_eq!(disk.list(folder).expect("names"), ["two"]);
    disk.remove("test.remove", &folder.join("two")).expect("it is there");
    assert!(disk.list(folder).expect("names").is_empty() && !path.exists());
    let lock = disk.lock(path).expect("it can be locked");
    assert!(lock.is_some() && disk.lock(path).expect("it can be asked").is_none());
    drop(lock);
    assert!(disk.lock(path).expect("it can be locked").is_some());
}
