//! Input: the value of an `NT_AMDGPU_METADATA` note, MessagePack. Output: the kernels in it.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error as _, IgnoredAny, SeqAccess, Visitor};

/// Largest number of kernels; a note with more is hostile. Each takes some 300 bytes of memory.
const MOST_KERNELS: usize = 1 << 18;

/// Largest depth of arrays and maps. Real notes have five levels; the reader recurses, and with its
/// own limit the stack overflows.
const DEEPEST: usize = 32;

/// The format of the metadata note of a code object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum MetadataFormat {
    /// The file has no metadata note.
    #[default]
    Absent,
    /// The MessagePack note of code object version 3 and later.
    MessagePack,
    /// The YAML note of code object version 2, which is not read.
    Yaml,
    /// The note cannot be parsed, for this reason.
    Malformed(String),
}

impl MetadataFormat {
    /// Records a reason, unless metadata was read already.
    pub(super) fn complain(&mut self, reason: impl Into<String>) {
        if *self == MetadataFormat::Absent {
            *self = MetadataFormat::Malformed(reason.into());
        }
    }
}

/// A kernel. Fields that the note does not have are `None`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Kernel {
    /// The (mangled) name.
    #[serde(rename = ".name")]
    pub name: String,
    /// The symbol of its descriptor: the name with `.kd`.
    #[serde(rename = ".symbol")]
    pub symbol: String,
    /// Vector registers that each work item needs.
    #[serde(rename = ".vgpr_count")]
    pub vgpr: Option<u64>,
    /// Accumulation registers that each work item needs.
    #[serde(rename = ".agpr_count")]
    pub agpr: Option<u64>,
    /// Scalar registers that each wavefront needs.
    #[serde(rename = ".sgpr_count")]
    pub sgpr: Option<u64>,
    /// Stores from vector registers to memory, because there are too few registers.
    #[serde(rename = ".vgpr_spill_count")]
    pub vgpr_spills: Option<u64>,
    /// Stores from scalar registers, because there are too few registers.
    #[serde(rename = ".sgpr_spill_count")]
    pub sgpr_spills: Option<u64>,
    /// Memory that a work group shares (LDS), fixed part, in bytes.
    #[serde(rename = ".group_segment_fixed_size")]
    pub lds: Option<u64>,
    /// Private memory of a work item, fixed part, in bytes.
    #[serde(rename = ".private_segment_fixed_size")]
    pub scratch: Option<u64>,
    /// Work items in a wavefront: 32 or 64.
    #[serde(rename = ".wavefront_size")]
    pub wavefront: Option<u64>,
    /// Largest number of work items in a work group.
    #[serde(rename = ".max_flat_workgroup_size")]
    pub max_workgroup: Option<u64>,
}

#[derive(Deserialize)]
struct Note {
    #[serde(rename = "amdhsa.kernels", default)]
    kernels: Kernels,
}

#[derive(Default)]
struct Kernels(Vec<Kernel>);

impl<'de> Deserialize<'de> for Kernels {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Bounded;
        impl<'de> Visitor<'de> for Bounded {
            type Value = Kernels;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an array of kernels")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Kernels, A::Error> {
                let mut kernels = Vec::new();
                while kernels.len() < MOST_KERNELS {
                    let Some(kernel) = sequence.next_element()? else {
                        return Ok(Kernels(kernels));
                    };
                    kernels.push(kernel);
                }
                match sequence.next_element::<IgnoredAny>()? {
                    None => Ok(Kernels(kernels)),
                    Some(_) => Err(A::Error::custom(format!("more than {MOST_KERNELS} kernels"))),
                }
            }
        }
        deserializer.deserialize_seq(Bounded)
    }
}

/// Returns the kernels of a note, and the format or the reason why it could not be parsed.
pub(super) fn parse(note: &[u8]) -> (MetadataFormat, Vec<Kernel>) {
    let mut deserializer = rmp_serde::Deserializer::from_read_ref(note);
    deserializer.set_max_depth(DEEPEST);
    match Note::deserialize(&mut deserializer) {
        Ok(note) => (MetadataFormat::MessagePack, note.kernels.0),
        Err(error) => (MetadataFormat::Malformed(error.to_string()), Vec::new()),
    }
}
