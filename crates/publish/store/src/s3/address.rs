//! Input: `s3://bucket/prefix`. Output: the bucket and the prefix of its keys.

use std::fmt;
use std::str::FromStr;

/// A bucket and the folder in it that is meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct S3Address {
    pub bucket: String,
    /// How all keys begin, without a slash at either end; empty for the whole bucket.
    pub prefix: String,
}

impl fmt::Display for S3Address {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "s3://{}", self.bucket)?;
        if self.prefix.is_empty() { Ok(()) } else { write!(formatter, "/{}", self.prefix) }
    }
}

impl S3Address {
    /// `true` for a text that begins with `s3://`.
    pub fn is_meant(text: &str) -> bool {
        text.get(..5).is_some_and(|start| start.eq_ignore_ascii_case("s3://"))
    }
}

impl FromStr for S3Address {
    type Err = String;

    fn from_str(text: &str) -> Result<S3Address, String> {
        if !S3Address::is_meant(text) {
            return Err("write it as s3://BUCKET/PREFIX".to_owned());
        }
        let (bucket, prefix) = text[5..].split_once('/').unwrap_or((&text[5..], ""));
        let is_name = bucket.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte));
        if bucket.is_empty() || bucket.starts_with('.') || !is_name {
            // The name may be a password.
            return Err(if text.contains('@') {
                "an address of a bucket has no user: variables such as AWS_ACCESS_KEY_ID have the keys".to_owned()
            } else {
                format!("`{bucket}` cannot be the name of a bucket")
            });
        }
        let prefix = prefix.strip_prefix('/').unwrap_or(prefix);
        let prefix = prefix.strip_suffix('/').unwrap_or(prefix);
        if !prefix.is_empty() && !is_path(prefix) {
            return Err(format!("the prefix `{prefix}` has a part that is no name"));
        }
        Ok(S3Address { bucket: bucket.to_owned(), prefix: prefix.to_owned() })
    }
}

/// `true` for a key whose parts are names: an address can have it as its path.
pub(super) fn is_path(key: &str) -> bool {
    key.split('/').all(|part| !matches!(part, "" | "." | "..")) && !key.bytes().any(|byte| byte.is_ascii_control())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_a_bucket_and_maybe_a_prefix() {
        let parse = |text: &str| text.parse::<S3Address>().map(|address| (address.bucket, address.prefix));
        let made = |bucket: &str, prefix: &str| Ok((bucket.to_owned(), prefix.to_owned()));
        assert_eq!(parse("s3://wheels"), made("wheels", ""));
        assert_eq!(parse("S3://wheels/"), made("wheels", ""));
        assert_eq!(parse("s3://my.wheels/whl/nightly/"), made("my.wheels", "whl/nightly"));
        for wrong in
            ["wheels", "s3://", "s3:///x", "s3://a b/x", "s3://key:secret@host/x", "s3://a/b//c", "s3://a/../b"]
        {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
        for secret in ["s3://joe:QQQQ@host/x", "s3://joe:QQ/QQ@host"] {
            let error = parse(secret).unwrap_err();
            assert!(!error.contains("QQ") && !error.contains("joe"), "{error}");
        }
        assert_eq!("s3://a/b/".parse::<S3Address>().unwrap().to_string(), "s3://a/b");
    }
}
