//! Sets the search path of an ELF file and prints the changes, for measurements and experiments:
//! `cargo run --release -p rocwheel-elf --example edit -- (file|inplace|plan) PATH ENTRY[:ENTRY…]`.
//!
//! `file` edits a copy and renames it, `inplace` writes into the file itself, `plan` writes
//! nothing.
#![allow(clippy::print_stdout, reason = "an example is a program")]

use std::error::Error;
use std::path::Path;
use std::time::Instant;

use fs_err::OpenOptions;
use rocwheel_elf::{Edit, SearchPath, edit_file};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [mode, path, entries] = arguments.as_slice() else {
        return Err("usage: edit (file|inplace|plan) PATH ENTRY[:ENTRY…]".into());
    };
    let edit = Edit { search_path: Some(SearchPath::Set(vec![entries.clone()])), ..Edit::default() };
    let start = Instant::now();
    if mode == "file" {
        println!("{:?} in {:?}", edit_file(Path::new(path), &edit)?, start.elapsed());
        return Ok(());
    }
    let file = OpenOptions::new().read(true).write(mode == "inplace").open(path)?;
    let patch = edit.plan(file.file())?;
    if mode == "inplace" {
        let (mut file, _) = file.into_parts();
        patch.apply(&mut file)?;
    }
    let grown = patch.size - patch.original_size;
    println!("{:?} in {:?}: {grown} bytes more than {}", patch.outcome, start.elapsed(), patch.original_size);
    Ok(())
}
