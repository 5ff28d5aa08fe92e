//! The wheels that are gathered from folders and from an index, all made at test time.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod fixtures;
mod server;

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};

use rocwheel_fixtures::Warnings;
use rocwheel_index::{Answer, Fetch, Gathered, Http, Request, Source, UnmetKind, gather};
use rocwheel_progress::{Exit, Failure, Silent};
use tempfile::TempDir;
use url::Url;

use fixtures::{pure, source, tagged};
use rocwheel_index::requirement::InstallTarget;
use rocwheel_wheel::Platform;
use server::{Page, Server};

fn target() -> InstallTarget {
    InstallTarget { python: "3.12".parse().unwrap(), platform: Platform::Linux, glibc: Some((2, 28)) }
}

fn names(gathered: &Gathered) -> Vec<String> {
    gathered.wheels.iter().map(|path| path.file_name().unwrap().to_string_lossy().into_owned()).collect()
}

fn from(audited: &[PathBuf], sources: &[Source], cache: &Path) -> Result<Gathered, Failure> {
    let http = Http::new(None).unwrap();
    let target = target();
    gather(&Request { audited, sources, target: &target, cache, fetch: Some(&http) }, &Silent)
}

fn sha256(bytes: &[u8]) -> String {
    rocwheel_content::hexadecimal(&rocwheel_content::sha256(bytes))
}

#[test]
fn a_folder_gives_the_newest_that_fits_everybody() {
    let folder = TempDir::new().unwrap();
    let (at, more) = (folder.path(), folder.path().join("more"));
    let audited = pure(
        at,
        "top-1.0",
        &["one>=1", "two[fast]", "three==1.*", "gone>1", "absent; extra == 'x'", "old; python_version < '3'"],
        &[],
    );
    for stem in
        ["one-1.0", "one-1.5", "one-2.0", "one-3.0rc1", "three-1.0", "three-1.9", "three-2.0", "gone-1.0", "five-1.0"]
    {
        pure(&more, stem, &[], &[]);
    }
    pure(&more, "two-1.0", &["one<2", "four; extra == 'fast'", "five; extra == 'slow'"], &[]);
    pure(&more, "four-1.0", &["top"], &[]);
    tagged(&more, "four-1.1", &[], &[], "cp311-cp311-manylinux_2_28_x86_64");
    tagged(&more, "three-1.9.1", &[], &[], "cp312-cp312-manylinux_2_39_x86_64");
    tagged(&more, "three-1.9", &[], &[], "cp312-cp312-manylinux_2_28_x86_64");
    fs_err::write(more.join("notes.txt"), "no wheel").unwrap();
    let found = from(&[audited], &[Source::parse(more.to_str().unwrap()).unwrap()], at).unwrap();
    // `one` was first chosen as 2.0, before the requirement of `two` was known.
    let expected = [
        "four-1.0-py3-none-any.whl",
        "one-1.5-py3-none-any.whl",
        "three-1.9-cp312-cp312-manylinux_2_28_x86_64.whl",
        "two-1.0-py3-none-any.whl",
    ];
    assert_eq!(names(&found), expected);
    let unmet: Vec<_> = found.unmet.iter().map(|unmet| (unmet.requirer.as_str(), unmet.requirement.as_str())).collect();
    assert_eq!(unmet, [("top 1.0", "gone>1")]);
    assert_eq!(found.unmet[0].reason, "there is 1.0");
}

#[test]
fn a_requirement_is_impossible_only_if_no_installer_could_meet_it() {
    let folder = TempDir::new().unwrap();
    let (at, more) = (folder.path(), folder.path().join("more"));
    pure(&more, "one-1.0", &["gone"], &[]);
    tagged(&more, "old-2.0", &[], &[], "cp39-cp39-manylinux_2_17_x86_64");
    for (requirement, kind) in [
        ("gone", UnmetKind::Impossible),
        ("one>1", UnmetKind::Impossible),
        ("old<2", UnmetKind::Impossible),
        ("old", UnmetKind::OtherPython),
        ("gone @ file:///gone-1.0-py3-none-any.whl", UnmetKind::Open),
        // What `one` requires, another version of it might not.
        ("one", UnmetKind::Open),
    ] {
        let audited = [pure(at, "top-1.0", &[requirement], &[])];
        let found = from(&audited, &[Source::Folder(more.clone())], at).unwrap();
        let kinds: Vec<UnmetKind> = found.unmet.iter().map(|unmet| unmet.kind).collect();
        assert_eq!(kinds, [kind], "{requirement}");
    }
}

/// As in a folder of ROCm's packages: `rocm` chooses its requirements at install time.
#[test]
fn what_a_source_distribution_requires_is_taken_along() {
    let folder = TempDir::new().unwrap();
    let (at, more) = (folder.path(), folder.path().join("more"));
    let audited = [pure(at, "top-1.0", &["rocm[libraries]==7.1", "both"], &[])];
    let chosen = ["rocm-sdk-core==7.1", "rocm-sdk-libraries==7.1; extra == 'libraries'", "gone; extra == 'devel'"];
    source(&more, "rocm-7.1", &chosen);
    source(&more, "rocm-7.0", &["rocm-sdk-core==7.0"]);
    // A wheel is preferred to a newer source distribution.
    source(&more, "both-2.0", &["gone"]);
    for stem in ["rocm_sdk_core-7.0", "rocm_sdk_core-7.1", "rocm_sdk_libraries-7.1", "rocm_sdk_devel-7.1", "both-1.0"] {
        pure(&more, stem, &[], &[]);
    }
    let found = from(&audited, &[Source::Folder(more.clone())], at).unwrap();
    let expected = ["both-1.0", "rocm_sdk_core-7.1", "rocm_sdk_libraries-7.1"];
    assert_eq!(names(&found), expected.map(|stem| format!("{stem}-py3-none-any.whl")));
    assert_eq!(found.unmet, []);
    fs_err::write(more.join("rocm-7.1.tar.gz"), "no archive").unwrap();
    let error = from(&audited, &[Source::Folder(more)], at).unwrap_err();
    assert!(error.to_string().contains("rocm-7.1.tar.gz"), "{error}");
}

#[test]
fn requirements_that_exclude_each_other_are_named() {
    let folder = TempDir::new().unwrap();
    let at = folder.path();
    let more = at.join("more");
    let audited = [pure(at, "top-1.0", &["base>=2", "other"], &[]), pure(at, "same-1.0", &[], &[])];
    pure(&more, "base-1.0", &[], &[]);
    pure(&more, "base-2.0", &[], &[]);
    pure(&more, "other-3.0", &["Base<2", "same>2"], &[]);
    let source = [Source::Folder(more)];
    let error = from(&audited, &source, at).unwrap_err();
    assert_eq!(
        error.to_string(),
        "no version of base is right for both: top 1.0 requires `base>=2`, other 3.0 requires `Base<2`"
    );
    assert!(error.hint().is_some());
    // The version of an audited wheel is fixed.
    let only = [pure(at, "top-2.0", &["same>2"], &[]), audited[1].clone()];
    let found = from(&only, &source, at).unwrap();
    assert_eq!(found.unmet[0].reason, "the version that is looked at is 1.0");
    let error = from(&audited, &[Source::Folder(at.join("nowhere"))], at).unwrap_err();
    assert!(error.to_string().contains("nowhere"), "{error}");
}

/// As in AMD's indexes: `rocm` exists only as a source distribution.
#[test]
fn what_a_source_distribution_of_an_index_requires_is_taken_along() {
    let folder = TempDir::new().unwrap();
    let (at, files) = (folder.path(), folder.path().join("files"));
    let audited = [pure(at, "top-1.0", &["rocm[libraries]==7.1", "old-name==1.*", "broken", "both"], &[])];
    let mut pages = BTreeMap::new();
    let mut add = |project: &str, paths: &[PathBuf]| {
        let mut links = String::new();
        for path in paths {
            let (name, bytes) = (path.file_name().unwrap().to_str().unwrap(), fs_err::read(path).unwrap());
            links += &format!("<a href='/files/{name}#sha256={}'>{name}</a>\n", sha256(&bytes));
            pages.insert(format!("/files/{name}"), Page { status: 200, kind: "application/gzip", body: bytes });
        }
        pages.insert(format!("/simple/{project}/"), Page { status: 200, kind: "text/html", body: links.into_bytes() });
    };
    let chosen = ["rocm-sdk-core==7.1", "rocm-sdk-libraries==7.1; extra == 'libraries'", "gone; extra == 'devel'"];
    add("rocm", &[source(&files, "rocm-7.0", &["gone"]), source(&files, "rocm-7.1", &chosen)]);
    for name in ["rocm_sdk_core", "rocm_sdk_libraries"] {
        let versions = ["7.0", "7.1"].map(|version| pure(&files, &format!("{name}-{version}"), &[], &[]));
        add(&name.replace('_', "-"), &versions);
    }
    let hyphens = files.join("old-name-1.0.tar.gz");
    fs_err::copy(source(&files, "old_name-1.0", &["rocm-sdk-core"]), &hyphens).unwrap();
    // The required version has no wheel.
    add("old-name", &[hyphens, pure(&files, "old_name-2.0", &["gone"], &[])]);
    let broken = files.join("broken-1.0.tar.gz");
    fs_err::write(&broken, "no archive").unwrap();
    add("broken", &[broken]);
    // A wheel is preferred to a newer source distribution.
    add("both", &[source(&files, "both-2.0", &["gone"]), pure(&files, "both-1.0", &[], &[])]);
    let server = Server::start(pages);
    let sources = [Source::parse(&server.address).unwrap()];
    let cache = at.join("cache");
    let expected = ["both-1.0", "rocm_sdk_core-7.1", "rocm_sdk_libraries-7.1"];
    for _ in 0..2 {
        let found = from(&audited, &sources, &cache).unwrap();
        assert_eq!(names(&found), expected.map(|stem| format!("{stem}-py3-none-any.whl")));
        assert_eq!(found.unmet, []);
    }
    let downloads = |name: &str| server.asked().iter().filter(|path| path.ends_with(name)).count();
    assert_eq!(["rocm-7.1.tar.gz", "rocm-7.0.tar.gz", "both-2.0.tar.gz"].map(downloads), [1, 0, 0]);
}

/// Answers with a page that lists one source distribution, whose body never ends.
struct Endless;

impl Fetch for Endless {
    fn get(&self, address: &Url, _: &str) -> Result<Answer, Box<dyn std::error::Error + Send + Sync>> {
        let page: &[u8] = b"<a href='/huge-1.0.tar.gz'>huge</a>";
        let body: Box<dyn Read + Send> =
            if address.path().contains(".gz") { Box::new(std::io::repeat(0)) } else { Box::new(page) };
        let (content_type, cache_control) = ("text/html".to_owned(), String::new());
        Ok(Answer {
            status: 200,
            content_type,
            cache_control,
            encoding: String::new(),
            size: None,
            address: address.clone(),
            body,
        })
    }
}

#[test]
fn a_source_distribution_without_an_end_is_not_read_to_it() {
    let folder = TempDir::new().unwrap();
    let at = folder.path();
    let (audited, target) = ([pure(at, "top-1.0", &["huge"], &[])], target());
    let sources = [Source::parse("http://127.0.0.1:9/simple/").unwrap()];
    let cache = at.join("cache");
    let warnings = Warnings::default();
    let request =
        Request { audited: &audited, sources: &sources, target: &target, cache: &cache, fetch: Some(&Endless) };
    assert_eq!(gather(&request, &warnings).unwrap().wheels, Vec::<PathBuf>::new());
    assert_eq!(walk(&cache), Vec::<String>::new());
    let said = warnings.all();
    let address = "http://127.0.0.1:9/huge-1.0.tar.gz";
    let expected = format!("what `huge-1.0.tar.gz` requires is not known: `{address}` has 134217728 bytes or more");
    assert_eq!(said, [expected]);
}

/// An index like PyPI: JSON for `top`'s requirement, HTML for the next, METADATA beside one wheel,
/// a hash for each.
fn index(files: &Path) -> BTreeMap<String, Page> {
    let new = fs_err::read(tagged(files, "json-2.0", &["html"], &[], "cp312-cp312-manylinux_2_17_x86_64")).unwrap();
    let old = fs_err::read(pure(files, "json-1.0", &["nobody"], &[])).unwrap();
    let html = fs_err::read(pure(files, "html-1.0+local", &["forbidden"], &[])).unwrap();
    let metadata = b"Metadata-Version: 2.1\nName: json\nVersion: 2.0\nRequires-Dist: html\n".to_vec();
    let json = format!(
        r#"{{"meta": {{"api-version": "1.3"}}, "name": "json", "files": [
          {{"filename": "json-1.0-py3-none-any.whl", "url": "/files/json-1.0-py3-none-any.whl", "hashes": {{"sha256": "{}"}}}},
          {{"filename": "json-2.0-cp312-cp312-manylinux_2_17_x86_64.whl", "url": "../../files/json-2.0.whl",
            "hashes": {{"sha256": "{}"}}, "core-metadata": {{"sha256": "{}"}}}},
          {{"filename": "json-3.0-py3-none-any.whl", "url": "gone", "hashes": {{}}, "yanked": "bad"}},
          {{"filename": "json-4.0-py3-none-any.whl", "url": "gone", "hashes": {{}}, "requires-python": ">=3.13"}},
          {{"filename": "json-5.0-1/../../../escaped-py3-none-any.whl", "url": "gone", "hashes": {{}}}},
          {{"filename": "json-6.0.tar.gz", "url": "gone", "hashes": {{}}}}]}}"#,
        sha256(&old),
        sha256(&new),
        sha256(&metadata)
    );
    let links = "<!DOCTYPE html><html><body><a href='/files/html-1.0%2Blocal-py3-none-any.whl'>x</a></body></html>";
    let page = |status: u16, kind: &'static str, body: Vec<u8>| Page { status, kind, body };
    let binary = "application/octet-stream";
    BTreeMap::from([
        ("/simple/json/".to_owned(), page(200, "application/vnd.pypi.simple.v1+json", json.into_bytes())),
        ("/simple/html/".to_owned(), page(200, "text/html", links.as_bytes().to_vec())),
        ("/simple/forbidden/".to_owned(), page(403, "text/plain", Vec::new())),
        ("/files/json-1.0-py3-none-any.whl".to_owned(), page(200, binary, old)),
        ("/files/json-2.0.whl".to_owned(), page(200, binary, new)),
        ("/files/json-2.0.whl.metadata".to_owned(), page(200, binary, metadata)),
        ("/files/html-1.0%2Blocal-py3-none-any.whl".to_owned(), page(200, binary, html)),
    ])
}

#[test]
fn an_index_gives_wheels_once_and_checked() {
    let folder = TempDir::new().unwrap();
    let at = folder.path();
    let audited = [pure(at, "top-1.0", &["json"], &[])];
    let server = Server::start(index(&at.join("files")));
    let source = [Source::parse(server.address.trim_end_matches('/')).unwrap()];
    let cache = at.join("cache");
    let found = from(&audited, &source, &cache).unwrap();
    let expected = ["html-1.0+local-py3-none-any.whl", "json-2.0-cp312-cp312-manylinux_2_17_x86_64.whl"];
    assert_eq!(names(&found), expected);
    assert_eq!(found.unmet.len(), 1);
    assert!(found.unmet[0].reason.ends_with("/simple/forbidden/` answered 403"), "{:?}", found.unmet);
    for path in &found.wheels {
        assert!(path.starts_with(&cache));
        let original = at.join("files").join(path.file_name().unwrap());
        assert_eq!(fs_err::read(path).unwrap(), fs_err::read(original).unwrap());
    }
    let downloads = |server: &Server| {
        server.asked().iter().filter(|path| path.contains(".whl") && !path.contains(".metadata")).count()
    };
    assert_eq!(downloads(&server), 2);
    assert_eq!(from(&audited, &source, &cache).unwrap(), found);
    assert_eq!(downloads(&server), 2, "from the cache: {:?}", server.asked());
    // A folder that is given first comes first.
    let own = at.join("own");
    pure(&own, "json-2.0", &[], &[]);
    let both = [Source::Folder(own), source[0].clone()];
    assert_eq!(names(&from(&audited, &both, &cache).unwrap()), ["json-2.0-py3-none-any.whl"]);
}

#[test]
fn what_an_index_does_wrong_is_an_error_and_leaves_nothing() {
    let folder = TempDir::new().unwrap();
    let at = folder.path();
    let audited = [pure(at, "top-1.0", &["json"], &[])];
    let pages = index(&at.join("files"));
    let wheel = "/files/json-2.0.whl";
    let changed = |path: &str, change: &dyn Fn(&mut Page)| {
        let mut pages = pages.clone();
        change(pages.get_mut(path).unwrap());
        let server = Server::start(pages);
        let cache = at.join("cache");
        let error = from(&audited, &[Source::parse(&server.address).unwrap()], &cache).unwrap_err();
        let left: Vec<_> = walk(&cache).into_iter().filter(|file| !file.contains("html-1.0")).collect();
        assert!(left.is_empty(), "{left:?}");
        (error.to_string(), error.exit())
    };
    let (error, exit) = changed(wheel, &|page| page.body.push(0));
    assert!(error.contains("has the sha256") && exit == Exit::Failed, "{error}");
    let (error, exit) = changed("/files/json-2.0.whl.metadata", &|page| page.body.push(b' '));
    assert!(error.contains("json-2.0.whl.metadata") && exit == Exit::Failed, "{error}");
    let (error, exit) = changed(wheel, &|page| page.status = 0);
    assert!(error.contains("could not download") && exit == Exit::TryAgain, "{error}");
    let (error, exit) = changed(wheel, &|page| page.status = 503);
    assert!(error.contains("answered with status 503") && exit == Exit::TryAgain, "{error}");
    let sized = r#""size": 10, "url": "../../files/json-2.0.whl""#;
    let (error, exit) = changed("/simple/json/", &|page| {
        let text = String::from_utf8(page.body.clone()).unwrap();
        page.body = text.replace(r#""url": "../../files/json-2.0.whl""#, sized).into_bytes();
    });
    assert!(error.contains("json-2.0.whl` has 11 bytes or more") && exit == Exit::Failed, "{error}");
    let (error, _) = changed("/simple/json/", &|page| page.body = b"{}".to_vec());
    assert!(error.contains("is not of a package index: missing field `files`"), "{error}");

    let source = [Source::parse("http://user:secret@127.0.0.1:9/simple").unwrap()];
    let error = from(&audited, &source, at).unwrap_err();
    assert!(error.to_string().contains("127.0.0.1:9/simple/json/") && !error.to_string().contains("secret"), "{error}");
    assert_eq!(error.exit(), Exit::TryAgain);
    let target = target();
    let request = Request { audited: &audited, sources: &source, target: &target, cache: at, fetch: None };
    let error = gather(&request, &Silent).unwrap_err();
    assert_eq!(error.to_string(), "cannot read the index `http://127.0.0.1:9/simple/` offline");
}

#[test]
fn an_address_is_no_folder_and_shows_no_password() {
    let error = Source::parse("https://[x").unwrap_err();
    assert_eq!(
        (error.to_string().as_str(), error.exit()),
        ("`https://[x` is not the address of an index", Exit::Usage)
    );
    let address = |text| match Source::parse(text) {
        Ok(Source::Index(address)) => address.to_string(),
        other => panic!("{other:?}"),
    };
    assert_eq!(address("HTTPS://host/simple"), "https://host/simple/");
    for folder in ["wheels", "/a://b", "C:\\wheels", "C://wheels", "1://x"] {
        assert_eq!(Source::parse(folder).unwrap(), Source::Folder(folder.into()));
    }
    let user = "joe:S3cretPw@";
    for (begin, end) in
        [("http://", "[bad/"), ("http://", "host:99999/"), ("ftp://", "host/x"), ("file://", "localhost/x")]
    {
        let error = Source::parse(&format!("{begin}{user}{end}")).unwrap_err();
        assert!(error.to_string().contains(&format!("`{begin}{end}`")), "{error}");
        assert_eq!(error.exit(), Exit::Usage);
        let shown = rocwheel_index::settings::shown(&format!("{begin}{user}{end}"));
        assert!(!shown.contains("S3cretPw"), "{shown}");
    }
}

#[test]
fn an_address_that_has_nothing_is_an_error() {
    let folder = TempDir::new().unwrap();
    let at = folder.path();
    let audited = [pure(at, "top-1.0", &["json", "html"], &[])];
    let server = Server::start(BTreeMap::new());
    let root = server.address.trim_end_matches("simple/").to_owned();
    let error = from(&audited, &[Source::parse(&root).unwrap()], at).unwrap_err();
    assert_eq!(error.to_string(), format!("none of 2 requirements is at `{root}`"));
    assert_eq!(error.hint(), Some(format!("did you mean `{root}simple/`?").as_str()));
}

fn walk(folder: &Path) -> Vec<String> {
    let Ok(entries) = fs_err::read_dir(folder) else { return Vec::new() };
    let mut files = Vec::new();
    for path in entries.map(|entry| entry.unwrap().path()) {
        if path.is_dir() { files.extend(walk(&path)) } else { files.push(path.display().to_string()) }
    }
    files
}
