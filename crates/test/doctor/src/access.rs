//! Input: the device files of the GPUs and the user. Output: which of them open, and why the others
//! do not. The only true test is to open them; names of groups and modes explain the answer.

use std::collections::{BTreeMap, BTreeSet};

use crate::container::{self, ContainerKind};
use crate::finding::{Evidence, Symptom};
use crate::gpus::GpuFacts;
use crate::tree::{FileRights, MachineTree, ReadFault};
use crate::user::{Groups, NOBODY, SessionUser};

const KFD: &str = "/dev/kfd";
/// Pieces of evidence that a finding shows.
const MOST_EVIDENCE: usize = 4;

/// The surroundings in which devices are opened.
pub(crate) struct Session<'a> {
    pub(crate) tree: &'a MachineTree,
    pub(crate) user: Option<&'a SessionUser>,
    pub(crate) container: Option<ContainerKind>,
}

/// Opens the devices of the GPUs, and returns for each GPU whether it can be used.
pub(crate) fn check(session: &Session<'_>, gpus: &[GpuFacts], symptoms: &mut Vec<Symptom>) -> Vec<bool> {
    let groups = Groups::read(session.tree);
    let mut found = Findings { devices: lxc_devices(gpus, &groups), ..Findings::default() };
    let is_open = session.examine(KFD, &groups, &mut found);
    let mut usable = Vec::new();
    // Without /dev/kfd nothing is asked of the render nodes.
    let is_absent = ["container-without-device", "no-device-file"].iter().any(|name| found.by_name.contains_key(name));
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
    /// Options of `pct set` for all devices.
    devices: String,
}

/// The options with which Proxmox gives the devices of the GPUs to a container, for the group that
/// the container has for them.
fn lxc_devices(gpus: &[GpuFacts], groups: &Groups) -> String {
    let group = ["render", "video"].iter().find_map(|name| groups.number(name)).unwrap_or(0);
    let nodes = gpus.iter().filter_map(|gpu| gpu.render_node.as_deref());
    let devices = std::iter::once(KFD).chain(nodes).enumerate();
    let options: Vec<String> = devices.map(|(number, device)| format!("--dev{number} {device},gid={group}")).collect();
    options.join(" ")
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
        let devices = self.devices;
        self.by_name.into_values().map(move |symptom| symptom.fill("group", &groups).fill("devices", &devices))
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
            ReadFault::NotPermitted => {
                Symptom::new("device-fails").fill("reason", "A device cgroup or a security module refuses.")
            }
            ReadFault::Other(_) => Symptom::new("device-fails")
                .fill("reason", "That is neither a missing file nor a missing right: the driver refuses."),
        };
        let symptom = symptom.fill("error", &fault.words());
        let mut symptom = symptom.fill("device", device);
        symptom.evidence.insert(0, Evidence { path: device.to_owned(), value });
        found.add(symptom);
        false
    }

    fn absent(&self, device: &str) -> Symptom {
        match self.container {
            Some(ContainerKind::Apptainer) => Symptom::new("apptainer-without-device"),
            // `unshare` has the devices of the host.
            None | Some(ContainerKind::UserNamespace) if device == KFD => Symptom::new("no-device-file"),
            None | Some(ContainerKind::UserNamespace) => Symptom::new("render-node-missing"),
            Some(_) => Symptom::new("container-without-device"),
        }
    }

    fn denied(&self, rights: Option<FileRights>, groups: &Groups, found: &mut Findings) -> Symptom {
        let Some(rights) = rights else {
            return Symptom::new("device-fails").fill("reason", "Its owner, group and mode could not be read.");
        };
        let FileRights { mode, user, group } = rights;
        let owner = format!("{user}:{group}");
        let has_right = (mode >> 3) & 0o6 == 0o6;
        let is_contained = self.container.is_some() && has_right;
        // Podman gives its first process root's number, so the map of numbers tells.
        if is_contained && (group == NOBODY || container::is_rootless(self.tree)) {
            let map = container::uid_map(self.tree).unwrap_or_else(|| "not readable".to_owned());
            if self.container == Some(ContainerKind::Podman) {
                return Symptom::new("rootless-container").seen("/proc/self/uid_map", map);
            }
            let symptom = Symptom::new("user-namespace").fill("owner", &owner).fill("map", &map);
            return symptom.seen("/proc/self/uid_map", map);
        }
        // Owner, group and mode allow it, so that SELinux or another security module refuses.
        if self.user.is_some_and(|user| user.may_use(rights)) {
            let reason = "Owner, group and mode allow it, so that a security module refuses.";
            return Symptom::new("device-fails").fill("reason", reason);
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
