//! Input: a tree of CUDA sources and the tables of `torch.utils.hipify`. Output: the HIP sources
//! that the original produces, byte for byte, or an error that names the line where the original
//! would hang, crash or lose a kernel launch.
//!
//! [`tables`] reads the tables of the tree as Python literals, [`build_amd`] PyTorch's own
//! settings; [`transform`] converts one text; [`tree`] finds the files, plans the whole tree and
//! writes it.

pub mod build_amd;
mod error;
mod keys;
pub mod tables;
pub mod transform;
pub mod tree;

mod unmapped;
mod word;

pub use error::{ConversionProblem, FileTrouble, Trouble, no_tree};
pub use tables::{Algorithm, Tables};
pub use unmapped::Unmapped;
pub use word::is_word;

/// The caller of the original whose behaviour is reproduced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Setting {
    /// `tools/amd_build/build_amd.py` of PyTorch: some files are converted in place, others into
    /// `hip` folders.
    Pytorch,
    /// `torch.utils.cpp_extension`: every result is a new file beside its source, and includes
    /// refer to it.
    Extension,
}

/// The result for `kernel<<<grid, block>>>(…)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Launches {
    /// `hipLaunchKernelGGL(…)`.
    Convert,
    /// The launch stays unchanged, because clang understands it (`hip_clang_launch` of the
    /// original).
    Keep,
}

/// The reaction to input on which the original hangs, crashes or loses something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Defects {
    Refuse,
    /// Convert it as it was probably meant.
    Fix,
}
