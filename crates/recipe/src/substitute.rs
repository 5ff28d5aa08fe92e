//! Input: a text with `${name}` in it. Output: the text with what the names stand for.
//!
//! A recipe's texts are flat and its conditions are data that can be checked when it is read; a
//! template language would let both be anything, and would have to be learned. `${…}` is all there
//! is; `$${` is a plain `${`.

/// What becomes of a name.
pub(crate) enum Value {
    /// It stands for this.
    Text(String),
    /// It stays as it is, for later.
    Later,
}

/// Whether plain `${` in the result is for the next round still.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Round {
    /// Another round comes: `$${` stays.
    First,
    /// It is the last: `$${` becomes `${`.
    Last,
}

/// Replaces names. What stands for a name is not looked at again.
///
/// # Errors
/// What `value` says of a name, and `None` for one that is not closed.
pub(crate) fn substitute<E>(
    text: &str,
    round: Round,
    mut value: impl FnMut(&str) -> Result<Value, E>,
) -> Result<String, Option<E>> {
    let mut result = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        if rest[..at].ends_with('$') {
            result.push_str(&rest[..at - 1]);
            result.push_str(if round == Round::First { "$${" } else { "${" });
            rest = &rest[at + 2..];
            continue;
        }
        let (before, behind) = (&rest[..at], &rest[at + 2..]);
        let end = behind.find('}').ok_or(None)?;
        result.push_str(before);
        match value(&behind[..end]).map_err(Some)? {
            Value::Text(text) => result.push_str(&text),
            Value::Later => result.push_str(&rest[at..at + end + 3]),
        }
        rest = &behind[end + 1..];
    }
    result.push_str(rest);
    Ok(result)
}

/// A text that stands for itself in the last round.
pub(crate) fn literal(text: &str) -> String {
    text.replace("${", "$${")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_replaced_once_and_escapes_survive_until_the_last_round() {
        let value = |name: &str| match name {
            "a" => Ok(Value::Text("${b}".into())),
            "later" => Ok(Value::Later),
            other => Err(other.to_owned()),
        };
        assert_eq!(substitute("x${a}y$${a}${later}$", Round::First, value), Ok("x${b}y$${a}${later}$".into()));
        assert_eq!(substitute("$${a}$(b)", Round::Last, value), Ok("${a}$(b)".into()));
        assert_eq!(substitute("${c}", Round::Last, value), Err(Some("c".into())));
        assert_eq!(substitute("${a", Round::Last, value), Err(None));
    }

    proptest::proptest! {
        #[test]
        fn a_literal_is_what_it_was(text in "[${}a]*") {
            let nothing = |_: &str| Err::<Value, ()>(());
            proptest::prop_assert_eq!(substitute(&literal(&text), Round::Last, nothing), Ok(text));
        }

        #[test]
        fn text_without_names_is_untouched(text in "[^$]*") {
            let nothing = |_: &str| Err::<Value, ()>(());
            proptest::prop_assert_eq!(substitute(&text, Round::Last, nothing), Ok(text));
        }
    }
}
