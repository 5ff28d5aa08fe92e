//! Input: a question. Output: its answer.
//!
//! A resolver knows no GPUs. So the set that it chooses is looked at: each package that is divided
//! by GPU is asked for its part for these, and a version that has none, or that has code for others
//! alone, does not count in the next round. At the end, the resolver has chosen the newest versions
//! that are complete.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use rocwheel_index::requirement::Requirement;
use rocwheel_progress::{Failure, Reporter, Unit, few_in_backticks};
use rocwheel_wheel::canonical_name;

use crate::answer::{ChoiceAnswer, ChoiceVerdict};
use crate::evidence::{Pages, bytes_for, runs, served_by, target_of};
use crate::lines::{Installer, make_lines};
use crate::near::nearest;
use crate::question::Question;
use crate::resolver::{Resolvers, run};
use crate::search::{Looking, not_taken, search, with_package};
use crate::set::{ChosenPackage, CodeSeen, PackageOrigin, Refusal, Set, pinned};

/// Prints what a Python has.
const LIST: &str = "import sys\nsys.path = [p for p in sys.path if p]\nimport importlib.metadata as m\n\
                    for d in m.distributions(): print(f\"{d.metadata['Name']}=={d.version}\")";
/// The most files that are named for one reason.
const MOST_NAMES: usize = 3;

/// Answers a question, with the lines of these installers, each of which takes time.
///
/// # Errors
/// An index that cannot be read, METADATA that is wrong, no resolver, and what a resolver cannot
/// answer.
pub fn ask(
    question: &Question<'_>,
    installers: &[Installer],
    resolvers: &Resolvers,
    progress: &Arc<dyn Reporter>,
) -> Result<ChoiceAnswer, Failure> {
    for site in &question.sites[..question.own()] {
        site.check_root(&**progress)?;
    }
    let mut pages = Pages::new(question.sites, question.own(), Arc::clone(progress));
    let question = with_package(question, &mut pages)?;
    let stage = progress.stage("Resolving", None, Unit::Items);
    let found = search(&question, resolvers, &mut pages, Looking::Into, &**progress)?;
    let mut answer = match found {
        Ok(set) => {
            let mut answer = evaluate(&question, &set);
            answer.not_taken = not_taken(&question, &set, resolvers, &mut pages)?;
            answer.lines = make_lines(&question, &set, installers, resolvers)?;
            answer
        }
        Err(refusal) => {
            let (nearest, tried) = nearest(&question, resolvers, &mut pages, &**progress)?;
            ChoiceAnswer { nearest, tried, ..unfounded(ChoiceVerdict::No, refusal) }
        }
    };
    drop(stage);
    answer.not_looked_at.push(
        "whether the libraries load on this system: `rocwheel audit X.whl --with index` tells it of a wheel".to_owned(),
    );
    answer.not_looked_at.push("whether a kernel runs: `rocwheel test smoke` runs one afterwards".to_owned());
    Ok(answer)
}

/// What the set costs, and what was seen of its code.
fn evaluate(question: &Question<'_>, set: &Set) -> ChoiceAnswer {
    let (mut kernels, mut unseen, mut not_looked_at) = (Vec::new(), Vec::new(), Vec::new());
    let mut gpu_code = BTreeMap::new();
    let mut is_by_name = false;
    for gpu in &question.gpus {
        let (mut seen_in, mut by_name) = (Vec::new(), Vec::new());
        let mut bytes = Some(0);
        for (member, seen) in set.members.iter().zip(&set.seen) {
            let is_part =
                target_of(&member.name).is_some_and(|target| served_by(gpu).iter().any(|name| name == target));
            match &seen.code {
                CodeSeen::For(targets, is_partial) => {
                    let own = bytes_for(gpu, targets);
                    bytes = bytes.filter(|_| !is_partial).map(|sum| sum + own);
                    if targets.keys().any(|code| runs(gpu, code)) {
                        seen_in.push(member.name.as_str());
                    }
                }
                CodeSeen::NotLooked(_) => {
                    bytes = None;
                    by_name.extend(is_part.then_some(member.name.as_str()));
                }
                CodeSeen::Cuda | CodeSeen::Nothing => {}
            }
        }
        if seen_in.is_empty() && by_name.is_empty() {
            unseen.push(format!("the set exists; code for {gpu} was not seen in it"));
        }
        is_by_name |= seen_in.is_empty();
        gpu_code.insert(gpu.clone(), bytes);
        if !seen_in.is_empty() {
            kernels.push(format!("{gpu}: by the tables in {}", seen_in.join(", ")));
        }
        if !by_name.is_empty() {
            kernels.push(format!("{gpu}: by the name alone of {}", by_name.join(", ")));
        }
        let lacking: Vec<&str> = without_code(question, set).filter(|name| !seen_in.contains(name)).collect();
        let is_seen = !seen_in.is_empty() || !by_name.is_empty();
        if is_seen && !lacking.is_empty() {
            unseen.push(format!("no code for {gpu} was seen in {}, only in other packages", lacking.join(", ")));
        }
    }
    let mut reasons: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (member, seen) in set.members.iter().zip(&set.seen) {
        if let CodeSeen::NotLooked(reason) = &seen.code {
            reasons.entry(reason).or_default().push(&member.file);
        }
    }
    for (reason, files) in reasons {
        not_looked_at.push(format!("the GPU code in {}: {reason}", few_in_backticks(files, MOST_NAMES)));
    }
    for (member, seen) in set.members.iter().zip(&set.seen) {
        if matches!(seen.code, CodeSeen::Nothing) && target_of(&member.name).is_some_and(|target| target != "all") {
            unseen.push(format!("the set exists; `{}` is for a GPU by its name, and no code is in it", member.file));
        }
    }
    let (verdict, reason) = match unseen.into_iter().next() {
        Some(reason) => (ChoiceVerdict::CannotTell, reason),
        None if is_by_name => {
            let reason = "the set exists, with packages for the GPU by their names; their code was not looked into";
            (ChoiceVerdict::Yes, reason.to_owned())
        }
        None => (ChoiceVerdict::Yes, "the set exists, and has code for the GPU".to_owned()),
    };
    let refusal = Refusal { reason, asked: pinned(set), barred: Vec::new(), resolved_by: set.resolved_by };
    ChoiceAnswer {
        members: set.members.clone(),
        pre_releases: set.pre_releases,
        is_by_name,
        download: set.members.iter().map(|member| member.size).sum(),
        installed: set.seen.iter().map(|seen| seen.unpacked).sum(),
        kernels,
        gpu_code,
        not_looked_at,
        ..unfounded(verdict, refusal)
    }
}

/// The compiled packages that should have code for a GPU, and have neither any nor a part: those
/// that are asked for, and those whose version names a ROCm. Those of ROCm itself have parts.
fn without_code<'a>(question: &'a Question<'_>, set: &'a Set) -> impl Iterator<Item = &'a str> {
    let asked: Vec<Requirement> = question.packages.iter().filter_map(|text| Requirement::parse(text).ok()).collect();
    set.members.iter().zip(&set.seen).filter_map(move |(member, seen)| {
        let is_meant = member.version.contains("+rocm") || asked.iter().any(|one| one.name == member.name);
        let is_own = member.origin != PackageOrigin::Public && !member.file.ends_with("-any.whl");
        let is_of_rocm = member.name.starts_with("rocm") || target_of(&member.name).is_some();
        let part = format!("{}-device-", member.name);
        let has_part = set.members.iter().any(|other| other.name.trim_start_matches("amd-").starts_with(&part));
        let is_bare = matches!(seen.code, CodeSeen::Nothing) && is_meant && is_own && !is_of_rocm && !has_part;
        is_bare.then_some(member.name.as_str())
    })
}

/// The packages of a set that a Python has in the same version; `None` if it does not tell.
pub fn present(python: &Path, members: &[ChosenPackage]) -> Option<Vec<String>> {
    let mut command = Command::new(python);
    let output = run(command.args(["-c", LIST]).stdin(Stdio::null()), None).ok()?;
    let text = output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())?;
    let has = text.lines().filter_map(|line| line.split_once("=="));
    let has: BTreeMap<String, &str> = has.map(|(name, version)| (canonical_name(name), version)).collect();
    let members = members.iter().filter(|member| has.get(&member.name) == Some(&member.version.as_str()));
    Some(members.map(|member| member.name.clone()).collect())
}

/// An answer without a set.
fn unfounded(
    verdict: ChoiceVerdict,
    Refusal { reason, asked, barred: not_taken, resolved_by }: Refusal,
) -> ChoiceAnswer {
    ChoiceAnswer {
        verdict,
        reason,
        asked,
        members: Vec::new(),
        not_taken,
        resolved_by,
        present: None,
        is_by_name: false,
        pre_releases: false,
        download: None,
        installed: None,
        kernels: Vec::new(),
        gpu_code: BTreeMap::new(),
        not_looked_at: Vec::new(),
        nearest: Vec::new(),
        tried: Vec::new(),
        lines: Vec::new(),
    }
}
