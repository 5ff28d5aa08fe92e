//! Python's tokens (Python language reference, chapter 2), as far as literals use them.

use super::Unreadable;

/// A token and its position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token<'a> {
    /// The kind and the text.
    pub kind: TokenKind<'a>,
    /// Number of bytes of the source before it.
    pub begin: usize,
    /// Line, from 1.
    pub line: usize,
    /// Number of bytes before it on its line; a byte order mark does not count.
    pub column: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TokenKind<'a> {
    /// A name or keyword.
    Name(&'a str),
    /// A number as in the source.
    Number(&'a str),
    /// A string as in the source.
    Text(StringLiteral<'a>),
    /// One character of an operator or bracket.
    Operator(char),
    /// The end of a line, outside brackets.
    LineEnd,
}

/// A string as in the source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StringLiteral<'a> {
    /// The letters before the quote: `rb`.
    prefix: &'a str,
    /// The text between the quotes.
    pub body: &'a str,
    /// `false` if the quote that ends it is missing.
    pub is_closed: bool,
    /// Line of its beginning.
    line: usize,
}

impl StringLiteral<'_> {
    /// The string with escapes resolved; `None` for bytes, and for f-strings, which are known only
    /// at run time.
    ///
    /// # Errors
    /// The end is missing, or an escape is invalid or not supported.
    pub fn value(&self) -> Result<Option<String>, Unreadable> {
        if !self.is_closed {
            return Err(Unreadable::new(self.line, "a string that does not end"));
        }
        let is_raw = self.prefix.contains(['r', 'R']);
        let is_opaque = self.prefix.contains(['b', 'B', 'f', 'F', 't', 'T']);
        let (mut value, mut rest, mut line) = (String::new(), self.body, self.line);
        while let Some(character) = rest.chars().next() {
            rest = &rest[character.len_utf8()..];
            line += usize::from(character == '\n');
            if character == '\\' && !is_raw {
                rest = escape(rest, line, &mut value)?;
            } else {
                value.push(character);
            }
        }
        Ok((!is_opaque).then_some(value))
    }
}

/// Adds the value of the escape whose backslash comes before `rest`. Returns the text behind it.
fn escape<'a>(rest: &'a str, line: usize, value: &mut String) -> Result<&'a str, Unreadable> {
    let Some(escaped) = rest.chars().next() else { return Ok(rest) };
    let rest = &rest[escaped.len_utf8()..];
    let digits = match escaped {
        'x' => 2,
        'u' => 4,
        'U' => 8,
        'N' | '1'..='7' | 'a' | 'b' | 'f' | 'v' => {
            return Err(Unreadable::new(line, format!("the escape `\\{escaped}` is not read")));
        }
        _ => {
            match escaped {
                '\n' => {}
                'n' => value.push('\n'),
                't' => value.push('\t'),
                'r' => value.push('\r'),
                '0' => value.push('\0'),
                '\\' | '\'' | '"' => value.push(escaped),
                // Python keeps the backslash of an unknown escape.
                other => value.extend(['\\', other]),
            }
            return Ok(rest);
        }
    };
    let number = rest.get(..digits).filter(|number| number.bytes().all(|byte| byte.is_ascii_hexdigit()));
    let character = number.and_then(|number| u32::from_str_radix(number, 16).ok()).and_then(char::from_u32);
    value.push(character.ok_or_else(|| Unreadable::new(line, "an escape that is no character"))?);
    Ok(&rest[digits..])
}

/// All tokens of a text, without comments and without line ends inside brackets.
pub fn tokens(text: &str) -> Vec<Token<'_>> {
    let at = if text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
    let mut reader = Reader { text, at, line: 1, line_begin: at, depth: 0 };
    std::iter::from_fn(|| reader.next()).collect()
}

/// Like [`tokens`], for a text in which every string must have a known end and known escapes.
///
/// # Errors
/// The first string that has not.
pub fn checked_tokens(text: &str) -> Result<Vec<Token<'_>>, Unreadable> {
    let tokens = tokens(text);
    for token in &tokens {
        if let TokenKind::Text(literal) = &token.kind {
            literal.value()?;
        }
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
    fn next(&mut self) -> Option<Token<'a>> {
        loop {
            let rest = &self.text[self.at..];
            let character = rest.chars().next()?;
            let (begin, line, column) = (self.at, self.line, self.at - self.line_begin);
            let token = |kind| Some(Token { kind, begin, line, column });
            match character {
                // A carriage return ends a line, except before a line feed.
                '\n' | '\r' if !rest.starts_with("\r\n") => {
                    self.end_line(1);
                    if self.depth == 0 {
                        return token(TokenKind::LineEnd);
                    }
                }
                '\\' if rest[1..].starts_with("\r\n") => self.end_line(3),
                '\\' if rest[1..].starts_with(['\n', '\r']) => self.end_line(2),
                '#' => self.at += rest.find(['\n', '\r']).unwrap_or(rest.len()),
                '"' | '\'' => return token(TokenKind::Text(self.string(""))),
                _ if character.is_alphabetic() || character == '_' => {
                    let name = self.run(|character| character.is_alphanumeric() || character == '_');
                    let quote = self.text[self.at..].starts_with(['"', '\'']);
                    if quote && name.len() <= 2 && name.bytes().all(|byte| b"rRbBuUfFtT".contains(&byte)) {
                        return token(TokenKind::Text(self.string(name)));
                    }
                    return token(TokenKind::Name(name));
                }
                _ if character.is_ascii_digit() => {
                    let number = self.run(|character| character.is_alphanumeric() || matches!(character, '_' | '.'));
                    return token(TokenKind::Number(number));
                }
                _ if character.is_whitespace() => self.at += character.len_utf8(),
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

    /// Skips `length` bytes, which end a line.
    fn end_line(&mut self, length: usize) {
        self.at += length;
        self.line += 1;
        self.line_begin = self.at;
    }

    fn run(&mut self, belongs: impl Fn(char) -> bool) -> &'a str {
        let rest = &self.text[self.at..];
        let length = rest.find(|character| !belongs(character)).unwrap_or(rest.len());
        self.at += length;
        &rest[..length]
    }

    /// Reads a string; its prefix has been read. One in single quotes whose end is missing has the
    /// rest of its line.
    fn string(&mut self, prefix: &'a str) -> StringLiteral<'a> {
        let line = self.line;
        let rest = &self.text[self.at..];
        let quote = ["\"\"\"", "'''"].into_iter().find(|triple| rest.starts_with(triple)).unwrap_or(&rest[..1]);
        self.at += quote.len();
        let begin = self.at;
        let is_closed = loop {
            let rest = &self.text[self.at..];
            if rest.starts_with(quote) {
                break true;
            }
            let mut characters = rest.chars();
            match characters.next() {
                None => break false,
                Some('\n' | '\r') if quote.len() == 1 => break false,
                Some('\n') => self.end_line(1),
                Some('\\') => match characters.next() {
                    Some('\n') => self.end_line(2),
                    Some('\r') if rest[2..].starts_with('\n') => self.end_line(3),
                    escaped => self.at += 1 + escaped.map_or(0, char::len_utf8),
                },
                Some(character) => self.at += character.len_utf8(),
            }
        };
        let body = &self.text[begin..self.at];
        self.at += if is_closed { quote.len() } else { 0 };
        StringLiteral { prefix, body, is_closed, line }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(text: &str) -> Vec<Option<String>> {
        let literal = |token: Token<'_>| match token.kind {
            TokenKind::Text(literal) => Some(literal.value().unwrap()),
            _ => None,
        };
        tokens(text).into_iter().filter_map(literal).collect()
    }

    #[test]
    fn strings_are_what_python_makes_of_them() {
        let text = |text: &str| vec![Some(text.to_owned())];
        assert_eq!(values(r#""a\"b\n""#), text("a\"b\n"));
        assert_eq!(values(r#"'a"\x41\u00e9\d'"#), text("a\"Aé\\d"));
        assert_eq!(values(r"r'\n'"), text("\\n"));
        assert_eq!(values(r"r'\''"), text("\\'"));
        assert_eq!(values("'''a\n'b'''"), text("a\n'b"));
        assert_eq!(values("'a\\\nb'"), text("ab"));
        assert_eq!(values("b'x' f'{x}'"), [None, None]);
    }

    #[test]
    fn line_ends_within_brackets_do_not_count() {
        let ends = |text: &str| tokens(text).iter().filter(|token| token.kind == TokenKind::LineEnd).count();
        assert_eq!(ends("a = (1, # one\n 2)\nb"), 1);
        assert_eq!(ends("a \\\r\n b\r\nc\rd"), 2);
        let tokens = tokens("\u{feff}a\n  b");
        assert_eq!((tokens[0].begin, tokens[0].column), (3, 0));
        assert_eq!((tokens[2].begin, tokens[2].line, tokens[2].column), (7, 2, 2));
    }

    #[test]
    fn what_does_not_end_is_named_with_its_line() {
        assert_eq!(checked_tokens("\n'a").unwrap_err().line, 2);
        assert_eq!(checked_tokens("'a\nb'").unwrap_err().line, 1);
        assert_eq!(checked_tokens("'\\x4'").unwrap_err().message, "an escape that is no character");
        assert_eq!(checked_tokens("'\\U00110000'").unwrap_err().message, "an escape that is no character");
        assert_eq!(checked_tokens("'''\n\n\\N{DASH}'''").unwrap_err().line, 3);
    }
}
