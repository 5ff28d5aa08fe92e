//! Input: the GPUs in the runtime's order, and the variables that hide some of them. Output: the
//! number that HIP gives each, and masks that contradict each other.
//!
//! ROCr reads ROCR_VISIBLE_DEVICES first; an empty value hides all. HIP then counts among the rest:
//! HIP_VISIBLE_DEVICES, else CUDA_VISIBLE_DEVICES, each only if it is not empty. A list ends before
//! its first entry that is wrong or repeated.

use std::collections::BTreeSet;

use crate::finding::{Gravity, Symptom};
use crate::gpus::GpuFacts;
use crate::target_names::is_covered;
use crate::variables::SessionVariables;

const ROCR: &str = "ROCR_VISIBLE_DEVICES";
const HIP: &str = "HIP_VISIBLE_DEVICES";
const CUDA: &str = "CUDA_VISIBLE_DEVICES";
const ORDINAL: &str = "GPU_DEVICE_ORDINAL";

/// Numbers the GPUs that `usable` says open, and judges the masks.
pub(crate) fn apply(gpus: &mut [GpuFacts], usable: &[bool], variables: &SessionVariables, symptoms: &mut Vec<Symptom>) {
    let mut all: Vec<usize> = (0..gpus.len()).filter(|index| usable.get(*index) == Some(&true)).collect();
    // If none opens, that is the first thing to fix, and the masks are judged as if all did.
    let is_usable = !all.is_empty();
    if !is_usable {
        all.extend(0..gpus.len());
    }
    contradictions(variables, symptoms);
    let mut left = all.clone();
    if let Some(mask) = variables.get(ROCR) {
        left = select(gpus, &left, (ROCR, mask), symptoms);
    }
    let second = [HIP, CUDA].into_iter().find_map(|name| Some((name, variables.filled(name)?)));
    if let Some(mask) = second {
        left = select(gpus, &left, mask, symptoms);
    }
    for (number, index) in left.iter().enumerate().filter(|_| is_usable) {
        gpus[*index].hip_index = Some(number);
    }
    for index in all.iter().filter(|index| !left.contains(index)) {
        gpus[*index].masked = true;
    }
    let names: Vec<&str> =
        [variables.get(ROCR).map(|_| ROCR), second.map(|(name, _)| name)].into_iter().flatten().collect();
    if left.is_empty() && !all.is_empty() {
        let wrong = symptoms.iter().find(|symptom| symptom.name == "mask-names-no-gpu");
        let reason = hides_all(&names, variables, wrong);
        // One mask has one finding.
        symptoms.retain(|symptom| !["two-masks", "mask-names-no-gpu"].contains(&symptom.name));
        let symptom = Symptom::new("mask-hides-all")
            .fill("variables", &names.join(" and "))
            .fill("names", &names.join(" "))
            .fill("count", &format!("{} {}", verb(&names, "hide"), counted(all.len())))
            .fill("reason", &reason);
        symptoms.push(with_values(symptom, &names, variables));
    }
}

/// A mask that leaves only GPUs of processors although a discrete one opens. `kernels` are the
/// targets that the installed packages have kernels for; empty if that is not known.
pub(crate) fn check_integrated(
    gpus: &[GpuFacts],
    usable: &[bool],
    (variables, kernels): (&SessionVariables, &BTreeSet<String>),
    symptoms: &mut Vec<Symptom>,
) {
    let opening: Vec<&GpuFacts> = gpus.iter().zip(usable).filter(|(_, opens)| **opens).map(|(gpu, _)| gpu).collect();
    let left: Vec<&&GpuFacts> = opening.iter().filter(|gpu| !gpu.masked).collect();
    let hidden: Vec<(usize, &&GpuFacts)> =
        opening.iter().enumerate().filter(|(_, gpu)| gpu.masked && !gpu.integrated).collect();
    if left.is_empty() || hidden.is_empty() || !left.iter().all(|gpu| gpu.integrated) {
        return;
    }
    let names: Vec<&str> = [ROCR, HIP, CUDA].into_iter().filter(|name| variables.filled(name).is_some()).collect();
    let runs = left.iter().any(|gpu| gpu.target.as_deref().is_some_and(|target| is_covered(target, kernels)));
    let reason = if runs {
        "The installed packages have kernels for it, and it is slower."
    } else if kernels.is_empty() {
        "Most packages have no kernels for it; then the first launch fails with `invalid device function`."
    } else {
        "The installed packages have no kernels for it: the first launch fails with `invalid device function`."
    };
    let numbers: Vec<String> = hidden.iter().map(|(number, _)| number.to_string()).collect();
    let symptom = Symptom::new("mask-leaves-integrated")
        .fill("variables", &names.join(" and "))
        .fill("leave", verb(&names, "leave"))
        .fill("hide", verb(&names, "hide"))
        .fill("left", &targets_in_words(left.iter().map(|gpu| **gpu)))
        .fill("hidden", &targets_in_words(hidden.iter().map(|(_, gpu)| **gpu)))
        .fill("reason", reason)
        .fill("unset", &unset_others(variables))
        .fill("mask", &numbers.join(","))
        .weighing(if kernels.is_empty() || runs { Gravity::Warning } else { Gravity::Error });
    symptoms.push(with_values(symptom, &names, variables));
}

/// A processor's GPU that HIP numbers before a discrete one. `usable` are the GPUs that open, among
/// which masks count.
pub(crate) fn check_order(
    gpus: &[GpuFacts],
    usable: &[bool],
    variables: &SessionVariables,
    symptoms: &mut Vec<Symptom>,
) {
    let mut visible: Vec<&GpuFacts> = gpus.iter().filter(|gpu| gpu.hip_index.is_some()).collect();
    visible.sort_by_key(|gpu| gpu.hip_index);
    let Some(first) = visible.first().filter(|first| first.integrated) else { return };
    let opening = gpus.iter().zip(usable).filter(|(_, opens)| **opens).map(|(gpu, _)| gpu);
    let discrete: Vec<String> = opening
        .enumerate()
        .filter(|(_, gpu)| !gpu.integrated && gpu.hip_index.is_some())
        .map(|(index, _)| index.to_string())
        .collect();
    if discrete.is_empty() {
        return;
    }
    symptoms.push(
        Symptom::new("integrated-first")
            .fill("first", &format!("{} ({})", first.product, first.target_or_words()))
            .fill("mask", &discrete.join(","))
            .fill("unset", &unset_others(variables))
            .seen(format!("/sys/class/kfd/kfd/topology/nodes/{}/properties", first.node), "a GPU of a processor"),
    );
}

/// The beginning of a command that sets ROCR_VISIBLE_DEVICES: the other masks count after it.
pub(crate) fn unset_others(variables: &SessionVariables) -> String {
    let names: Vec<&str> = [HIP, CUDA].into_iter().filter(|name| variables.filled(name).is_some()).collect();
    if names.is_empty() { String::new() } else { format!("unset {} && ", names.join(" ")) }
}

fn targets_in_words<'a>(gpus: impl Iterator<Item = &'a GpuFacts>) -> String {
    gpus.map(GpuFacts::target_or_words).collect::<Vec<_>>().join(" and ")
}

/// A verb for one variable or several.
fn verb(names: &[&str], verb: &'static str) -> &'static str {
    match (names.len(), verb) {
        (1, "hide") => "hides",
        (1, "leave") => "leaves",
        _ => verb,
    }
}

fn counted(count: usize) -> String {
    match count {
        1 => "the one GPU".to_owned(),
        2 => "both GPUs".to_owned(),
        count => format!("all {count} GPUs"),
    }
}

fn with_values(symptom: Symptom, names: &[&str], variables: &SessionVariables) -> Symptom {
    names.iter().fold(symptom, |symptom, name| symptom.seen(*name, quoted(variables.get(name).unwrap_or_default())))
}

/// The reason why masks leave nothing. `wrong` is an entry that is no GPU.
fn hides_all(names: &[&str], variables: &SessionVariables, wrong: Option<&Symptom>) -> String {
    if variables.get(ROCR).is_some_and(|mask| mask.trim().is_empty()) {
        format!("An empty {ROCR} hides every GPU.")
    } else if names.len() > 1 {
        format!("HIP's numbers count what {ROCR} leaves, so two masks in one place often leave nothing.")
    } else {
        wrong.map_or_else(String::new, |wrong| wrong.meaning.clone())
    }
}

fn contradictions(variables: &SessionVariables, symptoms: &mut Vec<Symptom>) {
    let [rocr, hip, cuda, ordinal] = [ROCR, HIP, CUDA, ORDINAL].map(|name| variables.filled(name));
    let second = if hip.is_some() { HIP } else { CUDA };
    if rocr.is_some() && hip.or(cuda).is_some() {
        symptoms.push(with_values(Symptom::new("two-masks"), &[ROCR, second], variables));
    }
    if hip.is_some() && cuda.is_some() && hip != cuda {
        symptoms.push(with_values(Symptom::new("masks-differ"), &[HIP, CUDA], variables));
    }
    let other = [(HIP, hip), (CUDA, cuda), (ROCR, rocr)].into_iter().find(|(_, value)| value.is_some());
    if let (Some(_), Some((other, value))) = (ordinal, other)
        && value != ordinal
    {
        symptoms.push(with_values(Symptom::new("ordinal-disagrees"), &[ORDINAL, other], variables));
    }
}

/// The GPUs of `from` that a list leaves, in the order of the list.
fn select(gpus: &[GpuFacts], from: &[usize], (name, mask): (&str, &str), symptoms: &mut Vec<Symptom>) -> Vec<usize> {
    let mut left: Vec<usize> = Vec::new();
    if mask.trim().is_empty() {
        return left;
    }
    for token in mask.split(',').map(str::trim) {
        let Some(index) = find(gpus, from, token).filter(|index| !left.contains(index)) else {
            let symptom = Symptom::new("mask-names-no-gpu").fill("token", token).fill("variable", name);
            symptoms.push(symptom.seen(name, quoted(mask)));
            break;
        };
        left.push(index);
    }
    left
}

/// The GPU of an entry: a number in `from`, or the beginning of a name such as `GPU-1f…`, which has
/// to fit one GPU only.
fn find(gpus: &[GpuFacts], from: &[usize], token: &str) -> Option<usize> {
    if let Ok(number) = token.parse::<usize>() {
        return from.get(number).copied();
    }
    let wanted = token.to_ascii_lowercase();
    let wanted = wanted.strip_prefix("gpu-").filter(|wanted| !wanted.is_empty())?;
    let mut found = from.iter().filter(|index| {
        let id = gpus[**index].unique_id;
        id != 0 && format!("{id:016x}").starts_with(wanted)
    });
    found.next().copied().filter(|_| found.next().is_none())
}

fn quoted(value: &str) -> String {
    format!("\"{}\"", value.chars().take(80).collect::<String>())
}
