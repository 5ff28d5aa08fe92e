//! Input: the builds of one file, each with its GPU code inside or in archives. Output: a
//! [`Binary`] with the bundles of the fused file.

use std::collections::{BTreeMap, BTreeSet};

use rocwheel_elf::Elf;
use serde::Serialize;

use rocwheel_progress::Failure;

use super::gather::{BuildPart, Code, shown};
use rocwheel_split::error::{gpu_code_error, read_error};
use rocwheel_split::verify::{Difference, host_differences};

#[derive(Serialize)]
pub struct Binary {
    /// Path at which it is installed.
    pub path: String,
    /// The host code is the first one's.
    pub builds: Vec<String>,
    pub bundles: Vec<FusedBundle>,
    /// For each wrapper, the index of its bundle.
    pub wrappers: Vec<usize>,
    #[serde(skip)]
    pub(crate) parts: Vec<BuildPart>,
}

#[derive(Serialize)]
pub struct FusedBundle {
    /// Its device entries in clang's order.
    pub entries: Vec<FusedCode>,
    #[serde(skip)]
    pub(crate) host: String,
}

#[derive(Serialize)]
pub struct FusedCode {
    /// Kind, triple and target, as in a bundle (`hipv4-amdgcn-amd-amdhsa--gfx942`).
    pub id: String,
    /// Size in bytes.
    pub size: u64,
    /// Its locations: index of the part, and the code object there. All must have the same bytes.
    #[serde(skip)]
    pub(crate) codes: Vec<(usize, Code)>,
}

impl std::fmt::Debug for Binary {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Binary").field("path", &self.path).field("builds", &self.builds).finish_non_exhaustive()
    }
}

impl Binary {
    /// Number of code objects, and their total size in bytes.
    pub fn code(&self) -> (u64, u64) {
        let sizes = self.bundles.iter().flat_map(|bundle| &bundle.entries).map(|entry| entry.size);
        (sizes.clone().count() as u64, sizes.sum())
    }

    /// The reasons why bundles that had code would have none.
    pub(crate) fn missing(&self) -> impl Iterator<Item = Difference> {
        self.bundles.iter().enumerate().filter_map(|(number, bundle)| {
            let wrapper = self.wrappers.iter().position(|of| *of == number).filter(|_| bundle.entries.is_empty())?;
            let why = self.parts.iter().find_map(|part| part.missing(wrapper))?;
            Some(Difference::new(shown(&self.path), why))
        })
    }
}

/// Combines the builds of one file. Contradictions between the builds go to `differences`, harmless
/// ones to `notes`.
pub(crate) fn combine(
    parts: Vec<BuildPart>,
    differences: &mut Vec<Difference>,
    notes: &mut Vec<String>,
) -> Result<Option<Binary>, Failure> {
    let Some(first) = parts.first() else { return Ok(None) };
    let before = differences.len();
    for part in &parts[1..] {
        if part.fat.wrappers.len() != first.fat.wrappers.len() {
            let (count, other) = (part.fat.wrappers.len(), first.fat.wrappers.len());
            let what =
                format!("{count} translation units register GPU code in {}, {other} in {}", part.build, first.build);
            differences.push(Difference::new(&first.path, what));
            continue;
        }
        compare_hosts(first, part, differences, notes)?;
    }
    if differences.len() > before {
        return Ok(None);
    }
    let mut numbers: BTreeMap<Vec<(u64, usize, usize)>, Vec<usize>> = BTreeMap::new();
    for wrapper in 0..first.wrappers.len() {
        let reached = parts.iter().map(|part| {
            let place = part.wrappers[wrapper];
            let (index, marker) = part.reached[place].order;
            (index, marker, place)
        });
        numbers.entry(reached.collect()).or_default().push(wrapper);
    }
    let mut wrappers = vec![0; first.wrappers.len()];
    let mut bundles = Vec::new();
    for (reached, of) in numbers {
        for wrapper in of {
            wrappers[wrapper] = bundles.len();
        }
        let mut entries: BTreeMap<&str, FusedCode> = BTreeMap::new();
        for (number, (part, (_, _, place))) in parts.iter().zip(&reached).enumerate() {
            for code in &part.reached[*place].codes {
                let entry = entries.entry(&code.id).or_insert_with(|| FusedCode {
                    id: code.id.clone(),
                    size: code.size,
                    codes: Vec::new(),
                });
                if entry.size != code.size {
                    let what = format!("{} and {} have different code for `{}`", first.build, part.build, code.id);
                    differences.push(Difference::new(&first.path, what));
                }
                entry.codes.push((number, code.clone()));
            }
        }
        let entries = entries.into_values().collect();
        bundles.push(FusedBundle { entries, host: first.host.clone() });
    }
    if differences.len() > before {
        return Ok(None);
    }
    let (path, builds) = (first.path.clone(), parts.iter().map(|part| part.build.clone()).collect());
    Ok(Some(Binary { path, builds, bundles, wrappers, parts }))
}

/// Builds for other GPUs have their host code at other addresses, because the GPU code before it
/// has another size. So all bytes are compared first, and if they differ, everything that does not
/// depend on addresses.
fn compare_hosts(
    first: &BuildPart,
    other: &BuildPart,
    differences: &mut Vec<Difference>,
    notes: &mut Vec<String>,
) -> Result<(), Failure> {
    let same = host_differences(first.content.as_ref(), &first.fat, other.content.as_ref(), &other.fat);
    if same.is_ok_and(|found| found.is_empty()) {
        return Ok(());
    }
    let found = if first.fat.format == rocwheel_kpack::Format::Elf { shapes(first, other)? } else { Vec::new() };
    if found.is_empty() {
        notes.push(format!(
            "`{}`: the host code of {} and {} is at different addresses; that of {} is used",
            first.path, first.build, other.build, first.build
        ));
    }
    differences.extend(
        found
            .into_iter()
            .map(|what| Difference::new(&first.path, format!("{what} in {} and in {}", first.build, other.build))),
    );
    Ok(())
}

/// Compares the properties that two builds of the same sources share wherever their code is.
fn shapes(first: &BuildPart, other: &BuildPart) -> Result<Vec<String>, Failure> {
    let ((one, exports), (two, other_exports)) = (headers_and_exports(first)?, headers_and_exports(other)?);
    let fields = [
        ("the SONAME", one.soname == two.soname),
        ("the list of needed libraries", one.needed == two.needed),
        ("the RPATH", one.search_path() == two.search_path()),
        ("the list of needed versions", one.version_needs == two.version_needs),
        ("the list of defined versions", one.version_definitions == two.version_definitions),
        ("the list of exported symbols", exports == other_exports),
    ];
    let mut found: Vec<String> =
        fields.into_iter().filter(|(_, same)| !same).map(|(what, _)| format!("{what} differs")).collect();
    for name in [".text", ".init_array", ".fini_array", ".data", ".tdata", ".bss", ".plt"] {
        let [one, two] = [&one, &two].map(|elf| elf.sections.iter().find(|section| section.name == name));
        if one.map(|section| section.size) != two.map(|section| section.size) {
            found.push(format!("the size of `{name}` differs"));
        }
    }
    Ok(found)
}

fn headers_and_exports(part: &BuildPart) -> Result<(Elf, BTreeSet<String>), Failure> {
    let reader = part.content.open().map_err(read_error(&part.path))?;
    let elf = Elf::read(&reader).and_then(|elf| elf.ok_or(rocwheel_elf::Error::NotElf));
    let both = elf.and_then(|elf| Ok((elf, rocwheel_elf::exports(&reader)?)));
    let (elf, exports) = both.map_err(|error| gpu_code_error(&part.path)(rocwheel_kpack::Error::Elf(error)))?;
    // The compiler derives these names from its command line, which names the GPUs.
    let own = ["__hip_cuid_", "__hip_fatbin_", "__hip_gpubin_handle_"];
    Ok((elf, exports.into_iter().filter(|name| !own.iter().any(|start| name.starts_with(start))).collect()))
}
