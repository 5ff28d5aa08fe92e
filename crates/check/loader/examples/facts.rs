//! Reads the headers of a set of wheels, simulates the loading of every file in it, and prints the
//! time of each step: `cargo run --release -p rocwheel-loader --example facts -- WHEEL…`
#![allow(clippy::print_stdout, reason = "an example talks to people")]

use std::error::Error;
use std::path::PathBuf;
use std::time::Instant;

use rocwheel_loader::facts::SiteFacts;
use rocwheel_loader::simulation::{Loader, Scenario};
use rocwheel_loader::site::{PythonEnvironment, Role, Site};
use rocwheel_progress::Silent;

fn main() -> Result<(), Box<dyn Error>> {
    let wheels: Vec<_> = std::env::args_os().skip(1).map(|path| (PathBuf::from(path), Role::Audited)).collect();
    let scratch = tempfile::tempdir()?;
    let begin = Instant::now();
    let place = PythonEnvironment::new("3.12".parse()?, "/environment");
    let site = Site::open(&wheels, &place, scratch.path(), &Silent)?;
    println!("{:.3} s: {} files, {} clashes", begin.elapsed().as_secs_f64(), site.files.len(), site.clashes.len());
    let facts = SiteFacts::read(&site, &Silent)?;
    println!(
        "{:.3} s: {} ELF, {} PE, {} unreadable",
        begin.elapsed().as_secs_f64(),
        facts.objects.len(),
        facts.windows.len(),
        facts.unreadable.len()
    );
    let scenario = Scenario::python(None);
    let loader = Loader::new(&site, &facts, &scenario);
    for (path, _) in facts.native() {
        let trace = loader.load(&[path]);
        let missing: Vec<&str> = trace.missing.iter().map(|missing| missing.name.as_str()).collect();
        println!("{path}: {} loaded, missing {missing:?}", trace.loaded.len());
    }
    println!("{:.3} s: all", begin.elapsed().as_secs_f64());
    for (path, broken) in &facts.unreadable {
        println!("{path}: {} {}", broken.format, broken.reason);
    }
    Ok(())
}
