//! Imports packages, a prefix or a tarball and prints the report: `import OUTPUT (--deb FILE… |
//! --prefix DIR | --tarball FILE)`.

#![allow(clippy::print_stdout, reason = "an example")]

use std::path::PathBuf;
use std::time::Instant;

use rocwheel_import::{ImportOptions, ImportSource, Sonames, execute, plan};
use rocwheel_progress::Silent;

fn main() {
    let mut arguments = std::env::args_os().skip(1).map(PathBuf::from);
    let (Some(output), Some(kind)) = (arguments.next(), arguments.next()) else {
        println!("usage: import OUTPUT (--deb FILE... | --prefix DIR | --tarball FILE)");
        std::process::exit(2);
    };
    let source = match (kind.to_str(), arguments.next()) {
        (Some("--prefix"), Some(path)) => ImportSource::Prefix(path),
        (Some("--tarball"), Some(path)) => ImportSource::Tarball(path),
        (_, first) => ImportSource::Debs(first.into_iter().chain(arguments).collect()),
    };
    let options = ImportOptions { output, allow_unresolved: Vec::new(), sonames: Sonames::Rename, version: None };
    let start = Instant::now();
    let report = plan(&source, &options, &Silent).and_then(|plan| {
        println!("planned in {:.2} s", start.elapsed().as_secs_f64());
        execute(&plan, &Silent)
    });
    match report {
        Ok(report) => {
            println!("{}", serde_json::to_string_pretty(&report).unwrap_or_default());
            println!("imported in {:.2} s", start.elapsed().as_secs_f64());
        }
        Err(error) => {
            println!("error: {error}");
            let mut cause = std::error::Error::source(&error);
            while let Some(error) = cause {
                println!("  caused by: {error}");
                cause = error.source();
            }
            if let Some(hint) = error.hint() {
                println!("hint: {hint}");
            }
            std::process::exit(1);
        }
    }
}
