//! The commands that make indexes and publish packages: arguments → settings → `command` → exit
//! code. One file is one command.
//!
//! # A wheel's life in twenty calls
//!
//! It is made, read, checked, changed, compared, published and found again. Each step is a library
//! of its own, and takes a [`Reporter`](rocwheel_progress::Reporter) for progress and Ctrl-C.
//!
//! ```
//! use rocwheel_archive::WriteOptions;
//! use rocwheel_attest::{InTotoStatement, SignedEnvelope, SigningKey, STATEMENT_PAYLOAD, StatementSubject};
//! use rocwheel_edit::{EditPlacement, VersionEdit, WheelEdit};
//! use rocwheel_loader::site::{PythonEnvironment, Role, Site};
//! use rocwheel_output::Destination;
//! use rocwheel_pages::BuildOptions;
//! use rocwheel_progress::Silent;
//! use rocwheel_store::{FolderSite, FolderStore, Store as _};
//! use rocwheel_wheel::{Existing, Headers, Member, Metadata, Tag, WheelContents, read::Wheel};
//!
//! let folder = tempfile::tempdir()?;
//! let (made, index) = (folder.path().join("made"), folder.path().join("index"));
//! std::fs::create_dir(&made)?;
//!
//! // Made: the same contents give the same bytes.
//! let contents = WheelContents {
//!     name: "waves".to_owned(),
//!     version: "1.0".to_owned(),
//!     tags: vec![Tag::any()],
//!     metadata: Metadata { requires_python: Some(">=3.10".to_owned()), ..Metadata::default() },
//!     entry_points: Default::default(),
//!     licenses: Vec::new(),
//!     members: vec![Member::new("waves/__init__.py", b"speed = 299_792_458\n".to_vec())],
//! };
//! let options = WriteOptions::default();
//! let written = rocwheel_wheel::write_wheel(&contents, &made, &options, &Silent)?;
//!
//! // Read: every row of RECORD is compared with its member.
//! let wheel = Wheel::open(&written.path)?;
//! assert!(wheel.verify()?.is_empty());
//! assert_eq!(Headers::parse(&wheel.metadata()?).get("Version").as_deref(), Some("1.0"));
//!
//! // Checked, as pip would install it: nothing is run.
//! let place = PythonEnvironment::new("3.12".parse()?, "/venv");
//! let site = Site::open(&[(written.path.clone(), Role::Audited)], &place, folder.path(), &Silent)?;
//! let report = rocwheel_audit::audit(&site, &Default::default(), &Silent)?;
//! assert!(report.findings.is_empty());
//!
//! // Changed: a plan can be shown before it is carried out.
//! let edit = WheelEdit { version: Some(VersionEdit::local("rocm7.2")?), ..WheelEdit::default() };
//! let plans = rocwheel_edit::plan(&[written.path.clone()], &edit, folder.path(), &Silent)?;
//! let placement = EditPlacement {
//!     destination: Destination::Folder(index.clone()),
//!     existing: Existing::Refuse,
//!     scratch: folder.path().to_owned(),
//! };
//! let edited = rocwheel_edit::execute(&plans[0], &placement, &options, &Silent)?;
//! assert!(edited.path.ends_with("waves-1.0+rocm7.2-py3-none-any.whl"));
//!
//! // Compared: only what follows from the version differs.
//! let sides = rocwheel_diff::Request { old: written.path, new: edited.path, scratch: folder.path().to_owned() };
//! let difference = rocwheel_diff::compare(&sides, &Silent)?;
//! assert!(difference.differs_only_in_version());
//!
//! // Published: pages for pip, uv and people, and a signed statement about the file.
//! let store = FolderStore::open(&index)?;
//! let (key, _text) = SigningKey::generate()?;
//! let sha256 = edited.sha256.unwrap_or_default();
//! let statement = InTotoStatement::new(
//!     vec![StatementSubject::new("waves-1.0+rocm7.2-py3-none-any.whl", &sha256)],
//!     "https://example.org/tested/v1",
//!     serde_json::json!({"passed": true}),
//! );
//! store.write("waves.intoto.json", &statement.seal(std::slice::from_ref(&key)).bytes())?;
//! let build = BuildOptions { now: jiff::Timestamp::now(), write: true, ..BuildOptions::default() };
//! let built = rocwheel_pages::build(&store, &build, &Silent)?;
//! assert_eq!(built.indexes[0].files, 1);
//!
//! // Found again, by whoever has the public key.
//! let address = url::Url::from_directory_path(index.join(&built.indexes[0].folder)).map_err(|()| "no absolute path")?;
//! let checked = rocwheel_pages::check(&FolderSite, &address, &Default::default(), &Silent)?;
//! assert!(!checked.has_errors());
//! let bytes = store.read("waves.intoto.json")?.unwrap_or_default();
//! let (envelope, payload) = SignedEnvelope::parse(&bytes, "waves.intoto.json", STATEMENT_PAYLOAD)?;
//! assert_eq!(envelope.signers(&payload, &[key.public()]), [key.public().id()]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod index;
pub mod release;
