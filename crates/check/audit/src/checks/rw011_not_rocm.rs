//! RW011: the name or version claims a ROCm build, but the files show none.

use rocwheel_loader::facts::{Object, Purpose, WindowsObject};
use rocwheel_loader::site::Distribution;
use rocwheel_survey::{CUDA, WINDOWS_CUDA};
use rocwheel_tables::owners::{LibraryOwner, Owners};

use crate::Error;
use crate::analysis::{Context, file_name};
use crate::check::Check;
use crate::finding::{Code, Finding, Severity};
use crate::options::AuditScope;

pub const CHECK: Check = Check { code: Code::NotRocm, scope: AuditScope::Files, run };

fn run(context: &Context<'_>, findings: &mut Vec<Finding>) -> Result<(), Error> {
    for (wheel, _) in context.audited() {
        not_rocm(context, wheel, findings);
    }
    Ok(())
}

/// ELF section of the GPU code.
const CODE: &str = ".hip_fatbin";

/// PE section of the GPU code on Windows, where names have at most eight characters.
const WINDOWS_CODE: &str = ".hip_fat";

/// Section by which AMD's tool marks a file whose GPU code is in another file.
const MARKER: &str = ".rocm_kpack_ref";

/// The version or name that claims a ROCm build; `None` if neither does.
fn says_rocm(installed: &Distribution) -> Option<String> {
    let version = installed.version();
    let local = version.split_once('+').map(|(_, local)| local.to_owned()).unwrap_or_default();
    if local.to_ascii_lowercase().contains("rocm") {
        return Some(version);
    }
    // `rocm-sdk-core` is ROCm itself; `…-rocm` and `jax-rocm7-plugin` are made for ROCm.
    let mut words = installed.name.split('-');
    let first = words.next();
    let mut numbers = words.filter_map(|word| word.strip_prefix("rocm"));
    let is_named = first != Some("rocm") && numbers.any(|number| number.bytes().all(|byte| byte.is_ascii_digit()));
    is_named.then(|| installed.name.clone())
}

/// The compiled files of a wheel with their paths.
struct CodeFiles<'a> {
    native: Vec<(&'a str, &'a Object)>,
    windows: Vec<(&'a str, &'a WindowsObject)>,
}

impl<'a> CodeFiles<'a> {
    /// The paths of the files that are linked to a library of such an owner.
    fn linked_to(&self, is_such: fn(&LibraryOwner) -> bool) -> Vec<&'a str> {
        let native = self.native.iter().filter(|(_, object)| has_library_of(&object.elf.needed, is_such));
        // Delayed imports also show what a file is made for.
        let windows = self.windows.iter().filter(|(_, file)| {
            let mut imports = file.imports.iter().flat_map(|imports| [&imports.needed, &imports.delayed]);
            imports.any(|names| has_library_of(names, is_such))
        });
        native.map(|(path, _)| *path).chain(windows.map(|(path, _)| *path)).collect()
    }

    fn have_section(&self, native: &[&str], windows: &[&str]) -> bool {
        let mut sections = self.native.iter().flat_map(|(_, object)| &object.elf.sections);
        let mut on_windows = self.windows.iter().flat_map(|(_, file)| &file.pe.sections);
        sections.any(|section| native.contains(&section.name.as_str()))
            || on_windows.any(|section| windows.contains(&section.name.as_str()))
    }
}

fn has_library_of(names: &[String], is_such: fn(&LibraryOwner) -> bool) -> bool {
    names.iter().any(|name| Owners::embedded().of(name).is_some_and(is_such))
}

fn not_rocm(context: &Context<'_>, wheel: usize, findings: &mut Vec<Finding>) {
    let installed = &context.site.distributions[wheel];
    let Some(said) = says_rocm(installed) else { return };
    let files = CodeFiles { native: context.native(wheel).collect(), windows: context.windows_files(wheel).collect() };
    let CodeFiles { native, windows } = &files;
    if native.is_empty() && windows.is_empty() {
        return;
    }
    let has_gpu_file = context.paths(wheel).iter().any(|path| {
        [".co", ".hsaco", ".kpack"].iter().any(|suffix| path.ends_with(suffix))
            || context.facts.objects.get(*path).is_some_and(|object| object.purpose == Purpose::GpuCode)
    });
    let holds_rocm = windows.iter().any(|(path, _)| {
        let name = file_name(path).to_ascii_lowercase();
        Owners::embedded().of(&name).is_some_and(LibraryOwner::is_rocm)
            || ["torch_hip", "c10_hip"].iter().any(|start| name.starts_with(start))
    });
    let is_rocm =
        !files.linked_to(LibraryOwner::is_rocm).is_empty()
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
            || files.have_section(&[CODE, MARKER], &[WINDOWS_CODE])
            || has_gpu_file;
    if is_rocm {
        return;
    }
    // Python loads HIP by name too: triton's driver does.
    let python = context.paths(wheel).iter().filter(|path| path.ends_with(".py"));
    let mut may_name_rocm = native.iter().map(|(path, _)| path).chain(python);
    let cuda = files.linked_to(LibraryOwner::is_cuda);
    if !cuda.is_empty() || files.have_section(&[CUDA], &[WINDOWS_CUDA]) {
        let message = format!("`{said}` says ROCm, and the files are linked to CUDA and not to ROCm");
        findings.push(context.finding((Code::NotRocm, wheel), said, message, cuda));
    } else if !may_name_rocm.any(|path| mentions(context, path, b"libamdhip64.so"))
        && !windows.iter().any(|(path, _)| mentions(context, path, b"amdhip64"))
    {
        let message = format!("`{said}` says ROCm, and no file is linked to ROCm, loads it or holds code for a GPU");
        let finding = Finding::new(Code::NotRocm, said, message).of(installed.file_name());
        findings.push(finding.weighing(Severity::Warning));
    }
}

/// `true` for a copy of a ROCm library with a hash in its name, as auditwheel and delvewheel write
/// them.
fn grafted_rocm(name: &str) -> bool {
    let ending = if name.ends_with(".dll") { "dll" } else { "so" };
    name.split_once('-')
        .is_some_and(|(stem, _)| Owners::embedded().of(&format!("{stem}.{ending}")).is_some_and(LibraryOwner::is_rocm))
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grafted_copies_are_known() {
        assert!(grafted_rocm("libamdhip64-1f7b8bcc.so.7"));
        assert!(!grafted_rocm("libggml-hip-1f7b8bcc.so") && !grafted_rocm("libamdhip64.so.7"));
    }
}
