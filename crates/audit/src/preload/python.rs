//! Input: the text of a Python file. Output: its calls of a few functions, with the arguments that
//! are literals. Nothing is run and nothing is guessed: other arguments are [`Value::Unclear`].

use std::collections::BTreeMap;

/// Deepest nesting of a literal; those in such files are not deeper.
const DEEPEST: usize = 16;

/// A piece of a Python file.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    Name(String),
    /// A string without its quotes. The value of one that is not literal, such as `f"lib{x}.so"`,
    /// is known only at run time.
    Text {
        text: String,
        is_literal: bool,
    },
    Number,
    Sign(char),
    /// The end of a line outside of brackets.
    Line,
}

#[derive(Debug, Clone)]
struct Placed {
    token: Token,
    line: usize,
    /// `true` at the beginning of a line.
    is_first: bool,
}

/// The value of an expression.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Value {
    Text(String),
    /// A list or a tuple.
    List(Vec<Value>),
    Bool(bool),
    /// An expression whose value only a run would show.
    Unclear,
}

/// A call of a function.
#[derive(Debug, Clone)]
pub(super) struct Call {
    /// Line of the call, from 1.
    pub(super) line: usize,
    pub(super) positional: Vec<Value>,
    pub(super) named: BTreeMap<String, Value>,
}

impl Call {
    /// An argument, by its keyword or by its position from 0.
    pub(super) fn argument(&self, place: usize, name: &str) -> Option<&Value> {
        self.named.get(name).or_else(|| self.positional.get(place))
    }
}

/// The calls of functions with these names, in the order of the file.
pub(super) fn calls(text: &str, names: &[&str]) -> Vec<Call> {
    find_calls(&tokens(text), names)
}

/// An import statement anywhere in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Import {
    /// The number of dots: 0 for `import a.b`, 1 for `from .a import b`.
    pub(super) level: usize,
    /// The module `a.b`; empty for `from . import b`.
    pub(super) module: String,
    /// The imported names, which may be modules; empty for `import a.b`.
    pub(super) names: Vec<String>,
}

/// The imports and the strings of a file. Which of its functions are called is unknown.
#[derive(Debug, Default)]
pub(super) struct Module {
    /// In the order of the file.
    pub(super) imports: Vec<Import>,
    /// Literal strings, in the order of the file.
    pub(super) texts: Vec<String>,
    /// The literal beginnings of strings that are completed at run time: `lib` of `f"lib{x}.so"`.
    pub(super) starts: Vec<String>,
    /// `true` if it visibly loads a library by path, with ctypes or with `torch.ops.load_library`.
    pub(super) loads_by_path: bool,
}

impl Module {
    pub(super) fn read(text: &str) -> Module {
        let tokens = tokens(text);
        let mut module = Module::default();
        for (index, placed) in tokens.iter().enumerate() {
            match &placed.token {
                Token::Text { text, is_literal: true } => module.texts.push(text.clone()),
                Token::Text { text, .. } => {
                    module.starts.push(text.split('{').next().unwrap_or_default().to_owned());
                }
                Token::Name(name) if starts_statement(&tokens, index) => match name.as_str() {
                    "import" => module.imports.extend(plain_imports(&tokens[index + 1..])),
                    "from" => module.imports.extend(import_from(&tokens[index + 1..])),
                    _ => {}
                },
                _ => {}
            }
        }
        // For a name without a folder, the loader searches the system's libraries.
        let is_path = |value: Option<&Value>| match value {
            Some(Value::Text(text)) => text.contains('/'),
            Some(_) => true,
            None => false,
        };
        let calls = find_calls(&tokens, &["CDLL", "PyDLL", "LoadLibrary", "load_library"]);
        module.loads_by_path = calls.iter().any(|call| is_path(call.argument(0, "name")));
        module
    }
}

fn starts_statement(tokens: &[Placed], index: usize) -> bool {
    let before = index.checked_sub(1).map(|before| &tokens[before].token);
    matches!(before, None | Some(Token::Line | Token::Sign(':' | ';')))
}

/// Reads `a.b` at the beginning of tokens; also returns the number of tokens.
fn dotted(tokens: &[Placed]) -> (String, usize) {
    let mut name = String::new();
    for (index, placed) in tokens.iter().enumerate() {
        match &placed.token {
            Token::Name(part) if name.is_empty() || name.ends_with('.') => name.push_str(part),
            Token::Sign('.') if !name.is_empty() => name.push('.'),
            _ => return (name, index),
        }
    }
    (name, tokens.len())
}

/// Reads the rest of `import`: `a.b as x, c`.
fn plain_imports(tokens: &[Placed]) -> Vec<Import> {
    let mut imports = Vec::new();
    let mut rest = tokens;
    loop {
        let (module, length) = dotted(rest);
        if module.is_empty() {
            return imports;
        }
        imports.push(Import { level: 0, module, names: Vec::new() });
        let is_end = |placed: &Placed| matches!(placed.token, Token::Line | Token::Sign(',' | ';'));
        let Some(end) = rest[length..].iter().position(is_end).map(|end| length + end) else { return imports };
        if rest[end].token != Token::Sign(',') {
            return imports;
        }
        rest = &rest[end + 1..];
    }
}

/// Reads the rest of `from`: `.a import (b as x, c)`.
fn import_from(tokens: &[Placed]) -> Option<Import> {
    let level = tokens.iter().take_while(|placed| placed.token == Token::Sign('.')).count();
    let (mut module, mut end) = (String::new(), level);
    if tokens.get(level)?.token != Token::Name("import".to_owned()) {
        let (name, length) = dotted(&tokens[level..]);
        (module, end) = (name, level + length);
    }
    if tokens.get(end)?.token != Token::Name("import".to_owned()) {
        return None;
    }
    let rest = tokens[end + 1..].iter().take_while(|placed| !matches!(placed.token, Token::Line | Token::Sign(';')));
    let mut names: Vec<String> = Vec::new();
    let mut is_alias = false;
    for placed in rest {
        match &placed.token {
            Token::Name(name) if name == "as" => is_alias = true,
            Token::Name(_) if is_alias => is_alias = false,
            Token::Name(name) => names.push(name.clone()),
            _ => {}
        }
    }
    Some(Import { level, module, names })
}

fn find_calls(tokens: &[Placed], names: &[&str]) -> Vec<Call> {
    let constants = constants(tokens);
    let mut found = Vec::new();
    for (index, placed) in tokens.iter().enumerate() {
        let Token::Name(name) = &placed.token else { continue };
        let is_call = names.contains(&name.as_str()) && sign(tokens, index + 1) == Some('(');
        let is_definition = index.checked_sub(1).is_some_and(
            |before| matches!(&tokens[before].token, Token::Name(word) if word == "def" || word == "class"),
        );
        if is_call && !is_definition {
            let mut call = Call { line: placed.line, positional: Vec::new(), named: BTreeMap::new() };
            Reader { tokens, position: index + 2, constants: &constants }.arguments(&mut call);
            found.push(call);
        }
    }
    found
}

fn sign(tokens: &[Placed], index: usize) -> Option<char> {
    match tokens.get(index)?.token {
        Token::Sign(sign) => Some(sign),
        _ => None,
    }
}

/// Names that are assigned a literal at module level, once in the file.
fn constants(tokens: &[Placed]) -> BTreeMap<String, Value> {
    let mut constants: BTreeMap<String, Value> = BTreeMap::new();
    let none = BTreeMap::new();
    for index in 0..tokens.len() {
        let Token::Name(name) = &tokens[index].token else { continue };
        let is_assignment = sign(tokens, index + 1) == Some('=') && sign(tokens, index + 2) != Some('=');
        if !is_assignment {
            continue;
        }
        let mut reader = Reader { tokens, position: index + 2, constants: &none };
        let value = if tokens[index].is_first { reader.value(0) } else { Value::Unclear };
        let ends = tokens.get(reader.position).is_none_or(|next| next.token == Token::Line);
        let value = if ends { value } else { Value::Unclear };
        // Keyword arguments look the same, so a name that is also a keyword becomes unclear. It is
        // not worth the code to distinguish them.
        constants.entry(name.clone()).and_modify(|known| *known = Value::Unclear).or_insert(value);
    }
    constants
}

struct Reader<'a> {
    tokens: &'a [Placed],
    position: usize,
    constants: &'a BTreeMap<String, Value>,
}

impl Reader<'_> {
    fn sign(&self) -> Option<char> {
        sign(self.tokens, self.position)
    }

    /// Reads arguments up to the closing bracket.
    fn arguments(&mut self, call: &mut Call) {
        while self.position < self.tokens.len() && self.sign() != Some(')') {
            let before = self.position;
            let name = match &self.tokens[self.position].token {
                Token::Name(name)
                    if sign(self.tokens, self.position + 1) == Some('=')
                        && sign(self.tokens, self.position + 2) != Some('=') =>
                {
                    self.position += 2;
                    Some(name.clone())
                }
                _ => None,
            };
            let value = self.item(')');
            match name {
                Some(name) => drop(call.named.insert(name, value)),
                None => call.positional.push(value),
            }
            if self.sign() == Some(',') {
                self.position += 1;
            }
            if self.position == before {
                return;
            }
        }
    }

    /// Reads one expression up to the next comma or `end`; unclear if something follows the
    /// literal.
    fn item(&mut self, end: char) -> Value {
        let value = self.value(0);
        let is_whole = matches!(self.sign(), Some(sign) if sign == ',' || sign == end);
        if is_whole {
            return value;
        }
        self.skip(end);
        Value::Unclear
    }

    /// Moves to the next comma or `end` that is not inside other brackets.
    fn skip(&mut self, end: char) {
        let mut depth = 0_usize;
        while let Some(placed) = self.tokens.get(self.position) {
            match placed.token {
                Token::Sign('(' | '[' | '{') => depth += 1,
                Token::Sign(sign) if depth == 0 && (sign == ',' || sign == end) => return,
                Token::Sign(')' | ']' | '}') => depth = depth.saturating_sub(1),
                _ => {}
            }
            self.position += 1;
        }
    }

    fn value(&mut self, depth: usize) -> Value {
        let Some(placed) = self.tokens.get(self.position).filter(|_| depth < DEEPEST) else { return Value::Unclear };
        self.position += 1;
        match &placed.token {
            Token::Text { text, is_literal } => {
                let (mut all, mut is_clear) = (text.clone(), *is_literal);
                // Adjacent strings are one string.
                while let Some(Token::Text { text, is_literal }) =
                    self.tokens.get(self.position).map(|placed| &placed.token)
                {
                    all.push_str(text);
                    is_clear &= *is_literal;
                    self.position += 1;
                }
                if is_clear { Value::Text(all) } else { Value::Unclear }
            }
            Token::Name(name) => match name.as_str() {
                "True" => Value::Bool(true),
                "False" => Value::Bool(false),
                name => self.constants.get(name).cloned().unwrap_or(Value::Unclear),
            },
            Token::Sign(open @ ('[' | '(')) => self.list(*open, depth),
            _ => {
                self.position -= 1;
                Value::Unclear
            }
        }
    }

    fn list(&mut self, open: char, depth: usize) -> Value {
        let end = if open == '[' { ']' } else { ')' };
        let mut items = Vec::new();
        let mut has_comma = open == '[';
        while self.sign() != Some(end) {
            if self.position >= self.tokens.len() {
                return Value::Unclear;
            }
            let value = self.value(depth + 1);
            items.push(if matches!(self.sign(), Some(sign) if sign == ',' || sign == end) {
                value
            } else {
                self.skip(end);
                Value::Unclear
            });
            if self.sign() == Some(',') {
                has_comma = true;
                self.position += 1;
            }
        }
        self.position += 1;
        // Brackets around one expression without a comma are not a tuple.
        match items.pop() {
            Some(one) if !has_comma && items.is_empty() => one,
            last => {
                items.extend(last);
                Value::List(items)
            }
        }
    }
}

fn tokens(text: &str) -> Vec<Placed> {
    let mut scanner = Scanner { rest: text.trim_start_matches('\u{feff}'), line: 1, first: true, depth: 0 };
    let mut tokens = Vec::new();
    while let Some((token, line, is_first)) = scanner.next() {
        tokens.push(Placed { token, line, is_first });
    }
    tokens
}

struct Scanner<'a> {
    rest: &'a str,
    line: usize,
    /// `true` if nothing has appeared on this line yet, not even a space.
    first: bool,
    /// Number of open brackets.
    depth: usize,
}

impl Scanner<'_> {
    fn next(&mut self) -> Option<(Token, usize, bool)> {
        loop {
            let next = self.rest.chars().next()?;
            let (line, first) = (self.line, self.first);
            match next {
                '\n' => {
                    self.take(1);
                    (self.line, self.first) = (line + 1, true);
                    if self.depth == 0 {
                        return Some((Token::Line, line, false));
                    }
                }
                '\\' if self.rest[1..].starts_with(['\n', '\r']) => {
                    let length = self.rest.find('\n').map_or(self.rest.len(), |end| end + 1);
                    self.take(length);
                    self.line += 1;
                }
                '#' => self.take(self.rest.find('\n').unwrap_or(self.rest.len())),
                _ if next.is_whitespace() => self.take(next.len_utf8()),
                '\'' | '"' => return Some((self.string(""), line, first)),
                _ if next.is_alphabetic() || next == '_' => {
                    let length = length_of(self.rest, |other| other.is_alphanumeric() || other == '_');
                    let word = self.rest[..length].to_owned();
                    self.take(length);
                    let is_prefix = word.len() <= 2 && word.chars().all(|letter| "rRbBuUfFtT".contains(letter));
                    let token = if is_prefix && self.rest.starts_with(['\'', '"']) {
                        self.string(&word)
                    } else {
                        Token::Name(word)
                    };
                    return Some((token, line, first));
                }
                _ if next.is_ascii_digit() => {
                    self.take(length_of(self.rest, |other| other.is_alphanumeric() || other == '.' || other == '_'));
                    return Some((Token::Number, line, first));
                }
                _ => {
                    match next {
                        '(' | '[' | '{' => self.depth += 1,
                        ')' | ']' | '}' => self.depth = self.depth.saturating_sub(1),
                        _ => {}
                    }
                    self.take(next.len_utf8());
                    return Some((Token::Sign(next), line, first));
                }
            }
        }
    }

    fn take(&mut self, length: usize) {
        self.rest = &self.rest[length..];
        self.first = false;
    }

    fn string(&mut self, prefix: &str) -> Token {
        let quote = &self.rest[..1];
        let long = quote.repeat(3);
        let end = if self.rest.starts_with(&long) { long } else { quote.to_owned() };
        self.take(end.len());
        let is_raw = prefix.contains(['r', 'R']);
        let mut text = String::new();
        // Library names contain no escapes other than those of quotes and backslashes.
        let mut is_clear = !prefix.contains(['b', 'B', 'f', 'F', 't', 'T']);
        loop {
            if self.rest.starts_with(&end) {
                self.take(end.len());
                break;
            }
            let Some(next) = self.rest.chars().next() else { break };
            if next == '\n' && end.len() == 1 {
                // The string ends here without a quote, which is a syntax error; its value does not
                // matter.
                is_clear = false;
                break;
            }
            self.take(next.len_utf8());
            self.line += usize::from(next == '\n');
            if next == '\\' {
                let Some(escaped) = self.rest.chars().next() else { break };
                self.take(escaped.len_utf8());
                self.line += usize::from(escaped == '\n');
                is_clear &= !is_raw && ['\\', '\'', '"'].contains(&escaped);
                text.push(escaped);
            } else {
                text.push(next);
            }
        }
        Token::Text { text, is_literal: is_clear }
    }
}

fn length_of(text: &str, belongs: impl Fn(char) -> bool) -> usize {
    text.find(|next| !belongs(next)).unwrap_or(text.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn text(text: &str) -> Value {
        Value::Text(text.to_owned())
    }

    #[test]
    fn literals_are_read_and_the_rest_is_unclear() {
        let source = r#"
"""initialize('not this')"""
# initialize('nor this')
_PATH = "lib/" 'deep'
_TWICE = "a"
_TWICE = "b"
NAMES = ['x', "y",]
def initialize(a, b=1): pass
if True:
    rocm.initialize(
        'one', "tw" "o", r'th\ree', f'{x}', b'z',  # a comment )
        (('four')), ('five',), [NAMES, _PATH, _TWICE, other], True, 5, -1, x.y, f(1, ')'), *rest,
        named = 'n', path=_PATH, made=_PATH + 'x', empty=(), compare=a == b)
initialize
initialize('\'it\\', 'a\nb')
"#;
        let calls = calls(source, &["initialize"]);
        assert_eq!(calls.iter().map(|call| call.line).collect::<Vec<_>>(), [10, 15]);
        let unclear = Value::Unclear;
        let first = &calls[0];
        assert_eq!(
            first.positional[..5],
            [text("one"), text("two"), unclear.clone(), unclear.clone(), unclear.clone()]
        );
        assert_eq!(first.positional[5..7], [text("four"), Value::List(vec![text("five")])]);
        let names = Value::List(vec![text("x"), text("y")]);
        assert_eq!(first.positional[7], Value::List(vec![names, text("lib/deep"), unclear.clone(), unclear.clone()]));
        assert_eq!(first.positional[8], Value::Bool(true));
        assert!(first.positional[9..].iter().all(|value| *value == unclear), "{:?}", first.positional);
        assert_eq!(first.positional.len(), 14);
        assert_eq!(first.argument(99, "path"), Some(&text("lib/deep")));
        assert_eq!(first.named["made"], unclear);
        assert_eq!(first.named["empty"], Value::List(Vec::new()));
        assert_eq!(calls[1].positional, [text("'it\\"), unclear]);
    }

    #[test]
    fn imports_and_loads_are_read() {
        let source = r#"
import a, b.c as d; import e
try: import f
except ImportError: pass
def load():
    from . import g as h, i
    from ..j.k import (
        l,  # a comment )
        m as n,
    )
    name = "libx.so"
    return ctypes.CDLL(os.path.join(folder, f"liby{x}.so", name))
"from q import r"
"#;
        let module = Module::read(source);
        let import = |level, module: &str, names: &[&str]| {
            let names = names.iter().map(|name| (*name).to_owned()).collect();
            Import { level, module: module.to_owned(), names }
        };
        let expected = ["a", "b.c", "e", "f"].map(|name| import(0, name, &[]));
        assert_eq!(module.imports[..4], expected);
        assert_eq!(module.imports[4..], [import(1, "", &["g", "i"]), import(2, "j.k", &["l", "m"])]);
        assert_eq!((&module.texts[0], &module.starts[0]), (&"libx.so".to_owned(), &"liby".to_owned()));
        for (source, loads) in [
            ("ctypes.CDLL('libx.so')", false),
            ("ctypes.CDLL('/x/libx.so')", true),
            ("ctypes.CDLL(path)", true),
            ("libx.load_library()", false),
            ("def load_library(name): pass", false),
            ("torch.ops.load_library(str(file))", true),
        ] {
            assert_eq!(Module::read(source).loads_by_path, loads, "{source}");
        }
        for source in ["import", "from", "from .", "from . import", "import a.", "from a import (", "import a,"] {
            let _ = Module::read(source);
        }
    }

    #[test]
    fn depth_and_ends_are_survived() {
        for source in ["f(", "f([", "f('", "f(\"\"\"", "f(a=", "f(((", "f)", "f([1,", "f('a' \\", "\\"] {
            let _ = calls(source, &["f"]);
        }
        let deep = format!("f({}1{})", "[".repeat(5000), "]".repeat(5000));
        assert_eq!(calls(&deep, &["f"]).len(), 1);
    }

    proptest! {
        #[test]
        fn any_text_is_read(source in "[f(\\[\\])'\",=a\\\\\n#b{}é ]{0,60}") {
            let _ = (calls(&source, &["f"]), Module::read(&source));
        }
    }
}
