//! Input: the programs that a machine has for its boot loader and its first file system. Output:
//! the commands that change words of the kernel's command line, or what is loaded first.

use crate::finding::Symptom;
use crate::tree::MachineTree;

/// The command that adds a word to the kernel's command line; `None` if the program for it is not
/// known.
pub(crate) fn add(tree: &MachineTree, word: &str) -> Option<String> {
    if tree.exists("/usr/sbin/grubby") {
        return Some(format!("sudo grubby --update-kernel=ALL --args={word}"));
    }
    let update = update(tree)?;
    Some(format!("sudo sed -i 's/^GRUB_CMDLINE_LINUX=\"/&{word} /' /etc/default/grub && {update}"))
}

/// The command that removes a word from it.
pub(crate) fn remove(tree: &MachineTree, word: &str) -> Option<String> {
    if tree.exists("/usr/sbin/grubby") {
        return Some(format!("sudo grubby --update-kernel=ALL --remove-args={word}"));
    }
    let update = update(tree)?;
    Some(format!("sudo sed -i '/^GRUB_CMDLINE_LINUX/s/ *{word}//' /etc/default/grub && {update}"))
}

/// The command that writes the menu of GRUB.
fn update(tree: &MachineTree) -> Option<&'static str> {
    if tree.exists("/usr/sbin/update-grub") || tree.exists("/etc/debian_version") {
        Some("sudo update-grub")
    } else {
        tree.exists("/usr/sbin/grub2-mkconfig").then_some("sudo grub2-mkconfig -o /boot/grub2/grub.cfg")
    }
}

/// The command that rewrites the first file system, which has copies of `/etc/modprobe.d`.
pub(crate) fn new_initramfs(tree: &MachineTree) -> &'static str {
    if tree.exists("/usr/bin/dracut") { "sudo dracut --force" } else { "sudo update-initramfs -u" }
}

/// A finding with a command, or without any.
pub(crate) fn with_command(symptom: Symptom, command: Option<String>) -> Symptom {
    match command {
        Some(command) => symptom.fill("command", &command),
        None => symptom.without_command(),
    }
}
