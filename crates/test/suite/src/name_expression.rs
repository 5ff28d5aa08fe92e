//! Input: an expression as `pytest -k` takes it. Output: whether a name is selected: words are
//! parts of names, in any case, joined by `and`, `or`, `not` and parentheses.

use rocwheel_progress::{Exit, Failure};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NameExpression {
    /// A part of the name, in lower case.
    Part(String),
    Not(Box<NameExpression>),
    All(Vec<NameExpression>),
    Any(Vec<NameExpression>),
}

impl NameExpression {
    /// # Errors
    /// The text is no such expression.
    pub fn parse(text: &str) -> Result<NameExpression, Failure> {
        let spaced = text.replace('(', " ( ").replace(')', " ) ");
        let mut words = spaced.split_whitespace().rev().collect::<Vec<_>>();
        let found = any(&mut words).filter(|_| words.is_empty());
        found.ok_or_else(|| fault(format!("`-k {text}` is not an expression of names")))
    }

    pub fn selects(&self, name: &str) -> bool {
        match self {
            NameExpression::Part(part) => name.to_lowercase().contains(part),
            NameExpression::Not(inner) => !inner.selects(name),
            NameExpression::All(all) => all.iter().all(|one| one.selects(name)),
            NameExpression::Any(any) => any.iter().any(|one| one.selects(name)),
        }
    }
}

pub(crate) fn fault(text: String) -> Failure {
    Failure::message(text)
        .with_hint("parts of names, joined by `and`, `or`, `not`: `-k \"matmul and not complex\"`")
        .with_exit(Exit::Usage)
}

/// Parts joined by `or`. `words` has the rest of the text, last word first.
fn any(words: &mut Vec<&str>) -> Option<NameExpression> {
    joined(words, "or", |words| joined(words, "and", negated, NameExpression::All), NameExpression::Any)
}

fn joined(
    words: &mut Vec<&str>,
    between: &str,
    part: fn(&mut Vec<&str>) -> Option<NameExpression>,
    whole: fn(Vec<NameExpression>) -> NameExpression,
) -> Option<NameExpression> {
    let mut parts = vec![part(words)?];
    while words.last() == Some(&between) {
        words.pop();
        parts.push(part(words)?);
    }
    Some(if parts.len() == 1 { parts.remove(0) } else { whole(parts) })
}

fn negated(words: &mut Vec<&str>) -> Option<NameExpression> {
    match words.pop()? {
        "not" => Some(NameExpression::Not(Box::new(negated(words)?))),
        "(" => {
            let inner = any(words)?;
            (words.pop()? == ")").then_some(inner)
        }
        ")" | "and" | "or" => None,
        word => Some(NameExpression::Part(word.to_lowercase())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What `pytest -k` of pytest 9 selects of functions with these names.
    #[test]
    fn names_are_selected_as_by_pytest() {
        let names = ["torch.matmul", "torch.conv", "torchvision.nms", "rocm.load"];
        for (text, expected) in [
            ("matmul", &names[..1]),
            ("MatMul", &names[..1]),
            ("torch", &names[..3]),
            ("torch and not conv", &["torch.matmul", "torchvision.nms"]),
            ("not (torch or load)", &[]),
            ("conv or load and rocm", &["torch.conv", "rocm.load"]),
            ("(conv or load) and rocm", &["rocm.load"]),
        ] {
            let expression = NameExpression::parse(text).unwrap();
            let found: Vec<&str> = names.into_iter().filter(|name| expression.selects(name)).collect();
            assert_eq!(found, expected, "{text}");
        }
        for text in ["", "and", "a b", "(a", "a)", "not", "a or"] {
            assert!(NameExpression::parse(text).is_err(), "{text}");
        }
    }
}
