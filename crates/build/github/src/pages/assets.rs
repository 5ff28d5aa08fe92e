//! Input: folders with wheels and tarballs. Output: the files, with the facts from their names and
//! their provenance.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use rocwheel_progress::{Reporter, Unit};
use rocwheel_wheel::WheelName;
use walkdir::WalkDir;

use rocwheel_progress::Failure;
use rocwheel_recipe::matrix::{Label, RocmLabel};
use rocwheel_recipe::provenance::{FileProvenance, SUFFIX, statement_path};

/// Maximum depth of tarballs below a folder with the outputs of several jobs (`JOB/linux-64/…`).
const DEPTH: usize = 3;

/// A file that can be released.
#[derive(Debug, Clone, PartialEq)]
pub struct Asset {
    pub path: PathBuf,
    pub name: String,
    /// Size in bytes.
    pub size: u64,
    /// Lower-case hexadecimal SHA-256.
    pub sha256: String,
    /// Facts from its name and its provenance; `None` if it is not a wheel.
    pub facts: Option<WheelFacts>,
    pub provenance: Option<PathBuf>,
}

/// Facts about a wheel, as pages show them. Unknown facts are empty.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WheelFacts {
    /// Platform in words: `Linux x86_64`.
    pub platform: String,
    pub package: String,
    /// Version without the local part.
    pub version: String,
    /// Python in words: `3.12`, `3.13t`, `3.8+ (abi3)`, `any`.
    pub python: String,
    /// PyTorch version that it was built against, e.g. `2.12`.
    pub torch: String,
    /// ROCm version that it was built against. Digits without a dot stay unchanged if they can mean
    /// two versions.
    pub rocm: String,
    /// Name of a backend other than the default.
    pub backend: String,
    /// GPU targets that it has code for.
    pub targets: Vec<String>,
}

/// The wheels and tarballs in folders, sorted by name. `rocm` lists the versions that digits
/// without a dot can mean.
///
/// # Errors
/// A folder cannot be read, two files of one name have different contents, or provenance is about
/// another file.
pub fn look(folders: &[PathBuf], rocm: &[String], reporter: &dyn Reporter) -> Result<Vec<Asset>, Failure> {
    let mut paths = Vec::new();
    for folder in folders {
        // A missing folder is an error, not an empty folder.
        fs_err::read_dir(folder)?;
        let walk = WalkDir::new(folder).max_depth(DEPTH).sort_by_file_name().into_iter();
        let walk =
            walk.filter_entry(|entry| entry.depth() == 0 || !entry.file_name().to_string_lossy().starts_with('.'));
        for entry in walk {
            let entry = entry.map_err(std::io::Error::from)?;
            let name = entry.file_name().to_string_lossy();
            if entry.path().is_file() && (WheelName::is_wheel(entry.path()) || name.ends_with(".tar.bz2")) {
                paths.push(entry.into_path());
            }
        }
    }
    let _stage = reporter.stage("Reading existing files", Some(paths.len() as u64), Unit::Items);
    let mut found: BTreeMap<String, Asset> = BTreeMap::new();
    for path in &paths {
        reporter.check()?;
        let asset = asset(path, rocm)?;
        if let Some(other) = found.get(&asset.name).filter(|other| other.sha256 != asset.sha256) {
            let (one, two) = (other.path.display(), path.display());
            return Err(rocwheel_recipe::Error::request_with(
                format!("`{one}` and `{two}` have one name and different contents"),
                "a file of a name never changes: take one of them away, or build it with another version",
            )
            .into());
        }
        found.entry(asset.name.clone()).or_insert(asset);
        reporter.advance(1);
    }
    Ok(found.into_values().collect())
}

fn asset(path: &Path, rocm: &[String]) -> Result<Asset, Failure> {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let sha256 = rocwheel_source::sha256(path, &rocwheel_progress::Silent)?;
    let provenance = FileProvenance::of(path)?;
    if let Some(stated) = provenance.as_ref().and_then(|provenance| provenance.sha256.as_ref())
        && *stated != sha256
    {
        return Err(rocwheel_recipe::Error::Malformed {
            path: statement_path(path).to_string_lossy().into_owned(),
            line: None,
            reason: format!("it is about another `{name}`: the SHA-256 is {sha256}, and it says {stated}"),
            hint: Some("the file was changed after it was built; build it again, or remove what is wrong".into()),
        }
        .into());
    }
    let facts = match name.parse::<WheelName>() {
        Ok(parsed) => Some(WheelFacts::of(&parsed, provenance.as_ref(), rocm)),
        Err(error) if WheelName::is_wheel(path) => return Err(error.into()),
        Err(_) => None,
    };
    let provenance = provenance.is_some().then(|| statement_path(path));
    Ok(Asset { path: path.to_owned(), name, size: path.metadata()?.len(), sha256, facts, provenance })
}

impl WheelFacts {
    /// Facts from a file name, completed by the provenance.
    pub fn of(name: &WheelName, provenance: Option<&FileProvenance>, known: &[String]) -> WheelFacts {
        let (public, local) = name.version.split_once('+').unwrap_or((&name.version, ""));
        let label = Label::parse(local);
        let [torch, rocm] = ["torch", "rocm"]
            .map(|name| provenance.and_then(|provenance| Some((*provenance.of_cell(name).first()?).to_owned())));
        let rocm = match &label.rocm {
            Some(RocmLabel::Version(version)) => Some(version.clone()),
            Some(digits @ RocmLabel::Digits(text)) => match &digits.candidates(known)[..] {
                [one] => Some(one.clone()),
                _ => Some(text.clone()),
            },
            None => rocm,
        };
        WheelFacts {
            platform: platform(name.platforms.first().map_or("any", String::as_str)),
            package: rocwheel_wheel::canonical_name(&name.distribution),
            version: public.to_owned(),
            python: python(name),
            torch: label.torch.or(torch).unwrap_or_default(),
            rocm: rocm.unwrap_or_default(),
            backend: label.backend.unwrap_or_default(),
            targets: targets(name, provenance),
        }
    }
}

/// A device wheel is for the target in its name; another wheel is for the targets that it was built
/// for.
fn targets(name: &WheelName, provenance: Option<&FileProvenance>) -> Vec<String> {
    if let Some((_, target)) = name.distribution.rsplit_once("_device_") {
        return vec![target.to_owned()];
    }
    let of_cell = provenance.map(|provenance| provenance.of_cell("targets")).unwrap_or_default();
    of_cell.into_iter().map(str::to_owned).collect()
}

/// A platform tag in words; of a compressed tag set, the first tag.
fn platform(tag: &str) -> String {
    let system = match tag {
        "any" => return "Any".into(),
        "win_amd64" => return "Windows x86_64".into(),
        "win_arm64" => return "Windows arm64".into(),
        _ if tag.starts_with("manylinux") || tag.starts_with("linux") || tag.starts_with("musllinux") => "Linux",
        _ => return tag.to_owned(),
    };
    let machine = ["x86_64", "aarch64", "riscv64", "ppc64le"].into_iter().find(|machine| tag.ends_with(machine));
    match machine {
        Some("aarch64") => format!("{system} arm64"),
        Some(machine) => format!("{system} {machine}"),
        None => tag.to_owned(),
    }
}

fn python(name: &WheelName) -> String {
    let mut texts = Vec::new();
    for tag in &name.pythons {
        let number = tag.strip_prefix("cp3").filter(|number| number.bytes().all(|byte| byte.is_ascii_digit()));
        texts.push(match number {
            None => "any".to_owned(),
            Some(number) if name.abis.iter().any(|abi| abi == "abi3") => format!("3.{number}+ (abi3)"),
            Some(number) if name.abis.iter().any(|abi| *abi == format!("{tag}t")) => format!("3.{number}t"),
            Some(number) => format!("3.{number}"),
        });
    }
    texts.dedup();
    texts.join(", ")
}

/// The text of `SHA256SUMS`, which `sha256sum --check` reads. It lists all files of the release,
/// including provenance.
pub fn checksums(assets: &[Asset]) -> Result<String, Failure> {
    let mut rows = BTreeMap::new();
    for asset in assets {
        rows.insert(asset.name.clone(), asset.sha256.clone());
        if let Some(path) = &asset.provenance {
            rows.insert(format!("{}{SUFFIX}", asset.name), rocwheel_source::sha256(path, &rocwheel_progress::Silent)?);
        }
    }
    Ok(rows.iter().map(|(name, sha256)| format!("{sha256}  {name}\n")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_what_wheels_are() {
        let known = ["6.2".to_owned(), "7.1".to_owned(), "7.14".to_owned()];
        let of = |name: &str| {
            let facts = WheelFacts::of(&name.parse().unwrap(), None, &known);
            [facts.platform, facts.package, facts.version, facts.python, facts.torch, facts.rocm, facts.backend]
                .join("/")
        };
        for (name, words) in [
            (
                "flash_attn-2.8.3+rocm7.2torch2.9-cp312-cp312-linux_x86_64.whl",
                "Linux x86_64/flash-attn/2.8.3/3.12/2.9/7.2/",
            ),
            ("flash_attn-2.8.3+rocm62torch2.5triton-py3-none-any.whl", "Any/flash-attn/2.8.3/any/2.5/6.2/triton"),
            (
                "x-1+rocm714-cp313-cp313t-manylinux_2_24_x86_64.manylinux_2_28_x86_64.whl",
                "Linux x86_64/x/1/3.13t//714/",
            ),
            ("x-1-cp39-abi3-win_amd64.whl", "Windows x86_64/x/1/3.9+ (abi3)///"),
            ("x-1-cp310-cp310-manylinux_2_34_aarch64.whl", "Linux arm64/x/1/3.10///"),
        ] {
            assert_eq!(of(name), words, "{name}");
        }
        let device = "x_device_gfx942-1-py3-none-any.whl".parse().unwrap();
        assert_eq!(WheelFacts::of(&device, None, &known).targets, ["gfx942"]);
    }

    #[test]
    fn outputs_of_several_jobs_are_read_together_and_may_not_contradict_each_other() {
        let folder = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = folder.path().join(path);
            fs_err::create_dir_all(path.parent().unwrap()).unwrap();
            fs_err::write(path, text).unwrap();
        };
        write("one/triton-3.5.0-cp312-cp312-linux_x86_64.whl", "a wheel");
        write("another/linux-64/magma-rocm63-2.9.0-1.tar.bz2", "a tarball");
        let look = || look(&[folder.path().to_owned()], &[], &rocwheel_progress::Silent);
        let names: Vec<String> = look().unwrap().into_iter().map(|asset| asset.name).collect();
        assert_eq!(names, ["magma-rocm63-2.9.0-1.tar.bz2", "triton-3.5.0-cp312-cp312-linux_x86_64.whl"]);
        write("another/triton-3.5.0-cp312-cp312-linux_x86_64.whl", "a wheel");
        assert_eq!(look().unwrap().len(), 2, "the same file twice is one");
        write("another/triton-3.5.0-cp312-cp312-linux_x86_64.whl", "another wheel");
        assert!(look().unwrap_err().to_string().contains("have one name and different contents"));
    }
}
