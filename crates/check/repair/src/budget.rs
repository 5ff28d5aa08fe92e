//! Input: a finished wheel that is too large, and its plan. Output: lines of a tree that shows the
//! largest members and the files that need them.

use std::collections::{BTreeMap, BTreeSet};

use rocwheel_wheel::read::Wheel;

use crate::paths;
use crate::plan::Plan;

/// Maximum number of members that are listed.
const SHOWN: usize = 12;
/// Maximum depth of the tree below a member.
const DEPTH: usize = 6;

/// The largest members with their packed sizes, each with the chain of files that need it.
pub(crate) fn largest(wheel: &Wheel, plan: &Plan) -> Vec<String> {
    let mut members: Vec<(&str, u64, u64)> =
        wheel.members().iter().map(|listed| (listed.name.as_str(), listed.compressed, listed.size)).collect();
    members.sort_by(|one, other| other.1.cmp(&one.1).then(one.0.cmp(other.0)));
    let users: BTreeMap<&str, &Vec<String>> =
        plan.grafted.iter().map(|graft| (graft.member.as_str(), &graft.needed_by)).collect();
    // Users, including grafted libraries, are named like the file on this machine.
    let by_source: BTreeMap<&str, &str> = plan
        .grafted
        .iter()
        .filter_map(|graft| Some((graft.source.file_name()?.to_str()?, graft.member.as_str())))
        .collect();
    let mut lines = Vec::new();
    for (member, packed, size) in members.iter().take(SHOWN) {
        lines.push(format!("{packed:>12} bytes ({size} unpacked)  {member}"));
        let mut seen = BTreeSet::from([*member]);
        let mut level: Vec<&str> = vec![member];
        for depth in 1..=DEPTH {
            let mut next: Vec<&str> = Vec::new();
            for member in &level {
                for user in users.get(member).into_iter().copied().flatten() {
                    let user = by_source.get(user.as_str()).copied().unwrap_or(user);
                    if seen.insert(user) {
                        lines.push(format!("{:>14}{}needed by {}", "", "  ".repeat(depth), paths::name(user)));
                        next.push(user);
                    }
                }
            }
            level = next;
        }
    }
    if members.len() > SHOWN {
        let rest: u64 = members[SHOWN..].iter().map(|(_, packed, _)| packed).sum();
        lines.push(format!("{rest:>12} bytes in {} others", members.len() - SHOWN));
    }
    lines
}
