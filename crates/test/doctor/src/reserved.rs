//! Input: a GPU that a driver for virtual machines has. Output: who gave it to that driver, and the
//! command that takes it back.

use crate::boot;
use crate::finding::{Gravity, Need, Symptom};
use crate::module;
use crate::pci::PciGpu;
use crate::tree::MachineTree;

/// The finding about a GPU with the driver `driver`.
pub(crate) fn describe(tree: &MachineTree, gpu: &PciGpu, driver: &str) -> Symptom {
    let symptom = Symptom::new("gpu-reserved").fill("driver", driver);
    // AMD's driver for the host of SR-IOV, which the GPUs of virtual machines come from.
    if driver == "gim" {
        let reason = "It divides the GPU for virtual machines (SR-IOV), which is right on their host.";
        return symptom.fill("reason", reason).without_command().weighing(Gravity::Note);
    }
    of_list(tree, gpu, symptom.clone()).unwrap_or_else(|| of_device(tree, gpu, driver, symptom))
}

/// A driver that takes all GPUs of a product: `ids=1002:744c`.
fn of_list(tree: &MachineTree, gpu: &PciGpu, symptom: Symptom) -> Option<Symptom> {
    let product = format!("1002:{:04x}", gpu.device);
    let options = module::settings(tree, |words| {
        words.starts_with(&["options"]) && words.iter().skip(2).any(|word| is_listed(word, &product))
    });
    if let Some(line) = options.into_iter().next() {
        let command = format!("sudo sed -i '/ids=.*{product}/Is/^/# /' {} && {}", line.file, boot::new_initramfs(tree));
        let mut symptom = symptom
            .fill("reason", &format!("`{}` gives all GPUs {product} to it.", line.file))
            .fill("command", &command);
        symptom.needs.push(Need::Reboot);
        return Some(symptom.seen(line.file, line.text));
    }
    let word = module::kernel_word(tree, |word| word.contains(".ids=") && is_listed(word, &product))?;
    let mut symptom = symptom
        .fill("reason", &format!("`/proc/cmdline` gives all GPUs {product} to it."))
        .seen("/proc/cmdline", &word);
    symptom = boot::with_command(symptom, boot::remove(tree, &word));
    symptom.needs.push(Need::Reboot);
    Some(symptom)
}

/// `true` if a word gives a product to a driver.
fn is_listed(word: &str, product: &str) -> bool {
    word.contains("ids=") && word.to_ascii_lowercase().contains(product)
}

/// A driver that was given one device, by driverctl, by a manager of virtual machines or by hand.
fn of_device(tree: &MachineTree, gpu: &PciGpu, driver: &str, symptom: Symptom) -> Symptom {
    let kept = format!("/etc/driverctl.d/{}", gpu.address);
    if tree.exists(&kept) {
        return symptom
            .fill("reason", "driverctl gives it to that driver at every start.")
            .fill("command", "sudo driverctl unset-override {address}")
            .seen(kept, "exists");
    }
    let path = format!("{}/driver_override", gpu.path);
    let set = tree.text_if_any(&path).filter(|text| text != "(null)");
    let reason = "A program for virtual machines, or a command, gave it to that driver until the next start.";
    let device = &gpu.path;
    let command = format!(
        "echo {address} | sudo tee {device}/driver/unbind && echo amdgpu | sudo tee {path} && \
         echo {address} | sudo tee /sys/bus/pci/drivers_probe",
        address = gpu.address,
    );
    let symptom = symptom.fill("reason", reason).fill("command", &command);
    symptom.seen(path, set.unwrap_or_else(|| format!("not set; the driver is {driver}")))
}
