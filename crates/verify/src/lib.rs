//! Input: a machine with GPUs and packages. Output: whether they work. The first part of it is
//! [`doctor`], which reads files alone.

pub mod doctor;
