//! Python's tokens (Python language reference, chapter 2), as far as literals use them.

use super::Unreadable;

/// A token and its position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token<'a> {
    /// The kind and the value.
    pub kind: TokenKind<'a>,
    /// Line, from 1.
    pub line: usize,
    /// Number of bytes before it on its line.
    pub column: usize,
}

/// Kinds of tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TokenKind<'a> {
    /// A name or keyword.
    Name(&'a str),
    /// A number as in the source.
    Number(&'a str),
    /// The value of a string, with escapes resolved.
    Text(String),
    /// A string whose value is not needed or not known: bytes or an f-string.
    Opaque,
    /// One character of an operator or bracket.
    Operator(char),
    /// The end of a line, outside brackets.
    LineEnd,
}

/// All tokens of a file, without comments and without line ends inside brackets.
pub fn tokens(text: &str) -> Result<Vec<Token<'_>>, Unreadable> {
    let mut reader = Reader { text, at: 0, line: 1, line_begin: 0, depth: 0 };
    let mut tokens = Vec::new();
    while let Some(token) = reader.next()? {
        tokens.push(token);
    }
    Ok(tokens)
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
    line: usize,
    line_begin: usize,
    depth: usize,
}

impl<'a> Reader<'a> {
    fn next(&mut self) -> Result<Option<Token<'a>>, Unreadable> {
        loop {
            let Some(character) = self.text[self.at..].chars().next() else { return Ok(None) };
            let (begin, line, column) = (self.at, self.line, self.at - self.line_begin);
            let token = |kind| Ok(Some(Token { kind, line, column }));
            match character {
                '\n' => {
                    self.at += 1;
                    self.new_line();
                    if self.depth == 0 {
                        return token(TokenKind::LineEnd);
                    }
                }
                '\\' if self.text[self.at + 1..].starts_with('\n') => {
                    self.at += 2;
                    self.new_line();
                }
                '#' => {
                    let rest = &self.text[self.at..];
                    self.at += rest.find('\n').unwrap_or(rest.len());
                }
                '"' | '\'' => return token(self.string("")?),
                _ if character.is_alphabetic() || character == '_' => {
                    let name = self.run(|character| character.is_alphanumeric() || character == '_');
                    let quote = self.text[self.at..].starts_with(['"', '\'']);
                    if quote && name.len() <= 2 && name.bytes().all(|byte| b"rRbBuUfFtT".contains(&byte)) {
                        return token(self.string(name)?);
                    }
                    return token(TokenKind::Name(name));
                }
                _ if character.is_ascii_digit() => {
                    self.run(|character| character.is_alphanumeric() || character == '_' || character == '.');
                    return token(TokenKind::Number(&self.text[begin..self.at]));
                }
                _ if character.is_whitespace() || character == '\u{feff}' => self.at += character.len_utf8(),
                _ => {
                    self.at += character.len_utf8();
                    match character {
                        '(' | '[' | '{' => self.depth += 1,
                        ')' | ']' | '}' => self.depth = self.depth.saturating_sub(1),
                        _ => {}
                    }
                    return token(TokenKind::Operator(character));
                }
            }
        }
    }

    fn new_line(&mut self) {
        self.line += 1;
        self.line_begin = self.at;
    }

    fn run(&mut self, wanted: impl Fn(char) -> bool) -> &'a str {
        let rest = &self.text[self.at..];
        let length = rest.find(|character| !wanted(character)).unwrap_or(rest.len());
        self.at += length;
        &rest[..length]
    }

    /// Reads a string; its prefix has been read.
    fn string(&mut self, prefix: &str) -> Result<TokenKind<'a>, Unreadable> {
        let begin = self.line;
        let rest = &self.text[self.at..];
        let single = &rest[..1];
        let quote = ["\"\"\"", "'''"].into_iter().find(|triple| rest.starts_with(triple)).unwrap_or(single);
        self.at += quote.len();
        let raw = prefix.contains(['r', 'R']);
        let opaque = prefix.contains(['b', 'B', 'f', 'F', 't', 'T']);
        let mut value = String::new();
        loop {
            let rest = &self.text[self.at..];
            if rest.starts_with(quote) {
                self.at += quote.len();
                return Ok(if opaque { TokenKind::Opaque } else { TokenKind::Text(value) });
            }
            let mut characters = rest.chars();
            let unclosed = || Unreadable::new(begin, "a string that does not end");
            match characters.next().ok_or_else(unclosed)? {
                '\n' if quote.len() == 1 => return Err(unclosed()),
                '\\' => {
                    let escaped = characters.next().ok_or_else(unclosed)?;
                    self.at += 1 + escaped.len_utf8();
                    if escaped == '\n' {
                        self.new_line();
                    }
                    if raw {
                        value.extend(['\\', escaped]);
                    } else {
                        self.escape(escaped, &mut value)?;
                    }
                }
                character => {
                    self.at += character.len_utf8();
                    if character == '\n' {
                        self.new_line();
                    }
                    value.push(character);
                }
            }
        }
    }

    /// Adds the value of the escape `\` plus `escaped`.
    fn escape(&mut self, escaped: char, value: &mut String) -> Result<(), Unreadable> {
        let digits = match escaped {
            '\n' => return Ok(()),
            'n' => return push(value, '\n'),
            't' => return push(value, '\t'),
            'r' => return push(value, '\r'),
            '0' => return push(value, '\0'),
            '\\' | '\'' | '"' => return push(value, escaped),
            'x' => 2,
            'u' => 4,
            'U' => 8,
            'N' | '1'..='7' | 'a' | 'b' | 'f' | 'v' => {
                return Err(Unreadable::new(self.line, format!("the escape `\\{escaped}` is not read")));
            }
            // Python keeps the backslash of an unknown escape.
            other => {
                value.extend(['\\', other]);
                return Ok(());
            }
        };
        let number = self.text.get(self.at..self.at + digits);
        let number = number.filter(|number| number.bytes().all(|byte| byte.is_ascii_hexdigit()));
        let character = number.and_then(|number| u32::from_str_radix(number, 16).ok()).and_then(char::from_u32);
        self.at += digits;
        value.push(character.ok_or_else(|| Unreadable::new(self.line, "an escape that is no character"))?);
        Ok(())
    }
}

#[allow(clippy::unnecessary_wraps)]
fn push(value: &mut String, character: char) -> Result<(), Unreadable> {
    value.push(character);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(text: &str) -> Vec<TokenKind<'_>> {
        tokens(text).unwrap().into_iter().map(|token| token.kind).collect()
    }

    #[test]
    fn strings_are_what_python_makes_of_them() {
        let text = |text: &str| vec![TokenKind::Text(text.to_owned())];
        assert_eq!(kinds(r#""a\"b\n""#), text("a\"b\n"));
        assert_eq!(kinds(r#"'a"\x41\u00e9\d'"#), text("a\"Aé\\d"));
        assert_eq!(kinds(r"r'\n'"), text("\\n"));
        assert_eq!(kinds("'''a\n'b'''"), text("a\n'b"));
        assert_eq!(kinds("b'x'"), [TokenKind::Opaque]);
        assert_eq!(kinds("f'{x}'"), [TokenKind::Opaque]);
    }

    #[test]
    fn line_ends_within_brackets_do_not_count() {
        let kinds = kinds("a = (1, # one\n 2)\nb");
        assert_eq!(kinds.iter().filter(|kind| **kind == TokenKind::LineEnd).count(), 1);
        let tokens = tokens("a\n  b").unwrap();
        assert_eq!((tokens[2].line, tokens[2].column), (2, 2));
    }

    #[test]
    fn what_does_not_end_is_named_with_its_line() {
        assert_eq!(tokens("\n'a").unwrap_err().line, 2);
        assert_eq!(tokens("'a\nb'").unwrap_err().line, 1);
        assert_eq!(tokens("'\\x4'").unwrap_err().message, "an escape that is no character");
        assert_eq!(tokens("'\\U00110000'").unwrap_err().message, "an escape that is no character");
    }
}
