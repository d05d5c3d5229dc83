//! Lists the places of one count of `crates/tidy/figures.toml`, or all counts with their totals.

use std::path::Path;

use tidy::{Tree, prose};

fn main() -> std::io::Result<()> {
    let wanted = std::env::args().nth(1);
    let tree = Tree::read(Path::new("."))?;
    for (name, places) in prose::counts(&tree) {
        match &wanted {
            None => println!("{name} = {}", places.len()),
            Some(wanted) if wanted == name => places.iter().for_each(|place| println!("{place}")),
            Some(_) => {}
        }
    }
    Ok(())
}
