//! Input: a tree of CUDA sources and the tables of `torch.utils.hipify`. Output: the HIP sources
//! that the original makes of it, byte for byte, or an error that names the place where the
//! original would hang, crash or lose a kernel launch.
//!
//! [`tables`] reads the tables of the tree as Python literals, [`build_amd`] PyTorch's own
//! settings; [`transform`] converts one text; [`tree`] finds the files, plans the whole tree and
//! writes it.

pub mod build_amd;
mod error;
mod keys;
pub mod python;
pub mod tables;
pub mod transform;
pub mod tree;

mod unmapped;
mod word;

pub use error::{Error, Place, Problem, Trouble};
pub use tables::{Algorithm, Tables};
pub use unmapped::Unmapped;
pub use word::is_word;

/// Which of the two callers of the original is followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Setting {
    /// `tools/amd_build/build_amd.py` of PyTorch: some files are converted in place, others into
    /// `hip` folders.
    Pytorch,
    /// `torch.utils.cpp_extension`: every file gets a sibling, and includes follow.
    Extension,
}

/// What becomes of `kernel<<<grid, block>>>(…)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Launches {
    /// `hipLaunchKernelGGL(…)`.
    Convert,
    /// It stays: clang understands it (`hip_clang_launch` of the original).
    Keep,
}

/// What to do where the original hangs, crashes or loses something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Defects {
    /// An error with the place.
    Refuse,
    /// What was probably meant.
    Fix,
}
