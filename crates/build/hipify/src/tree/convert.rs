//! Input: a source. Output: its text and, with a resolver for includes, its result.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use rocwheel_progress::Failure;

use super::{File, LeftoverSearch, Request, Status};
use crate::error::{FileTrouble, no_tree, not_a_file, not_unicode, or_another_folder};
use crate::transform::{self, BREADCRUMB, Conversion, Decoded, IncludeForm, path};
use crate::{ConversionProblem, Defects, Setting, Tables, Trouble, unmapped};

#[derive(Debug)]
pub(super) enum Failed {
    /// The original gives no result either.
    Trouble(FileTrouble),
    Other(Failure),
}

impl From<io::Error> for Failed {
    fn from(error: io::Error) -> Self {
        Self::Other(or_another_folder(error.into()))
    }
}

#[derive(Debug)]
pub(super) struct Converter<'a> {
    pub(super) root: PathBuf,
    pub(super) request: &'a Request,
    pub(super) tables: &'a Tables,
}

#[derive(Debug)]
pub(super) struct Source {
    pub(super) path: String,
    pub(super) bytes: Vec<u8>,
}

/// The result of one source.
#[derive(Debug)]
pub(super) struct Converted {
    pub(super) file: File,
    /// The bytes to write to the output; `None` if nothing is written.
    pub(super) bytes: Option<Vec<u8>>,
    pub(super) source_bytes: u64,
}

impl<'a> Converter<'a> {
    pub(super) fn conversion(&self) -> Conversion<'a> {
        let Request { setting, launches, defects, .. } = *self.request;
        Conversion { tables: self.tables, setting, launches, defects }
    }

    pub(super) fn read(&self, path: &str) -> Result<Source, Failed> {
        let place = self.root.join(path);
        if !fs_err::metadata(&place)?.is_file() {
            return Err(Failed::Other(not_a_file(path)));
        }
        Ok(Source { path: path.to_owned(), bytes: fs_err::read(&place)? })
    }

    pub(super) fn decode<'s>(&self, source: &'s Source) -> Result<Decoded<'s>, Failed> {
        transform::decode(&source.bytes, self.request.defects)
            .map_err(|trouble| Failed::Trouble(FileTrouble { path: source.path.clone(), trouble }))
    }

    /// Applies the edits that PyTorch makes before everything else.
    pub(super) fn edited<'t>(&self, path: &str, text: &'t str) -> Cow<'t, str> {
        let edits = self.request.edits.iter().filter(|edits| edits.files.iter().any(|file| file == path));
        edits.flat_map(|edits| &edits.replacements).fold(Cow::Borrowed(text), |text, (from, to)| {
            if text.contains(from.as_str()) { Cow::Owned(text.replace(from, to)) } else { text }
        })
    }

    /// `true` if the source is itself a result of hipify. Any line end may follow the first line.
    pub(super) fn is_generated(source: &Source) -> bool {
        let line = BREADCRUMB.trim_end().as_bytes();
        source.bytes.strip_prefix(line).is_some_and(|rest| matches!(rest.first(), Some(b'\n' | b'\r')))
    }

    /// The result of a file that is not converted.
    pub(super) fn left_alone(source: &Source, status: Status) -> Converted {
        let file = File {
            source: source.path.clone(),
            output: None,
            status,
            replacements: BTreeMap::new(),
            launches: 0,
            header: false,
            unsupported: Vec::new(),
            unmapped: Vec::new(),
            left: Vec::new(),
        };
        Converted { file, bytes: None, source_bytes: source.bytes.len() as u64 }
    }

    pub(super) fn convert(
        &self,
        source: &Source,
        resolve: &mut dyn FnMut(IncludeForm, &str) -> Option<String>,
    ) -> Result<Converted, Failed> {
        if Self::is_generated(source) {
            return Ok(Self::left_alone(source, Status::Generated));
        }
        let decoded = self.decode(source)?;
        let edited = self.edited(&source.path, &decoded.text);
        let conversion = self.conversion();
        let worded = conversion.words(&source.path, &edited);
        let text = conversion.includes(worded.text, resolve);
        let finished = conversion.finish(&source.path, text);
        let finished =
            finished.map_err(|trouble| Failed::Trouble(FileTrouble { path: source.path.clone(), trouble }))?;
        let mut result = Self::left_alone(source, Status::Current);
        let file = &mut result.file;
        file.unsupported =
            worded.counts.keys().filter(|word| self.tables.unsupported.contains(*word)).cloned().collect();
        file.replacements = worded.counts;
        (file.launches, file.header, file.left) = (finished.launches, finished.header, finished.left);
        if self.request.survey == LeftoverSearch::Unmapped {
            file.unmapped = unmapped::find(&finished.text);
            // Line numbers refer to the source, which does not have the header.
            file.unmapped.iter_mut().for_each(|name| name.line -= usize::from(finished.header));
        }
        let output = path::hip_path(&source.path, self.request.setting);
        let same_folder = path::split(&output).0 == path::split(&source.path).0;
        if self.request.setting == Setting::Extension && same_folder && finished.text == edited {
            file.status = Status::Untouched;
            return Ok(result);
        }
        let in_place = output == source.path;
        file.output = Some(output.clone());
        let existing = if in_place { None } else { self.existing(&output)? };
        let text = if !in_place && transform::has_breadcrumb(&source.path) {
            format!("{BREADCRUMB}{}", finished.text)
        } else {
            finished.text.into_owned()
        };
        let (is_current, status) = match &existing {
            _ if in_place => (text == decoded.text, Status::Changed),
            None => (false, Status::New),
            Some(existing) => (self.is_same(existing, &decoded, &text)?, Status::Changed),
        };
        if !is_current {
            file.status = status;
            result.bytes = Some(decoded.encode(text));
        }
        Ok(result)
    }

    /// The file that the result would replace.
    fn existing(&self, output: &str) -> Result<Option<Source>, Failed> {
        match fs_err::metadata(self.root.join(output)) {
            Ok(_) => self.read(output).map(Some),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// `true` if an earlier result has the same text, regardless of line ends.
    fn is_same(&self, existing: &Source, decoded: &Decoded<'_>, text: &str) -> Result<bool, Failed> {
        if existing.bytes == text.as_bytes() {
            return Ok(true);
        }
        match self.decode(existing) {
            Ok(earlier) => Ok(earlier.encode(earlier.text.to_string()) == decoded.encode(text.to_owned())),
            Err(Failed::Trouble(FileTrouble {
                trouble: Trouble { problem: ConversionProblem::InvalidText, .. },
                ..
            })) if self.request.defects == Defects::Fix => Ok(false),
            Err(failed) => Err(failed),
        }
    }
}

/// The canonical path of the tree. It must be UTF-8, because paths of includes are derived from it.
pub(super) fn root(tree: &Path) -> Result<PathBuf, Failure> {
    if !tree.is_dir() {
        return Err(no_tree(tree));
    }
    let root = rocwheel_system::canonicalize(tree)?;
    if root.to_str().is_none() {
        return Err(not_unicode(root.display()));
    }
    Ok(root)
}
