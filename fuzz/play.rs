//! Plays what was kept of fuzzing, on stable Rust: each file of a target's folder is shown to the target's check.

/// Shows every file of `fuzz/corpus/TARGET` to a check, and the cut-off beginnings of each.
pub(crate) fn play(target: &str, check: impl Fn(&[u8])) {
    let folder = format!("{}/../../fuzz/corpus/{target}", env!("CARGO_MANIFEST_DIR"));
    let files = std::fs::read_dir(&folder).expect("the target has a folder");
    let mut files: Vec<_> = files.map(|file| file.expect("it can be listed").path()).collect();
    files.sort();
    assert!(!files.is_empty(), "nothing is kept in {folder}");
    for file in files {
        println!("{}", file.display());
        let bytes = std::fs::read(&file).expect("it can be read");
        check(&bytes);
        (0..bytes.len().min(MOST_CUTS)).for_each(|length| check(&bytes[..length]));
    }
}

/// Number of beginnings of one file that are shown.
const MOST_CUTS: usize = 256;
