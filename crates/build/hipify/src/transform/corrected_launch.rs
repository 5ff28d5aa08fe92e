//! Converts kernel launches as they were meant (`--fix-defects`): each one where it occurs, none in
//! comments or strings, with C++'s own string rules, and with template arguments that contain
//! commas. A launch that cannot be converted stays unchanged; clang compiles it too.

use memchr::memmem;

use super::launch::{Converted, kernel};
use super::{code_only, trouble};
use crate::ConversionProblem;

pub(super) fn convert(text: &str) -> Converted {
    let code = code_only(text);
    // These are not brackets of template arguments.
    let names = text.replace(">=", "==").replace("<=", "==").replace("->", "==");
    let mut output = String::with_capacity(text.len() + 256);
    let (mut copied, mut at, mut count, mut left) = (0, 0, 0, Vec::new());
    while let Some(found) = memmem::find(&code[at..], b"<<<") {
        let begin = at + found;
        at = begin + 3;
        match launch(text, (&names, &code), begin, copied) {
            Ok(launch) => {
                output.push_str(&text[copied..launch.begin]);
                output.push_str(&launch.text);
                copied = launch.end;
                at = launch.end;
                count += 1;
            }
            Err(problem) => {
                left.push(trouble(text, begin, problem));
                // A run of `<` such as a conflict marker is reported once.
                at += code[at..].iter().take_while(|byte| **byte == b'<').count();
            }
        }
    }
    output.push_str(&text[copied..]);
    Converted { text: (output != text).then_some(output), count, left }
}

/// A launch and its replacement. The range is from the character before the kernel's name up to and
/// including `(`.
struct Launch {
    begin: usize,
    end: usize,
    text: String,
}

fn launch(text: &str, (names, code): (&str, &[u8]), begin: usize, copied: usize) -> Result<Launch, ConversionProblem> {
    let close = memmem::find(&code[begin..], b">>>").ok_or(ConversionProblem::OpenLaunch)?;
    let close = begin + close;
    let kernel = kernel(names, begin).filter(|kernel| kernel.begin >= copied).ok_or(ConversionProblem::NoKernel)?;
    let call = code[close + 3..].iter().position(|byte| !byte.is_ascii_whitespace() && *byte != b'\\');
    let call = close + 3 + call.filter(|length| code[close + 3 + length] == b'(').ok_or(ConversionProblem::NoCall)?;
    let arguments = &text[begin + 3..close];
    let ends = split(&code[begin + 3..close]);
    if !(2..=4).contains(&ends.len()) {
        return Err(ConversionProblem::FewArguments);
    }
    let mut list = String::new();
    let mut from = 0;
    for (index, &end) in ends.iter().enumerate() {
        let raw = &arguments[from..end];
        let clean = raw.trim_matches([' ', '\n', '\\']);
        if clean.is_empty() {
            return Err(ConversionProblem::FewArguments);
        }
        let (head, tail) = raw.split_once(clean).unwrap_or((raw, ""));
        list.push_str(if index > 0 { "," } else { "" });
        match index {
            0 | 1 => list.push_str(&format!("{head}dim3({clean}){tail}")),
            _ => list.push_str(raw),
        }
        from = end + 1;
    }
    let padding = ", 0".repeat(4 - ends.len());
    let name = &text[kernel.begin..kernel.end];
    let between = &text[kernel.end..begin];
    let after = &text[close + 3..call];
    let text = format!("hipLaunchKernelGGL(({name}){between}, {list}{padding}, {after}");
    Ok(Launch { begin: kernel.begin, end: call + 1, text })
}

/// The ends of the arguments. Commas in brackets and in template arguments do not separate.
fn split(code: &[u8]) -> Vec<usize> {
    let mut ends = Vec::new();
    let mut open = 0_i64;
    let mut at = 0;
    while at < code.len() {
        match code[at] {
            b'(' | b'[' | b'{' => open += 1,
            b')' | b']' | b'}' => open -= 1,
            b',' if open == 0 => ends.push(at),
            b'<' => at = template(code, at).unwrap_or(at),
            _ => {}
        }
        at += 1;
    }
    if open != 0 {
        return Vec::new();
    }
    ends.push(code.len());
    ends
}

fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

/// The `>` that closes the template arguments at `at`; `None` if `<` is a comparison. Template
/// arguments begin directly after a name and contain neither operators nor a question mark.
fn template(code: &[u8], at: usize) -> Option<usize> {
    if !at.checked_sub(1).is_some_and(|before| is_name(code[before])) {
        return None;
    }
    let (mut angles, mut parentheses) = (0, 0);
    for (index, &byte) in code.iter().enumerate().skip(at) {
        match byte {
            b'<' => angles += 1,
            b'>' if parentheses == 0 => {
                angles -= 1;
                if angles == 0 {
                    return Some(index);
                }
            }
            b'(' => parentheses += 1,
            b')' if parentheses > 0 => parentheses -= 1,
            b':' | b',' | b'*' | b'&' | b'.' => {}
            byte if is_name(byte) || byte.is_ascii_whitespace() => {}
            _ => return None,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Trouble;

    fn converted(text: &str) -> String {
        convert(text).text.unwrap_or_else(|| text.to_owned())
    }

    #[test]
    fn launches_are_what_was_meant() {
        for (text, expected) in [
            // Like the original.
            ("{\n  foo<<<g, b>>>(a);\n}", "{\n hipLaunchKernelGGL(( foo), dim3(g), dim3(b), 0, 0, a);\n}"),
            (" n::f<T, A<B>><<<g, b, s, t>>>(a);", "hipLaunchKernelGGL(( n::f<T, A<B>>), dim3(g), dim3(b), s, t, a);"),
            // Unlike the original: templates and comparisons in arguments, line ends, strings,
            // comments.
            (" f<<<C<a,b>::g, c>>>(x);", "hipLaunchKernelGGL(( f), dim3(C<a,b>::g), dim3(c), 0, 0, x);"),
            (" f<<<n < 3 ? 1 : 2, 256>>>();", "hipLaunchKernelGGL(( f), dim3(n < 3 ? 1 : 2), dim3(256), 0, 0, );"),
            (" f<8, n >= 8><<<g, c>>>(x);", "hipLaunchKernelGGL(( f<8, n >= 8>), dim3(g), dim3(c), 0, 0, x);"),
            (" f<<<(a +\n b), c>>>(x);", "hipLaunchKernelGGL(( f), dim3((a +\n b)), dim3(c), 0, 0, x);"),
            (" s = \"a\\\\\"; f<<<g, b>>>(x);", " s = \"a\\\\\";hipLaunchKernelGGL(( f), dim3(g), dim3(b), 0, 0, x);"),
            (
                " f<<<g, b>>>(x); // f<<<g, b>>>(x);",
                "hipLaunchKernelGGL(( f), dim3(g), dim3(b), 0, 0, x); // f<<<g, b>>>(x);",
            ),
        ] {
            assert_eq!(converted(text), expected);
        }
    }

    #[test]
    fn what_cannot_be_converted_is_left_and_named() {
        for (text, problem) in [
            (" f<<<g, b;", ConversionProblem::OpenLaunch),
            ("<<<g, b>>>(x);", ConversionProblem::NoKernel),
            (" f<<<g>>>(x);", ConversionProblem::FewArguments),
            (" f<<<a, b, c, d, e>>>(x);", ConversionProblem::FewArguments),
            (" f<<<g, b>>>;", ConversionProblem::NoCall),
            ("<<<<<<< ours\n a\n=======\n b\n>>>>>>> theirs\n", ConversionProblem::NoKernel),
        ] {
            let converted = convert(text);
            assert_eq!((converted.text, converted.left), (None, vec![Trouble { line: 1, problem }]), "{text}");
        }
        assert_eq!(converted("g<<<a>>>(x); f<<<g, b>>>(x);").matches("hipLaunchKernelGGL").count(), 1);
    }
}
