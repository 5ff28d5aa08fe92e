//! Input: the source of a Python module. Output: the position at which an inserted statement runs
//! before everything else: after the docstring and the `__future__` imports, which Python accepts
//! only at the start of a module.

use rocwheel_python_literals::{Token, TokenKind, tokens};

/// Inserts `statement`, one line without a line end, at the earliest position. `None` if the source
/// ends inside a string or a bracket, so that Python would not run it either.
pub(crate) fn prepend(source: &[u8], statement: &str) -> Option<Vec<u8>> {
    let (at, is_line) = first_statement(source)?;
    let end: &[u8] = if source.windows(2).any(|pair| pair == b"\r\n") { b"\r\n" } else { b"\n" };
    let mut text = source[..at].to_vec();
    if is_line {
        if !text.is_empty() && !text.ends_with(b"\n") && !text.ends_with(b"\r") && at > bom(source) {
            text.extend(end);
        }
        text.extend(statement.as_bytes());
        text.extend(end);
    } else {
        text.extend(statement.as_bytes());
        text.extend(b"; ");
    }
    text.extend(&source[at..]);
    Some(text)
}

fn bom(source: &[u8]) -> usize {
    if source.starts_with(b"\xef\xbb\xbf") { 3 } else { 0 }
}

/// The position of the first statement that is neither docstring nor `__future__` import, and
/// `true` if it is the beginning of a line.
fn first_statement(source: &[u8]) -> Option<(usize, bool)> {
    // The source may have any encoding, and only its ASCII characters matter. A letter for each
    // other byte keeps all positions.
    let letters = source[bom(source)..].iter().map(|&byte| if byte.is_ascii() { char::from(byte) } else { 'x' });
    let text: String = letters.collect();
    let tokens = tokens(&text);
    let mut rest = tokens.as_slice();
    let (mut is_line, mut is_first) = (true, true);
    loop {
        let empty = if is_line { rest.iter().take_while(|token| token.kind == TokenKind::LineEnd).count() } else { 0 };
        rest = &rest[empty..];
        let Some(token) = rest.first() else { return Some((source.len(), true)) };
        let length = match &token.kind {
            TokenKind::Name("from") if matches!(rest, [_, next, ..] if next.kind == TokenKind::Name("__future__")) => {
                import_length(rest)?
            }
            TokenKind::Text(_) if is_first => docstring_length(rest)?,
            _ => 0,
        };
        if length == 0 {
            let begin = if is_line { token.begin - token.column } else { token.begin };
            return Some((bom(source) + begin, is_line));
        }
        rest = &rest[length..];
        let has_more = matches!(rest, [semicolon, next, ..]
            if semicolon.kind == TokenKind::Operator(';') && next.kind != TokenKind::LineEnd);
        rest = rest.get(1..).unwrap_or_default();
        (is_line, is_first) = (!has_more, false);
    }
}

fn ends_statement(token: &Token<'_>) -> bool {
    matches!(token.kind, TokenKind::LineEnd | TokenKind::Operator(';'))
}

/// The number of tokens of an import; `None` if a bracket is not closed.
fn import_length(tokens: &[Token<'_>]) -> Option<usize> {
    let length = tokens.iter().position(ends_statement).unwrap_or(tokens.len());
    let [opened, closed] = ['(', ')']
        .map(|bracket| tokens[..length].iter().filter(|token| token.kind == TokenKind::Operator(bracket)).count());
    (opened <= closed).then_some(length)
}

/// The number of tokens of a statement of string literals, 0 if the statement is another one;
/// `None` if a string does not end.
fn docstring_length(tokens: &[Token<'_>]) -> Option<usize> {
    let mut length = 0;
    while let Some(Token { kind: TokenKind::Text(literal), .. }) = tokens.get(length) {
        length += 1;
        if !literal.is_closed {
            return None;
        }
    }
    Some(if tokens.get(length).is_none_or(ends_statement) { length } else { 0 })
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::process::{Command, Stdio};

    use super::*;

    const STATEMENT: &str = "from . import _rocm_init; _rocm_init.initialize()";

    #[cfg_attr(windows, ignore = "compares with Python, which Wine has not")]
    #[test]
    fn python_runs_the_statement_first_and_loses_nothing() {
        let sources: &[&str] = &[
            "",
            "\n\n",
            "import os\n",
            "\"\"\"Text.\"\"\"\nimport os\n",
            "'''Text'''",
            "# comment\n\n\"\"\"Text\nmore\n\"\"\"  # why\n\nfrom __future__ import annotations\nimport os\n",
            "r'te\\'xt' \"more\"\nfrom __future__ import (\n    annotations,  # (\n    division)\nx = 1\n",
            "\"text\"; from __future__ import annotations; import os\n",
            "\"text\";\nfrom __future__ import annotations;\nimport os\n",
            "from __future__ import annotations, \\\n    division\nimport os\n",
            "from __future__ import annotations; import os\n",
            "'text'.join([])\nimport os\n",
            "b'no docstring'\nx = 1\n",
            "x = 'text'\n",
            "\u{feff}\"\"\"Text\"\"\"\nx = 1\n",
            "\u{feff}x = 1\n",
            "\"\"\"Text\"\"\"\r\nfrom __future__ import annotations\r\nx = 1\r\n",
            "\"a\" \\\n \"b\"\nfrom __future__ import annotations\n",
            "#!/usr/bin/python\n# coding: utf-8\n\"\u{e4}\"\nx = 1\n",
            "fromage = 1\n",
            "\x0c\n\"Text\"\n\x0cx = 1",
        ];
        let script = "import ast, sys
for pair in sys.stdin.buffer.read().split(b'\\x00\\x01')[:-1]:
    before, after = (ast.parse(text) for text in pair.split(b'\\x00'))
    assert ast.get_docstring(before, clean=False) == ast.get_docstring(after, clean=False), pair
    dump = [ast.dump(node) for node in before.body]
    new = [ast.dump(node) for node in after.body]
    place = next(i for i, node in enumerate(after.body) if isinstance(node, ast.ImportFrom) and node.level == 1)
    assert new[:place] + new[place + 2:] == dump, pair
    for i, node in enumerate(after.body[:place]):
        future = isinstance(node, ast.ImportFrom) and node.module == '__future__'
        assert future or (i == 0 and isinstance(node, ast.Expr)), pair
    compile(pair.split(b'\\x00')[1], 'x', 'exec')
";
        let mut input = Vec::new();
        for source in sources {
            let after = prepend(source.as_bytes(), STATEMENT).unwrap();
            input.extend([source.as_bytes(), &[0], &after, &[0, 1]].concat());
        }
        let mut python = Command::new("python3")
            .args(["-c", script])
            .stdin(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("python3 is needed for this test");
        python.stdin.take().unwrap().write_all(&input).unwrap();
        let output = python.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    #[test]
    fn what_python_cannot_read_is_left_alone() {
        for source in ["\"\"\"text", "'text\n'", "from __future__ import (annotations"] {
            assert_eq!(prepend(source.as_bytes(), STATEMENT), None, "{source}");
        }
    }

    #[test]
    fn line_ends_stay() {
        let after = prepend(b"'''Text'''\r\nimport os\r\n", STATEMENT).unwrap();
        assert_eq!(after, format!("'''Text'''\r\n{STATEMENT}\r\nimport os\r\n").as_bytes());
    }
}
