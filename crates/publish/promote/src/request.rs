//! What a user wants to be promoted, and to which version.

use std::path::{Path, PathBuf};

use pep440_rs::Version;

/// What to promote. Patterns without a slash are for file names in any folder.
#[derive(Debug, Clone)]
pub struct PromotionRequest<'a> {
    /// As messages name it. Files in its folders are not promoted.
    pub folder: &'a Path,
    /// The files of the set, wherever they are; `None` for those of the folder.
    pub files: Option<&'a [PathBuf]>,
    /// The version of the set; `None` to find it in the names of the files.
    pub old: Option<Version>,
    /// The version that it gets; `None` to keep it.
    pub new: Option<Version>,
    /// Targets that stay; empty for all. The first is the default, if the old default goes.
    pub keep: &'a [String],
    /// Empty for all.
    pub include: &'a [String],
    /// Files that are left behind.
    pub ignore: &'a [String],
    /// Files that are copied unchanged, whatever they are.
    pub copy: &'a [String],
    /// More members of packages that get the new version.
    pub also_in: &'a [String],
    pub accept: &'a [String],
    /// Folders with packages that fulfil requirements of the set.
    pub beside: &'a [PathBuf],
    /// `true` if frameworks take every later patch of the new ROCm: `==7.12.*`.
    pub is_floating: bool,
    /// Names of more files that do, such as those of the stream that the set goes into.
    pub published: &'a [String],
}

impl<'a> PromotionRequest<'a> {
    /// All files of a folder, with the versions and targets that they have.
    pub fn new(folder: &'a Path) -> PromotionRequest<'a> {
        PromotionRequest {
            folder,
            files: None,
            old: None,
            new: None,
            keep: &[],
            include: &[],
            ignore: &[],
            copy: &[],
            also_in: &[],
            accept: &[],
            beside: &[],
            is_floating: false,
            published: &[],
        }
    }
}
