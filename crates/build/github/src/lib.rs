//! Input: the table of what can be built, and folders with built files. Output: jobs of GitHub
//! Actions that build what is missing, pages about the files, and the releases that have them.

pub mod pages;
pub mod release;
pub mod workflow;
