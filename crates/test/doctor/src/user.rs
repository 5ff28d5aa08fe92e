//! Input: `/proc/self/status`, `/etc/passwd` and `/etc/group`. Output: the user, the groups of the
//! session, and those that the files give the user.

use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr;

use serde::Serialize;

use crate::tree::{FileRights, MachineTree};

/// Number of the group and user that stand for all that do not exist in a user namespace.
pub(crate) const NOBODY: u32 = 65534;

/// User and groups of a session, as numbers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct SessionUser {
    /// Effective number of the user.
    pub user: u32,
    /// Numbers of the groups of the session.
    pub groups: BTreeSet<u32>,
}

impl FromStr for SessionUser {
    type Err = String;

    /// Parses `1000:1000,44,992`.
    fn from_str(text: &str) -> Result<SessionUser, String> {
        numbers_of(text).ok_or_else(|| format!("`{text}` is not a user and groups such as 1000:1000,44"))
    }
}

fn numbers_of(text: &str) -> Option<SessionUser> {
    let (user, groups) = text.split_once(':')?;
    let groups = groups.split(',').map(|group| group.trim().parse().ok()).collect::<Option<_>>()?;
    Some(SessionUser { user: user.trim().parse().ok()?, groups })
}

/// The numbers in a line of `/proc/self/status`.
fn numbers_in(status: &str, name: &str) -> Vec<u32> {
    let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
    line.split_whitespace().filter_map(|number| number.parse().ok()).collect()
}

impl SessionUser {
    /// The user of the session that `/proc/self/status` describes.
    pub(crate) fn of_status(text: &str) -> Option<SessionUser> {
        let mut groups: BTreeSet<u32> = numbers_in(text, "Groups:").into_iter().collect();
        // Real, effective, saved and file system numbers.
        groups.extend(numbers_in(text, "Gid:").get(1));
        Some(SessionUser { user: *numbers_in(text, "Uid:").get(1)?, groups })
    }

    /// `true` if owner, group and mode allow reading and writing.
    pub(crate) fn may_use(&self, rights: FileRights) -> bool {
        let bits = if self.user == 0 {
            return true;
        } else if self.user == rights.user {
            rights.mode >> 6
        } else if self.groups.contains(&rights.group) {
            rights.mode >> 3
        } else {
            rights.mode
        };
        bits & 0o6 == 0o6
    }
}

#[derive(Debug, Default)]
pub(crate) struct Groups {
    names: BTreeMap<u32, String>,
    members: BTreeMap<u32, BTreeSet<String>>,
    users: BTreeMap<u32, String>,
}

impl Groups {
    pub(crate) fn read(tree: &MachineTree) -> Groups {
        let mut groups = Groups::default();
        // Systems whose /usr is an image have groups of the system there.
        let files = ["/etc/group", "/usr/lib/group"].map(|path| tree.text_up_to(path, 1 << 20).unwrap_or_default());
        for line in files.iter().flat_map(|text| text.lines()) {
            let fields: Vec<&str> = line.split(':').collect();
            let [name, _, number, members] = fields[..] else { continue };
            let Ok(number) = number.parse() else { continue };
            groups.names.entry(number).or_insert_with(|| name.to_owned());
            let members = members.split(',').map(str::trim).filter(|member| !member.is_empty()).map(str::to_owned);
            groups.members.entry(number).or_default().extend(members);
        }
        for line in tree.text_up_to("/etc/passwd", 1 << 20).unwrap_or_default().lines() {
            let mut fields = line.split(':');
            if let (Some(name), Some(Ok(number))) = (fields.next(), fields.nth(1).map(str::parse)) {
                groups.users.entry(number).or_insert_with(|| name.to_owned());
            }
        }
        groups
    }

    pub(crate) fn name(&self, group: u32) -> String {
        self.names.get(&group).cloned().unwrap_or_else(|| group.to_string())
    }

    /// The number of the group with a name.
    pub(crate) fn number(&self, name: &str) -> Option<u32> {
        self.names.iter().find(|(_, known)| *known == name).map(|(number, _)| *number)
    }

    pub(crate) fn has_name(&self, group: u32) -> bool {
        self.names.contains_key(&group)
    }

    /// `true` if the files have the user in the group, whatever the session has.
    pub(crate) fn lists(&self, group: u32, user: u32) -> bool {
        let name = self.users.get(&user);
        name.is_some_and(|name| self.members.get(&group).is_some_and(|members| members.contains(name)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rights_are_those_of_the_first_class_that_fits() {
        let user: SessionUser = "1000:1000,44".parse().unwrap();
        let rights = |mode, user, group| FileRights { mode, user, group };
        assert!(user.may_use(rights(0o660, 0, 44)));
        assert!(!user.may_use(rights(0o660, 0, 109)));
        assert!(user.may_use(rights(0o666, 0, 109)));
        // The owner has fewer rights than others here, and the kernel asks no further.
        assert!(!user.may_use(rights(0o066, 1000, 109)));
        assert!("root".parse::<SessionUser>().is_err() && "1:x".parse::<SessionUser>().is_err());
    }

    #[test]
    fn the_status_of_a_process_names_its_groups() {
        let text = "Name:\tx\nUid:\t1000\t1000\t1000\t1000\nGid:\t100\t100\t100\t100\nGroups:\t44 109 \n";
        let user = SessionUser::of_status(text).unwrap();
        assert_eq!((user.user, user.groups.into_iter().collect::<Vec<_>>()), (1000, vec![44, 100, 109]));
    }
}
