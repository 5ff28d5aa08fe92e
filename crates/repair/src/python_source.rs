//! Input: the source of a Python module. Output: the position at which an inserted statement runs
//! before everything else: after the docstring and the `__future__` imports, which Python accepts
//! only at the start of a module.
//!
//! Only what can precede that position is parsed: blank lines, comments, string literals and
//! `from __future__ import`.

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
    let mut scan = Scan { source, at: bom(source) };
    let mut is_line = true;
    let mut is_first = true;
    loop {
        if is_line {
            scan.skip_empty_lines();
        } else {
            scan.skip_blanks();
        }
        let begin = scan.at;
        if begin == source.len() {
            return Some((begin, true));
        }
        let understood = if scan.at_future() { scan.skip_import()? } else { is_first && scan.skip_docstring()? };
        if !understood {
            return Some((begin, is_line));
        }
        is_first = false;
        is_line = match scan.peek() {
            Some(b';') => {
                scan.at += 1;
                scan.skip_blanks();
                // In `"text";` the semicolon may end the line.
                scan.end_line()
            }
            _ => scan.end_line(),
        };
    }
}

struct Scan<'a> {
    source: &'a [u8],
    at: usize,
}

impl Scan<'_> {
    fn peek(&self) -> Option<u8> {
        self.source.get(self.at).copied()
    }

    fn rest(&self) -> &[u8] {
        &self.source[self.at..]
    }

    /// Skips blanks, and line ends after a backslash.
    fn skip_blanks(&mut self) {
        loop {
            match self.rest() {
                [b' ' | b'\t' | b'\x0c', ..] => self.at += 1,
                [b'\\', b'\r', b'\n', ..] => self.at += 3,
                [b'\\', b'\n' | b'\r', ..] => self.at += 2,
                _ => return,
            }
        }
    }

    fn skip_comment(&mut self) {
        if self.peek() == Some(b'#') {
            while !matches!(self.peek(), None | Some(b'\n' | b'\r')) {
                self.at += 1;
            }
        }
    }

    /// Moves to the next line if only a comment is left on this one.
    fn end_line(&mut self) -> bool {
        self.skip_blanks();
        self.skip_comment();
        match self.rest() {
            [b'\r', b'\n', ..] => self.at += 2,
            [b'\n' | b'\r', ..] => self.at += 1,
            [] => {}
            _ => return false,
        }
        true
    }

    fn skip_empty_lines(&mut self) {
        loop {
            let begin = self.at;
            if self.at == self.source.len() || !self.end_line() {
                self.at = begin;
                return;
            }
        }
    }

    fn word(&mut self, word: &str) -> bool {
        let found = self.rest().starts_with(word.as_bytes())
            && !self.rest().get(word.len()).is_some_and(|next| next.is_ascii_alphanumeric() || *next == b'_');
        if found {
            self.at += word.len();
        }
        found
    }

    fn at_future(&mut self) -> bool {
        let begin = self.at;
        let found = self.word("from") && {
            self.skip_blanks();
            self.word("__future__")
        };
        self.at = begin;
        found
    }

    /// Skips the logical line of an import, which contains no strings.
    fn skip_import(&mut self) -> Option<bool> {
        let mut depth = 0_usize;
        loop {
            self.skip_blanks();
            match self.peek() {
                None | Some(b';' | b'\n' | b'\r') if depth == 0 => return Some(true),
                None => return None,
                Some(b'#') => {
                    if depth == 0 {
                        return Some(true);
                    }
                    self.skip_comment();
                    continue;
                }
                Some(b'(') => depth += 1,
                Some(b')') => depth = depth.saturating_sub(1),
                Some(_) => {}
            }
            self.at += 1;
        }
    }

    /// Skips a statement that consists only of string literals. If the statement is another one,
    /// the position stays.
    fn skip_docstring(&mut self) -> Option<bool> {
        let begin = self.at;
        let mut any = false;
        while self.skip_string()? {
            any = true;
            self.skip_blanks();
        }
        let ends = matches!(self.peek(), None | Some(b';' | b'#' | b'\n' | b'\r'));
        if any && ends {
            return Some(true);
        }
        self.at = begin;
        Some(false)
    }

    fn skip_string(&mut self) -> Option<bool> {
        let prefix = self.rest().iter().take_while(|byte| byte.is_ascii_alphabetic()).count();
        let is_prefix = prefix <= 2 && self.rest()[..prefix].iter().all(|byte| b"rRuUbBfF".contains(byte));
        let Some(quote @ (b'"' | b'\'')) = self.rest().get(prefix).copied().filter(|_| is_prefix) else {
            return Some(false);
        };
        self.at += prefix;
        let is_triple = self.rest().starts_with(&[quote; 3]);
        let end: &[u8] = if is_triple { &[quote; 3] } else { &[quote] };
        self.at += end.len();
        loop {
            match self.rest() {
                [b'\\', _, ..] => self.at += 2,
                rest if rest.starts_with(end) => {
                    self.at += end.len();
                    return Some(true);
                }
                [] => return None,
                [b'\n' | b'\r', ..] if !is_triple => return None,
                _ => self.at += 1,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::process::{Command, Stdio};

    use super::*;

    const STATEMENT: &str = "from . import _rocm_init; _rocm_init.initialize()";

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
