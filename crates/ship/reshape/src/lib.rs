//! Input: files with GPU code, wheels and trees, whole or split. Output: the same with the code for
//! fewer targets ([`prune`]), or with the code of their archives back inside, also that of several
//! builds ([`fuse`]). Both read what they wrote again, and compare it with the input.

pub mod fuse;
pub mod prune;
