//! Input: the path of a source. Output: its category in hipify, and the path of its HIP form.

use crate::Setting;

/// Folders whose files are converted in place in PyTorch's setting.
const IN_PLACE: [&str; 3] = ["torch/", "third_party/nvfuser/", "tools/autograd/templates/"];

/// `true` if the result is another file (PyTorch's setting).
pub fn is_out_of_place(path: &str) -> bool {
    !IN_PLACE.iter().any(|folder| path.starts_with(folder))
}

/// Version 1: `true` if words are replaced by PyTorch's rules. (fbgemm is one of these files only
/// since 2.9. Earlier versions never see it, since they skip all of `third_party` except nvfuser.)
pub fn is_pytorch_file(path: &str) -> bool {
    path.starts_with("third_party/fbgemm/")
        || if path.starts_with("aten/") { !path.starts_with("aten/src/ATen/core/") } else { !is_out_of_place(path) }
}

/// Version 1: `true` if words are replaced by Caffe2's rules.
pub fn is_caffe2_gpu_file(path: &str) -> bool {
    let (_, name) = split(path);
    let (_, extension) = split_extension(name);
    path.starts_with("c10/cuda")
        || ((name.contains("gpu") || [".cu", ".cuh"].contains(&extension)) && !name.contains("cudnn"))
}

/// Version 1: `true` if the values for sparse matrices and linear algebra take precedence.
pub fn is_special_file(path: &str) -> bool {
    let path = path.to_lowercase();
    path.contains("sparse") || (path.contains("linalg") && !path.contains("batchlinearalgebralibblas"))
}

/// The path of the HIP form of the source at `path`, which must be relative.
pub fn hip_path(path: &str, setting: Setting) -> String {
    if setting == Setting::Pytorch && !is_out_of_place(path) {
        return path.to_owned();
    }
    let (folder, name) = split(path);
    let (root, extension) = split_extension(name);
    let extension = if extension == ".cu" { ".hip" } else { extension };
    let [hip_folder, mut hip_root] = [folder, root].map(|text| text.replace("cuda", "hip").replace("CUDA", "HIP"));
    let hip_folder = hip_folder.replace("THC", "THH");
    // caffe2/core/THCCachingAllocator keeps its name.
    if hip_folder != "caffe2/core" {
        hip_root = hip_root.replace("THC", "THH");
    }
    let same_folder = hip_folder == folder;
    let hip_name = format!("{hip_root}{extension}");
    match setting {
        Setting::Pytorch if same_folder => join(&join(&hip_folder, "hip"), &hip_name),
        Setting::Extension if same_folder && hip_name == name => {
            join(&hip_folder, &format!("{hip_root}_hip{extension}"))
        }
        _ => join(&hip_folder, &hip_name),
    }
}

/// Splits a path into folder and name like `os.path.split`.
pub(crate) fn split(path: &str) -> (&str, &str) {
    let (folder, name) = path.rfind('/').map_or(("", path), |slash| path.split_at(slash + 1));
    let trimmed = folder.trim_end_matches('/');
    (if trimmed.is_empty() { folder } else { trimmed }, name)
}

/// Splits a name into stem and ending like `os.path.splitext`: dots at the beginning do not count.
fn split_extension(name: &str) -> (&str, &str) {
    let begin = name.len() - name.trim_start_matches('.').len();
    match name.rfind('.') {
        Some(dot) if dot >= begin => name.split_at(dot),
        _ => (name, ""),
    }
}

/// Joins two paths like `os.path.join`.
pub(crate) fn join(folder: &str, path: &str) -> String {
    if folder.is_empty() || path.starts_with('/') {
        path.to_owned()
    } else if folder.ends_with('/') {
        format!("{folder}{path}")
    } else {
        format!("{folder}/{path}")
    }
}

/// Removes `.`, `..` and repeated slashes like `os.path.normpath`.
pub(crate) fn normal(path: &str) -> String {
    let absolute = path.starts_with('/');
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.last().is_some_and(|last| *last != "..") => drop(parts.pop()),
            ".." if absolute => {}
            part => parts.push(part),
        }
    }
    let joined = parts.join("/");
    if absolute {
        format!("/{joined}")
    } else if joined.is_empty() {
        ".".to_owned()
    } else {
        joined
    }
}

/// The path of `target` relative to the folder `from`; both must be absolute.
pub(crate) fn relative(target: &str, from: &str) -> String {
    let [target, from] = [normal(target), normal(from)]
        .map(|path| path.split('/').filter(|part| !part.is_empty()).map(str::to_owned).collect::<Vec<_>>());
    let common = target.iter().zip(&from).take_while(|(one, other)| one == other).count();
    let up = std::iter::repeat_n("..", from.len() - common);
    let path: Vec<&str> = up.chain(target[common..].iter().map(String::as_str)).collect();
    if path.is_empty() { ".".to_owned() } else { path.join("/") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_taken_apart_as_python_does() {
        assert_eq!(split("a//b"), ("a", "b"));
        assert_eq!(split("/b"), ("/", "b"));
        assert_eq!(split("b"), ("", "b"));
        assert_eq!(split_extension("..cu"), ("..cu", ""));
        assert_eq!(split_extension("a.b.cu"), ("a.b", ".cu"));
        assert_eq!(split_extension(".a.cu"), (".a", ".cu"));
        assert_eq!(normal("/a/./b/../../../c//d/"), "/c/d");
        assert_eq!(normal("../a/.."), "..");
        assert_eq!(relative("/a/b/c.h", "/a/d/e"), "../../b/c.h");
        assert_eq!(relative("/a", "/a"), ".");
    }
}
