//! Input: the environment variables of the user. Output: those that Visual Studio's own command
//! line would add, with its compiler on the PATH.

use std::collections::BTreeMap;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::variable_name;

/// The component that has compiler and linker for x86-64.
const TOOLS: &str = "Microsoft.VisualStudio.Component.VC.Tools.x86.x64";
/// The script that sets the variables for them, in the folder of Visual Studio.
const SCRIPT: [&str; 4] = ["VC", "Auxiliary", "Build", "vcvars64.bat"];
/// The variable that names the folder of its installer.
const PROGRAMS: &str = "ProgramFiles(x86)";
/// Its scripts set this variable; where it is, their command line is open already.
const MARK: &str = "VSCMD_VER";

/// The variables of Visual Studio's command line for x86-64, laid over `variables`; `None` if they
/// are set already, or there is no Visual Studio with a compiler. The newest one is taken.
///
/// # Errors
/// Its program for finding it (`vswhere`) or its script cannot be run, or fails.
pub fn compiler_variables(variables: &BTreeMap<String, String>) -> io::Result<Option<BTreeMap<String, String>>> {
    let Some((_, programs)) = variables.iter().find(|(name, _)| name.eq_ignore_ascii_case(PROGRAMS)) else {
        return Ok(None);
    };
    let finder = Path::new(programs).join("Microsoft Visual Studio").join("Installer").join("vswhere.exe");
    if variables.contains_key(MARK) || !finder.is_file() {
        return Ok(None);
    }
    compiler_variables_by(&finder)
}

fn compiler_variables_by(finder: &Path) -> io::Result<Option<BTreeMap<String, String>>> {
    let mut asked = Command::new(finder);
    asked.args(["-latest", "-products", "*", "-requires", TOOLS, "-property", "installationPath", "-utf8"]);
    let answer = run(&mut asked)?;
    let Some(place) = answer.lines().map(str::trim).find(|line| !line.is_empty()) else { return Ok(None) };
    let script = SCRIPT.iter().fold(PathBuf::from(place), |path, name| path.join(name));
    if !script.is_file() {
        return Ok(None);
    }
    // A file, because cmd has its own rules for quotes on its command line. `set` prints every
    // variable, code page 65001 is UTF-8, and `ver` forgets that it may not exist.
    let mut asking = tempfile::Builder::new().prefix("rocwheel-").suffix(".bat").tempfile()?;
    let lines = format!(
        "@chcp 65001 >nul\r\n@ver >nul\r\n@call \"{}\" >nul\r\n@if errorlevel 1 exit /b 1\r\n@set\r\n@exit /b 0\r\n",
        script.display()
    );
    asking.write_all(lines.as_bytes())?;
    let asking = asking.into_temp_path();
    Ok(Some(read_variables(&run(Command::new("cmd").args(["/d", "/c"]).arg(&asking))?)))
}

fn run(command: &mut Command) -> io::Result<String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output()?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        return Err(io::Error::other(format!("`{program}` failed ({}): {said}", output.status)));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Reads what `set` prints.
fn read_variables(text: &str) -> BTreeMap<String, String> {
    // A name may begin with `=`: these hold the folder of each drive.
    let pairs = text.lines().filter_map(|line| line.split_once('=').filter(|(name, _)| !name.is_empty()));
    pairs.filter_map(|(name, value)| Some((variable_name(name.into()).into_string().ok()?, value.to_owned()))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variables_of_its_script_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let studio = folder.path().join("Visual Studio 2022");
        let script = SCRIPT.iter().fold(studio.clone(), |path, name| path.join(name));
        fs_err::create_dir_all(script.parent().unwrap()).unwrap();
        let finder = folder.path().join("vswhere.bat");
        fs_err::write(&finder, format!("@echo {}\r\n", studio.display())).unwrap();
        assert_eq!(compiler_variables_by(&finder).unwrap(), None, "it has no script");
        fs_err::write(&script, "@echo hello\r\n@set VCToolsRedistDir=C:\\a=b\r\n").unwrap();
        let variables = compiler_variables_by(&finder).unwrap().unwrap();
        assert_eq!(variables.get("VCToolsRedistDir").map(String::as_str), Some(r"C:\a=b"));
        assert!(variables.contains_key("PATH") && !variables.values().any(|value| value == "hello"));
        fs_err::write(&script, "@exit /b 3\r\n").unwrap();
        assert!(compiler_variables_by(&finder).is_err());
        fs_err::write(&finder, "@exit /b 0\r\n").unwrap();
        assert_eq!(compiler_variables_by(&finder).unwrap(), None, "there is none");
    }

    #[test]
    fn an_open_command_line_and_a_machine_without_it_change_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let mut variables = BTreeMap::from([(PROGRAMS.to_owned(), folder.path().to_string_lossy().into_owned())]);
        assert_eq!(compiler_variables(&variables).unwrap(), None);
        variables.insert(MARK.to_owned(), "17.0".to_owned());
        assert_eq!(compiler_variables(&variables).unwrap(), None);
        assert_eq!(compiler_variables(&BTreeMap::new()).unwrap(), None);
    }

    #[test]
    fn what_set_prints() {
        let read = read_variables("=C:=C:\\\r\nPath=C:\\a;C:\\b\r\nINCLUDE=\r\nnonsense\r\n");
        let expected = [("INCLUDE", ""), ("PATH", r"C:\a;C:\b")];
        assert_eq!(read, expected.map(|(name, value)| (name.to_owned(), value.to_owned())).into());
    }
}
