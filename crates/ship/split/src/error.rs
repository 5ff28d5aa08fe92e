//! Failures of several modules, to be used as `.map_err(read_error(key))`. `key` is the path of a
//! file, relative to the input.

use std::io;

use rocwheel_progress::{Exit, Failure};

pub fn read_error(key: &str) -> impl Fn(io::Error) -> Failure + Copy {
    move |error| Failure::attempt(format!("could not read `{key}`"))(error)
}

pub fn gpu_code_error(key: &str) -> impl Fn(rocwheel_kpack::Error) -> Failure + Copy {
    // An unknown target in a file is not a wrong command line.
    move |error| Failure::attempt(format!("could not read the GPU code of `{key}`"))(error).with_exit(Exit::Failed)
}

/// A file cannot be edited, because its own headers contradict each other.
pub fn contradiction_error(key: &str, why: &str) -> Failure {
    Failure::message(format!("`{key}` is damaged: {why}")).with_hint("get the file again, or build it again")
}
