//! Input: the audited files. Output: what is the matter with them as ROCm's: builds that are none
//! (RW011), preload lists (RW019), split GPU code (RW021) and GPU code that lies (RW024).

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use rocwheel_kpack::fatbin::Magic;
use rocwheel_kpack::marker::TARGET_PLACEHOLDER;
use rocwheel_kpack::{FatBinary, Marker};
use rocwheel_rocm::Pattern;
use rocwheel_survey::{self as survey, CUDA, Kernels, WINDOWS_CUDA, Weight};
use rocwheel_wheel::FileDigest;

use super::{Context, Extra, file_name, listed};
use crate::Error;
use crate::finding::{Code, Finding, Severity};
use rocwheel_loader::facts::{Object, Purpose, WindowsFile};
use rocwheel_loader::site::Distribution;
use rocwheel_rocm::owners::{Owner, Owners};

/// Section of the wrappers, which register GPU code with the runtime.
const WRAPPERS: &str = ".hipFatBinSegment";
/// Section of the GPU code.
const CODE: &str = ".hip_fatbin";
/// The same on Windows, where names have eight characters.
const WINDOWS_CODE: &str = ".hip_fat";
/// Section by which AMD's tool marks a file whose GPU code is elsewhere.
const MARKER: &str = ".rocm_kpack_ref";
/// What is left of the section of the GPU code, at most, when it was moved away: a page.
const LEFT: u64 = 4096;

pub(super) fn check(context: &Context<'_>, findings: &mut Vec<Finding>) -> Result<(), Error> {
    for (wheel, installed) in context.audited() {
        not_rocm(context, wheel, findings);
        split_code(context, wheel, findings)?;
        if context.options.extras.contains(&Extra::GpuCode) {
            gpu_code(context, (wheel, installed), findings)?;
        }
    }
    Ok(())
}

/// Whether name or version say that a wheel is a ROCm build.
fn says_rocm(installed: &Distribution) -> Option<String> {
    let version = installed.version();
    let local = version.split_once('+').map(|(_, local)| local.to_owned()).unwrap_or_default();
    if local.to_ascii_lowercase().contains("rocm") {
        return Some(version);
    }
    let is_rocm =
        |word: &str| word.strip_prefix("rocm").is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_digit()));
    // `rocm-sdk-core` is ROCm itself, `…-rocm` and `jax-rocm7-plugin` say that they are made for
    // it.
    let mut words = installed.name.split('-');
    let first = words.next();
    (first != Some("rocm") && words.any(is_rocm)).then(|| installed.name.clone())
}

fn not_rocm(context: &Context<'_>, wheel: usize, findings: &mut Vec<Finding>) {
    let installed = &context.site.distributions[wheel];
    let Some(said) = says_rocm(installed) else { return };
    let native: Vec<(&str, &Object)> = context.native(wheel).collect();
    let windows: Vec<(&str, &WindowsFile)> = context.windows_files(wheel).collect();
    if native.is_empty() && windows.is_empty() {
        return;
    }
    let needs = |test: fn(&Owner) -> bool| -> Vec<&str> {
        let is_such = |names: &[String]| names.iter().any(|name| Owners::embedded().of(name).is_some_and(test));
        let on_linux = native.iter().filter(|(_, object)| is_such(&object.elf.needed)).map(|(path, _)| *path);
        // What is delayed until it is used says as well what a file is made for.
        let on_windows = windows.iter().filter(|(_, file)| {
            file.imports.as_ref().is_ok_and(|imports| is_such(&imports.needed) || is_such(&imports.delayed))
        });
        on_linux.chain(on_windows.map(|(path, _)| *path)).collect()
    };
    let has_windows_section =
        |name: &str| windows.iter().any(|(_, file)| file.pe.sections.iter().any(|section| section.name == name));
    let has_section =
        |name: &str| native.iter().any(|(_, object)| object.elf.sections.iter().any(|section| section.name == name));
    let has_gpu_file = context.paths(wheel).iter().any(|path| {
        [".co", ".hsaco", ".kpack"].iter().any(|suffix| path.ends_with(suffix))
            || context.facts.objects.get(*path).is_some_and(|object| object.purpose == Purpose::GpuCode)
    });
    let names_rocm = || {
        native.iter().any(|(path, _)| mentions(context, path, b"libamdhip64.so"))
            || windows.iter().any(|(path, _)| mentions(context, path, b"amdhip64"))
    };
    let holds_rocm = windows.iter().any(|(path, _)| {
        let name = file_name(path).to_ascii_lowercase();
        Owners::embedded().of(&name).is_some_and(Owner::is_rocm)
            || ["torch_hip", "c10_hip"].iter().any(|start| name.starts_with(start))
    });
    let is_rocm =
        !needs(Owner::is_rocm).is_empty()
            || native.iter().any(|(_, object)| {
                object.elf.needed.iter().any(|name| {
                    grafted_rocm(name) || name.starts_with("libtorch_hip") || name.starts_with("libc10_hip")
                })
            })
            || holds_rocm
            || windows.iter().any(|(_, file)| {
                file.needed().iter().any(|name| {
                    let name = name.to_ascii_lowercase();
                    grafted_rocm(&name) || name.starts_with("torch_hip") || name.starts_with("c10_hip")
                })
            })
            || has_windows_section(WINDOWS_CODE)
            || has_section(CODE)
            || has_section(MARKER)
            || has_gpu_file;
    let cuda = needs(Owner::is_cuda);
    if is_rocm {
        return;
    }
    if !cuda.is_empty() || has_section(CUDA) || has_windows_section(WINDOWS_CUDA) {
        let message = format!("`{said}` says ROCm, and the files are linked to CUDA and not to ROCm");
        findings.push(context.finding((Code::NotRocm, wheel), said, message, cuda));
    } else if !names_rocm() {
        let message = format!("`{said}` says ROCm, and no file is linked to ROCm, loads it or holds code for a GPU");
        let finding = Finding::new(Code::NotRocm, said, message).of(installed.file_name());
        findings.push(finding.weighing(Severity::Warning));
    }
}

/// A copy of a ROCm library with a hash in its name, as auditwheel and delvewheel make them.
fn grafted_rocm(name: &str) -> bool {
    let ending = if name.ends_with(".dll") { "dll" } else { "so" };
    name.split_once('-')
        .is_some_and(|(stem, _)| Owners::embedded().of(&format!("{stem}.{ending}")).is_some_and(Owner::is_rocm))
}

/// Whether a file holds some bytes.
fn mentions(context: &Context<'_>, path: &str, bytes: &[u8]) -> bool {
    const WINDOW: usize = 1 << 20;
    let Ok(reader) = context.site.reader(path) else { return false };
    let size = context.site.files.get(path).map_or(0, |placed| placed.size);
    let mut window = vec![0; WINDOW + bytes.len()];
    let mut start = 0;
    while start < size {
        let length = window.len().min(usize::try_from(size - start).unwrap_or(usize::MAX));
        if reader.read_exact_at(start, &mut window[..length]).is_err() {
            return false;
        }
        if memchr::memmem::find(&window[..length], bytes).is_some() {
            return true;
        }
        start += WINDOW as u64;
    }
    false
}

/// RW021: files whose GPU code is in `.kpack` archives.
fn split_code(context: &Context<'_>, wheel: usize, findings: &mut Vec<Finding>) -> Result<(), Error> {
    let sonames =
        || context.facts.native().map(|(path, object)| object.elf.soname.as_deref().unwrap_or(file_name(path)));
    let has_runtime = sonames().any(|name| name.starts_with("libamdhip64.so"));
    let understands = sonames().any(|name| name.starts_with("librocm_kpack.so"));
    let mut unread = Vec::new();
    let mut astray: BTreeMap<BTreeSet<String>, Vec<&str>> = BTreeMap::new();
    for (path, object) in context.native(wheel).filter(|(_, object)| may_be_split(object)) {
        let Some(markers) = markers(context, path, object)? else { continue };
        unread.push(path);
        let patterns: BTreeSet<String> = markers.iter().flat_map(|marker| &marker.search_paths).cloned().collect();
        let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
        let is_there = patterns.iter().any(|pattern| finds(context, folder, pattern));
        if !is_there && !patterns.is_empty() {
            astray.entry(patterns).or_default().push(path);
        }
    }
    if has_runtime && !understands && !unread.is_empty() {
        let message = "expects its GPU code in `.kpack` archives, and the HIP runtime of the set cannot read them";
        findings.push(context.finding((Code::KpackRuntime, wheel), "libamdhip64.so", message, unread));
    }
    for (patterns, paths) in astray {
        let list = listed(patterns.iter().map(String::as_str));
        let message = format!("expects its GPU code in {list}, and the set has none of them");
        let subject = patterns.into_iter().collect::<Vec<_>>().join(", ");
        let finding = context.finding((Code::KpackRuntime, wheel), subject, message, paths);
        // Device wheels are chosen by the GPU, and need not be given.
        findings.push(finding.weighing(Severity::Note));
    }
    Ok(())
}

fn may_be_split(object: &Object) -> bool {
    let section = |name: &str| object.elf.sections.iter().find(|section| section.name == name);
    section(MARKER).is_some() || section(WRAPPERS).is_some() && section(CODE).is_some_and(|code| code.size <= LEFT)
}

/// The markers of a file whose code was moved; `None` when it has its code, or wrappers that do not
/// make sense.
fn markers(context: &Context<'_>, path: &str, object: &Object) -> Result<Option<Vec<Marker>>, Error> {
    let reader = context.site.reader(path)?;
    let Ok(Some(fat)) = FatBinary::read(&*reader, object.size) else { return Ok(None) };
    if !fat.wrappers.iter().any(|wrapper| wrapper.magic == Magic::Kpacked) {
        return Ok(None);
    }
    Ok(Some(fat.markers.into_iter().map(|(marker, _)| marker).collect()))
}

/// Whether the set has a file that a marker's path stands for, seen from a folder.
fn finds(context: &Context<'_>, folder: &str, pattern: &str) -> bool {
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for step in pattern.split('/').filter(|step| !step.is_empty() && *step != ".") {
        if step == ".." {
            parts.pop();
        } else {
            parts.push(step);
        }
    }
    let wanted = parts.join("/").replacen(TARGET_PLACEHOLDER, "*", 1);
    let start = wanted.split('*').next().unwrap_or_default().to_owned();
    let glob = Pattern::new(&wanted);
    let candidates = context.site.files.range(start.clone()..).take_while(|(path, _)| path.starts_with(&start));
    candidates.into_iter().any(|(path, _)| glob.matches(path))
}

/// RW024: everything that the survey of GPU code finds wrong.
fn gpu_code(
    context: &Context<'_>,
    (wheel, installed): (usize, &Distribution),
    findings: &mut Vec<Finding>,
) -> Result<(), Error> {
    let options = survey::Options {
        scratch: context.site.scratch().to_owned(),
        targets: None,
        kernels: Kernels::Counted,
        digest: FileDigest::Skip,
    };
    // The wheel, or the files that may have such code.
    let files: BTreeMap<PathBuf, &str> = match installed.installed() {
        None => BTreeMap::new(),
        Some(files) => context
            .paths(wheel)
            .iter()
            .filter(|path| {
                context.facts.objects.contains_key(**path)
                    || [".co", ".hsaco", ".kpack", ".dat"].iter().any(|suffix| path.ends_with(suffix))
            })
            .filter_map(|path| {
                let member = &context.site.files.get(*path)?.member;
                Some((files.path(member)?.to_owned(), member.as_str()))
            })
            .collect(),
    };
    let paths: Vec<PathBuf> = match installed.wheel() {
        Some(wheel) => vec![wheel.path().to_owned()],
        None => files.keys().cloned().collect(),
    };
    if paths.is_empty() {
        return Ok(());
    }
    survey::survey(&paths, &options, context.reporter, |file| -> Result<(), rocwheel_kpack::Error> {
        for fault in file.findings.iter().filter(|finding| finding.weight == Weight::Fault) {
            let finding = Finding::new(Code::GpuCode, fault.subject.name(), fault.message.clone());
            let member = files.get(&file.location.path).map(|member| (*member).to_owned());
            let member = member.or_else(|| file.location.member.clone());
            findings.push(finding.of(installed.file_name()).in_files(member));
        }
        Ok(())
    })
    .map_err(|error| match error {
        rocwheel_kpack::Error::Interrupted(interrupted) => Error::Interrupted(interrupted),
        other => Error::GpuCode { path: installed.path.clone(), source: Box::new(other) },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grafted_copies_are_known() {
        assert!(grafted_rocm("libamdhip64-1f7b8bcc.so.7"));
        assert!(!grafted_rocm("libggml-hip-1f7b8bcc.so") && !grafted_rocm("libamdhip64.so.7"));
    }
}
