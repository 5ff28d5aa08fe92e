//! `rocwheel compat upload_python_packages`, `manage` and `manage_structured`: Python packages of a
//! run into its folder, and pages of an index in a bucket.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::Args;
use rocwheel_console::failure::{Result, Usage};
use rocwheel_console::printer::Printer;
use rocwheel_console::store::open_bucket;
use rocwheel_console::{environment, message};
use rocwheel_fetch::{BuildSystem, FolderEntry, RunPlace, StreamType, folder_page};
use rocwheel_progress::Exit;
use rocwheel_store::{
    NameFilter, S3Address, S3Options, Signing, Store, StoreLocking, UploadOptions, collect_uploads, plan_uploads,
    upload,
};

use super::folder_pages::PAGE;
use super::translation::Translation;
use super::{fetch_artifacts, given};

/// What the page of a folder lists.
const PACKAGES: [&str; 2] = ["*.whl", "*.tar.gz"];

/// upload_python_packages: the packages of a run into its folder, with a page
///
/// The outputs of the step are package_find_links_url and kpack_split. A file that cannot be
/// uploaded is an error, and so is another file of the same name.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Folder with the packages, or with a folder `dist`
    #[arg(long, value_name = "DIR")]
    input_packages_dir: PathBuf,
    /// Group of the packages; not with --multiarch
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    artifact_group: String,
    /// Number of the run
    #[arg(long, value_name = "ID")]
    run_id: String,
    /// A directory instead of the bucket
    #[arg(long, value_name = "DIR", conflicts_with = "bucket")]
    output_dir: Option<PathBuf>,
    /// The bucket [default: that of RELEASE_TYPE and GITHUB_REPOSITORY]
    #[arg(long, value_name = "NAME")]
    bucket: Option<String>,
    /// The packages are for several GPU families
    #[arg(long)]
    multiarch: bool,
    /// Print what would be uploaded
    #[arg(long)]
    dry_run: bool,
}

impl Arguments {
    pub(super) fn check(self) -> Result<Self> {
        if self.artifact_group.is_empty() && !self.multiarch {
            return Err(Usage::new("`--artifact-group` is missing").hint("give it, or add `--multiarch`").into());
        }
        Ok(self)
    }

    /// The folder with the files.
    fn source(&self) -> PathBuf {
        let dist = self.input_packages_dir.join("dist");
        if dist.is_dir() { dist } else { self.input_packages_dir.clone() }
    }
}

pub(super) fn command(arguments: &Arguments, printer: &Printer) -> Result<Exit> {
    let source = arguments.source();
    let mut files = collect_uploads(std::slice::from_ref(&source), &[])?;
    let pages = pages(&source, &files)?;
    files.retain(|(_, key)| !pages.contains_key(key));
    let kind = environment::first_of(&["RELEASE_TYPE"]).unwrap_or_else(|| "ci".to_owned());
    let repository = fetch_artifacts::repository(None).unwrap_or_else(|| "ROCm/TheRock".to_owned());
    let place = RunPlace::new(StreamType::parse(&kind)?, &repository, false)?;
    let mut folder = format!("{}/python", place.folder(&arguments.run_id, BuildSystem::Linux)?);
    if !arguments.multiarch {
        folder = format!("{folder}/{}", arguments.artifact_group);
    }
    let address = if let Some(output) = &arguments.output_dir {
        let top = output.join(&folder);
        for (path, key) in &files {
            printer.line(format!("{folder}/{key}"))?;
            if !arguments.dry_run {
                copy(path, &top.join(key))?;
            }
        }
        for (key, page) in &pages {
            printer.line(format!("{folder}/{key}"))?;
            if !arguments.dry_run {
                rocwheel_system::replace(&top.join(key), page.as_bytes(), 0o644)?;
            }
        }
        format!("file://{}", std::path::absolute(&top)?.display())
    } else {
        let bucket = arguments.bucket.as_deref().unwrap_or(&place.bucket);
        let options = S3Options {
            address: S3Address { bucket: bucket.to_owned(), prefix: folder.clone() },
            endpoint: None,
            signing: Signing::Credentials,
            locking: StoreLocking::External,
            variables: environment::aws_variables(),
            owner: environment::run_name(),
        }
        .in_region(RunPlace::region());
        let store = open_bucket(&options, printer)?;
        let uploads = plan_uploads(&store, &files, UploadOptions::Keep, printer.reporter())?;
        for upload in &uploads {
            printer.line(format!("{folder}/{}", upload.key))?;
        }
        if !arguments.dry_run {
            upload(&store, &uploads, printer.reporter())?;
        }
        for (key, page) in &pages {
            printer.line(format!("{folder}/{key}"))?;
            if !arguments.dry_run {
                store.write(key, page.as_bytes())?;
            }
        }
        format!("https://{bucket}.s3.amazonaws.com/{folder}")
    };
    let has_folders = files.iter().any(|(_, key)| key.contains('/'));
    let page = if arguments.multiarch && has_folders { address } else { format!("{address}/index.html") };
    if !arguments.dry_run {
        let kpack = if has_folders { "false" } else { "true" };
        printer.outputs(&[("package_find_links_url", &page), ("kpack_split", kpack)])?;
    }
    let count = message::count((files.len() + pages.len()) as u64, "file", "files");
    printer.note(format!("{count} {}", if arguments.dry_run { "would be uploaded" } else { "uploaded" }));
    Ok(Exit::Done)
}

/// The page of each folder that has packages, as indexer makes it before the upload. A page that an
/// earlier indexer left in a folder is replaced.
fn pages(source: &Path, files: &[(PathBuf, String)]) -> Result<BTreeMap<String, String>> {
    let packages = NameFilter::new(&PACKAGES.map(str::to_owned))?;
    let mut folders: BTreeMap<&str, Vec<FolderEntry>> = BTreeMap::new();
    for (path, key) in files {
        let (folder, name) = key.rsplit_once('/').unwrap_or(("", key));
        if packages.accepts(name) {
            let entry = FolderEntry { name: name.to_owned(), size: Some(fs_err::metadata(path)?.len()) };
            folders.entry(folder).or_default().push(entry);
        }
    }
    let top = std::path::absolute(source)?.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let pages = folders.into_iter().map(|(folder, mut entries)| {
        entries.sort_by(|one, other| one.name.cmp(&other.name));
        let name = folder.rsplit('/').next().filter(|name| !name.is_empty());
        let key = if folder.is_empty() { PAGE.to_owned() } else { format!("{folder}/{PAGE}") };
        (key, folder_page(name.unwrap_or(&top), &entries, false))
    });
    Ok(pages.collect())
}

/// Copies a file, unless the other one has the same bytes.
fn copy(from: &Path, to: &Path) -> Result<()> {
    if to.is_file() {
        let digest = rocwheel_content::sha256_of(fs_err::File::open(from)?)?;
        if digest == rocwheel_content::sha256_of(fs_err::File::open(to)?)? {
            return Ok(());
        }
        return Err(Usage::new(format!("`{}` has other contents", to.display()))
            .hint("packages of a run do not change: remove the old one, or use another run")
            .into());
    }
    let folder = to.parent().unwrap_or(Path::new("."));
    fs_err::create_dir_all(folder)?;
    let temporary = folder.join(format!(".{}.unfinished", to.file_name().unwrap_or_default().to_string_lossy()));
    fs_err::copy(from, &temporary)?;
    Ok(rocwheel_system::rename(&temporary, to)?)
}

/// manage, manage_structured: the pages of an index in a bucket
///
/// Pages have hashes, sizes and times always. Without --upload nothing is written, where the
/// scripts write into the working directory.
#[derive(Debug, Args)]
#[allow(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub(super) struct ManageArguments {
    /// Folder of the bucket
    #[arg(value_name = "PREFIX", required_unless_present = "auto_detect_prefixes")]
    prefix: Option<String>,
    /// Not here: name each folder
    #[arg(long)]
    auto_detect_prefixes: bool,
    /// Not here: name each folder
    #[arg(long, value_name = "PREFIX")]
    starting_from: Option<String>,
    /// The bucket [default: S3_BUCKET_PY]
    #[arg(long, value_name = "NAME")]
    bucket: Option<String>,
    /// Only the pages of this project
    #[arg(long, value_name = "NAME")]
    package: Option<String>,
    /// Write the pages into the bucket
    #[arg(long)]
    upload: bool,
    /// Write no pages, as is the default
    #[arg(long, conflicts_with = "upload")]
    do_not_upload: bool,
    /// Without effect: pages always have hashes
    #[arg(long)]
    include_checksums: bool,
    /// Without effect: pages always have hashes
    #[arg(long)]
    compute_sha256: bool,
    /// Without effect: pages are always those of PEP 503
    #[arg(long)]
    generate_pep503: bool,
}

impl ManageArguments {
    /// `layout` is the one that the script writes.
    pub(super) fn translated(self, layout: &str) -> Result<Translation> {
        let Some(prefix) = self.prefix.filter(|_| !self.auto_detect_prefixes && self.starting_from.is_none()) else {
            return Err(Usage::new("`--auto-detect-prefixes` would write the pages of every folder that is found")
                .hint("name each folder: `rocwheel index build s3://BUCKET/PREFIX`")
                .into());
        };
        let bucket = given(self.bucket).or_else(|| environment::first_of(&["S3_BUCKET_PY"]));
        let bucket = bucket.ok_or_else(|| Usage::new("the bucket is not given").hint("add `--bucket NAME`"))?;
        let mut translation = Translation::new("index build");
        translation.word(format!("s3://{bucket}/{}", prefix.trim_matches('/')));
        match given(self.package) {
            Some(package) => translation.option("--project", Some(package)),
            None => translation.option("--layout", Some(layout)),
        }
        translation.word("--replace-pages");
        translation.flag("--dry-run", !self.upload);
        let why = "pages always have hashes";
        translation.without_effect("--include-checksums", self.include_checksums, why);
        translation.without_effect("--compute-sha256", self.compute_sha256, why);
        translation.without_effect("--generate-pep503", self.generate_pep503, "pages are always those of PEP 503");
        Ok(translation)
    }
}
