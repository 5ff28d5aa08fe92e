//! Input: the text of a Python file. Output: its calls of a few functions, with the arguments that
//! are literals. Nothing is run and nothing is guessed: other arguments are [`Value::Unclear`].

use std::collections::BTreeMap;

use rocwheel_python_literals::{StringLiteral, Token, TokenKind, tokens};

/// Deepest nesting of a literal; those in such files are not deeper.
const DEEPEST: usize = 16;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Value {
    Text(String),
    /// A list or a tuple.
    List(Vec<Value>),
    Bool(bool),
    /// An expression whose value only a run would show.
    Unclear,
}

#[derive(Debug, Clone)]
pub(crate) struct Call {
    /// Line of the call, from 1.
    pub(crate) line: usize,
    pub(crate) positional: Vec<Value>,
    pub(crate) named: BTreeMap<String, Value>,
}

impl Call {
    /// An argument, by its keyword or by its position from 0.
    pub(crate) fn argument(&self, place: usize, name: &str) -> Option<&Value> {
        self.named.get(name).or_else(|| self.positional.get(place))
    }
}

/// The calls of functions with these names, in the order of the file.
pub(crate) fn calls(text: &str, names: &[&str]) -> Vec<Call> {
    find_calls(&tokens(text), names)
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Import {
    /// The number of dots: 0 for `import a.b`, 1 for `from .a import b`.
    pub(crate) level: usize,
    /// The module `a.b`; empty for `from . import b`.
    pub(crate) module: String,
    /// The imported names, which may be modules; empty for `import a.b`.
    pub(crate) names: Vec<String>,
}

/// Functions that load a library.
const LOADING: [&str; 4] = ["CDLL", "PyDLL", "LoadLibrary", "load_library"];

/// The imports of a file and, if it may load libraries, its strings. Which of its functions are
/// called is unknown.
#[derive(Debug, Default)]
pub(crate) struct Module {
    /// In the order of the file.
    pub(crate) imports: Vec<Import>,
    /// Literal strings, in the order of the file; empty if the file names no function of
    /// [`LOADING`], unless all strings are read.
    pub(crate) texts: Vec<String>,
    /// The literal beginnings of strings that are completed at run time: `lib` of `f"lib{x}.so"`;
    /// empty as [`Module::texts`].
    pub(crate) starts: Vec<String>,
    /// `true` if it visibly loads a library by path, with ctypes or with `torch.ops.load_library`.
    pub(crate) loads_by_path: bool,
}

impl Module {
    /// `false` if [`Module::loads_by_path`] is `false` whatever else the text says.
    pub(crate) fn may_load(text: &str) -> bool {
        LOADING.iter().any(|name| text.contains(name))
    }

    /// Reads a file; its strings only if it may load libraries.
    pub(crate) fn read(text: &str) -> Module {
        Module::read_as(text, Module::may_load(text))
    }

    /// Reads a file with all its strings.
    pub(crate) fn read_with_texts(text: &str) -> Module {
        Module::read_as(text, true)
    }

    fn read_as(text: &str, with_texts: bool) -> Module {
        let tokens = tokens(text);
        let mut module = Module::default();
        for (index, token) in tokens.iter().enumerate() {
            match token.kind {
                TokenKind::Text(literal) if with_texts => match known_text(literal) {
                    Some(text) => module.texts.push(text),
                    None => module.starts.push(literal.body.split('{').next().unwrap_or_default().to_owned()),
                },
                TokenKind::Name(name) if starts_statement(&tokens, index) => match name {
                    "import" => module.imports.extend(plain_imports(&tokens[index + 1..])),
                    "from" => module.imports.extend(import_from(&tokens[index + 1..])),
                    _ => {}
                },
                _ => {}
            }
        }
        if !Module::may_load(text) {
            return module;
        }
        // For a name without a folder, the loader searches the system's libraries.
        module.loads_by_path = find_calls(&tokens, &LOADING).iter().any(|call| match call.argument(0, "name") {
            Some(Value::Text(text)) => text.contains(['/', '\\']),
            Some(_) => true,
            None => false,
        });
        module
    }
}

/// The value of a string; `None` if only a run would show it.
fn known_text(literal: StringLiteral<'_>) -> Option<String> {
    literal.value().ok().flatten()
}

fn starts_statement(tokens: &[Token<'_>], index: usize) -> bool {
    let before = index.checked_sub(1).map(|before| &tokens[before].kind);
    matches!(before, None | Some(TokenKind::LineEnd | TokenKind::Operator(':' | ';')))
}

/// Reads `a.b` at the beginning of tokens; also returns the number of tokens.
fn dotted(tokens: &[Token<'_>]) -> (String, usize) {
    let mut name = String::new();
    for (index, token) in tokens.iter().enumerate() {
        match &token.kind {
            TokenKind::Name(part) if name.is_empty() || name.ends_with('.') => name.push_str(part),
            TokenKind::Operator('.') if !name.is_empty() => name.push('.'),
            _ => return (name, index),
        }
    }
    (name, tokens.len())
}

/// Reads the rest of `import`: `a.b as x, c`.
fn plain_imports(tokens: &[Token<'_>]) -> Vec<Import> {
    let mut imports = Vec::new();
    let mut rest = tokens;
    loop {
        let (module, length) = dotted(rest);
        if module.is_empty() {
            return imports;
        }
        imports.push(Import { level: 0, module, names: Vec::new() });
        let mut ends = rest
            .iter()
            .enumerate()
            .skip(length)
            .filter(|(_, token)| matches!(token.kind, TokenKind::LineEnd | TokenKind::Operator(',' | ';')));
        match ends.next() {
            Some((end, token)) if token.kind == TokenKind::Operator(',') => rest = &rest[end + 1..],
            _ => return imports,
        }
    }
}

/// Reads the rest of `from`: `.a import (b as x, c)`.
fn import_from(tokens: &[Token<'_>]) -> Option<Import> {
    let level = tokens.iter().take_while(|token| token.kind == TokenKind::Operator('.')).count();
    let (mut module, mut end) = (String::new(), level);
    if tokens.get(level)?.kind != TokenKind::Name("import") {
        let (name, length) = dotted(&tokens[level..]);
        (module, end) = (name, level + length);
    }
    if tokens.get(end)?.kind != TokenKind::Name("import") {
        return None;
    }
    let rest = tokens[end + 1..]
        .iter()
        .take_while(|token| !matches!(token.kind, TokenKind::LineEnd | TokenKind::Operator(';')));
    let mut names: Vec<String> = Vec::new();
    let mut is_alias = false;
    for token in rest {
        match token.kind {
            TokenKind::Name("as") => is_alias = true,
            TokenKind::Name(_) if is_alias => is_alias = false,
            TokenKind::Name(name) => names.push(name.to_owned()),
            _ => {}
        }
    }
    Some(Import { level, module, names })
}

fn find_calls(tokens: &[Token<'_>], names: &[&str]) -> Vec<Call> {
    let constants = constants(tokens);
    let mut found = Vec::new();
    for (index, token) in tokens.iter().enumerate() {
        let TokenKind::Name(name) = token.kind else { continue };
        let is_call = names.contains(&name) && sign(tokens, index + 1) == Some('(');
        let is_definition =
            index.checked_sub(1).is_some_and(|before| matches!(tokens[before].kind, TokenKind::Name("def" | "class")));
        if is_call && !is_definition {
            let mut call = Call { line: token.line, positional: Vec::new(), named: BTreeMap::new() };
            Reader { tokens, position: index + 2, constants: &constants }.arguments(&mut call);
            found.push(call);
        }
    }
    found
}

fn sign(tokens: &[Token<'_>], index: usize) -> Option<char> {
    match tokens.get(index)?.kind {
        TokenKind::Operator(sign) => Some(sign),
        _ => None,
    }
}

/// Names that are assigned a literal at module level, once in the file.
fn constants(tokens: &[Token<'_>]) -> BTreeMap<String, Value> {
    let mut constants: BTreeMap<String, Value> = BTreeMap::new();
    let none = BTreeMap::new();
    for index in 0..tokens.len() {
        let TokenKind::Name(name) = tokens[index].kind else { continue };
        let is_assignment = sign(tokens, index + 1) == Some('=') && sign(tokens, index + 2) != Some('=');
        if !is_assignment {
            continue;
        }
        let mut reader = Reader { tokens, position: index + 2, constants: &none };
        let value = if tokens[index].column == 0 { reader.value(0) } else { Value::Unclear };
        let ends = tokens.get(reader.position).is_none_or(|next| next.kind == TokenKind::LineEnd);
        let value = if ends { value } else { Value::Unclear };
        // Keyword arguments look the same, so a name that is also a keyword becomes unclear. It is
        // not worth the code to distinguish them.
        constants.entry(name.to_owned()).and_modify(|known| *known = Value::Unclear).or_insert(value);
    }
    constants
}

struct Reader<'a> {
    tokens: &'a [Token<'a>],
    position: usize,
    constants: &'a BTreeMap<String, Value>,
}

impl Reader<'_> {
    fn sign(&self) -> Option<char> {
        sign(self.tokens, self.position)
    }

    fn arguments(&mut self, call: &mut Call) {
        while self.position < self.tokens.len() && self.sign() != Some(')') {
            let before = self.position;
            let name = match self.tokens[self.position].kind {
                TokenKind::Name(name)
                    if sign(self.tokens, self.position + 1) == Some('=')
                        && sign(self.tokens, self.position + 2) != Some('=') =>
                {
                    self.position += 2;
                    Some(name.to_owned())
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
        while let Some(token) = self.tokens.get(self.position) {
            match token.kind {
                TokenKind::Operator('(' | '[' | '{') => depth += 1,
                TokenKind::Operator(sign) if depth == 0 && (sign == ',' || sign == end) => return,
                TokenKind::Operator(')' | ']' | '}') => depth = depth.saturating_sub(1),
                _ => {}
            }
            self.position += 1;
        }
    }

    fn value(&mut self, depth: usize) -> Value {
        let Some(token) = self.tokens.get(self.position).filter(|_| depth < DEEPEST) else { return Value::Unclear };
        self.position += 1;
        match token.kind {
            TokenKind::Text(literal) => {
                let mut text = known_text(literal);
                // Adjacent strings are one string.
                while let Some(Token { kind: TokenKind::Text(more), .. }) = self.tokens.get(self.position) {
                    text = text.zip(known_text(*more)).map(|(text, more)| text + &more);
                    self.position += 1;
                }
                text.map_or(Value::Unclear, Value::Text)
            }
            TokenKind::Name(name) => match name {
                "True" => Value::Bool(true),
                "False" => Value::Bool(false),
                name => self.constants.get(name).cloned().unwrap_or(Value::Unclear),
            },
            TokenKind::Operator(open @ ('[' | '(')) => self.list(open, depth),
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
initialize('\'it\\', 'a\vb')
"#;
        let calls = calls(source, &["initialize"]);
        assert_eq!(calls.iter().map(|call| call.line).collect::<Vec<_>>(), [10, 15]);
        let unclear = Value::Unclear;
        let first = &calls[0];
        assert_eq!(
            first.positional[..5],
            [text("one"), text("two"), text("th\\ree"), unclear.clone(), unclear.clone()]
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
