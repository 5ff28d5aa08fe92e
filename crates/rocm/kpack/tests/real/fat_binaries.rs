//! Fat binaries whose code is removed and put back.

use positioned_io::ReadAt;
use rocwheel_fixtures::gpu::Gpu;
use rocwheel_kpack::marker::Marker;
use rocwheel_kpack::{FatBinary, Magic, NewWrapper, Points, Replacement};
use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use crate::{read, unpacked};

/// Removes the code from a file and puts a page of markers in its place.
fn split(path: &Path, fat: &FatBinary, to: &Path) -> rocwheel_elf::Patch {
    let (mut content, mut places) = (Vec::new(), Vec::new());
    for bundle in 0..fat.bundles.len() {
        places.push(content.len() as u64);
        let marker = Marker { kernel_name: format!("unit{bundle}"), search_paths: vec!["k".to_owned()] };
        content.extend(marker.encode().unwrap());
    }
    let wrappers = fat.wrappers.iter().map(|wrapper| {
        let Points::Bundle(bundle) = wrapper.points else { panic!("{wrapper:?}") };
        NewWrapper { magic: Magic::Kpacked, pointer: places[bundle], index: bundle as u64 }
    });
    let with = Replacement { size: content.len() as u64, wrappers: wrappers.collect(), content: Arc::new(content) };
    write(path, |reader| fat.replace(reader, with).unwrap_or_else(|error| panic!("{}: {error}", path.display())), to)
}

/// Puts the original's code back into a file that was split.
fn fuse(path: &Path, original: &Path, before: &FatBinary, to: &Path) -> rocwheel_elf::Patch {
    let fat = read(path).unwrap();
    let wrappers = before.wrappers.iter().map(|wrapper| {
        let Points::Bundle(bundle) = wrapper.points else { panic!("{wrapper:?}") };
        NewWrapper { magic: Magic::Fat, pointer: before.bundles[bundle].offset, index: 0 }
    });
    let content = Section { file: fs_err::File::open(original).unwrap(), start: before.section.start };
    let size = before.section.end - before.section.start;
    let with = Replacement { size, wrappers: wrappers.collect(), content: Arc::new(content) };
    write(path, |reader| fat.replace(reader, with).unwrap_or_else(|error| panic!("{}: {error}", path.display())), to)
}

struct Section {
    file: fs_err::File,
    start: u64,
}

impl ReadAt for Section {
    fn read_at(&self, position: u64, buffer: &mut [u8]) -> std::io::Result<usize> {
        self.file.file().read_at(self.start + position, buffer)
    }
}

fn write(from: &Path, plan: impl FnOnce(&dyn ReadAt) -> rocwheel_elf::Patch, to: &Path) -> rocwheel_elf::Patch {
    let file = fs_err::File::open(from).unwrap();
    let patch = plan(file.file());
    let patched = rocwheel_elf::Patched::new(file.file(), patch.clone());
    let mut out = fs_err::File::create(to).unwrap();
    let (mut buffer, mut at) = (vec![0; 1 << 20], 0);
    while at < patched.size() {
        let count = patched.read_at(at, &mut buffer).unwrap();
        out.write_all(&buffer[..count]).unwrap();
        at += count as u64;
    }
    patch
}

fn complaints(path: &Path) -> String {
    let output = Command::new("readelf").args(["-l", "-S", "-d", "-W"]).arg(path).env("LC_ALL", "C").output().unwrap();
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Returns checksums of everything that is mapped outside of the section of device code and of the
/// wrappers, by address.
fn host(path: &Path) -> BTreeMap<u64, u64> {
    let file = fs_err::File::open(path).unwrap();
    let elf = rocwheel_elf::Elf::read(file.file()).unwrap().unwrap();
    let mut sums = BTreeMap::new();
    let skipped = [".hip_fatbin", ".hipFatBinSegment", ".dynamic", ".rela.dyn", ".relr.dyn"];
    for section in elf.sections.iter().filter(|section| section.address > 0 && section.kind != 8) {
        if skipped.contains(&section.name.as_str()) {
            continue;
        }
        let mut hasher = std::collections::hash_map::DefaultHasher::new();
        let (mut buffer, mut at) = (vec![0; 1 << 20], 0);
        while at < section.size {
            let length = (section.size - at).min(1 << 20) as usize;
            file.file().read_exact_at(section.offset + at, &mut buffer[..length]).unwrap();
            hasher.write(&buffer[..length]);
            at += length as u64;
        }
        section.name.hash(&mut hasher);
        // A few small sections move to make space for a program header.
        let movable = [".note", ".gnu.hash", ".dynsym", ".dynstr", ".gnu.version", ".interp"];
        let key = if movable.iter().any(|name| section.name.starts_with(name)) { 0 } else { section.address };
        *sums.entry(key).or_insert(0u64) ^= hasher.finish();
    }
    sums
}

/// Loads a library with a substitute for every library and symbol that this machine lacks. `None`:
/// it does not load.
fn load(gpu: &Gpu, original: &Path, path: &Path) -> Option<String> {
    let elf = rocwheel_elf::Elf::read(fs_err::File::open(original).unwrap().file()).unwrap().unwrap();
    let run = |program: &str, arguments: &[&str]| {
        gpu.run(program, arguments);
    };
    for needed in elf.needed.iter().filter(|name| !name.starts_with("libamdhip64")) {
        let known = Command::new(gpu.path("load")).arg(needed).output().unwrap();
        if known.stdout.starts_with(b"loaded") || gpu.path(needed).exists() {
            continue;
        }
        fs_err::write(gpu.path("empty.c"), "").unwrap();
        run("gcc", &["-shared", "-fPIC", &format!("-Wl,-soname,{needed}"), "-o", needed, "empty.c"]);
    }
    fs_err::copy(gpu.path("libamdhip64.so.7"), gpu.path("libamdhip64.so.6")).unwrap();
    let symbols = run_nm(original);
    let mut text = ".data\n".to_owned();
    for symbol in symbols {
        text.push_str(&format!(".weak \"{symbol}\"\n.balign 16\n\"{symbol}\":\n.zero 256\n"));
    }
    text.push_str(".section .note.GNU-stack,\"\",@progbits\n");
    fs_err::write(gpu.path("symbols.s"), text).unwrap();
    run("gcc", &["-shared", "-fPIC", "-o", "libsymbols.so", "symbols.s"]);
    let output = Command::new(gpu.path("load"))
        .arg(path)
        .env("LD_LIBRARY_PATH", gpu.path(""))
        .env(
            "LD_PRELOAD",
            format!(
                "libamdhip64.so.7:libstdc++.so.6:libgcc_s.so.1:libm.so.6:libc.so.6:{}",
                gpu.path("libsymbols.so").display()
            ),
        )
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    said.contains("loaded\n").then_some(said)
}

fn run_nm(path: &Path) -> Vec<String> {
    let output = Command::new("nm").args(["-D", "--undefined-only", "--without-symbol-versions"]).arg(path).output();
    let text = String::from_utf8(output.unwrap().stdout).unwrap();
    let names = text.lines().filter_map(|line| line.trim().strip_prefix("U ")).map(str::to_owned);
    names.filter(|name| !name.starts_with("__hip") && !name.starts_with("hipLaunchKernel")).collect()
}

#[test]
fn every_real_library_comes_apart_and_together_again() {
    let (folder, all) = unpacked();
    let gpu = Gpu::new();
    let (mut libraries, mut loaded) = (0, Vec::new());
    for path in &all {
        let Some(fat) = read(path) else { continue };
        let name = path.file_name().unwrap().display();
        for wrapper in &fat.wrappers {
            assert_eq!(wrapper.magic, Magic::Fat, "{name}");
            assert!(matches!(wrapper.points, Points::Bundle(_)), "{name}: {wrapper:?}");
        }
        libraries += 1;
        let (taken, back) = (folder.path().join("taken.so"), folder.path().join("back.so"));
        let start = std::time::Instant::now();
        let patch = split(path, &fat, &taken);
        let took = start.elapsed();
        let after = read(&taken).unwrap();
        assert_eq!(complaints(&taken), complaints(path), "{name}");
        assert_eq!(after.bundles, [], "{name}");
        assert_eq!(after.wrappers.len(), fat.wrappers.len(), "{name}");
        for (new, old) in after.wrappers.iter().zip(&fat.wrappers) {
            let (Points::Marker(marker), Points::Bundle(bundle)) = (new.points, old.points) else { panic!("{new:?}") };
            assert_eq!(after.markers[marker].0.kernel_name, format!("unit{bundle}"), "{name}");
            assert_eq!(new.index, bundle as u64, "{name}");
        }
        assert_eq!(host(&taken), host(path), "{name}");
        let code = fat.section.end - fat.section.start;
        // Sections that moved for a header keep their new positions.
        let elf = rocwheel_elf::Elf::read(fs_err::File::open(path).unwrap().file()).unwrap().unwrap();
        let tables = [".note.gnu.build-id", ".note.gnu.property", ".gnu.hash", ".dynsym", ".gnu.version"];
        let tables = elf.sections.iter().filter(|section| tables.contains(&section.name.as_str()));
        let first: u64 = tables.map(|section| section.size).sum();
        assert!(patch.size <= patch.original_size - code.saturating_sub(first + 4 * 4096), "{name}: {}", patch.size);
        let fused = fuse(&taken, path, &fat, &back);
        let again = read(&back).unwrap();
        assert_eq!(again.bundles, fat.bundles, "{name}");
        assert_eq!(host(&back), host(path), "{name}");
        assert!(fused.size <= patch.original_size + first + 4 * 4096, "{name}: {}", fused.size);
        if let Some(said) = load(&gpu, path, path) {
            let registered = |said: &str| said.lines().filter(|line| line.starts_with("register fat ")).count();
            let kpacked = load(&gpu, path, &taken).unwrap_or_else(|| panic!("{name} does not load any more"));
            let count = kpacked.lines().filter(|line| line.starts_with("register kpacked ")).count();
            assert_eq!(count, registered(&said), "{name}: {kpacked}");
            for line in kpacked.lines().filter(|line| line.starts_with("register ")) {
                let index = line.split(' ').skip_while(|word| *word != "index").nth(1).unwrap();
                assert!(line.contains(&format!("unit{index}")), "{name}: {line}");
            }
            let fused = load(&gpu, path, &back).unwrap_or_else(|| panic!("{name} does not load any more"));
            assert_eq!(fused, said, "{name}");
            assert!(count > 0, "{name}: {said}");
            loaded.push(name.to_string());
        }
        eprintln!(
            "{name}: {} wrappers, {} bundles; {} bytes, {} without code, {} together; {took:.0?}",
            fat.wrappers.len(),
            fat.bundles.len(),
            patch.original_size,
            patch.size,
            fused.size
        );
    }
    eprintln!("{libraries} libraries; {} load here: {}", loaded.len(), loaded.join(" "));
    assert!(libraries > 0 && !loaded.is_empty());
}
