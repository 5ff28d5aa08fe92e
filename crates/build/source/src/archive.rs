//! Input: a source archive (sdist or tarball). Output: its files in a folder, and facts for a
//! commit of them.

use std::io::{self, BufReader, Read};
use std::path::{Component, Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use rocwheel_content::{PACK_WITHOUT_SPARSE, hexadecimal, open_regular, pax_sparse_name, sha256_of};
use rocwheel_progress::{Failure, Interrupted, Reporter, Unit, Watched};
use tar::EntryType;

/// Memory limit of the xz decoder in bytes; level 9 needs 65 MiB.
const XZ_MEMORY: u64 = 256 << 20;

#[derive(Debug, PartialEq, Eq)]
pub struct Unpacked {
    /// The newest time stamp in the archive, in seconds since 1970.
    pub newest: u64,
    pub files: u64,
}

/// SHA-256 of a file, in lower-case hexadecimal.
pub fn sha256(path: &Path, reporter: &dyn Reporter) -> Result<String, Failure> {
    let file = open_regular(path)?;
    let size = file.metadata()?.len();
    let stage = reporter.stage("Checking the archive", Some(size), Unit::Bytes);
    let digest = sha256_of(Watched::new(file, reporter));
    drop(stage);
    let digest =
        digest.map_err(|error| if reporter.interrupted() { Interrupted.into() } else { Failure::from(error) })?;
    Ok(hexadecimal(&digest))
}

/// Unpacks a tar archive into an empty folder. If everything in it is in one folder, that folder is
/// dropped. Of the modes only the executable bit is kept, as in git.
///
/// # Errors
/// The file is not a tar archive, is damaged or has no files; or it has devices, sparse files in
/// the PAX format, or members or links that lead out of the folder.
pub fn unpack(archive: &Path, folder: &Path, reporter: &dyn Reporter) -> Result<Unpacked, Failure> {
    let file = open_regular(archive)?;
    let stage = reporter.stage("Unpacking the archive", Some(file.metadata()?.len()), Unit::Bytes);
    let unpacked = unpack_into(archive, file, folder, reporter)?;
    drop(stage);
    if unpacked.files == 0 {
        return Err(refused(archive, "it has no files"));
    }
    lift(folder)?;
    Ok(unpacked)
}

fn refused(archive: &Path, reason: impl std::fmt::Display) -> Failure {
    Failure::message(format!("could not take the source archive `{}`: {reason}", archive.display()))
        .with_hint("a `.tar.gz`, `.tar.xz`, `.tar.bz2`, `.tar.zst` or `.tar` with sources is needed")
}

fn unpack_into(path: &Path, file: fs_err::File, folder: &Path, reporter: &dyn Reporter) -> Result<Unpacked, Failure> {
    let failed = |error: io::Error| {
        if reporter.interrupted() { Interrupted.into() } else { refused(path, error) }
    };
    let mut tarball = tar::Archive::new(decoder(BufReader::new(Watched::new(file, reporter))).map_err(failed)?);
    let mut unpacked = Unpacked { newest: 0, files: 0 };
    // Links are made last, so that nothing can be written through one.
    let mut links: Vec<(PathBuf, PathBuf)> = Vec::new();
    let mut paths = rocwheel_system::PathCheck::default();
    for entry in tarball.entries().map_err(failed)? {
        let mut entry = entry.map_err(failed)?;
        let kind = entry.header().entry_type();
        if matches!(kind, EntryType::XGlobalHeader) {
            continue;
        }
        let name = entry.path().map_err(failed)?.into_owned();
        if let Some(name) = pax_sparse_name(&mut entry).map_err(failed)? {
            return Err(refused(
                path,
                format!("`{name}` is a sparse file in the PAX format, which is not supported: {PACK_WITHOUT_SPARSE}"),
            ));
        }
        let Some(name) = plain(&name) else {
            return Err(refused(path, format!("`{}` would be outside it", name.display())));
        };
        if name.as_os_str().is_empty() {
            continue;
        }
        if name.components().any(|part| part.as_os_str().eq_ignore_ascii_case(".git")) {
            return Err(refused(path, format!("it contains a repository: `{}`", name.display())));
        }
        paths.check(&rocwheel_system::slashed(&name).to_string_lossy()).map_err(failed)?;
        unpacked.newest = unpacked.newest.max(entry.header().mtime().unwrap_or(0));
        let place = folder.join(&name);
        let parent = if kind == EntryType::Directory { Some(place.as_path()) } else { place.parent() };
        fs_err::create_dir_all(parent.unwrap_or(folder))?;
        match kind {
            EntryType::Directory => {}
            EntryType::Regular | EntryType::Continuous | EntryType::GNUSparse => {
                let executable = entry.header().mode().unwrap_or(0) & 0o100 != 0;
                let size = entry.size();
                let modified = entry.header().mtime().ok();
                if write(&place, &mut entry, executable, modified).map_err(failed)? != size {
                    return Err(refused(path, format!("it ends inside `{}`", name.display())));
                }
                unpacked.files += 1;
            }
            EntryType::Symlink | EntryType::Link => {
                let target = entry.link_name().map_err(failed)?.map(std::borrow::Cow::into_owned).unwrap_or_default();
                if kind == EntryType::Link {
                    let first = plain(&target).filter(|first| folder.join(first).is_file());
                    let first = first.ok_or_else(|| {
                        refused(
                            path,
                            format!(
                                "`{}` is a link to `{}`, which is no earlier file",
                                name.display(),
                                target.display()
                            ),
                        )
                    })?;
                    fs_err::copy(folder.join(first), &place)?;
                } else {
                    if !stays_inside(&name, &target) {
                        let reason =
                            format!("the link `{}` leads out of it, to `{}`", name.display(), target.display());
                        return Err(refused(path, reason));
                    }
                    links.push((target, place));
                }
                unpacked.files += 1;
            }
            _ => return Err(refused(path, format!("`{}` is neither a file, a folder nor a link", name.display()))),
        }
    }
    rocwheel_system::make_links(links).map_err(failed)?;
    Ok(unpacked)
}

/// `modified` is in seconds since 1970: `make` compares the time stamps of generated sources with
/// those of the files that they are generated from.
fn write(place: &Path, content: &mut impl Read, executable: bool, modified: Option<u64>) -> io::Result<u64> {
    let mut options = fs_err::OpenOptions::new();
    options.write(true).create_new(true);
    let mut file = rocwheel_system::create_mode(&mut options, if executable { 0o755 } else { 0o644 }).open(place)?;
    let length = io::copy(content, &mut file)?;
    if let Some(modified) = modified.and_then(|seconds| UNIX_EPOCH.checked_add(Duration::from_secs(seconds))) {
        file.file().set_modified(modified)?;
    }
    Ok(length)
}

/// A reader for the compression that the first bytes show; names are not reliable.
fn decoder<'a>(mut file: impl io::BufRead + 'a) -> io::Result<Box<dyn Read + 'a>> {
    let start = file.fill_buf()?.iter().copied().take(6).collect::<Vec<u8>>();
    Ok(match &start[..] {
        [0x1f, 0x8b, ..] => Box::new(flate2::bufread::MultiGzDecoder::new(file)),
        [0xfd, b'7', b'z', b'X', b'Z', 0] => {
            let stream = liblzma::stream::Stream::new_stream_decoder(XZ_MEMORY, liblzma::stream::CONCATENATED)?;
            Box::new(liblzma::bufread::XzDecoder::new_stream(file, stream))
        }
        [b'B', b'Z', b'h', ..] => Box::new(bzip2::bufread::MultiBzDecoder::new(file)),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => Box::new(zstd::stream::read::Decoder::with_buffer(file)?),
        [b'P', b'K', ..] => return Err(io::Error::other("it is a zip archive")),
        _ => Box::new(file),
    })
}

/// A relative path of plain names. `.` is skipped; `..` and `/` are refused.
fn plain(path: &Path) -> Option<PathBuf> {
    let mut names = PathBuf::new();
    for part in path.components() {
        match part {
            Component::Normal(name) => names.push(name),
            Component::CurDir => {}
            _ => return None,
        }
    }
    Some(names)
}

/// `true` if a link at `place` with this target leads to a path below the root.
fn stays_inside(place: &Path, target: &Path) -> bool {
    let mut depth = place.components().count() as i64 - 1;
    for part in target.components() {
        match part {
            Component::Normal(_) => depth += 1,
            Component::CurDir => {}
            Component::ParentDir => depth -= 1,
            _ => return false,
        }
        if depth < 0 {
            return false;
        }
    }
    !target.as_os_str().is_empty()
}

/// Moves everything one folder up if it is all in one folder.
fn lift(folder: &Path) -> Result<(), Failure> {
    let entries = fs_err::read_dir(folder)?.collect::<io::Result<Vec<_>>>()?;
    let [only] = &entries[..] else { return Ok(()) };
    if !only.file_type()?.is_dir() {
        return Ok(());
    }
    // An entry of the folder may have the folder's name.
    let aside = folder.join(".rocwheel-lifted");
    rocwheel_system::rename(only.path(), &aside)?;
    for entry in fs_err::read_dir(&aside)? {
        let entry = entry?;
        rocwheel_system::rename(entry.path(), folder.join(entry.file_name()))?;
    }
    Ok(fs_err::remove_dir(&aside)?)
}

#[cfg(test)]
mod tests {
    use rocwheel_progress::Silent;

    use rocwheel_system::FileMetadata as _;

    use super::*;

    /// A tar archive of entries: name, kind, and link target or content. Names are written raw, so
    /// they can be malicious.
    fn tarball(entries: &[(&str, EntryType, &str)]) -> Vec<u8> {
        let mut builder = tar::Builder::new(Vec::new());
        for (name, kind, text) in entries {
            let mut header = tar::Header::new_gnu();
            header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
            header.set_entry_type(*kind);
            header.set_mode(if name.contains("run.") { 0o755 } else { 0o644 });
            header.set_mtime(1_700_000_000);
            let content = if *kind == EntryType::Regular { text.as_bytes() } else { b"" };
            if *kind != EntryType::Regular {
                header.as_old_mut().linkname[..text.len()].copy_from_slice(text.as_bytes());
            }
            header.set_size(content.len() as u64);
            header.set_cksum();
            builder.append(&header, content).unwrap();
        }
        builder.into_inner().unwrap()
    }

    fn take(bytes: &[u8]) -> (tempfile::TempDir, Result<Unpacked, Failure>) {
        let folder = tempfile::tempdir().unwrap();
        let archive = folder.path().join("a.tar");
        fs_err::write(&archive, bytes).unwrap();
        let tree = folder.path().join("tree");
        fs_err::create_dir(&tree).unwrap();
        let unpacked = unpack(&archive, &tree, &Silent);
        (folder, unpacked)
    }

    #[test]
    fn the_outer_folder_is_left_out_whatever_it_is_called() {
        let entries = [
            ("x/", EntryType::Directory, ""),
            ("x/x", EntryType::Regular, "inner"),
            ("x/run.sh", EntryType::Regular, "#!"),
            ("x/d/link", EntryType::Symlink, "../x"),
            ("x/d/hard", EntryType::Link, "x/x"),
        ];
        let plain = tarball(&entries);
        let gz = {
            let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            io::Write::write_all(&mut encoder, &plain).unwrap();
            encoder.finish().unwrap()
        };
        for bytes in [plain.clone(), gz, zstd::encode_all(&plain[..], 1).unwrap()] {
            let (folder, unpacked) = take(&bytes);
            assert_eq!(unpacked.unwrap(), Unpacked { newest: 1_700_000_000, files: 4 });
            let tree = folder.path().join("tree");
            for name in ["x", "d/link", "d/hard"] {
                assert_eq!(fs_err::read_to_string(tree.join(name)).unwrap(), "inner");
            }
            let mode = |name: &str| fs_err::metadata(tree.join(name)).unwrap().mode(&tree.join(name)) & 0o100;
            assert_eq!((mode("run.sh"), mode("x")), (0o100, 0));
            // `make` would generate again what is older than its origin.
            let modified = fs_err::metadata(tree.join("x")).unwrap().modified().unwrap();
            assert_eq!(modified, UNIX_EPOCH + Duration::from_secs(1_700_000_000));
        }
    }

    #[test]
    fn what_would_lie_elsewhere_is_refused() {
        for (entries, words) in [
            (vec![("../x", EntryType::Regular, "")], "`../x` would be outside"),
            (vec![("/x", EntryType::Regular, "")], "would be outside"),
            (vec![("a/l", EntryType::Symlink, "../../x")], "leads out of it"),
            (vec![("a/l", EntryType::Symlink, "/etc/passwd")], "leads out of it"),
            (vec![("a/l", EntryType::Link, "/etc/passwd")], "which is no earlier file"),
            (vec![("a/.git/config", EntryType::Regular, "")], "it contains a repository"),
            (vec![("a", EntryType::Fifo, "")], "neither a file"),
            (vec![("a/", EntryType::Directory, "")], "has no files"),
            (vec![("a/x", EntryType::Regular, "1"), ("a/x", EntryType::Regular, "2")], "exists"),
        ] {
            let (folder, unpacked) = take(&tarball(&entries));
            let error = unpacked.unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
            assert!(!folder.path().join("x").exists());
        }
        let records = "22 GNU.sparse.major=1\n22 GNU.sparse.minor=0\n";
        let mut header = tar::Header::new_ustar();
        header.set_entry_type(EntryType::XHeader);
        header.set_size(records.len() as u64);
        header.set_cksum();
        let mut builder = tar::Builder::new(Vec::new());
        builder.append(&header, records.as_bytes()).unwrap();
        let mut bytes = builder.into_inner().unwrap();
        bytes.truncate(1024);
        bytes.extend(tarball(&[("a/x", EntryType::Regular, "1\n0\n4\n")]));
        let error = take(&bytes).1.unwrap_err().to_string();
        assert!(error.contains("`a/x` is a sparse file in the PAX format"), "{error}");
        assert!(take(b"PK\x03\x04").1.unwrap_err().to_string().contains("zip archive"));
        assert!(take(b"nonsense").1.is_err());
        let whole = tarball(&[("a/x", EntryType::Regular, &"1".repeat(5000))]);
        assert!(take(&whole[..2000]).1.is_err());
        let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        io::Write::write_all(&mut gz, &whole).unwrap();
        let gz = gz.finish().unwrap();
        assert!(take(&gz[..gz.len() - 20]).1.is_err());
    }
}
