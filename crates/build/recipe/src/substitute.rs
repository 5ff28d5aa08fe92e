//! Input: a text with `${name}` in it. Output: the text with the names replaced by their values.
//!
//! A recipe's texts are flat, and its conditions are data that can be checked when it is read. A
//! template language would allow anything in both, and users would have to learn it. `${…}` is the
//! whole syntax; `$${` is a plain `${`.

pub enum Substitution {
    /// This text replaces the name.
    Text(String),
    /// The name stays for a later round.
    Later,
}

/// Decides if an escaped `$${` is unescaped.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Round {
    /// Another round follows: `$${` stays.
    First,
    /// This is the last round: `$${` becomes `${`.
    Last,
}

/// Replaces names by their values. The values themselves are not searched for names.
/// Fails with the error of `value`, or with `None` for a name without a closing brace.
pub fn substitute<E>(
    text: &str,
    round: Round,
    mut value: impl FnMut(&str) -> Result<Substitution, E>,
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
            Substitution::Text(text) => result.push_str(&text),
            Substitution::Later => result.push_str(&rest[at..at + end + 3]),
        }
        rest = &behind[end + 1..];
    }
    result.push_str(rest);
    Ok(result)
}

/// Escapes a text so that the last round leaves it unchanged.
pub fn literal(text: &str) -> String {
    text.replace("${", "$${")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_replaced_once_and_escapes_survive_until_the_last_round() {
        let value = |name: &str| match name {
            "a" => Ok(Substitution::Text("${b}".into())),
            "later" => Ok(Substitution::Later),
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
            let nothing = |_: &str| Err::<Substitution, ()>(());
            proptest::prop_assert_eq!(substitute(&literal(&text), Round::Last, nothing), Ok(text));
        }

        #[test]
        fn text_without_names_is_untouched(text in "[^$]*") {
            let nothing = |_: &str| Err::<Substitution, ()>(());
            proptest::prop_assert_eq!(substitute(&text, Round::Last, nothing), Ok(text));
        }
    }
}
