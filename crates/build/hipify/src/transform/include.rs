//! Rewrites includes of files that hipify moves.

use memchr::memmem;

use super::path;
use crate::Setting;

/// The three kinds of lines that name a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum IncludeForm {
    /// `#include "…"`.
    Quote,
    /// `#include <…>`.
    Angle,
    /// `#define THC_GENERIC_FILE "…"`.
    GenericFile,
}

impl IncludeForm {
    /// The text before the name, with exactly one space, and the byte that ends the name.
    fn parts(self) -> (&'static str, u8) {
        match self {
            Self::Quote => ("#include \"", b'"'),
            Self::Angle => ("#include <", b'>'),
            Self::GenericFile => ("#define THC_GENERIC_FILE \"", b'"'),
        }
    }
}

/// Headers of PyTorch that are moved no matter which file includes them.
const MOVED: [&str; 7] = [
    "ATen/cuda",
    "ATen/native/cuda",
    "ATen/native/nested/cuda",
    "ATen/native/quantized/cuda",
    "ATen/native/sparse/cuda",
    "ATen/native/transformers/cuda",
    "THC/",
];

/// Rewrites all includes of one form; `None` if no include changes.
pub(super) fn rewrite(
    text: &str,
    form: IncludeForm,
    setting: Setting,
    resolve: &mut dyn FnMut(IncludeForm, &str) -> Option<String>,
) -> Option<String> {
    let (before, end) = form.parts();
    let bytes = text.as_bytes();
    let finder = memmem::Finder::new(before.as_bytes());
    let (mut output, mut copied, mut at) = (String::new(), 0, 0);
    while let Some(found) = finder.find(&bytes[at..]) {
        let begin = at + found + before.len();
        // The name may contain line ends, as in the original.
        let Some(length) = memchr::memchr(end, &bytes[begin..]) else { break };
        if length == 0 {
            at = begin;
            continue;
        }
        let name = &text[begin..begin + length];
        at = begin + length + 1;
        let moved = MOVED.iter().any(|folder| name.starts_with(folder))
            || (name.starts_with("THC") && !name.starts_with("THCP"));
        let renamed = if moved {
            Some(path::hip_path(name, setting))
        } else if setting == Setting::Extension {
            resolve(form, name)
        } else {
            None
        };
        if let Some(renamed) = renamed {
            output.push_str(&text[copied..begin]);
            output.push_str(&renamed);
            copied = begin + length;
        }
    }
    (copied > 0).then(|| output + &text[copied..])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rewritten(text: &str, setting: Setting) -> String {
        rewrite(text, IncludeForm::Quote, setting, &mut |_, name| (name == "b.h").then(|| "b_hip.h".to_owned()))
            .unwrap_or_else(|| text.to_owned())
    }

    #[test]
    fn only_what_moves_is_renamed() {
        let text = "#include \"ATen/cuda/X.h\"\n#include \"THCP.h\"\n#include  \"THC.h\"\n#include \"b.h\"\n#include \"\"\"b.h\"";
        assert_eq!(
            rewritten(text, Setting::Extension),
            "#include \"ATen/hip/X.h\"\n#include \"THCP.h\"\n#include  \"THC.h\"\n#include \"b_hip.h\"\n#include \"\"\"b.h\""
        );
        assert!(rewritten(text, Setting::Pytorch).contains("#include \"b.h\""));
    }

    #[test]
    fn a_name_that_does_not_end_is_left() {
        assert_eq!(rewritten("#include \"ATen/cuda/x.h", Setting::Pytorch), "#include \"ATen/cuda/x.h");
    }
}
