//! Values of literals, and the assignments of a module that consists of them.

use std::collections::BTreeMap;

use super::Unreadable;
use super::token::{Token, TokenKind, checked_tokens};

/// Maximum nesting of brackets; deeper texts are refused.
const DEEPEST: usize = 64;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    Text(String),
    /// A number as in the source.
    Number(String),
    Flag(bool),
    /// A dotted name that is defined elsewhere.
    Name(String),
    /// A tuple, list or set; a dictionary is a sequence of key-value pairs.
    Sequence(Vec<Value>),
}

impl Value {
    /// The string; `None` for another kind of value.
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The elements; `None` for another kind of value.
    pub fn sequence(&self) -> Option<&[Value]> {
        match self {
            Self::Sequence(values) => Some(values),
            _ => None,
        }
    }
}

/// The names of a module and their values.
pub type Scope = BTreeMap<String, Value>;

/// A module of imports, texts and assignments of literals.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Module {
    /// The final values of the names.
    pub scope: Scope,
}

impl Module {
    /// Reads a module. Anything but literals is an error with its line. Environment variables are
    /// treated as unset.
    pub fn read(text: &str) -> Result<Self, Unreadable> {
        let tokens = checked_tokens(text)?;
        let mut parser = Parser::new(&tokens);
        while let Some(token) = parser.peek() {
            match &token.kind {
                TokenKind::LineEnd => drop(parser.take()),
                TokenKind::Name("import" | "from") | TokenKind::Text(_) => parser.skip_line(),
                TokenKind::Name(name) => {
                    let name = (*name).to_owned();
                    parser.take();
                    parser.skip_annotation();
                    parser.expect('=')?;
                    let value = parser.value()?;
                    parser.end_of_line()?;
                    parser.scope.insert(name, value);
                }
                _ => return Err(Unreadable::new(token.line, "neither an import nor an assignment")),
            }
        }
        Ok(Self { scope: parser.scope })
    }
}

#[derive(Debug)]
pub struct Parser<'a> {
    tokens: &'a [Token<'a>],
    at: usize,
    depth: usize,
    scope: Scope,
}

impl<'a> Parser<'a> {
    pub fn new(tokens: &'a [Token<'a>]) -> Self {
        Self { tokens, at: 0, depth: 0, scope: Scope::new() }
    }

    fn peek(&self) -> Option<&'a Token<'a>> {
        self.tokens.get(self.at)
    }

    fn take(&mut self) -> Option<&'a Token<'a>> {
        let token = self.peek();
        self.at += 1;
        token
    }

    fn line(&self) -> usize {
        self.peek().or(self.tokens.last()).map_or(1, |token| token.line)
    }

    fn is(&self, operator: char) -> bool {
        self.peek().is_some_and(|token| token.kind == TokenKind::Operator(operator))
    }

    fn is_name(&self, name: &str) -> bool {
        self.peek().is_some_and(|token| token.kind == TokenKind::Name(name))
    }

    fn accept(&mut self, operator: char) -> bool {
        let found = self.is(operator);
        self.at += usize::from(found);
        found
    }

    fn expect(&mut self, operator: char) -> Result<(), Unreadable> {
        let line = self.line();
        if self.accept(operator) { Ok(()) } else { Err(Unreadable::new(line, format!("`{operator}` is missing"))) }
    }

    fn skip_line(&mut self) {
        while self.take().is_some_and(|token| token.kind != TokenKind::LineEnd) {}
    }

    /// Skips the annotation of an assignment: `: dict[str, str]`.
    fn skip_annotation(&mut self) {
        if self.is(':') {
            while self.peek().is_some_and(|token| token.kind != TokenKind::LineEnd) && !self.is('=') {
                self.at += 1;
            }
        }
    }

    fn end_of_line(&mut self) -> Result<(), Unreadable> {
        let line = self.line();
        match self.take().map(|token| &token.kind) {
            None | Some(TokenKind::LineEnd) => Ok(()),
            Some(_) => Err(Unreadable::new(line, "more than a literal")),
        }
    }

    /// Reads the value that begins here. It may contain `==`, and `if … else …` with a condition
    /// whose value is known.
    pub fn value(&mut self) -> Result<Value, Unreadable> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(Unreadable::new(self.line(), "brackets within brackets, too deep to be a table"));
        }
        let mut value = self.operand()?;
        if self.is('=') && self.tokens.get(self.at + 1).is_some_and(|next| next.kind == TokenKind::Operator('=')) {
            self.at += 2;
            value = Value::Flag(value == self.operand()?);
        }
        if self.is_name("if") {
            let line = self.line();
            self.at += 1;
            let condition = self.value()?;
            if !self.is_name("else") {
                return Err(Unreadable::new(line, "`else` is missing"));
            }
            self.at += 1;
            let otherwise = self.value()?;
            value = match condition {
                Value::Flag(true) => value,
                Value::Flag(false) => otherwise,
                _ => return Err(Unreadable::new(line, "a condition that is no literal")),
            };
        }
        self.depth -= 1;
        Ok(value)
    }

    fn operand(&mut self) -> Result<Value, Unreadable> {
        let line = self.line();
        match self.take().map(|token| &token.kind) {
            Some(TokenKind::Text(literal)) => {
                let not_a_text = || Unreadable::new(line, "not a literal");
                let mut text = literal.value()?.ok_or_else(not_a_text)?;
                while let Some(Token { kind: TokenKind::Text(more), .. }) = self.peek() {
                    text.push_str(&more.value()?.ok_or_else(not_a_text)?);
                    self.at += 1;
                }
                Ok(Value::Text(text))
            }
            Some(TokenKind::Number(number)) => Ok(Value::Number((*number).to_owned())),
            Some(TokenKind::Operator('(')) => {
                if self.accept(')') {
                    return Ok(Value::Sequence(Vec::new()));
                }
                let first = self.value()?;
                if self.accept(')') {
                    return Ok(first);
                }
                self.expect(',')?;
                self.elements(')', vec![first]).map(Value::Sequence)
            }
            Some(TokenKind::Operator('[')) => self.elements(']', Vec::new()).map(Value::Sequence),
            Some(TokenKind::Operator('{')) => self.dictionary(),
            Some(TokenKind::Name(name)) => self.name(name, line),
            _ => Err(Unreadable::new(line, "not a literal")),
        }
    }

    fn elements(&mut self, end: char, mut values: Vec<Value>) -> Result<Vec<Value>, Unreadable> {
        while !self.accept(end) {
            values.push(self.value()?);
            if !self.is(end) {
                self.expect(',')?;
            }
        }
        Ok(values)
    }

    fn dictionary(&mut self) -> Result<Value, Unreadable> {
        let mut pairs = Vec::new();
        while !self.accept('}') {
            let key = self.value()?;
            if pairs.is_empty() && !self.is(':') {
                // A set has its elements and no pairs.
                if !self.is('}') {
                    self.expect(',')?;
                }
                return self.elements('}', vec![key]).map(Value::Sequence);
            }
            self.expect(':')?;
            pairs.push(Value::Sequence(vec![key, self.value()?]));
            if !self.is('}') {
                self.expect(',')?;
            }
        }
        Ok(Value::Sequence(pairs))
    }

    /// Reads a name and returns its value, or evaluates one of the calls that tables use.
    fn name(&mut self, name: &str, line: usize) -> Result<Value, Unreadable> {
        let mut name = name.to_owned();
        while self.accept('.') {
            match self.take().map(|token| &token.kind) {
                Some(TokenKind::Name(part)) => name.extend([".", *part]),
                _ => return Err(Unreadable::new(line, "not a literal")),
            }
        }
        if !self.accept('(') {
            return Ok(match name.as_str() {
                "True" => Value::Flag(true),
                "False" => Value::Flag(false),
                _ => self.scope.get(&name).cloned().unwrap_or(Value::Name(name)),
            });
        }
        let mut arguments = self.elements(')', Vec::new())?;
        match (name.as_str(), arguments.len()) {
            ("collections.OrderedDict" | "OrderedDict" | "dict" | "list" | "tuple", 1) => Ok(arguments.remove(0)),
            // The variable is not set, so the result is the default, the second argument.
            ("os.environ.get" | "os.getenv", 2) => Ok(arguments.remove(1)),
            _ => Err(Unreadable::new(line, format!("`{name}(…)` is not a literal"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str) -> Result<Value, Unreadable> {
        Module::read(&format!("x = {text}")).map(|module| module.scope["x"].clone())
    }

    #[test]
    fn tables_are_read() {
        let text = "\"\"\"About.\"\"\"\nimport os\nfrom .c import (A,\n  B)\n_F = os.environ.get(\"F\", \"0\") == \"1\"\n\
                    _H = \"<r.h>\" if _F else \"<r/r.h>\"\nM = collections.OrderedDict(\n  [\n    (\"<n\" '.h>', (_H, A, B)),\n  ]\n)\nALL = [M,]\n";
        let module = Module::read(text).unwrap();
        let name = |name: &str| Value::Name(name.to_owned());
        let text = |text: &str| Value::Text(text.to_owned());
        let pair = Value::Sequence(vec![text("<n.h>"), Value::Sequence(vec![text("<r/r.h>"), name("A"), name("B")])]);
        assert_eq!(module.scope["ALL"], Value::Sequence(vec![Value::Sequence(vec![pair])]));
    }

    #[test]
    fn brackets_alone_make_no_tuple() {
        assert_eq!(value("(\"a\")").unwrap(), Value::Text("a".to_owned()));
        assert_eq!(value("(\"a\",)").unwrap(), Value::Sequence(vec![Value::Text("a".to_owned())]));
        assert_eq!(value("()").unwrap(), Value::Sequence(Vec::new()));
        assert_eq!(value("{'a': 1}").unwrap().sequence().unwrap().len(), 1);
        assert_eq!(value("{'a', 'b',}").unwrap(), value("['a', 'b']").unwrap());
        assert_eq!(value("{'a'}").unwrap(), value("['a']").unwrap());
        assert!(value("{'a', 'b': 1}").is_err());
    }

    #[test]
    fn what_is_no_literal_is_named_with_its_line() {
        for (text, line, message) in [
            ("x = 1\n\nx.update(y)\n", 3, "`=` is missing"),
            ("x = [\n  f(1),\n]\n", 2, "`f(…)` is not a literal"),
            ("x = a + b\n", 1, "more than a literal"),
            ("if x:\n  y = 1\n", 1, "`=` is missing"),
            ("x = [1 2]\n", 1, "`,` is missing"),
            ("x = f'{y}'\n", 1, "not a literal"),
            ("x = 1 if y else 2\n", 1, "a condition that is no literal"),
            ("@x\n", 1, "neither an import nor an assignment"),
            ("x = [1,\n", 1, "not a literal"),
        ] {
            let error = Module::read(text).unwrap_err();
            assert_eq!((error.line, error.message.as_str()), (line, message), "{text}");
        }
        assert!(value(&"(".repeat(100_000)).unwrap_err().message.contains("too deep"));
    }
}
