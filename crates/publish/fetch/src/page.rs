//! Input: the files of a folder. Output: the page that lists them, for browsers and for programs
//! that read the links of a folder, as TheRock's buckets have one in each folder of a run.

use std::fmt::Write as _;

use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use serde::Serialize;

/// Everything that ends a path, could begin a scheme, or is read as something else in HTML. `+` is
/// read as a blank by some servers.
const KEPT: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'#')
    .add(b'%')
    .add(b'&')
    .add(b'\'')
    .add(b'+')
    .add(b':')
    .add(b'<')
    .add(b'>')
    .add(b'?')
    .add(b'[')
    .add(b'\\')
    .add(b']')
    .add(b'^')
    .add(b'`')
    .add(b'{')
    .add(b'|')
    .add(b'}');

const STYLE: &str = "body{font-family:sans-serif;margin:2em}td{padding:.3em 2em .3em 0}td+td{text-align:right}";

/// A line of the page of a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FolderEntry {
    /// The name; that of a folder ends in a slash, and its link leads to its page.
    pub name: String,
    /// Bytes; `None` for a folder.
    pub size: Option<u64>,
}

/// The page of a folder. `has_parent` adds a link to the page of the folder above.
pub fn folder_page(title: &str, entries: &[FolderEntry], has_parent: bool) -> String {
    let title = escape(title);
    let mut page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>{title}</title>\n\
         <style>{STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>\n<table>\n"
    );
    if has_parent {
        page.push_str("<tr><td><a href=\"../index.html\">..</a></td><td></td></tr>\n");
    }
    for entry in entries {
        let link = utf8_percent_encode(&entry.name, KEPT);
        let page_of_folder = if entry.size.is_none() { "index.html" } else { "" };
        let size = entry.size.map(|size| size.to_string()).unwrap_or_default();
        // Writing to a string cannot fail.
        let _ = writeln!(
            page,
            "<tr><td><a href=\"{link}{page_of_folder}\">{}</a></td><td>{size}</td></tr>",
            escape(&entry.name)
        );
    }
    page.push_str("</table>\n</body>\n</html>\n");
    page
}

/// A tarball on the page of tarballs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TarballEntry {
    pub name: String,
    /// When it was written, in seconds since 1970.
    pub mtime: f64,
}

const SCRIPT: &str = "
const list = document.getElementById('files');
const shown = document.getElementById('shown');
const order = document.getElementById('order');
function show() {
  const way = order.value === 'old' ? 1 : -1;
  const wanted = files.filter(file => shown.value === '' || file.name.includes(shown.value));
  wanted.sort((a, b) => way * (a.mtime - b.mtime));
  list.replaceChildren(...wanted.map(file => {
    const link = document.createElement('a');
    link.href = encodeURIComponent(file.name);
    link.textContent = file.name;
    const item = document.createElement('li');
    item.append(link);
    return item;
  }));
}
shown.addEventListener('change', show);
order.addEventListener('change', show);
show();
";

/// The page of the tarballs of a folder. Programs read the array `files` in its script: name and
/// form of it are those of TheRock's page.
pub fn tarball_page(tarballs: &[TarballEntry]) -> String {
    let mut families: Vec<&str> = tarballs.iter().filter_map(|tarball| family(&tarball.name)).collect();
    families.sort_unstable();
    families.dedup();
    let options: String =
        families.iter().map(|family| format!("<option value=\"{0}\">{0}</option>", escape(family))).collect();
    // `</script>` in a name would end the script.
    let files = serde_json::to_string(tarballs).unwrap_or_default().replace('<', "\\u003c");
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>Tarballs</title>\n\
         <style>{STYLE}</style>\n</head>\n<body>\n<h1>Tarballs</h1>\n\
         <p><label>Order <select id=\"order\"><option value=\"new\">newest first</option>\
         <option value=\"old\">oldest first</option></select></label>\n\
         <label>GPU <select id=\"shown\"><option value=\"\">all</option>{options}</select></label></p>\n\
         <ul id=\"files\"></ul>\n<script>\nconst files = {files};\n{SCRIPT}</script>\n</body>\n</html>\n"
    )
}

/// `gfx` and what follows of a word: `gfx94X` of `therock-dist-linux-gfx94X-dcgpu-7.12.tar.gz`.
fn family(name: &str) -> Option<&str> {
    let rest = &name[name.find("gfx")?..];
    let end = rest.find(|letter: char| !letter.is_ascii_alphanumeric()).unwrap_or(rest.len());
    (end > 3).then(|| &rest[..end])
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_survive_every_name() {
        let entry = |name: &str, size| FolderEntry { name: name.to_owned(), size };
        let entries =
            [entry("logs/", None), entry("blas_lib_gfx942:xnack+.tar.zst", Some(7)), entry("<a>&\"?#%", Some(1))];
        let page = folder_page("1-linux", &entries, true);
        assert!(page.contains("href=\"logs/index.html\">logs/<"), "{page}");
        assert!(page.contains("href=\"blas_lib_gfx942%3Axnack%2B.tar.zst\">blas_lib_gfx942:xnack+.tar.zst<"), "{page}");
        assert!(page.contains("href=\"%3Ca%3E%26%22%3F%23%25\">&lt;a&gt;&amp;&quot;?#%<"), "{page}");
        assert!(page.contains("../index.html") && !folder_page("x", &[], false).contains("../index.html"));
    }

    #[test]
    fn the_array_cannot_end_the_script() {
        let tarball = |name: &str| TarballEntry { name: name.to_owned(), mtime: 1.5 };
        let page = tarball_page(&[tarball("</script><b>.tar.gz"), tarball("x-gfx94X-dcgpu-1.tar.gz")]);
        assert_eq!(page.matches("</script>").count(), 1);
        let array = page.split("const files = ").nth(1).unwrap().split(";\n").next().unwrap();
        let read: serde_json::Value = serde_json::from_str(array).unwrap();
        assert_eq!(read[0]["name"], "</script><b>.tar.gz");
        assert_eq!(read[0]["mtime"], 1.5);
        assert!(page.contains("<option value=\"gfx94X\">"));
    }
}
