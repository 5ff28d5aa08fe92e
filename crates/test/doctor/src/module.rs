//! Input: the settings and files of kernel modules. Output: the reason why amdgpu is not loaded,
//! and the command for it. The order is that of the obstacles: a setting forbids the module, the
//! running kernel has none, Secure Boot refuses it.

use crate::boot;
use crate::finding::{Need, Symptom};
use crate::tree::MachineTree;

const NAME: &str = "amdgpu";
/// Folders with settings of modprobe. A file hides one of the same name in a later folder.
const SETTINGS: [&str; 4] = ["/etc/modprobe.d", "/run/modprobe.d", "/usr/lib/modprobe.d", "/lib/modprobe.d"];
/// Variable of the firmware: four bytes of attributes, and one that is 1 if it is on.
const SECURE_BOOT: &str = "/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c";
const LOCKDOWN: &str = "/sys/kernel/security/lockdown";
/// Keys with which DKMS signs, of Ubuntu and of DKMS itself.
const KEYS: [&str; 2] = ["/var/lib/shim-signed/mok/MOK.der", "/var/lib/dkms/mok.pub"];
const LOAD: &str = "sudo modprobe amdgpu";

/// A line of a file of settings.
pub(crate) struct SettingsLine {
    pub(crate) file: String,
    pub(crate) text: String,
}

/// The lines of modprobe's settings for which `is_wanted` holds.
pub(crate) fn settings(tree: &MachineTree, is_wanted: impl Fn(&[&str]) -> bool) -> Vec<SettingsLine> {
    let mut seen = std::collections::BTreeSet::new();
    let mut found = Vec::new();
    for folder in SETTINGS {
        for name in tree.names_if_any(folder).unwrap_or_default() {
            if name.rsplit('.').next() != Some("conf") || !seen.insert(name.clone()) {
                continue;
            }
            let file = format!("{folder}/{name}");
            for line in tree.text_if_any(&file).unwrap_or_default().lines() {
                let words: Vec<&str> = line.split_whitespace().collect();
                if is_wanted(&words) {
                    found.push(SettingsLine { file: file.clone(), text: line.trim().to_owned() });
                }
            }
        }
    }
    found
}

/// The word of the kernel's command line for which `is_wanted` holds.
pub(crate) fn kernel_word(tree: &MachineTree, is_wanted: impl Fn(&str) -> bool) -> Option<String> {
    let line = tree.text_if_any("/proc/cmdline").unwrap_or_default();
    line.split_whitespace().find(|word| is_wanted(word)).map(str::to_owned)
}

/// The finding about a GPU that no driver has.
pub(crate) fn not_loaded(tree: &MachineTree) -> Symptom {
    let symptom = Symptom::new("driver-not-loaded");
    let kernel = tree.text_if_any("/proc/sys/kernel/osrelease").unwrap_or_default();
    forbidden(tree).or_else(|| absent(tree, &kernel)).or_else(|| unsigned(tree, &kernel)).unwrap_or_else(|| {
        symptom.fill("reason", "The kernel has it, or is not known to lack it.").fill("command", LOAD)
    })
}

/// `true` for a word of the kernel's command line that forbids the module.
fn is_forbidding(word: &str) -> bool {
    let list = ["modprobe.blacklist=", "module_blacklist=", "rd.driver.blacklist="];
    let listed = list.iter().find_map(|start| word.strip_prefix(start));
    listed.is_some_and(|names| names.split(',').any(|name| name == NAME))
        || ["nomodeset", "amdgpu.modeset=0"].contains(&word)
}

/// A setting that forbids the module.
fn forbidden(tree: &MachineTree) -> Option<Symptom> {
    let symptom = Symptom::new("driver-not-loaded");
    if let Some(word) = kernel_word(tree, is_forbidding) {
        let mut symptom = symptom
            .fill("reason", &format!("The kernel was started with `{word}`, which forbids it."))
            .seen("/proc/cmdline", &word);
        // Others in the list stay forbidden.
        let alone = word.split_once('=').is_none_or(|(_, names)| [NAME, "0"].contains(&names));
        symptom = boot::with_command(symptom, boot::remove(tree, &word).filter(|_| alone));
        symptom.needs.push(Need::Reboot);
        return Some(symptom);
    }
    let lines = settings(tree, |words| match words {
        ["blacklist", NAME, ..] => true,
        ["install", NAME, program, ..] => {
            ["/bin/false", "/bin/true", "/usr/bin/false", "/usr/bin/true"].contains(program)
        }
        _ => false,
    });
    let SettingsLine { file, text } = lines.into_iter().next()?;
    let name = file.rsplit('/').next().unwrap_or_default();
    let pattern = format!("^[[:space:]]*(blacklist|install)[[:space:]]+{NAME}([[:space:]]|$)");
    let command = if file.starts_with("/etc/") {
        format!("sudo sed -i -E '/{pattern}/s/^/# /' {file}")
    } else {
        format!("grep -vE '{pattern}' {file} | sudo tee /etc/modprobe.d/{name}")
    };
    Some(
        symptom
            .fill("reason", &format!("`{file}` forbids it, so it is not loaded when the machine starts."))
            .fill("command", &format!("{command} && {} && {LOAD}", boot::new_initramfs(tree)))
            .seen(file, text),
    )
}

/// The module of a kernel: its path, by name of the kernel.
fn module_of(tree: &MachineTree, kernel: &str) -> Option<String> {
    let folder = format!("/lib/modules/{kernel}");
    let folders = ["updates/dkms", "extra", "weak-updates", "updates", "kernel/drivers/gpu/drm/amd/amdgpu"];
    let paths = folders.iter().map(|name| format!("{folder}/{name}"));
    let found = paths.flat_map(|place| {
        let names = tree.names_if_any(&place).unwrap_or_default();
        names.into_iter().map(move |name| format!("{place}/{name}"))
    });
    let mut modules = found.filter(|path| path.rsplit('/').next().is_some_and(|name| name.starts_with("amdgpu.ko")));
    modules.next().or_else(|| {
        let builtin = format!("{folder}/modules.builtin");
        let text = tree.text_up_to(&builtin, 1 << 20).unwrap_or_default();
        text.lines().any(|line| line.ends_with("/amdgpu.ko")).then_some(builtin)
    })
}

/// A running kernel without the module.
fn absent(tree: &MachineTree, kernel: &str) -> Option<Symptom> {
    let folder = format!("/lib/modules/{kernel}");
    // A copy need not have it, and a container has none.
    if kernel.is_empty() || !tree.exists(&folder) || module_of(tree, kernel).is_some() {
        return None;
    }
    let symptom = Symptom::new("driver-not-loaded").seen(&folder, "no amdgpu.ko");
    let kernels = tree.names_if_any("/lib/modules").unwrap_or_default();
    let built = kernels.iter().filter(|other| *other != kernel).filter_map(|other| module_of(tree, other));
    let others: Vec<String> = built.filter(|path| !path.contains("/kernel/drivers/")).collect();
    let versions = tree.names_if_any("/var/lib/dkms/amdgpu").unwrap_or_default();
    let version = versions.iter().rfind(|name| name.starts_with(|first: char| first.is_ascii_digit()));
    if let Some(version) = version {
        let headers = if tree.exists(&format!("{folder}/build")) || !tree.exists("/etc/debian_version") {
            String::new()
        } else {
            format!("sudo apt install linux-headers-{kernel} && ")
        };
        let reason = format!("DKMS has built it for other kernels, and the running one is {kernel}.");
        let command = format!("{headers}sudo dkms install amdgpu/{version} -k {kernel} && {LOAD}");
        let symptom = symptom.fill("reason", &reason).fill("command", &command);
        let symptom = symptom.seen("/var/lib/dkms/amdgpu", version);
        return Some(others.into_iter().take(2).fold(symptom, |symptom, path| symptom.seen(path, "exists")));
    }
    let reason = format!("The running kernel {kernel} lacks it, as those of clouds do.");
    let symptom = symptom.fill("reason", &reason);
    Some(if tree.exists("/etc/debian_version") && kernel.contains("-cloud-") {
        let processor = kernel.rsplit('-').next().unwrap_or("amd64");
        let mut symptom = symptom.fill("command", &format!("sudo apt install linux-image-{processor}"));
        symptom.needs.push(Need::Reboot);
        symptom
    } else if ["-generic", "-aws", "-azure", "-gcp", "-oracle"].iter().any(|end| kernel.ends_with(end)) {
        symptom.fill("command", &format!("sudo apt install linux-modules-extra-{kernel} && {LOAD}"))
    } else {
        symptom.without_command()
    })
}

/// A module of DKMS that Secure Boot refuses unless its key is known.
fn unsigned(tree: &MachineTree, kernel: &str) -> Option<Symptom> {
    let module = module_of(tree, kernel).filter(|path| path.contains("/dkms/") || path.contains("/extra/"))?;
    let is_on = tree.bytes(SECURE_BOOT, 16).is_ok_and(|bytes| bytes.last() == Some(&1) && bytes.len() > 1);
    let lockdown = tree.text_if_any(LOCKDOWN);
    let is_locked = lockdown.as_deref().is_some_and(|text| !text.contains("[none]"));
    if !is_on && !is_locked {
        return None;
    }
    let key = KEYS.iter().find(|key| tree.exists(key));
    let reason = "Secure Boot is on, and the module is one that this machine has built: the kernel refuses it \
                  (\"Key was rejected by service\") until the machine's key is enrolled. The next start asks for \
                  the password that the command asks for.";
    let mut symptom = Symptom::new("driver-not-loaded").fill("reason", reason).seen(module, "built by DKMS");
    if is_on {
        symptom = symptom.seen(SECURE_BOOT, "1");
    }
    if let Some(lockdown) = lockdown {
        symptom = symptom.seen(LOCKDOWN, lockdown);
    }
    symptom = boot::with_command(symptom, key.map(|key| format!("sudo mokutil --import {key}")));
    symptom.needs.push(Need::Reboot);
    Some(symptom)
}
