//! Input: the indexes, and packages that a resolver chose from them. Output: what their pages and
//! METADATA say, how large they are, and for which GPUs they have code. Wheels are read by ranges
//! where a server has these.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use rayon::prelude::*;
use regex::Regex;
use rocwheel_archive::FileDigest;
use rocwheel_content::{Content, Hasher, Reader, hexadecimal};
use rocwheel_delta::{IndexSite, ProjectAnswer};
use rocwheel_index::page::{MetadataBeside, PageLink};
use rocwheel_progress::{Failure, Reporter, Unit, WithoutProgress};
use rocwheel_store::attempts::with_connections;
use rocwheel_store::open_remote_sparsely;
use rocwheel_survey::{Checksum, CodeFormat, DistantFile, Kernels, Options, survey_distant};
use rocwheel_tables::target::base_target;
use rocwheel_tables::{DevicePackages, TargetId, TargetTable};
use rocwheel_wheel::read::WheelDirectory;
use rocwheel_wheel::{Headers, WheelName, canonical_name, sdist_metadata_of};
use url::Url;

use crate::set::{ChosenPackage, CodeSeen, PackageOrigin, Seen};

/// Limit in bytes for METADATA, and for a file that is downloaded for it.
const LIMIT: u64 = 64 << 20;

/// The pages of the indexes, each read once.
pub(crate) struct Pages<'a> {
    /// In the order in which they are asked.
    sites: &'a [IndexSite],
    /// The number of those of the question; the others are public.
    own: usize,
    progress: Arc<dyn Reporter>,
    read: BTreeMap<String, Option<(usize, Vec<PageLink>)>>,
    /// Projects that a server refuses (403).
    refused: BTreeSet<String>,
    metadata: Arc<Mutex<BTreeMap<String, MetadataCell>>>,
}

/// METADATA, once it was read. Who reads it holds the lock, so that it is read once.
type MetadataCell = Arc<Mutex<Option<Arc<Headers>>>>;

impl<'a> Pages<'a> {
    pub(crate) fn new(sites: &'a [IndexSite], own: usize, progress: Arc<dyn Reporter>) -> Pages<'a> {
        Pages { sites, own, progress, read: BTreeMap::new(), refused: BTreeSet::new(), metadata: Arc::default() }
    }

    /// With METADATA that another one has read, and reads: most packages are for every Python.
    pub(crate) fn sharing_metadata(self, other: &Pages<'_>) -> Pages<'a> {
        Pages { metadata: Arc::clone(&other.metadata), ..self }
    }

    /// The index of a number.
    pub(crate) fn origin(&self, number: usize) -> PackageOrigin {
        if number < self.own { PackageOrigin::Set(number) } else { PackageOrigin::Public }
    }

    /// The files of a project on the first index that has it, and the number of that index.
    pub(crate) fn project(&mut self, name: &str) -> Result<Option<&(usize, Vec<PageLink>)>, Failure> {
        if !self.read.contains_key(name) {
            let mut found = None;
            for (number, site) in self.sites.iter().enumerate() {
                match site.project(name, &*self.progress)? {
                    ProjectAnswer::Files(links) => {
                        found = Some((number, links));
                        break;
                    }
                    ProjectAnswer::Missing(403) => _ = self.refused.insert(name.to_owned()),
                    ProjectAnswer::Missing(_) => {}
                }
            }
            self.read.insert(name.to_owned(), found);
        }
        Ok(self.read[name].as_ref())
    }

    /// The first project that a resolver's refusal names and a server refuses. pip and uv tell of a
    /// page that they could not read as of one that is not there.
    ///
    /// # Errors
    /// The page of such a project cannot be read.
    pub(crate) fn refused_of(&mut self, refusal: &str) -> Result<Option<String>, Failure> {
        static NAMED: LazyLock<Regex> = LazyLock::new(|| {
            Regex::new(r"([A-Za-z0-9][\w.-]*) was not found|(?:no versions of|requirement) ([A-Za-z0-9][\w.-]*)")
                .expect("a test uses it")
        });
        for found in NAMED.captures_iter(refusal) {
            let name = canonical_name(found.get(1).or_else(|| found.get(2)).map_or("", |name| name.as_str()));
            if self.project(&name)?.is_none() && self.refused.contains(&name) {
                return Ok(Some(name));
            }
        }
        Ok(None)
    }

    /// The link to a file of the indexes, and the number of the index.
    pub(crate) fn link(&mut self, project: &str, file: &str) -> Result<Option<(usize, PageLink)>, Failure> {
        let Some((number, links)) = self.project(project)? else { return Ok(None) };
        Ok(links.iter().find(|link| link.file_name == file).map(|link| (*number, link.clone())))
    }

    /// The METADATA of a package of the indexes: the file beside it, or that in it.
    pub(crate) fn metadata(&mut self, member: &ChosenPackage) -> Result<Option<Arc<Headers>>, Failure> {
        let mut cells = self.metadata.lock().unwrap_or_else(PoisonError::into_inner);
        let cell: MetadataCell = Arc::clone(cells.entry(member.file.clone()).or_default());
        drop(cells);
        let mut known = cell.lock().unwrap_or_else(PoisonError::into_inner);
        if known.is_some() {
            return Ok(known.clone());
        }
        let Some((number, link)) = self.link(&member.name, &member.file)? else { return Ok(None) };
        let headers = self.read_metadata(&self.sites[number], &link)?;
        let (name, version) = (headers.get("Name").unwrap_or_default(), headers.get("Version").unwrap_or_default());
        let is_same = version.parse::<pep440_rs::Version>().is_ok_and(|version| version.to_string() == member.version);
        if canonical_name(&name) != member.name || !is_same {
            let said = format!("the METADATA of `{}` is that of `{name} {version}`", member.file);
            return Err(Failure::message(said).with_hint("check the index with `rocwheel index check --files`"));
        }
        let headers = Arc::new(headers);
        *known = Some(Arc::clone(&headers));
        Ok(Some(headers))
    }

    fn read_metadata(&self, site: &IndexSite, link: &PageLink) -> Result<Headers, Failure> {
        if let MetadataBeside::Yes(hash) = &link.metadata {
            let mut address = link.address.clone();
            address.set_path(&format!("{}.metadata", address.path()));
            if let Some(bytes) = Self::whole(site, &address)? {
                if let Some(hash) = hash {
                    let mut hasher = Hasher::new(hash.algorithm);
                    hasher.update(&bytes);
                    if hexadecimal(&hasher.finish()) != hash.hexadecimal {
                        let said =
                            format!("the METADATA beside `{}` has another hash than its page says", link.file_name);
                        return Err(Failure::message(said).with_hint("check the index with `rocwheel index check`"));
                    }
                }
                return Ok(Headers::parse(&String::from_utf8_lossy(&bytes)));
            }
        }
        let path = PathBuf::from(&link.file_name);
        let attempted = format!("cannot read the METADATA of `{}`", link.file_name);
        if !WheelName::is_wheel(&link.file_name) {
            let bytes = Self::whole(site, &link.address)?.unwrap_or_default();
            return sdist_metadata_of(&path, &bytes[..], &*self.progress).map_err(Failure::attempt(attempted));
        }
        if let Some(size) = link.size.or_else(|| site.fetch.head(&link.address).ok()?.size)
            && let Ok(wheel) = WheelDirectory::open(&path, &self.distant(site, link, size))
            && let Ok(bytes) = wheel.bytes(&format!("{}/METADATA", wheel.info()))
        {
            return Ok(Headers::parse(&String::from_utf8_lossy(&bytes)));
        }
        // The server has no ranges.
        let bytes = Self::whole(site, &link.address)?.unwrap_or_default();
        let wheel = WheelDirectory::open(&path, &bytes).map_err(Failure::attempt(attempted.clone()))?;
        let bytes = wheel.bytes(&format!("{}/METADATA", wheel.info())).map_err(Failure::attempt(attempted))?;
        Ok(Headers::parse(&String::from_utf8_lossy(&bytes)))
    }

    /// The bytes of a small file; `None` if it is not there.
    fn whole(site: &IndexSite, address: &Url) -> Result<Option<Vec<u8>>, Failure> {
        let shown = rocwheel_index::address_without_user(address).to_string();
        let attempted = format!("cannot read `{shown}`");
        let answer =
            site.fetch.get(address, "*/*").map_err(|error| Failure::other(error).context(attempted.clone()))?;
        if answer.status != 200 {
            return Ok(None);
        }
        let mut bytes = Vec::new();
        answer
            .body
            .take(LIMIT + 1)
            .read_to_end(&mut bytes)
            .map_err(|error| Failure::other(error).context(attempted))?;
        if bytes.len() as u64 > LIMIT {
            return Err(Failure::message(format!("cannot read the METADATA of `{shown}`: it is not beside the file"))
                .with_hint("the server has no ranges, and the file is too large to download for it"));
        }
        Ok(Some(bytes))
    }

    fn distant<'s>(&'s self, site: &'s IndexSite, link: &'s PageLink, size: u64) -> Distant<'s> {
        Distant { site, address: &link.address, size, progress: Arc::clone(&self.progress) }
    }

    /// Looks into wheels. Those of the question's own indexes are searched for GPU code as well.
    pub(crate) fn look_into(&mut self, members: &[ChosenPackage]) -> Result<Vec<Seen>, Failure> {
        let mut links = Vec::new();
        for member in members {
            links.push(self.link(&member.name, &member.file)?);
        }
        let (progress, this) = (Arc::clone(&self.progress), &*self);
        let _stage = progress.stage("Looking into wheels", Some(members.len() as u64), Unit::Items);
        let seen = links.par_iter().map(|link| {
            let seen = link.as_ref().map_or_else(Seen::elsewhere, |(number, link)| this.seen(*number, link));
            progress.advance(1);
            seen
        });
        let seen = with_connections(|| seen.collect());
        progress.check()?;
        Ok(seen)
    }

    /// What is in a wheel. One for any system that is no part for a GPU has no GPU code, and one of
    /// the public index is not searched for it.
    fn seen(&self, number: usize, link: &PageLink) -> Seen {
        let site = &self.sites[number];
        if !WheelName::is_wheel(&link.file_name) {
            return Seen::not_looked("it is a source distribution, and what it builds is not known");
        }
        let Some(size) = link.size.or_else(|| site.fetch.head(&link.address).ok()?.size) else {
            return Seen::not_looked("the server does not say its size");
        };
        let distant = self.distant(site, link, size);
        let opened = WheelDirectory::open(Path::new(&link.file_name), &distant);
        let unpacked = opened.as_ref().ok().map(|wheel| wheel.members().iter().map(|member| member.size).sum());
        let is_part = link
            .file_name
            .parse::<WheelName>()
            .is_ok_and(|name| target_of(&canonical_name(&name.distribution)).is_some());
        let is_pure = link.file_name.ends_with("-any.whl") && !is_part;
        if is_pure || self.origin(number) == PackageOrigin::Public {
            return Seen { unpacked, code: CodeSeen::Nothing };
        }
        if let Err(error) = &opened {
            return Seen { unpacked, code: CodeSeen::NotLooked(last_cause(error)) };
        }
        Seen { unpacked, code: self.code(&distant, &link.file_name) }
    }

    /// The GPU code of a wheel, by its tables.
    fn code(&self, distant: &Distant<'_>, name: &str) -> CodeSeen {
        let (path, name) = (PathBuf::from(name), name.to_owned());
        let file = DistantFile { path, name, size: distant.size, open: &|| distant.reader() };
        let options = Options {
            scratch: PathBuf::new(),
            targets: None,
            kernels: Kernels::Counted,
            digest: FileDigest::Skip,
            checksum: Checksum::Skip,
        };
        let surveyed = match survey_distant(&file, &options, &WithoutProgress(&*self.progress)) {
            Ok(surveyed) => surveyed,
            Err(error) => return CodeSeen::NotLooked(last_cause(&error)),
        };
        let code = surveyed.iter().flat_map(|file| &file.code_objects).filter(|code| code.code != CodeFormat::Bitcode);
        let mut targets: BTreeMap<String, u64> = BTreeMap::new();
        for code in code {
            *targets.entry(code.target.clone()).or_default() += code.size;
        }
        let mut unread = surveyed.iter().flat_map(|file| &file.findings).map(|finding| &finding.message);
        match unread.next() {
            first if !targets.is_empty() => CodeSeen::For(targets, first.is_some()),
            Some(first) => CodeSeen::NotLooked(first.clone()),
            None if surveyed.iter().any(|file| file.has_cuda) => CodeSeen::Cuda,
            None => CodeSeen::Nothing,
        }
    }
}

/// The words of the last cause of an error: the others name the file.
fn last_cause(error: &dyn std::error::Error) -> String {
    std::iter::successors(Some(error), |error| error.source()).last().map_or_else(String::new, ToString::to_string)
}

/// A file on a server, or in a folder.
struct Distant<'a> {
    site: &'a IndexSite,
    address: &'a Url,
    size: u64,
    progress: Arc<dyn Reporter>,
}

impl Distant<'_> {
    fn reader(&self) -> Reader {
        let fetch = Arc::clone(&self.site.fetch);
        open_remote_sparsely(fetch, self.address.clone(), self.size, Arc::clone(&self.progress))
    }
}

impl Content for Distant<'_> {
    fn size(&self) -> u64 {
        self.size
    }

    fn open(&self) -> std::io::Result<Reader> {
        Ok(self.reader())
    }
}

/// The canonical names of packages and extras that serve a GPU: of its target, of the generic
/// target whose code it runs, and of its families; the narrowest first.
pub(crate) fn served_by(target: &str) -> Vec<String> {
    let packages = DevicePackages::embedded();
    let mut names = packages.chain(&packages.key(target));
    names.extend(TargetTable::embedded().get(target).into_iter().flat_map(|row| row.families.iter().cloned()));
    names.iter().map(|name| canonical_name(name)).collect()
}

/// `true` if a GPU runs code that is for `code`: its target with or without features, or its
/// generic target.
pub(crate) fn runs(target: &str, code: &str) -> bool {
    let own = TargetId::plain(target);
    let generic = own.generic().map(|generic| generic.processor);
    [Some(own.processor), generic].into_iter().flatten().any(|name| name == base_target(code))
}

/// Bytes of the code that a GPU loads. Of code for settings that exclude each other, such as
/// `xnack+` and `xnack-`, it loads one: the largest counts.
pub(crate) fn bytes_for(target: &str, code: &BTreeMap<String, u64>) -> u64 {
    let own = code.iter().filter(|(name, _)| runs(target, name));
    let (with_settings, plain): (Vec<_>, Vec<_>) = own.partition(|(name, _)| name.contains(':'));
    let largest = with_settings.into_iter().map(|(_, bytes)| *bytes).max().unwrap_or_default();
    plain.into_iter().map(|(_, bytes)| *bytes).sum::<u64>() + largest
}

/// The target in the name of a package that is for one.
pub(crate) fn target_of(project: &str) -> Option<&str> {
    rocwheel_pages::views::target(project)
}

/// `true` for a name that only the indexes of the question may provide: a part of ROCm, code for a
/// GPU, and a version that only a build for ROCm has.
pub(crate) fn is_of_set(member: &ChosenPackage) -> bool {
    let is_rocm = member.name == "rocm" || member.name.starts_with("rocm-sdk");
    is_rocm || target_of(&member.name).is_some() || member.version.contains("+rocm")
}

/// The GPU packages of NVIDIA that a build for CUDA brings.
pub(crate) fn is_cuda(member: &ChosenPackage) -> bool {
    let local = member.version.split_once('+').map_or("", |(_, local)| local);
    let is_cu = local.strip_prefix("cu").is_some_and(|rest| rest.starts_with(|digit: char| digit.is_ascii_digit()));
    is_cu || (member.name.starts_with("nvidia-") && member.origin == PackageOrigin::Public)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_code_for_settings_that_exclude_each_other_one_is_loaded() {
        let sizes = [("gfx90a", 1), ("gfx90a:xnack+", 20), ("gfx90a:xnack-", 30), ("gfx942", 400)];
        let sizes = sizes.map(|(target, bytes)| (target.to_owned(), bytes)).into();
        assert_eq!(bytes_for("gfx90a", &sizes), 31);
        assert_eq!(bytes_for("gfx1100", &sizes), 0);
    }
}
