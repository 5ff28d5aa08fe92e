//! The lists of an RPM repository: `repodata/repomd.xml` names `primary`, `filelists` and `other`,
//! which have an element for each package (the format of createrepo_c).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use quick_xml::Reader;
use quick_xml::escape::{escape, unescape};
use quick_xml::events::{BytesStart, Event};
use rocwheel_content::{hexadecimal, sha256};
use rocwheel_store::Error as StoreError;

use super::merge::{Entries, Entry, add, gzip, unpacked};
use super::{MergedLists, Repository, signed};
use crate::Error;

const FOLDER: &str = "repodata";
const FIRST: &str = "repodata/repomd.xml";
const SIGNATURE: &str = "repodata/repomd.xml.asc";

/// The lists that are merged, with the root element and the namespaces of each.
const LISTS: [(&str, &str, &str); 3] = [
    (
        "primary",
        "metadata",
        "xmlns=\"http://linux.duke.edu/metadata/common\" xmlns:rpm=\"http://linux.duke.edu/metadata/rpm\"",
    ),
    ("filelists", "filelists", "xmlns=\"http://linux.duke.edu/metadata/filelists\""),
    ("other", "otherdata", "xmlns=\"http://linux.duke.edu/metadata/other\""),
];

pub(super) fn is_list(key: &str) -> bool {
    root(key).is_some()
}

/// The repository of a file below `repodata`.
pub(super) fn root(key: &str) -> Option<&str> {
    if key.starts_with("repodata/") {
        return Some("");
    }
    key.find("/repodata/").map(|at| &key[..at])
}

/// The elements of a package in the three lists.
type Elements = [String; 3];

pub(super) fn merged(repository: &Repository<'_>) -> Result<Result<MergedLists, Vec<String>>, Error> {
    let mut problems: Vec<String> = repository.signature_problem(&[SIGNATURE])?.into_iter().collect();
    let new = match read(|path| repository.new_file(path))? {
        Ok(Some(new)) => new,
        Ok(None) => return Ok(Err(vec![format!("`{FIRST}` is missing")])),
        Err(problem) => return Ok(Err(vec![problem])),
    };
    let before = match read(|path| repository.stored(path))? {
        Ok(before) => before.unwrap_or_default(),
        Err(problem) => return Ok(Err(vec![format!("in the store: {problem}")])),
    };
    for entry in new.packages.values() {
        let path = attribute_of(&entry.text[0], "location", "href").unwrap_or_default();
        problems.extend(repository.contradiction(&path, &entry.sha256, None));
    }
    let mut all = before.packages.clone();
    add(&mut all, new.packages, &mut problems);
    if !problems.is_empty() {
        return Ok(Err(problems));
    }
    if all == before.packages {
        return Ok(Ok(MergedLists::default()));
    }
    write(repository, &all, &before.files).map(Ok)
}

/// The contents of a repository's lists.
#[derive(Default)]
struct Lists {
    packages: Entries<Elements>,
    /// The paths of the lists.
    files: BTreeSet<String>,
}

/// Reads the lists of a repository; the inner error is about their contents.
fn read(read: impl Fn(&str) -> Result<Option<Vec<u8>>, StoreError>) -> Result<Result<Option<Lists>, String>, Error> {
    let Some(first) = read(FIRST)? else { return Ok(Ok(None)) };
    let named = match named(&String::from_utf8_lossy(&first)) {
        Ok(named) => named,
        Err(problem) => return Ok(Err(format!("`{FIRST}`: {problem}"))),
    };
    let mut elements: Vec<BTreeMap<String, String>> = Vec::new();
    for (kind, root, _) in LISTS {
        let Some(path) = named.get(kind) else { return Ok(Err(format!("`{FIRST}` names no list `{kind}`"))) };
        let Some(bytes) = read(path)? else { return Ok(Err(format!("`{path}` is missing"))) };
        let found = unpacked(path, &bytes).map_err(|error| error.to_string()).and_then(|bytes| {
            let text = String::from_utf8(bytes).map_err(|_| "it is not UTF-8".to_owned())?;
            packages(&text, root)
        });
        match found {
            Ok(found) => elements.push(found),
            Err(problem) => return Ok(Err(format!("`{path}`: {problem}"))),
        }
    }
    let [primary, file_lists, other] = &elements[..] else { return Ok(Err("lists are missing".to_owned())) };
    let (mut entries, mut problems) = (Entries::new(), Vec::new());
    for (id, element) in primary {
        let [Some(files), Some(changes)] = [file_lists, other].map(|list| list.get(id)) else {
            return Ok(Err(format!("the package {id} is not in all lists")));
        };
        let Some(key) = identity(element) else {
            return Ok(Err(format!("the package {id} has no name, version or architecture")));
        };
        let entry = Entry { sha256: id.clone(), text: [element.clone(), files.clone(), changes.clone()] };
        add(&mut entries, Entries::from([(key, entry)]), &mut problems);
    }
    if let Some(problem) = problems.pop() {
        return Ok(Err(problem));
    }
    Ok(Ok(Some(Lists { packages: entries, files: named.into_values().collect() })))
}

/// The paths of the lists that `repomd.xml` names, by their kinds.
fn named(text: &str) -> Result<BTreeMap<String, String>, String> {
    let mut reader = Reader::from_str(text);
    let (mut lists, mut kind) = (BTreeMap::new(), String::new());
    loop {
        match reader.read_event().map_err(|error| error.to_string())? {
            Event::Start(start) if start.name().as_ref() == b"data" => {
                kind = attribute(&start, "type").unwrap_or_default();
                // Programs that want other forms of the same lists can make them from these.
                let base = kind.trim_end_matches("_db").trim_end_matches("_zck");
                if !LISTS.iter().any(|(known, ..)| *known == base) {
                    return Err(format!("lists of the kind `{kind}` cannot be merged: leave them out"));
                }
            }
            Event::Start(element) | Event::Empty(element) if element.name().as_ref() == b"location" => {
                let path = attribute(&element, "href").unwrap_or_default();
                let is_inside = path.strip_prefix("repodata/").is_some_and(|name| !name.contains('/'));
                if !is_inside {
                    return Err(format!("`{path}` is not in `{FOLDER}`"));
                }
                lists.insert(kind.clone(), path);
            }
            Event::Eof => return Ok(lists),
            _ => {}
        }
    }
}

/// The elements of the packages of a list, by their identities.
fn packages(text: &str, root: &str) -> Result<BTreeMap<String, String>, String> {
    let mut reader = Reader::from_str(text);
    let mut found = BTreeMap::new();
    let mut at = 0;
    let mut has_root = false;
    loop {
        let before = position(&reader);
        match reader.read_event().map_err(|error| error.to_string())? {
            Event::Start(start) if start.name().as_ref() == b"package" && has_root => {
                at = before;
                let id = attribute(&start, "pkgid");
                let end = start.to_end().into_owned();
                reader.read_to_end(end.name()).map_err(|error| error.to_string())?;
                let element = &text[at..position(&reader)];
                let id = id.or_else(|| text_of(element, "checksum"));
                let id = id.filter(|id| id.len() == 64).ok_or("a package has no SHA-256")?;
                found.insert(id, element.to_owned());
            }
            Event::Start(start) if !has_root => {
                if start.name().as_ref() != root.as_bytes() {
                    return Err(format!("it does not begin with `<{root}>`"));
                }
                has_root = true;
            }
            Event::Empty(_) if !has_root => return Ok(found),
            Event::Eof if has_root => return Ok(found),
            Event::Eof => return Err(format!("it ends after {at} bytes")),
            _ => {}
        }
    }
}

fn position(reader: &Reader<&[u8]>) -> usize {
    usize::try_from(reader.buffer_position()).unwrap_or(usize::MAX)
}

/// Name, version and architecture of an element of `primary`.
fn identity(element: &str) -> Option<[String; 3]> {
    let [epoch, version, release] = ["epoch", "ver", "rel"].map(|name| attribute_of(element, "version", name));
    let version = format!("{}:{}-{}", epoch.unwrap_or_else(|| "0".to_owned()), version?, release?);
    Some([text_of(element, "name")?, version, text_of(element, "arch")?])
}

/// The text of the first element of a name.
fn text_of(element: &str, name: &str) -> Option<String> {
    let mut reader = Reader::from_str(element);
    loop {
        match reader.read_event().ok()? {
            Event::Start(start) if start.name().as_ref() == name.as_bytes() => {
                let end = start.to_end().into_owned();
                let text = reader.read_text(end.name()).ok()?;
                return Some(unescape(&text.decode().ok()?).ok()?.trim().to_owned());
            }
            Event::Eof => return None,
            _ => {}
        }
    }
}

/// An attribute of the first element of a name.
fn attribute_of(element: &str, name: &str, wanted: &str) -> Option<String> {
    let mut reader = Reader::from_str(element);
    loop {
        match reader.read_event().ok()? {
            Event::Start(start) | Event::Empty(start) if start.name().as_ref() == name.as_bytes() => {
                return attribute(&start, wanted);
            }
            Event::Eof => return None,
            _ => {}
        }
    }
}

fn attribute(start: &BytesStart<'_>, name: &str) -> Option<String> {
    let found = start.try_get_attribute(name).ok()??;
    Some(unescape(std::str::from_utf8(&found.value).ok()?).ok()?.into_owned())
}

fn write(
    repository: &Repository<'_>,
    packages: &Entries<Elements>,
    before: &BTreeSet<String>,
) -> Result<MergedLists, Error> {
    let now = repository.options.now.as_second();
    let mut first = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<repomd xmlns=\"http://linux.duke.edu/metadata/repo\" \
         xmlns:rpm=\"http://linux.duke.edu/metadata/rpm\">\n  <revision>{now}</revision>\n"
    );
    let (mut lists, mut named) = (MergedLists::default(), BTreeSet::new());
    for (at, (kind, root, namespaces)) in LISTS.iter().enumerate() {
        let count = packages.len();
        let mut text =
            format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<{root} {namespaces} packages=\"{count}\">\n");
        for entry in packages.values() {
            text.push_str(&entry.text[at]);
            text.push('\n');
        }
        let _ = writeln!(text, "</{root}>");
        let packed = gzip(text.as_bytes());
        let (open, closed) = (hexadecimal(&sha256(text.as_bytes())), hexadecimal(&sha256(&packed)));
        let path = format!("{FOLDER}/{closed}-{kind}.xml.gz");
        let _ = write!(
            first,
            "  <data type=\"{kind}\">\n    <checksum type=\"sha256\">{closed}</checksum>\n    \
             <open-checksum type=\"sha256\">{open}</open-checksum>\n    <location href=\"{}\"/>\n    \
             <timestamp>{now}</timestamp>\n    <size>{}</size>\n    <open-size>{}</open-size>\n  </data>\n",
            escape(path.as_str()),
            packed.len(),
            text.len()
        );
        lists.first.push((repository.key(&path), packed));
        named.insert(repository.key(&path));
    }
    first.push_str("</repomd>\n");
    if let Some(signer) = repository.options.signer {
        lists.last.push((repository.key(SIGNATURE), signed(signer, first.as_bytes())?.beside));
    }
    lists.last.push((repository.key(FIRST), first.into_bytes()));
    // Installers may still have the old `repomd.xml`; what it names stays until the next change.
    named.extend(before.iter().map(|path| repository.key(path)));
    named.extend([FIRST, SIGNATURE].map(|path| repository.key(path)));
    let stored = repository.store.list(&repository.key(FOLDER), &rocwheel_progress::Silent)?;
    lists.stale = stored.into_iter().map(|file| file.key).filter(|key| !named.contains(key)).collect();
    Ok(lists)
}
