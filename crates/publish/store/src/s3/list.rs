//! Input: a prefix of a bucket. Output: the objects below it (ListObjectsV2).
//!
//! Keys that are no paths, such as an `a//b` that was uploaded by hand, are skipped and counted.

use std::time::SystemTime;

use jiff::Timestamp;
use rocwheel_progress::{Reporter, counted};
use rusty_s3::Method;
use serde::Deserialize;

use super::S3Store;
use super::address::is_path;
use super::client::{Request, Stop};
use crate::bucket_fault::BucketFault;
use crate::error::Error;

pub(super) struct ListedObject {
    /// Its key below the prefix, a path.
    pub(super) key: String,
    pub(super) size: u64,
    /// Absent where the server has none.
    pub(super) e_tag: Option<String>,
    pub(super) modified: SystemTime,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct ListPage {
    #[serde(default)]
    contents: Vec<ListRow>,
    #[serde(default)]
    next_continuation_token: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct ListRow {
    key: String,
    size: u64,
    #[serde(default, rename = "ETag")]
    e_tag: Option<String>,
    #[serde(default)]
    last_modified: Option<Timestamp>,
}

impl S3Store {
    /// All objects below a folder (empty: the whole store), in the order of the server.
    pub(super) fn objects(&self, folder: &str, reporter: &dyn Reporter) -> Result<Vec<ListedObject>, Error> {
        let mut found = Vec::new();
        self.for_each_object(folder, reporter, &mut |object| found.push(object))?;
        Ok(found)
    }

    /// Hands over all objects below a folder (empty: the whole store), in the order of the server:
    /// a thousand are in memory at a time.
    pub(super) fn for_each_object(
        &self,
        folder: &str,
        reporter: &dyn Reporter,
        take: &mut dyn FnMut(ListedObject),
    ) -> Result<(), Error> {
        let attempted = format!("list `{}`", self.shown(folder));
        let top = self.path(folder)?;
        let prefix = if top.is_empty() { top } else { format!("{top}/") };
        let (mut strange, mut first_strange, mut token) = (0, None, None::<String>);
        loop {
            reporter.check()?;
            let page = self.list_page(&prefix, token.as_deref()).map_err(|stop| stop.error(attempted.clone()))?;
            for row in page.contents {
                let Some(key) = row.key.strip_prefix(&prefix) else { continue };
                if !is_path(key) {
                    // Consoles write an empty object at the end of a folder; it is not a file.
                    if !key.is_empty() && !key.ends_with('/') {
                        strange += 1;
                        first_strange.get_or_insert(row.key);
                    }
                    continue;
                }
                let modified = row.last_modified.unwrap_or(Timestamp::UNIX_EPOCH).into();
                take(ListedObject { key: key.to_owned(), size: row.size, e_tag: row.e_tag, modified });
            }
            let next = page.next_continuation_token.filter(|token| !token.is_empty());
            if next.is_some() && next == token {
                let reason = "the server repeats a page of the listing".to_owned();
                return Err(Error::Bucket { attempted, source: BucketFault::Other(reason) });
            }
            token = next;
            if token.is_none() {
                break;
            }
        }
        if let Some(first) = first_strange {
            let (count, are) = (counted(strange as u64, "file"), if strange == 1 { "is" } else { "are" });
            reporter.warn(&format!("{count} of `{}` {are} passed over: `{first}` is no path", self.shown(folder)));
        }
        Ok(())
    }

    fn list_page(&self, prefix: &str, token: Option<&str>) -> Result<ListPage, Stop> {
        let mut ask = Request::new(Method::Get, "");
        if let Some(token) = token {
            ask = ask.query("continuation-token", token);
        }
        let reply = self.client.send(ask.query("list-type", "2").query("prefix", prefix))?;
        parse(&reply.body).map_err(|reason| BucketFault::Other(reason).into())
    }
}

fn parse(body: &[u8]) -> Result<ListPage, String> {
    let text = std::str::from_utf8(body).map_err(|error| error.to_string())?;
    quick_xml::de::from_str(text).map_err(|error| format!("the answer is no listing: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listing_is_read_with_whatever_names_it_has() {
        let text = r#"<?xml version="1.0" encoding="UTF-8"?>
            <ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Name>b</Name><Prefix>whl/</Prefix>
            <KeyCount>2</KeyCount><IsTruncated>true</IsTruncated>
            <Contents><Key>whl/a+b &amp; ü.whl</Key><LastModified>2026-11-20T01:02:03.000Z</LastModified>
            <ETag>&quot;1f&quot;</ETag><Size>7</Size><StorageClass>STANDARD</StorageClass></Contents>
            <NextContinuationToken>a/b=</NextContinuationToken>
            <Contents><Key>whl//odd</Key><Size>0</Size></Contents></ListBucketResult>"#;
        let page = parse(text.as_bytes()).unwrap();
        let [first, second] = &page.contents[..] else { panic!("two rows") };
        assert_eq!((first.key.as_str(), first.size), ("whl/a+b & ü.whl", 7));
        assert_eq!(first.e_tag.as_deref(), Some("\"1f\""));
        assert_eq!(page.next_continuation_token.as_deref(), Some("a/b="));
        assert!(is_path("a b/c+d") && !is_path(second.key.strip_prefix("whl/").unwrap()));
        assert!(!is_path("a/../b") && !is_path("a/./b") && !is_path("a/"));
        assert!(parse(b"<html>").is_err());
    }
}
