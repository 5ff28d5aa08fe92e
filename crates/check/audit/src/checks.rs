//! The checks: a file for each code, whose name carries the code.
//!
//! Generated from `data/findings.toml`:
//! `INSTA_UPDATE=always cargo test --package rocwheel-audit` writes it anew.

#![allow(clippy::unnecessary_wraps, reason = "a check is a function that may fail")]

mod rw001_library_not_found;
mod rw002_library_outside;
mod rw003_search_path;
mod rw004_two_copies;
mod rw005_undefined_symbol;
mod rw006_symbol_version;
mod rw007_too_new;
mod rw008_cpu_level;
mod rw009_tags;
mod rw010_python;
mod rw011_not_rocm;
mod rw012_missing_requirement;
mod rw013_unneeded_requirement;
mod rw014_stray_package;
mod rw015_shared_file;
mod rw016_record;
mod rw017_record_hash;
mod rw018_path_length;
mod rw019_preload_list;
mod rw020_size;
mod rw021_kpack_runtime;
mod rw022_dlopen_missing;
mod rw023_unreadable;
mod rw024_gpu_code;
mod rw025_not_given;
mod rw026_machine;
mod rw027_executable_stack;
mod rw028_library_path;
mod rw029_dll_not_found;
mod rw030_wrong_requirement;
mod rw031_unmet_requirement;
mod rw032_refused;
mod rw033_not_loadable;
mod rw034_entry_point;
mod rw035_metadata;
mod rw036_generic_code;
mod rw037_not_brought;
mod rw038_public_name;

use crate::check::Check;

/// Every check, in the order of the codes.
pub(crate) const CHECKS: [Check; 38] = [
    rw001_library_not_found::CHECK,
    rw002_library_outside::CHECK,
    rw003_search_path::CHECK,
    rw004_two_copies::CHECK,
    rw005_undefined_symbol::CHECK,
    rw006_symbol_version::CHECK,
    rw007_too_new::CHECK,
    rw008_cpu_level::CHECK,
    rw009_tags::CHECK,
    rw010_python::CHECK,
    rw011_not_rocm::CHECK,
    rw012_missing_requirement::CHECK,
    rw013_unneeded_requirement::CHECK,
    rw014_stray_package::CHECK,
    rw015_shared_file::CHECK,
    rw016_record::CHECK,
    rw017_record_hash::CHECK,
    rw018_path_length::CHECK,
    rw019_preload_list::CHECK,
    rw020_size::CHECK,
    rw021_kpack_runtime::CHECK,
    rw022_dlopen_missing::CHECK,
    rw023_unreadable::CHECK,
    rw024_gpu_code::CHECK,
    rw025_not_given::CHECK,
    rw026_machine::CHECK,
    rw027_executable_stack::CHECK,
    rw028_library_path::CHECK,
    rw029_dll_not_found::CHECK,
    rw030_wrong_requirement::CHECK,
    rw031_unmet_requirement::CHECK,
    rw032_refused::CHECK,
    rw033_not_loadable::CHECK,
    rw034_entry_point::CHECK,
    rw035_metadata::CHECK,
    rw036_generic_code::CHECK,
    rw037_not_brought::CHECK,
    rw038_public_name::CHECK,
];
