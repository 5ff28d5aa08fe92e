//! Input: `HSA_OVERRIDE_GFX_VERSION`, which makes the runtime take a GPU for another one. Output:
//! what that does to each GPU.

use std::collections::BTreeSet;

use rocwheel_tables::target::TargetId;

use crate::finding::{Gravity, Symptom};
use crate::gpus::GpuFacts;
use crate::kfd::target_of;
use crate::target_names::is_covered;
use crate::variables::SessionVariables;

const NAME: &str = "HSA_OVERRIDE_GFX_VERSION";

/// The target that the runtime takes a GPU for; `None` if no variable changes it.
pub(crate) fn effective(gpu: &GpuFacts, variables: &SessionVariables) -> Option<String> {
    let own = format!("{NAME}_{}", gpu.node);
    let value = variables.filled(&own).or_else(|| variables.filled(NAME))?;
    target_of(parse(value)?)
}

/// Judges the variables. `kernels` are the targets that the installed packages have kernels for;
/// empty if that is not known.
pub(crate) fn check(
    gpus: &[GpuFacts],
    variables: &SessionVariables,
    kernels: &BTreeSet<String>,
    symptoms: &mut Vec<Symptom>,
) {
    let set: Vec<(&str, &str)> = variables.beginning(NAME).filter(|(_, value)| !value.is_empty()).collect();
    for (name, value) in &set {
        let is_known =
            *name == NAME || name.strip_prefix(&format!("{NAME}_")).is_some_and(|node| node.parse::<u64>().is_ok());
        if is_known && parse(value).is_none() {
            let symptom = Symptom::new("override-malformed").fill("value", value).fill("variable", name);
            symptoms.push(symptom.seen(*name, *value));
        }
    }
    let mut told: BTreeSet<(&str, &str)> = BTreeSet::new();
    for gpu in gpus {
        let Some(target) = gpu.target.as_deref() else { continue };
        let own = format!("{NAME}_{}", gpu.node);
        // The variable of one GPU comes before that of all.
        let found = [own.as_str(), NAME].into_iter().find_map(|wanted| set.iter().find(|(name, _)| *name == wanted));
        let Some((name, value)) = found else { continue };
        let Some(version) = parse(value) else { continue };
        let other = target_of(version).unwrap_or_else(|| format!("gfx {value}"));
        if other == target || !told.insert((name, target)) {
            continue;
        }
        let (gravity, reason) = if is_covered(target, kernels) && is_covered(&other, kernels) {
            let reason = format!("Kernels for {target} are installed, so the variable is not needed.");
            (Gravity::Warning, reason)
        } else if is_covered(target, kernels) {
            let reason = format!("Kernels for {target} are installed and none for {other}: programs fail.");
            (Gravity::Error, reason)
        } else if major(&other) != major(target) {
            let reason = "The two have different instructions: programs fail with `invalid device function` or worse.";
            (Gravity::Error, reason.to_owned())
        } else if generic(target).is_none() || generic(target) != generic(&other) {
            let reason = "The two are of one generation, and their instructions differ: programs may fail.";
            (Gravity::Warning, reason.to_owned())
        } else {
            (Gravity::Note, "The two are of one family. That often works, and AMD does not support it.".to_owned())
        };
        let mut symptom = Symptom::new("override-wrong")
            .fill("variable", name)
            .fill("target", target)
            .fill("other", &other)
            .fill("reason", &reason)
            .weighing(gravity)
            .seen(*name, *value)
            .seen(format!("/sys/class/kfd/kfd/topology/nodes/{}/properties", gpu.node), target);
        if gravity == Gravity::Note {
            symptom = symptom.without_command();
        }
        symptoms.push(symptom);
    }
}

/// The generation of a target: `11` of `gfx1100`.
fn major(target: &str) -> &str {
    &target[3..target.len().saturating_sub(2).max(3)]
}

fn generic(target: &str) -> Option<TargetId> {
    TargetId::plain(target).generic()
}

/// `10.3.0` as the driver's number 100300.
fn parse(text: &str) -> Option<u64> {
    let numbers: Vec<u64> = text.trim().split('.').map(|part| part.parse().ok()).collect::<Option<_>>()?;
    let [major, minor, stepping] = numbers[..] else { return None };
    (major <= 63 && minor <= 255 && stepping <= 255).then_some(major * 10000 + minor * 100 + stepping)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_have_three_decimals() {
        assert_eq!((parse("9.0.10"), parse("10.3.0"), parse("11.5.1")), (Some(90010), Some(100_300), Some(110_501)));
        for wrong in ["", "10.3", "gfx1030", "9.0.a", "64.0.0", "1.2.3.4"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }
}
