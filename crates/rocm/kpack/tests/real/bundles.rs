//! Code objects and the descriptions in their bundles.

use positioned_io::ReadAt;
use rocwheel_kpack::bundle::{self, BundleForm, Part};
use rocwheel_kpack::{CodeObject, Error};
use rocwheel_tables::TargetId;

use crate::{read, unpacked};

/// Every code object can be read from its bundle, compressed ones match their checksum, the id
/// agrees with the code object's own flags, and a plain bundle that is written again has the same
/// bytes.
#[test]
fn every_code_object_of_a_real_library_is_what_its_bundle_says() {
    let (_folder, all) = unpacked();
    let (mut objects, mut bytes, mut plain) = (0_u64, 0, 0_u64);
    for path in &all {
        let Some(fat) = read(path) else { continue };
        let name = path.file_name().unwrap().display();
        let file = fs_err::File::open(path).unwrap();
        for bundle in &fat.bundles {
            let mut codes = Vec::new();
            let visited = bundle.visit(file.file(), fat.section.clone(), |entry, code| {
                objects += 1;
                bytes += entry.size;
                let target = entry.target().unwrap().parse::<TargetId>()?;
                let object = CodeObject::read(&code)?.unwrap();
                assert_eq!(object.target, target, "{name}: {}", entry.id);
                if bundle.compression.is_none() {
                    codes.push((entry.id.clone(), code.to_vec()));
                }
                Ok::<(), Error>(())
            });
            visited.unwrap_or_else(|error| panic!("{name}: {error}"));
            if bundle.compression.is_none() {
                let content =
                    |id: &String| codes.iter().find(|(other, _)| other == id).map(|(_, code)| code.as_slice());
                let contents: Vec<&[u8]> =
                    bundle.entries.iter().map(|entry| content(&entry.id).unwrap_or_default()).collect();
                let parts: Vec<_> = bundle
                    .entries
                    .iter()
                    .zip(&contents)
                    .map(|(entry, content)| Part { id: &entry.id, size: entry.size, content })
                    .collect();
                let mut written = Vec::new();
                bundle::write(&parts, BundleForm::Plain, &mut written).unwrap();
                let mut original = vec![0; bundle.length as usize];
                file.file().read_exact_at(fat.section.start + bundle.offset, &mut original).unwrap();
                assert!(written == original, "{name}: bundle at {:#x}", bundle.offset);
                plain += 1;
            }
        }
    }
    eprintln!("{objects} code objects, {bytes} bytes; {plain} plain bundles written again");
    assert!(objects > 0 && plain > 0);
}
