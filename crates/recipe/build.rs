//! Lists the files of `recipes/` for `src/book.rs`: a new file there is all that a recipe needs.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, io};

fn main() -> io::Result<()> {
    let variable = |name: &str| env::var_os(name).map(PathBuf::from).ok_or(io::ErrorKind::NotFound);
    let recipes = variable("CARGO_MANIFEST_DIR")?.join("../../recipes");
    let layers = recipes.join("layers");
    let text = constant("RECIPES", "recipes", &recipes)? + &constant("LAYERS", "recipes/layers", &layers)?;
    fs_err::write(variable("OUT_DIR")?.join("recipes.rs"), text)
}

/// Rust for a constant with the TOML files of a folder, sorted: the path that errors show, and the
/// text. `shown` is the folder in that path.
fn constant(name: &str, shown: &str, folder: &Path) -> io::Result<String> {
    // The folder's own time changes when a file is added or removed.
    println!("cargo::rerun-if-changed={}", folder.display());
    let mut files: Vec<PathBuf> =
        fs_err::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<io::Result<_>>()?;
    files.retain(|path| path.extension().is_some_and(|extension| extension == "toml"));
    files.sort();
    let mut text = format!("const {name}: &[(&str, &str)] = &[\n");
    for path in &files {
        let file = path.file_name().unwrap_or_default().to_string_lossy();
        let (entry, source) = (format!("{shown}/{file}"), path.to_string_lossy());
        writeln!(text, "    ({entry:?}, include_str!({source:?})),").map_err(io::Error::other)?;
    }
    text.push_str("];\n");
    Ok(text)
}
