//! Input: a `file:` address. Output: what a server would answer whose pages have the names that
//! bandersnatch gives them.

use std::io;
use std::path::{Path, PathBuf};

use rocwheel_content::open_regular;
use rocwheel_index::pages::{HTML_TYPE, JSON_TYPE};
use rocwheel_index::{Answer, BadAddress, Fetch};
use url::Url;

use super::{HTML, JSON};
use crate::ranges::{asked_range, range_body};

#[derive(Debug, Clone, Copy, Default)]
pub struct FolderSite;

impl Fetch for FolderSite {
    fn get_with(
        &self,
        address: &Url,
        headers: &[(&str, &str)],
    ) -> Result<Answer, Box<dyn std::error::Error + Send + Sync>> {
        let accept = headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("accept"));
        let answer = self.get(address, accept.map_or("*/*", |(_, value)| value))?;
        let Some(range) = answer.size.and_then(|size| asked_range(headers, size)) else { return Ok(answer) };
        let path = path_of(address)?;
        let body = range_body(open_regular(&path)?.into_parts().0, &range);
        Ok(Answer { status: 206, size: Some(range.end - range.start), body, ..answer })
    }

    fn get(&self, address: &Url, accept: &str) -> Result<Answer, Box<dyn std::error::Error + Send + Sync>> {
        let path = path_of(address)?;
        if !address.path().ends_with('/') {
            return answer(address, &path, "");
        }
        if accept.contains(JSON_TYPE) {
            let json = answer(address, &path.join(JSON), JSON_TYPE)?;
            if json.status == 200 || !accept.contains("html") {
                return Ok(json);
            }
        }
        answer(address, &path.join(HTML), HTML_TYPE)
    }
}

fn path_of(address: &Url) -> Result<PathBuf, BadAddress> {
    // Others may have a path too, of a file on a server.
    let path = if address.scheme() == "file" { address.to_file_path() } else { Err(()) };
    path.map_err(|()| BadAddress::new(address, "is no path of this machine"))
}

fn answer(address: &Url, path: &Path, kind: &str) -> Result<Answer, Box<dyn std::error::Error + Send + Sync>> {
    let empty = Answer {
        status: 404,
        content_type: kind.to_owned(),
        cache_control: String::new(),
        encoding: String::new(),
        size: None,
        address: address.clone(),
        body: Box::new(io::empty()),
    };
    match open_regular(path) {
        Ok(file) => Ok(Answer { status: 200, size: Some(file.metadata()?.len()), body: Box::new(file), ..empty }),
        Err(error) if is_absent(error.kind()) => Ok(empty),
        Err(error) => Err(error.into()),
    }
}

/// `true` for the errors of paths for which a server would have no file.
fn is_absent(kind: io::ErrorKind) -> bool {
    matches!(kind, io::ErrorKind::NotFound | io::ErrorKind::NotADirectory | io::ErrorKind::IsADirectory)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg_attr(windows, ignore = "Windows has no pipes among its files, and Wine has no links")]
    #[test]
    fn a_pipe_in_the_folder_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("head.json");
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        let address = Url::from_file_path(&path).unwrap();
        let Err(error) = FolderSite.get(&address, "*/*") else { panic!("the pipe was read") };
        assert!(error.to_string().contains("a named pipe, no regular file"), "{error}");
        let folder = Url::from_file_path(folder.path()).unwrap();
        assert_eq!(FolderSite.get(&folder, "*/*").unwrap().status, 404);
    }
}
