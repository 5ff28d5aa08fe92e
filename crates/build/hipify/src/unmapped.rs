//! Input: a converted text. Output: the remaining names of CUDA's own libraries, with their lines.

use std::sync::OnceLock;

use regex::Regex;
use serde::Serialize;

use crate::transform::code_only;

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Unmapped {
    /// Line of the result, from 1.
    pub line: usize,
    pub name: String,
}

/// Names that only CUDA, its libraries and tools have: functions, types and constants, by their
/// prefixes. PyTorch's own names (`at::cuda::…`, `C10_CUDA_…`, `CUDAStream`) are not among them.
const NAMES: &str = r"(?x)
    \b(?:
        (?:cuda|cublas|cublasLt|cudnn|cufft|curand|cusolver|cusolverDn|cusparse|cusparseLt|nvrtc|nvml|cupti|cutensor) [A-Z_] \w*
      | cu (?: Array|Ctx|Device|Driver|Event|Func|Get|Graph|Init|Ipc|Launch|Link|Mem|Memcpy|Memset|Module|Multicast|Occupancy
          | Pointer|Stream|Surf|Tensor|Tex ) \w*
      | CU (?: array|context|device|deviceptr|event|function|graph|jit|link|mem|module|result|stream|tensorMap|texref|uuid ) \w*
      | (?:CUBLAS|CUDNN|CUFFT|CURAND|CUSOLVER|CUSPARSE|NVRTC|CUPTI|CUTENSOR) _ [A-Z0-9_]+
    )\b";

/// The remaining names in the code of a text; comments and strings are ignored.
pub(crate) fn find(text: &str) -> Vec<Unmapped> {
    static PATTERN: OnceLock<Option<Regex>> = OnceLock::new();
    let Some(pattern) = PATTERN.get_or_init(|| Regex::new(NAMES).ok()) else { return Vec::new() };
    let code = code_only(text);
    let Ok(code) = std::str::from_utf8(&code) else { return Vec::new() };
    let (mut line, mut counted) = (1, 0);
    let mut found = Vec::new();
    for name in pattern.find_iter(code) {
        line += memchr::memchr_iter(b'\n', &code.as_bytes()[counted..name.start()]).count();
        counted = name.start();
        found.push(Unmapped { line, name: name.as_str().to_owned() });
    }
    found.dedup();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_cuda_are_found_in_code() {
        let text = "// cudaMalloc\ncudaNewThing(x); \"cudaMalloc\"\nat::cuda::x; C10_CUDA_CHECK(y); cuMemNew(); CUdeviceptr p;\n";
        let found = find(text);
        let found: Vec<_> = found.iter().map(|name| (name.line, name.name.as_str())).collect();
        assert_eq!(found, [(2, "cudaNewThing"), (3, "cuMemNew"), (3, "CUdeviceptr")]);
    }
}
