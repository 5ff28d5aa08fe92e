//! Input: the platform of a tag, `manylinux_2_28_x86_64`. Output: what it promises.

use crate::manylinux::DottedVersion;

/// What a platform tag promises (PEP 425, 600, 656).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PlatformTag {
    /// `any`.
    Any,
    /// `manylinux_2_28_x86_64`, and the older names for it.
    Manylinux {
        /// The oldest glibc.
        glibc: DottedVersion,
        /// `x86_64`.
        machine: String,
    },
    /// `linux_x86_64`.
    Linux {
        /// `x86_64`.
        machine: String,
    },
    /// `musllinux_1_2_x86_64`.
    Musllinux {
        /// The oldest musl.
        musl: DottedVersion,
        /// `x86_64`.
        machine: String,
    },
    /// Another system.
    Other,
}

impl PlatformTag {
    /// Reads the platform of a tag. What is not known is [`PlatformTag::Other`].
    pub fn parse(tag: &str) -> PlatformTag {
        let legacy = [("manylinux1_", "2.5"), ("manylinux2010_", "2.12"), ("manylinux2014_", "2.17")];
        if tag == "any" {
            return PlatformTag::Any;
        }
        for (start, glibc) in legacy {
            if let (Some(machine), Ok(glibc)) = (tag.strip_prefix(start), DottedVersion::try_from(glibc.to_owned())) {
                return PlatformTag::Manylinux { glibc, machine: machine.to_owned() };
            }
        }
        if let Some((glibc, machine)) = tag.strip_prefix("manylinux_").and_then(version_and_machine) {
            return PlatformTag::Manylinux { glibc, machine };
        }
        if let Some((musl, machine)) = tag.strip_prefix("musllinux_").and_then(version_and_machine) {
            return PlatformTag::Musllinux { musl, machine };
        }
        match tag.strip_prefix("linux_") {
            Some(machine) => PlatformTag::Linux { machine: machine.to_owned() },
            None => PlatformTag::Other,
        }
    }

    /// The machine that the tag names, `x86_64`; `None` for `any` and other systems.
    pub fn machine(&self) -> Option<&str> {
        match self {
            PlatformTag::Manylinux { machine, .. }
            | PlatformTag::Linux { machine }
            | PlatformTag::Musllinux { machine, .. } => Some(machine),
            PlatformTag::Any | PlatformTag::Other => None,
        }
    }
}

/// `2_28_x86_64` as 2.28 and `x86_64`.
fn version_and_machine(text: &str) -> Option<(DottedVersion, String)> {
    let mut parts = text.splitn(3, '_');
    let (major, minor, machine) = (parts.next()?, parts.next()?, parts.next()?);
    Some((DottedVersion::try_from(format!("{major}.{minor}")).ok()?, machine.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn release(text: &str) -> DottedVersion {
        DottedVersion::try_from(text.to_owned()).unwrap()
    }

    #[test]
    fn platforms_are_understood() {
        let manylinux = |glibc: &str| PlatformTag::Manylinux { glibc: release(glibc), machine: "x86_64".to_owned() };
        assert_eq!(PlatformTag::parse("manylinux2014_x86_64"), manylinux("2.17"));
        assert_eq!(PlatformTag::parse("manylinux_2_28_x86_64"), manylinux("2.28"));
        assert_eq!(PlatformTag::parse("manylinux1_x86_64"), manylinux("2.5"));
        assert_eq!(PlatformTag::parse("linux_x86_64"), PlatformTag::Linux { machine: "x86_64".to_owned() });
        let musllinux = PlatformTag::Musllinux { musl: release("1.2"), machine: "x86_64".to_owned() };
        assert_eq!(PlatformTag::parse("musllinux_1_2_x86_64"), musllinux);
        assert_eq!(PlatformTag::parse("win_amd64"), PlatformTag::Other);
        assert_eq!(PlatformTag::parse("manylinux_2_x"), PlatformTag::Other);
    }
}
