//! Input: the key of a file. Output: the Content-Type and Cache-Control that are stored with it,
//! because a bucket sends what it was given.

use rocwheel_content::archive_path::{file_name, parent};

/// Files whose name is theirs for ever.
const FOR_EVER: &str = "public, max-age=31536000, immutable";
/// Pages: installers ask whether they changed, which a 304 answers in a few bytes. `no-store` would
/// send the whole page every time.
const ASK: &str = "no-cache";

/// uv refuses a whole project for a page of another type. A `.tar.gz` has no Content-Encoding:
/// clients would unpack it on the way, and its hash would be another.
pub(super) fn headers(key: &str) -> [(&'static str, String); 2] {
    let name = file_name(key);
    // `v1_json/PROJECT/index.html` is JSON under a name that hosts serve for a folder.
    let is_json_page = name == "index.html" && format!("/{}/", parent(key)).contains("/v1_json/");
    let (media, cache) = match name {
        _ if is_json_page => ("application/vnd.pypi.simple.v1+json", ASK),
        _ if key.split('/').any(|part| part.starts_with('.')) => ("application/json", "no-store"),
        // The lists of a Debian repository change under their names, except those by hash.
        _ if format!("/{key}").contains("/dists/") => {
            (of_name(name).0, if key.contains("/by-hash/") { FOR_EVER } else { ASK })
        }
        _ => of_name(name),
    };
    [("content-type", media.to_owned()), ("cache-control", cache.to_owned())]
}

fn of_name(name: &str) -> (&'static str, &'static str) {
    let table = [
        (".html", "text/html; charset=utf-8", ASK),
        (".v1_html", "application/vnd.pypi.simple.v1+html", ASK),
        (".v1_json", "application/vnd.pypi.simple.v1+json", ASK),
        // PEP 825: the one file of a release that may grow.
        (".json", "application/json", ASK),
        (".toml", "application/toml", ASK),
        (".txt", "text/plain; charset=utf-8", ASK),
        (".md", "text/markdown; charset=utf-8", ASK),
        ("SHA256SUMS", "text/plain; charset=utf-8", ASK),
        (".metadata", "text/plain; charset=utf-8", FOR_EVER),
        (".delta", "application/octet-stream", FOR_EVER),
        (".packing", "application/octet-stream", FOR_EVER),
        // Attestations may be added to those of a file (PEP 740).
        (".provenance", "application/json", ASK),
        (".whl", "application/zip", FOR_EVER),
        (".zip", "application/zip", FOR_EVER),
        (".gz", "application/gzip", FOR_EVER),
        (".tgz", "application/gzip", FOR_EVER),
        (".bz2", "application/x-bzip2", FOR_EVER),
        (".xz", "application/x-xz", FOR_EVER),
        (".zst", "application/zstd", FOR_EVER),
        (".deb", "application/vnd.debian.binary-package", FOR_EVER),
        (".rpm", "application/x-rpm", FOR_EVER),
    ];
    let found = table.iter().find(|(ending, ..)| name.ends_with(ending));
    found.map_or(("application/octet-stream", ASK), |(_, media, cache)| (media, cache))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_type_is_that_of_the_name_and_pages_are_asked_for_again() {
        let of = |key: &str| {
            let [(_, media), (_, cache)] = headers(key);
            (media, cache)
        };
        let made = |media: &str, cache: &str| (media.to_owned(), cache.to_owned());
        assert_eq!(of("simple/torch/index.html"), made("text/html; charset=utf-8", ASK));
        assert_eq!(of("simple/torch/index.v1_json"), made("application/vnd.pypi.simple.v1+json", ASK));
        assert_eq!(of("simple/v1_json/torch/index.html"), made("application/vnd.pypi.simple.v1+json", ASK));
        assert_eq!(of("v1_json/index.html"), made("application/vnd.pypi.simple.v1+json", ASK));
        assert_eq!(of("torch-2.9.0-cp312-cp312-linux_x86_64.whl"), made("application/zip", FOR_EVER));
        assert_eq!(of("a-1-py3-none-any.whl.metadata"), made("text/plain; charset=utf-8", FOR_EVER));
        assert_eq!(of("a-1-py3-none-any.whl.delta"), made("application/octet-stream", FOR_EVER));
        assert_eq!(of("linux-64/magma-rocm63-abc-1.tar.bz2"), made("application/x-bzip2", FOR_EVER));
        assert_eq!(of("rocm-7.2.0.tar.gz"), made("application/gzip", FOR_EVER));
        let lists = "deb/dists/stable/main/binary-amd64";
        assert_eq!(of(&format!("{lists}/Packages.gz")), made("application/gzip", ASK));
        assert_eq!(of("dists/stable/InRelease"), made("application/octet-stream", ASK));
        assert_eq!(of(&format!("{lists}/by-hash/SHA256/00")), made("application/octet-stream", FOR_EVER));
        assert_eq!(of("rpm/repodata/00-primary.xml.gz"), made("application/gzip", FOR_EVER));
        assert_eq!(of("rpm/repodata/repomd.xml"), made("application/octet-stream", ASK));
        assert_eq!(of(".rocwheel/index/simple/torch.json"), made("application/json", "no-store"));
    }
}
