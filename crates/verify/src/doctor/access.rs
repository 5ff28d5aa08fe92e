//! Input: the device files of the GPUs and the user. Output: which of them open, and why the others
//! do not. The only true test is to open them; names of groups and modes explain the answer.

use std::collections::{BTreeMap, BTreeSet};

use super::container::{self, ContainerKind};
use super::finding::{Evidence, Symptom};
use super::gpus::GpuFacts;
use super::tree::{FileRights, MachineTree, ReadFault};
use super::user::{Groups, NOBODY, SessionUser};

const KFD: &str = "/dev/kfd";
/// Pieces of evidence that a finding shows.
const MOST_EVIDENCE: usize = 4;

/// The surroundings in which devices are opened.
pub(super) struct Session<'a> {
    pub(super) tree: &'a MachineTree,
    pub(super) user: Option<&'a SessionUser>,
    pub(super) container: Option<ContainerKind>,
}

/// Opens the devices of the GPUs, and returns for each GPU whether it can be used.
pub(super) fn check(session: &Session<'_>, gpus: &[GpuFacts], symptoms: &mut Vec<Symptom>) -> Vec<bool> {
    let groups = Groups::read(session.tree);
    let mut found = Findings::default();
    let is_open = session.examine(KFD, &groups, &mut found);
    let mut usable = Vec::new();
    // Without /dev/kfd nothing is asked of the render nodes.
    let is_absent = found.by_name.contains_key(if session.container.is_some() {
        "container-without-device"
    } else {
        "no-device-file"
    });
    for gpu in gpus {
        let Some(node) = &gpu.render_node else {
            usable.push(is_open);
            continue;
        };
        let opens = !is_absent && session.examine(node, &groups, &mut found);
        usable.push(is_open && opens);
    }
    symptoms.extend(found.finish());
    usable
}

/// Findings of several devices with one cause.
#[derive(Default)]
struct Findings {
    by_name: BTreeMap<&'static str, Symptom>,
    groups: BTreeSet<String>,
}

impl Findings {
    /// Adds a finding, or its evidence to an earlier one of the same kind.
    fn add(&mut self, symptom: Symptom) {
        match self.by_name.get_mut(symptom.name) {
            None => {
                self.by_name.insert(symptom.name, symptom);
            }
            Some(first) => {
                for seen in symptom.evidence {
                    if first.evidence.len() < MOST_EVIDENCE && !first.evidence.contains(&seen) {
                        first.evidence.push(seen);
                    }
                }
            }
        }
    }

    fn finish(self) -> impl Iterator<Item = Symptom> {
        let groups = self.groups.into_iter().collect::<Vec<_>>().join(",");
        self.by_name.into_values().map(move |symptom| symptom.fill("group", &groups))
    }
}

impl Session<'_> {
    /// Opens a device; `true` if that works.
    fn examine(&self, device: &str, groups: &Groups, found: &mut Findings) -> bool {
        let rights = self.tree.rights(device);
        let fault = match (self.tree.open_device(device), rights, self.user) {
            (Some(Ok(())), ..) => return true,
            (Some(Err(fault)), ..) => fault,
            (None, Some(rights), Some(user)) if user.may_use(rights) => return true,
            (None, Some(_), Some(_)) => ReadFault::Denied,
            // A copy without a user cannot answer.
            (None, ..) => {
                let question = format!("Whether the user may open `{device}`");
                let evidence = "no user: `--user UID:GID,GID` names one";
                found.add(Symptom::new("not-read").fill("question", &question).seen("/proc/self/status", evidence));
                return true;
            }
        };
        let value = rights.map_or_else(|| fault.words(), |rights| format!("{}; mode {}", fault.words(), shown(rights)));
        let symptom = match fault {
            ReadFault::Absent => self.absent(device),
            ReadFault::NotPermitted if self.container.is_some() => Symptom::new("container-without-device"),
            ReadFault::Denied => self.denied(rights, groups, found),
            ReadFault::NotPermitted | ReadFault::Other(_) => Symptom::new("device-fails").fill("error", &fault.words()),
        };
        let mut symptom = symptom.fill("device", device);
        symptom.evidence.insert(0, Evidence { path: device.to_owned(), value });
        found.add(symptom);
        false
    }

    fn absent(&self, device: &str) -> Symptom {
        match self.container {
            Some(ContainerKind::Apptainer) => Symptom::new("apptainer-without-device"),
            Some(_) => Symptom::new("container-without-device"),
            None if device == KFD => Symptom::new("no-device-file"),
            None => Symptom::new("render-node-missing"),
        }
    }

    fn denied(&self, rights: Option<FileRights>, groups: &Groups, found: &mut Findings) -> Symptom {
        let refused = || Symptom::new("device-fails").fill("error", &ReadFault::Denied.words());
        let Some(rights) = rights else { return refused() };
        let FileRights { mode, user, group } = rights;
        let owner = format!("{user}:{group}");
        let has_right = (mode >> 3) & 0o6 == 0o6;
        let is_contained = self.container.is_some() && has_right;
        // Podman gives its first process root's number, so the map of numbers tells.
        if is_contained && (group == NOBODY || container::is_rootless(self.tree)) {
            return Symptom::new("rootless-container").seen("/proc/self/uid_map", "numbers differ from the host's");
        }
        // Owner, group and mode allow it, so that SELinux or another security module refuses.
        if self.user.is_some_and(|user| user.may_use(rights)) {
            return refused();
        }
        if is_contained {
            return Symptom::new("container-group").fill("gid", &group.to_string());
        }
        if !has_right || group == 0 || !groups.has_name(group) {
            let mode = format!("{mode:04o}");
            return Symptom::new("device-mode").fill("mode", &mode).fill("owner", &owner);
        }
        found.groups.insert(groups.name(group));
        match self.user {
            Some(user) if groups.lists(group, user.user) => Symptom::new("login-again")
                .seen("/etc/group", format!("{} has the user {}", groups.name(group), user.user))
                .seen("/proc/self/status", "the session does not have the group"),
            _ => Symptom::new("device-denied"),
        }
    }
}

fn shown(rights: FileRights) -> String {
    format!("{:04o}, owner {}:{}", rights.mode, rights.user, rights.group)
}
