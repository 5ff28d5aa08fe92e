//! Input: a requirement with extras, and the wheel that it means. Output: the error that names what
//! the extras require. `get` follows no requirements: each name is one wheel, and a wheel without
//! its extras would look like all that was asked for.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use rocwheel_content::{Content, Reader};
use rocwheel_index::page::MetadataBeside;
use rocwheel_index::requirement::{Requirement, Requirements};
use rocwheel_progress::{Exit, Reporter, Silent, in_backticks, shell_word, suggestion};
use rocwheel_store::open_remote;
use rocwheel_wheel::read::WheelDirectory;
use rocwheel_wheel::{Headers, canonical_name};

use crate::chosen_wheel::ChosenWheel;
use crate::error::Error;
use crate::transfer::RemoteFile;

/// Limit in bytes for METADATA.
const METADATA: u64 = 64 << 20;

/// The error for a requirement with extras; `text` is how the user wrote it.
pub(crate) fn refused(
    chosen: &ChosenWheel<'_>,
    (requirement, text): (&Requirement, &str),
    reporter: &dyn Reporter,
) -> Result<Error, Error> {
    let extras: BTreeSet<String> = requirement.extras.iter().map(|extra| canonical_name(extra)).collect();
    let (reason, hint) = match metadata(chosen, reporter)? {
        Some(metadata) => advice(chosen, &extras, &Requirements::of(&Headers::parse(&metadata))),
        None => (not_followed(&extras), "give the names of the distributions that it requires".to_owned()),
    };
    Ok(Error::Get { attempted: format!("get `{text}`"), reason, hint, exit: Exit::Usage })
}

/// Why the extras are refused, and what to do.
fn advice(chosen: &ChosenWheel<'_>, extras: &BTreeSet<String>, declared: &Requirements) -> (String, String) {
    let name = canonical_name(&chosen.name.distribution);
    let version = chosen.name.version.replace('_', "-");
    if let Some(unknown) = extras.iter().find(|extra| !declared.extras.contains(*extra)) {
        let reason = format!("`{name}` {version} has no extra `{unknown}`");
        return (reason, suggestion(unknown, declared.extras.iter().map(String::as_str)));
    }
    let none = BTreeSet::new();
    let of_extras = declared.all.iter().filter(|one| one.may_apply(extras) && !one.may_apply(&none));
    let required: BTreeSet<&str> = of_extras.map(without_marker).collect();
    if required.is_empty() {
        let extras = in_backticks(extras);
        return (format!("the extra {extras} requires nothing"), "leave it out".to_owned());
    }
    let own = format!("{name}=={version}");
    let words: Vec<String> = std::iter::once(own.as_str()).chain(required).map(shell_word).collect();
    (not_followed(extras), format!("give what it requires by name: {}", words.join(" ")))
}

fn not_followed(extras: &BTreeSet<String>) -> String {
    format!("requirements are not followed, so nothing would be downloaded for the extra {}", in_backticks(extras))
}

/// The text of a requirement without its condition.
fn without_marker(requirement: &Requirement) -> &str {
    requirement.text.split(';').next().unwrap_or_default().trim()
}

/// METADATA of a wheel of an index; `None` if it cannot be read.
fn metadata(chosen: &ChosenWheel<'_>, reporter: &dyn Reporter) -> Result<Option<String>, Error> {
    let link = &chosen.link;
    let (fetch, transferred) = (&*chosen.site.fetch, &AtomicU64::new(0));
    let remote = RemoteFile { fetch, address: &link.address, transferred, reporter };
    let mut beside = link.address.clone();
    beside.set_path(&format!("{}.metadata", link.address.path()));
    if link.metadata != MetadataBeside::No
        && let Ok(Some(bytes)) = (RemoteFile { address: &beside, ..remote }).small(METADATA)?
    {
        return Ok(Some(String::from_utf8_lossy(&bytes).into_owned()));
    }
    let size = match link.size {
        Some(size) => Some(size),
        None => remote.size()?,
    };
    let Some(size) = size else { return Ok(None) };
    let wheel = WheelDirectory::open(Path::new(&link.file_name), &RemoteWheel { chosen, size });
    let bytes = wheel.and_then(|wheel| wheel.bytes(&format!("{}/METADATA", wheel.info())));
    reporter.check()?;
    Ok(bytes.ok().map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
}

/// The wheel on its server.
struct RemoteWheel<'a> {
    chosen: &'a ChosenWheel<'a>,
    /// Size in bytes.
    size: u64,
}

impl Content for RemoteWheel<'_> {
    fn size(&self) -> u64 {
        self.size
    }

    fn open(&self) -> io::Result<Reader> {
        let (fetch, address) = (Arc::clone(&self.chosen.site.fetch), self.chosen.link.address.clone());
        Ok(open_remote(fetch, address, self.size, Arc::new(Silent)))
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use rocwheel_progress::Hint as _;
    use rocwheel_store::FolderSite;
    use rocwheel_wheel::Platform;
    use url::Url;

    use super::*;
    use crate::{GetRequest, IndexSite, plan_get};

    const FILE: &str = "demo_host-1.0-py3-none-any.whl";
    const TEXT: &str = "Metadata-Version: 2.4\nName: demo-host\nVersion: 1.0\nProvides-Extra: device-gfx942\n\
                        Provides-Extra: empty\nRequires-Dist: numpy\n\
                        Requires-Dist: demo-device-gfx942==1.0; extra == 'device-gfx942'\n\
                        Requires-Dist: helper>1; extra == 'device-gfx942' and sys_platform == 'linux'\n";

    /// Asks an index with one wheel, which has METADATA beside it or not, for a name.
    fn ask(name: &str, has_metadata: bool) -> (Exit, String, String) {
        let folder = tempfile::tempdir().unwrap();
        let project = folder.path().join("demo-host");
        fs_err::create_dir(&project).unwrap();
        let beside = if has_metadata { "data-core-metadata=true" } else { "" };
        fs_err::write(project.join("index.html"), format!("<a href={FILE}#sha256=00 {beside}>x</a>")).unwrap();
        if has_metadata {
            fs_err::write(project.join(format!("{FILE}.metadata")), TEXT).unwrap();
        } else {
            let mut archive = zip::ZipWriter::new(fs_err::File::create(project.join(FILE)).unwrap());
            for (member, text) in [("METADATA", TEXT), ("WHEEL", "Wheel-Version: 1.0\n"), ("RECORD", "")] {
                let options = zip::write::SimpleFileOptions::default();
                archive.start_file(format!("demo_host-1.0.dist-info/{member}"), options).unwrap();
                archive.write_all(text.as_bytes()).unwrap();
            }
            archive.finish().unwrap();
        }
        let sites = [IndexSite { root: Url::from_directory_path(folder.path()).unwrap(), fetch: Arc::new(FolderSite) }];
        let output = folder.path().join("out");
        let request =
            GetRequest { name, sites: &sites, have: &[], output: &output, python: None, platform: Platform::Linux };
        let error = plan_get(request, &Silent).unwrap_err();
        assert!(!output.exists(), "nothing is downloaded");
        let hint = error.hint().unwrap_or_default();
        (error.exit(), error.to_string(), hint)
    }

    #[test]
    fn an_extra_is_refused_with_the_names_of_what_it_requires() {
        for has_metadata in [true, false] {
            let (exit, message, hint) = ask("demo-host[device_gfx942]==1.0", has_metadata);
            assert_eq!(exit, Exit::Usage);
            assert!(message.starts_with("cannot get `demo-host[device_gfx942]==1.0`: "), "{message}");
            assert!(message.ends_with("for the extra `device-gfx942`"), "{message}");
            assert_eq!(hint, "give what it requires by name: demo-host==1.0 demo-device-gfx942==1.0 'helper>1'");
        }
    }

    #[test]
    fn an_unknown_extra_is_refused_with_the_known_ones() {
        let (exit, message, hint) = ask("demo-host[nonsense]", true);
        assert_eq!(
            (exit, message.as_str()),
            (Exit::Usage, "cannot get `demo-host[nonsense]`: `demo-host` 1.0 has no extra `nonsense`")
        );
        assert_eq!(hint, "there are `device-gfx942`, `empty`");
        let (_, message, hint) = ask("demo-host[empty]", true);
        assert!(message.ends_with("the extra `empty` requires nothing") && hint == "leave it out", "{message}");
    }
}
