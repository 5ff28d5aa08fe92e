//! Kernel launches: `kernel<<<grid, block>>>(…)` becomes
//! `hipLaunchKernelGGL(( kernel), dim3(grid), dim3(block), 0, 0, …)`, with the spaces, and the
//! mistakes, of the original. If the original gives no result, the line is reported, or
//! [`super::corrected_launch`] converts the launch.

use memchr::memmem;

use super::{code_only, trouble};
use crate::word::is_word;
use crate::{ConversionProblem, Trouble};

#[derive(Debug, Default)]
pub(super) struct Converted {
    /// The text; `None` if it did not change.
    pub(super) text: Option<String>,
    pub(super) count: u64,
    /// Launches that were not converted: with [`Defects::Fix`] those that cannot be, else those
    /// that the original does not recognise.
    pub(super) left: Vec<Trouble>,
}

/// Converts the launches of `joined`, which is `text` with joined namespaces.
pub(super) fn convert(text: &str, joined: &str) -> Result<Converted, Trouble> {
    let (converted, count) = replace_all(joined)?;
    // The original counts these too.
    let unchanged = memmem::find_iter(&mask(&converted), b"<<<").count() as u64;
    let left = memmem::find_iter(&code_only(&converted), b"<<<")
        .map(|at| trouble(&converted, at, ConversionProblem::LostLaunch))
        .collect();
    Ok(Converted { text: (converted != text).then_some(converted), count: count.saturating_sub(unchanged), left })
}

/// The text as the original converts it, and the number of launches it finds.
fn replace_all(text: &str) -> Result<(String, u64), Trouble> {
    let launches = find(text)?;
    let mut output = text.to_owned();
    for launch in &launches {
        output = replace(text, launch, &output).map_err(|problem| trouble(text, launch.begin, problem))?;
    }
    Ok((output, launches.len() as u64))
}

fn replace(text: &str, launch: &Launch, output: &str) -> Result<String, ConversionProblem> {
    let kernel = kernel(text, launch.begin).ok_or(ConversionProblem::NoKernel)?;
    let call = text[launch.end..].find('(').ok_or(ConversionProblem::NoCall)?;
    let cuda = &text[kernel.begin..=launch.end + call];
    let group = &text[launch.begin..launch.end];
    let with_dim3 = add_dim3(group, cuda).ok_or(ConversionProblem::FewArguments)?;
    let arguments = extract_arguments(&group.replace("<<<", "(").replace(">>>", ")")).len();
    let padding = ", 0".repeat(4_usize.saturating_sub(arguments));
    let name = &text[kernel.begin..kernel.end];
    let hip = with_dim3[..with_dim3.len() - 1]
        .replace(">>>", &format!("{padding}>>>"))
        .replace("<<<", ", ")
        .replace(">>>", ", ")
        .replace(name, &format!("({name})"));
    Ok(output.replace(cuda, &format!("hipLaunchKernelGGL({hip}")))
}

/// The byte range of `<<<…>>>`.
#[derive(Debug, Clone, Copy)]
struct Launch {
    begin: usize,
    end: usize,
}

/// All launches that are not in a comment or string by the original's rules.
fn find(text: &str) -> Result<Vec<Launch>, Trouble> {
    let masked = mask(text);
    let mut launches = Vec::new();
    let mut at = 0;
    while let Some(found) = memmem::find(&masked[at..], b"<<<") {
        let begin = at + found;
        let close = memmem::find(&masked[begin..], b">>>");
        let close = close.ok_or_else(|| trouble(text, begin, ConversionProblem::OpenLaunch))?;
        at = begin + close + 3;
        launches.push(Launch { begin, end: at });
    }
    Ok(launches)
}

/// Replaces comments and strings by `x`, by the original's rules: `\\"` does not end a string.
fn mask(text: &str) -> Vec<u8> {
    #[derive(PartialEq)]
    enum Inside {
        Code,
        Line,
        Block,
        Text,
    }
    let mut inside = Inside::Code;
    let mut previous = 0;
    text.bytes()
        .map(|byte| {
            inside = match (&inside, byte) {
                (Inside::Code, b'/') if previous == b'/' => Inside::Line,
                (Inside::Code, b'*') if previous == b'/' => Inside::Block,
                (Inside::Code, b'"') if previous != b'\\' && previous != b'\'' => Inside::Text,
                (Inside::Line, b'\n' | b'\r') => Inside::Code,
                (Inside::Block, b'/') if previous == b'*' => Inside::Code,
                (Inside::Text, b'"') if previous != b'\\' => Inside::Code,
                _ => return masked(byte, &mut previous, inside == Inside::Code),
            };
            masked(byte, &mut previous, inside == Inside::Code)
        })
        .collect()
}

fn masked(byte: u8, previous: &mut u8, code: bool) -> u8 {
    *previous = byte;
    if code { byte } else { b'x' }
}

/// The kernel of a launch: the character before its name (if there is one), the name, and its
/// template arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Kernel {
    pub(super) begin: usize,
    pub(super) end: usize,
}

/// Finds the kernel that is launched at `launch`, reading backwards; `None` if there is no name.
pub(super) fn kernel(text: &str, launch: usize) -> Option<Kernel> {
    enum Status {
        Start,
        Template,
        AfterTemplate,
        Name { end: usize },
    }
    let mut status = Status::Start;
    let mut template_end = None;
    let mut open = 0_i64;
    for (at, character) in text[..launch].char_indices().rev() {
        if matches!(status, Status::Start | Status::Template) {
            if character == '>' {
                if matches!(status, Status::Start) {
                    status = Status::Template;
                    template_end = Some(at + 1);
                }
                open += 1;
            }
            if character == '<' {
                open -= 1;
                if open == 0 && matches!(status, Status::Template) {
                    status = Status::AfterTemplate;
                }
            }
        }
        if matches!(status, Status::Template) {
            continue;
        }
        let is_part = is_word(character) || ['(', ')', ':', '#'].contains(&character);
        let end = match status {
            Status::Name { end } => end,
            _ if is_part => at + character.len_utf8(),
            _ => continue,
        };
        if at == 0 || !is_part {
            return Some(Kernel { begin: at, end: template_end.unwrap_or(end) });
        }
        status = Status::Name { end };
    }
    None
}

/// Puts `dim3(…)` around the first two arguments of `group` (`<<<…>>>`) within `cuda`. `None` if
/// the original raises an exception.
pub fn add_dim3(group: &str, cuda: &str) -> Option<String> {
    let arguments = group.replace("<<<", "").replace(">>>", "");
    let mut ends = Vec::new();
    let mut open = 0_i64;
    let last = arguments.char_indices().next_back().map(|(at, _)| at);
    for (at, character) in arguments.char_indices() {
        if ends.len() > 1 {
            break;
        }
        match character {
            '(' => open += 1,
            ')' => open -= 1,
            _ => {}
        }
        if (character == ',' || Some(at) == last) && open == 0 {
            ends.push(if character == ',' { at } else { at + character.len_utf8() });
        }
    }
    let &[first_end, second_end] = ends.as_slice() else { return None };
    // The first argument ends with its comma; otherwise there would be no second one.
    let first = &arguments[..=first_end];
    let second = &arguments[first_end + 1..second_end];
    let wrapped = [(first, &arguments[..first_end]), (second, second)].map(|(raw, clean)| {
        let clean = clean.replace('\n', "");
        let clean = clean.trim_matches(' ');
        raw.replace(clean, &format!("dim3({clean})"))
    });
    Some(cuda.replace(&format!("{first}{second}"), &wrapped.concat()))
}

/// Byte ranges of the arguments in the parentheses at the start of a text; empty if they do not
/// close, as in `(a < b, c)`.
pub fn extract_arguments(text: &str) -> Vec<(usize, usize)> {
    let bytes = text.as_bytes();
    let mut arguments = Vec::new();
    let (mut parentheses, mut angles, mut begin) = (0_i64, 0_i64, 1);
    for (at, &byte) in bytes.iter().enumerate() {
        // At the first character the original reads the last one as its predecessor.
        let before = bytes[at.checked_sub(1).unwrap_or(bytes.len() - 1)];
        match byte {
            b'(' => parentheses += 1,
            b')' => parentheses -= 1,
            b'<' => angles += 1,
            b'>' if before != b'-' && angles > 0 => angles -= 1,
            _ => {}
        }
        if parentheses == 0 && angles == 0 {
            arguments.push((begin, at));
            return arguments;
        }
        if parentheses == 1 && angles == 0 && byte == b',' {
            arguments.push((begin, at));
            begin = at + 1;
        }
    }
    // The parentheses do not close: the original returns the arguments found so far.
    arguments
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Defects;
    use crate::transform::launches::convert;

    fn refused(text: &str) -> Trouble {
        convert(text, Defects::Refuse).unwrap_err()
    }

    #[test]
    fn what_has_no_result_is_named_with_its_line() {
        for (text, line, problem) in [
            ("\nvoid f() { k<<<g, b; }\n", 2, ConversionProblem::OpenLaunch),
            ("void f() {\n\n k<<<g>>>(x); }\n", 3, ConversionProblem::FewArguments),
            ("k<<<>>>(x);", 1, ConversionProblem::FewArguments),
            ("k<<<(a, b>>>(x);", 1, ConversionProblem::FewArguments),
            ("<<<g, b>>>(x);", 1, ConversionProblem::NoKernel),
            ("> <<<g, b>>>(x);", 1, ConversionProblem::NoKernel),
            (" ;<<<g, b>>>(x);", 1, ConversionProblem::NoKernel),
            ("\n k<<<g, b>>>;", 2, ConversionProblem::NoCall),
        ] {
            assert_eq!(refused(text), Trouble { line, problem }, "{text}");
        }
    }

    /// A string that ends in `\\"`, and a template argument with `>=`, as in CUDALoops.cuh of torch
    /// 2.14.
    #[test]
    fn what_the_original_does_not_recognise_stays_and_is_named() {
        let left = |line| vec![Trouble { line, problem: ConversionProblem::LostLaunch }];
        let converted = convert("auto s = \"a\\\\\";\n foo<<<g, b>>>(x);\n", Defects::Refuse).unwrap();
        assert_eq!((converted.text, converted.count, converted.left), (None, 0, left(2)));
        let text = "#if V < 9\n#endif\nvoid f() {\n k<8><<<g, b>>>(x);\n k<8, n >= 8><<<g, b>>>(y);\n}\n";
        let converted = convert(text, Defects::Refuse).unwrap();
        let expected = text.replace(" k<8><<<g, b>>>(", "hipLaunchKernelGGL(( k<8>), dim3(g), dim3(b), 0, 0, ");
        assert_eq!((converted.text, converted.count, converted.left), (Some(expected), 1, left(5)));
    }

    #[test]
    fn launches_in_comments_and_strings_stay() {
        for text in ["// k<<<g, b>>>(x)\n", "/* k<<<g */", "f(\"k<<<\");", "'\"' // <<<"] {
            assert!(convert(text, Defects::Refuse).unwrap().text.is_none(), "{text}");
        }
    }

    #[test]
    fn names_of_other_scripts_are_names() {
        let converted = convert(" 核é<<<g, b>>>(x);", Defects::Refuse).unwrap();
        assert_eq!(converted.text.unwrap(), "hipLaunchKernelGGL(( 核é), dim3(g), dim3(b), 0, 0, x);");
    }
}
