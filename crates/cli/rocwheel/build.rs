//! Input: the target of this build. Output: a flag for the linker. On Windows the main thread gets
//! the 8 MiB of stack that it has on Linux: the command line's parser takes more than the default
//! of 1 MiB when it is compiled without optimisation.

#![allow(clippy::print_stdout, reason = "this is how a build script speaks to Cargo")]

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let of_target = |name: &str| std::env::var(format!("CARGO_CFG_TARGET_{name}")).unwrap_or_default();
    if of_target("OS") == "windows" {
        let flag = if of_target("ENV") == "msvc" { "/STACK:8388608" } else { "-Wl,--stack,8388608" };
        println!("cargo::rustc-link-arg-bins={flag}");
    }
}
