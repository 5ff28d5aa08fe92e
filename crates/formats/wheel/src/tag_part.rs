//! The parts of a compatibility tag (PEP 425), and the words for them.

/// A part of a tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum TagPart {
    /// `cp312`.
    Python,
    /// `abi3`.
    Abi,
    /// `manylinux_2_28_x86_64`.
    Platform,
}

impl TagPart {
    /// The noun for a sentence such as "the platform `x`".
    pub fn noun(self) -> &'static str {
        match self {
            TagPart::Python => "interpreter",
            TagPart::Abi => "ABI",
            TagPart::Platform => "platform",
        }
    }

    /// A known tag, for messages.
    pub fn example(self) -> &'static str {
        match self {
            TagPart::Python => "cp312",
            TagPart::Abi => "abi3",
            TagPart::Platform => "manylinux_2_28_x86_64",
        }
    }
}
