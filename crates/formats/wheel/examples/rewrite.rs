//! Adds a requirement to a wheel and prints the time that takes:
//! `cargo run --release --package rocwheel-wheel --example rewrite -- WHEEL FOLDER`. The ratio in
//! docs/benchmarks.md is this time divided by that of `cp` for the same file.

use std::path::Path;
use std::time::Instant;

use rocwheel_archive::{FileDigest, WriteOptions};
use rocwheel_progress::Silent;
use rocwheel_wheel::read::Wheel;
use rocwheel_wheel::{Error, Headers, Rewrite, rewrite};

#[allow(clippy::print_stdout, reason = "an example shows its result")]
fn main() -> Result<(), Error> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, input, output] = &arguments[..] else {
        println!("usage: rewrite WHEEL FOLDER");
        return Ok(());
    };
    let begin = Instant::now();
    let wheel = Wheel::open(Path::new(input))?;
    let mut metadata = Headers::parse(&wheel.metadata()?);
    metadata.push("Requires-Dist", "rocm-bootstrap")?;
    let change = Rewrite { metadata: Some(metadata.to_string()), ..Rewrite::default() };
    let options = WriteOptions { digest: FileDigest::Skip, ..WriteOptions::default() };
    let written = rewrite(&wheel, &change, Path::new(output), &options, &Silent)?;
    println!("{} bytes in {:.0} ms", written.compressed, begin.elapsed().as_secs_f64() * 1000.0);
    Ok(())
}
