//! Input: the GPUs in the runtime's order, and the variables that hide some of them. Output: the
//! number that HIP gives each, and masks that contradict each other.
//!
//! ROCr reads ROCR_VISIBLE_DEVICES first; an empty value hides all. HIP then counts among the rest:
//! HIP_VISIBLE_DEVICES, else CUDA_VISIBLE_DEVICES, each only if it is not empty. A list ends before
//! its first entry that is wrong or repeated.

use super::finding::Symptom;
use super::gpus::GpuFacts;
use super::variables::SessionVariables;

const ROCR: &str = "ROCR_VISIBLE_DEVICES";
const HIP: &str = "HIP_VISIBLE_DEVICES";
const CUDA: &str = "CUDA_VISIBLE_DEVICES";
const ORDINAL: &str = "GPU_DEVICE_ORDINAL";

/// Numbers the GPUs that `usable` says open, and judges the masks.
pub(super) fn apply(gpus: &mut [GpuFacts], usable: &[bool], variables: &SessionVariables, symptoms: &mut Vec<Symptom>) {
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
    if left.is_empty() && !all.is_empty() {
        let names: Vec<&str> =
            [variables.get(ROCR).map(|_| ROCR), second.map(|(name, _)| name)].into_iter().flatten().collect();
        let seen = names.iter().map(|name| (*name, variables.get(name).unwrap_or_default()));
        let symptom = Symptom::new("mask-hides-all")
            .fill("variables", &names.join(" and "))
            .fill("names", &names.join(" "))
            .fill("count", &if all.len() == 1 { "one GPU".to_owned() } else { format!("{} GPUs", all.len()) });
        symptoms.push(seen.fold(symptom, |symptom, (name, value)| symptom.seen(name, quoted(value))));
        symptoms.retain(|symptom| symptom.name != "two-masks");
    }
}

fn contradictions(variables: &SessionVariables, symptoms: &mut Vec<Symptom>) {
    let filled = |name: &str| variables.filled(name);
    let pair = |symptom: Symptom, one: &str, other: &str| {
        let value = |name: &str| quoted(filled(name).unwrap_or_default());
        symptom.seen(one, value(one)).seen(other, value(other))
    };
    let second = if filled(HIP).is_some() { HIP } else { CUDA };
    if filled(ROCR).is_some() && filled(second).is_some() {
        symptoms.push(pair(Symptom::new("two-masks"), ROCR, second));
    }
    if filled(HIP).is_some() && filled(CUDA).is_some() && filled(HIP) != filled(CUDA) {
        symptoms.push(pair(Symptom::new("masks-differ"), HIP, CUDA));
    }
    let other = [HIP, CUDA, ROCR].into_iter().find(|name| filled(name).is_some());
    if let (Some(ordinal), Some(other)) = (filled(ORDINAL), other)
        && filled(other) != Some(ordinal)
    {
        symptoms.push(pair(Symptom::new("ordinal-disagrees"), ORDINAL, other));
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
    let fits = |index: &&usize| {
        let id = gpus[**index].unique_id;
        id != 0 && format!("{id:016x}").starts_with(wanted)
    };
    let mut found = from.iter().filter(fits);
    found.next().copied().filter(|_| found.next().is_none())
}

fn quoted(value: &str) -> String {
    format!("\"{}\"", value.chars().take(80).collect::<String>())
}
