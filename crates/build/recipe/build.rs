//! Lists the files of `recipes/` for `src/book.rs`, so that a new recipe is only a new file there.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, io};

fn main() -> io::Result<()> {
    let variable = |name: &str| env::var_os(name).map(PathBuf::from).ok_or(io::ErrorKind::NotFound);
    let recipes = variable("CARGO_MANIFEST_DIR")?.join("../../../recipes");
    let layers = recipes.join("layers");
    let text = constant("RECIPES", "recipes", &recipes)? + &constant("LAYERS", "recipes/layers", &layers)?;
    fs_err::write(variable("OUT_DIR")?.join("recipes.rs"), text)
}

/// Rust code of a constant that lists the TOML files of a folder, sorted, as pairs of path and
/// text. `shown` is the folder's path in errors.
fn constant(name: &str, shown: &str, folder: &Path) -> io::Result<String> {
    // The modification time of the folder changes when a file is added or removed.
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
