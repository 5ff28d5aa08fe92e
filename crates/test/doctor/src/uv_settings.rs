//! Input: the variables of the session and a working directory. Output: the files in which uv looks
//! for settings, and the indexes that they name.
//!
//! uv reads the nearest `uv.toml` or `pyproject.toml` with `[tool.uv]` from the working directory
//! upwards, that of the user, and that of the system. `UV_CONFIG_FILE` replaces all of them.

use std::path::Path;

use toml::Value;

use crate::tree::MachineTree;
use crate::variables::SessionVariables;

/// Size up to which a file of settings is read.
const LARGEST: u64 = 1 << 20;

/// A file with settings of uv.
#[derive(Debug)]
pub(crate) struct UvFile {
    pub(crate) path: String,
    /// The addresses of its indexes, or why it is not understood.
    pub(crate) indexes: Result<Vec<String>, String>,
}

/// The existing files with settings, the nearest first.
pub(crate) fn read(tree: &MachineTree, variables: &SessionVariables, directory: Option<&Path>) -> Vec<UvFile> {
    if let Some(file) = variables.filled("UV_CONFIG_FILE") {
        return read_file(tree, file).into_iter().collect();
    }
    if variables.filled("UV_NO_CONFIG").is_some_and(|value| !["0", "false", "no"].contains(&value)) {
        return Vec::new();
    }
    let mut files: Vec<UvFile> = directory.and_then(|directory| of_project(tree, directory)).into_iter().collect();
    let user = variables.filled("XDG_CONFIG_HOME").map(str::to_owned);
    let user = user.or_else(|| Some(format!("{}/.config", variables.filled("HOME")?)));
    files.extend(user.and_then(|folder| read_file(tree, &format!("{folder}/uv/uv.toml"))));
    let system = variables.filled("XDG_CONFIG_DIRS").unwrap_or("/etc/xdg").split(':');
    let mut system = system.map(|folder| format!("{folder}/uv/uv.toml")).chain(["/etc/uv/uv.toml".to_owned()]);
    files.extend(system.find_map(|path| read_file(tree, &path)));
    files
}

/// The settings of the project around a folder of this machine.
fn of_project(tree: &MachineTree, directory: &Path) -> Option<UvFile> {
    directory.ancestors().find_map(|folder| {
        let folder = folder.to_string_lossy();
        let folder = folder.trim_end_matches('/');
        read_file(tree, &format!("{folder}/uv.toml")).or_else(|| {
            let path = format!("{folder}/pyproject.toml");
            // uv warns of a file that it cannot read, and continues.
            let document: Value = toml::from_str(&tree.text_up_to(&path, LARGEST).ok()?).ok()?;
            let indexes = indexes_of(document.get("tool")?.get("uv")?);
            Some(UvFile { path, indexes: Ok(indexes) })
        })
    })
}

/// The settings in a file; `None` if it does not exist.
fn read_file(tree: &MachineTree, path: &str) -> Option<UvFile> {
    if !tree.exists(path) {
        return None;
    }
    let indexes = match tree.text_up_to(path, LARGEST) {
        Err(fault) => Err(fault.words()),
        Ok(text) => match toml::from_str::<Value>(&text) {
            Ok(document) => Ok(indexes_of(&document)),
            Err(error) => Err(error.message().to_owned()),
        },
    };
    Some(UvFile { path: path.to_owned(), indexes })
}

/// The addresses in `[[index]]`, `index-url`, `extra-index-url` and `find-links`, also those of
/// `[pip]`.
fn indexes_of(settings: &Value) -> Vec<String> {
    let mut found = Vec::new();
    for table in [Some(settings), settings.get("pip")].into_iter().flatten() {
        for key in ["index", "index-url", "extra-index-url", "find-links"] {
            let values: Vec<&Value> = match table.get(key) {
                Some(Value::Array(values)) => values.iter().collect(),
                Some(value) => vec![value],
                None => continue,
            };
            let addresses = values.into_iter().filter_map(|value| value.get("url").unwrap_or(value).as_str());
            found.extend(addresses.map(str::to_owned));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_forms_of_an_index_are_read() {
        let text = "index-url = \"https://a/gfx942\"\nextra-index-url = [\"https://b/gfx1100\"]\n\n\
                    [[index]]\nname = \"c\"\nurl = \"https://c/gfx1151\"\nexplicit = true\n\n\
                    [pip]\nfind-links = [\"https://d/gfx90a\"]\n";
        let found = indexes_of(&toml::from_str(text).unwrap());
        assert_eq!(found, ["https://c/gfx1151", "https://a/gfx942", "https://b/gfx1100", "https://d/gfx90a"]);
    }

    #[test]
    fn the_nearest_project_counts() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = folder.path().join(name);
            fs_err::create_dir_all(path.parent().unwrap()).unwrap();
            fs_err::write(path, text).unwrap();
        };
        let project = |name: &str| of_project(&MachineTree::live(), &folder.path().join(name)).map(|file| file.path);
        write("uv.toml", "index-url = \"https://a/gfx942\"\n");
        write("project/pyproject.toml", "[project]\nname = \"x\"\n");
        assert!(project("project/sub").unwrap().ends_with("/uv.toml"), "there is no [tool.uv]");
        write("project/pyproject.toml", "[tool.uv]\nindex-url = \"https://b/gfx1100\"\n");
        assert!(project("project/sub").unwrap().ends_with("project/pyproject.toml"));
        write("project/sub/uv.toml", "index-url = \n");
        let file = of_project(&MachineTree::live(), &folder.path().join("project/sub")).unwrap();
        assert!(file.path.ends_with("sub/uv.toml") && file.indexes.is_err());
    }
}
