//! Input: a name that does not exist and those that do. Output: the one that was probably meant, and the sentence about it.

/// The name that is most like `wanted`; `None` when none is alike.
pub(crate) fn nearest<'a>(wanted: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let lower = wanted.to_lowercase();
    let distance = |name: &str| strsim::damerau_levenshtein(&lower, &name.to_lowercase());
    let closest = names.into_iter().map(|name| (distance(name), name)).min()?;
    // A third of the letters may be wrong: more is another word.
    (closest.0 * 3 <= lower.chars().count().max(3)).then_some(closest.1)
}

/// What to say about a name that does not exist: the nearest one, else all of them.
pub(crate) fn suggestion<'a>(wanted: &str, names: impl IntoIterator<Item = &'a str> + Clone) -> String {
    if let Some(name) = nearest(wanted, names.clone()) {
        return format!("did you mean `{name}`?");
    }
    let names: Vec<String> = names.into_iter().map(|name| format!("`{name}`")).collect();
    if names.is_empty() { "there are none".into() } else { format!("there are {}", names.join(", ")) }
}

/// Names between backticks in a text.
pub(crate) fn quoted(text: &str) -> Vec<&str> {
    text.split('`').skip(1).step_by(2).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_found_and_far_ones_are_not() {
        let names = ["torch", "torchvision", "triton"];
        assert_eq!(nearest("trotch", names), Some("torch"));
        assert_eq!(nearest("Triton2", names), Some("triton"));
        assert_eq!(nearest("jax", names), None);
        assert_eq!(suggestion("jax", names), "there are `torch`, `torchvision`, `triton`");
        assert_eq!(suggestion("x", []), "there are none");
        assert_eq!(quoted("unknown field `a`, expected `b` or `c`"), ["a", "b", "c"]);
    }
}
