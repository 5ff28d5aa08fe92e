//! Input: version specifiers and a version. Output: `true` if installers take the version.
//!
//! `pep440_rs` 0.7 differs from the specification of version specifiers
//! (<https://packaging.python.org/en/latest/specifications/version-specifiers/>): `1.1` meets
//! `==1.1.1.*` there, `7.2rc1` does not meet `<7.2rc2`, and `7.2.post1` does not meet `>7.2rc1`.

use pep440_rs::{Operator, Version, VersionSpecifier, VersionSpecifiers};

/// `true` if the version meets all specifiers, as pip and uv decide it. Whether a pre-release may
/// be chosen at all is another question.
pub fn accepts(specifiers: &VersionSpecifiers, version: &Version) -> bool {
    specifiers.iter().all(|specifier| accepts_one(specifier, version))
}

fn accepts_one(specifier: &VersionSpecifier, version: &Version) -> bool {
    let wanted = specifier.version();
    match specifier.operator() {
        Operator::EqualStar => has_prefix(version, wanted),
        Operator::NotEqualStar => !has_prefix(version, wanted),
        // Not even its own pre-releases, unless it is one.
        Operator::LessThan => {
            version < wanted && (wanted.any_prerelease() || *version < wanted.clone().with_dev(Some(0)))
        }
        // Neither its local versions nor its own post-releases, unless it is one.
        Operator::GreaterThan => {
            let may_have_posts = wanted.post().is_none() && wanted.dev().is_none();
            let is_own_post = may_have_posts
                && version.post().is_some()
                && version.only_release() == wanted.only_release()
                && version.epoch() == wanted.epoch()
                && version.pre() == wanted.pre();
            version > wanted && version.clone().without_local() != *wanted && !is_own_post
        }
        _ => specifier.contains(version),
    }
}

/// `true` if the release begins with the other's; missing numbers are zeros.
fn has_prefix(version: &Version, prefix: &Version) -> bool {
    let numbers = version.release().iter().copied().chain(std::iter::repeat(0));
    version.epoch() == prefix.epoch() && prefix.release().iter().copied().zip(numbers).all(|(one, other)| one == other)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As `packaging` 26.3 answers.
    #[test]
    fn versions_are_accepted_as_pip_accepts_them() {
        let expected = [
            ("1.1", "==1.1.1.*", false),
            ("7.2+rocm7.2", "==7.2.1.*", false),
            ("1.1", "==1.1.0.*", true),
            ("1.1.5rc1+local", "==1.1.*", true),
            ("1!1.1", "==1.1.*", false),
            ("1.1", "!=1.1.1.*", true),
            ("1.1.1", "!=1.1.1.*", false),
            ("7.12.0a20261127", "<7.12.0a20261201", true),
            ("7.12.0rc1", "<7.12.0rc2", true),
            ("7.12.0rc1", "<7.12.0.post1", true),
            ("7.12.0.post1.dev1", "<7.12.0.post1", false),
            ("7.12.0rc1", "<7.12.0", false),
            ("7.12.0.dev1", "<7.12", false),
            ("7.11.9", "<7.12", true),
            ("7.2.0.post1", ">7.2.0rc1", true),
            ("7.2.0rc1.post1", ">7.2.0rc1", false),
            ("7.2.0.post1", ">7.2", false),
            ("7.2.0.post2", ">7.2.0.post1", true),
            ("7.2.0+rocm7", ">7.2.0", false),
            ("7.2.0+rocm7", ">7.2.0rc1", true),
            ("1.0", ">1.0.dev1", true),
            ("1.4.9", "~=1.4.2", true),
            ("1.5", "~=1.4.2", false),
            ("1.0+a", "==1.0", true),
        ];
        for (version, specifiers, is_accepted) in expected {
            let accepted = accepts(&specifiers.parse().unwrap(), &version.parse().unwrap());
            assert_eq!(accepted, is_accepted, "{version} {specifiers}");
        }
    }
}
