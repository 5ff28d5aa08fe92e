//! The packer's record of where a wheel says its version. It saves time and changes no result, and
//! a wheel that is not the recorded one is an error.

use std::path::{Path, PathBuf};

use fs_err as fs;
use rocwheel_archive::{PackedSource, WriteOptions};
use rocwheel_content::CacheFolder;
use rocwheel_progress::{Failure, Silent};
use rocwheel_promote::{Promoted, PromotionPlan, PromotionRequest, plan_promotion, promote_into};
use rocwheel_wheel::{EntryPoints, Member, Metadata, Tag, WheelContents, write_wheel};
use serde_json::{Value, json};

const OLD: &str = "7.12.0rc1";
const LIBRARY: usize = 3 << 20;

/// A set of one wheel, and its packer's record.
struct Set {
    folder: tempfile::TempDir,
    wheel: PathBuf,
}

impl Set {
    fn new(more: Vec<Member>) -> Set {
        let folder = tempfile::tempdir().expect("folder");
        let dist = folder.path().join("dist");
        fs::create_dir(&dist).expect("create");
        let library: Vec<u8> =
            (0..LIBRARY as u32).map(|index| (index.wrapping_mul(2_654_435_761) >> 17) as u8).collect();
        let mut members = vec![
            Member::new("_rocm_sdk_core/lib/kernels.kpack", library),
            Member::new("rocm_sdk_core/_dist_info.py", format!("__version__ = '{OLD}'\n").into_bytes()),
        ];
        members.extend(more);
        let contents = WheelContents {
            name: "rocm-sdk-core".to_owned(),
            version: OLD.to_owned(),
            tags: vec![Tag::platform("manylinux_2_28_x86_64")],
            metadata: Metadata::default(),
            entry_points: EntryPoints::default(),
            licenses: Vec::new(),
            members,
        };
        let reuse = PackedSource::new(folder.path().join("records"));
        reuse.search_for(OLD);
        let options = WriteOptions { reuse, ..WriteOptions::default() };
        let wheel = write_wheel(&contents, &dist, &options, &Silent).expect("write").path;
        Set { folder, wheel }
    }

    fn records(&self) -> PackedSource {
        PackedSource::new(self.folder.path().join("records"))
    }

    /// Replaces the record by one that differs, whose checksum is right.
    fn change_record(&self, change: impl FnOnce(&mut Value)) {
        let records = CacheFolder::new(self.folder.path().join("records"), "packed", 1 << 20);
        let name = records.names().pop().expect("record");
        let mut record = serde_json::from_slice(&records.read(&name).expect("record").content).expect("JSON");
        change(&mut record);
        records.write(&name, record.to_string().as_bytes()).expect("write");
    }

    /// Changes a byte of the kernels, which are stored, far from the end of the wheel, which
    /// identifies it.
    fn damage(&self) {
        let mut bytes = fs::read(&self.wheel).expect("read");
        bytes[LIBRARY / 2] ^= 1;
        fs::write(&self.wheel, bytes).expect("write");
    }

    fn plan(&self, records: &PackedSource) -> Result<PromotionPlan, Failure> {
        let new = Some("7.12.0".parse().expect("version"));
        let request = PromotionRequest { new, ..PromotionRequest::new(self.wheel.parent().expect("folder")) };
        plan_promotion(&request, records, &Silent)
    }

    /// The bytes of the promoted wheel.
    fn promoted(&self, records: &PackedSource) -> Result<Vec<u8>, Failure> {
        let output = tempfile::tempdir().expect("folder");
        let written = promote_into(&self.plan(records)?, output.path(), &WriteOptions::default(), &Silent)?;
        let [Promoted { name, .. }] = &written.0[..] else { panic!("one file") };
        Ok(fs::read(output.path().join(name)).expect("read"))
    }

    /// The bytes of the promoted wheel if everything is read.
    fn expected(&self) -> Vec<u8> {
        self.promoted(&PackedSource::default()).expect("promoted")
    }
}

fn is_changed(result: Result<Vec<u8>, Failure>, wheel: &Path) -> bool {
    let text = format!("`{}` changed since it was packed", wheel.display());
    result.is_err_and(|error| error.to_string() == text)
}

#[test]
fn members_without_the_version_are_not_read_and_a_changed_wheel_is_an_error() {
    let set = Set::new(Vec::new());
    assert!(set.promoted(&set.records()).expect("promoted") == set.expected(), "the same bytes");
    set.damage();
    assert!(set.plan(&PackedSource::default()).is_err(), "its checksum is wrong");
    assert_eq!(set.plan(&set.records()).expect("plan").files.len(), 1);
    assert!(is_changed(set.promoted(&set.records()), &set.wheel));
}

#[test]
fn a_text_with_the_version_in_an_unknown_place_is_found() {
    let notes = Member::new("rocm_sdk_core/notes.txt", format!("in {OLD}\n").into_bytes());
    let set = Set::new(vec![notes]);
    for records in [PackedSource::default(), set.records()] {
        let error = set.plan(&records).unwrap_err();
        assert!(error.rows()[0].contains("notes.txt`: line 1"), "{error:?}");
    }
}

#[test]
fn a_record_of_another_text_wheel_or_packer_and_a_damaged_one_skip_nothing() {
    let searched: [fn(&mut Value); 4] = [
        |record| record["searched"]["text"] = "7.12.0rc10".into(),
        |record| record["searched"] = Value::Null,
        |record| record["packer"] = "zlib 1.3, level 6".into(),
        |record| record["searched"]["members"] = 5.into(),
    ];
    for change in searched {
        let set = Set::new(Vec::new());
        set.change_record(change);
        assert!(set.promoted(&set.records()).expect("promoted") == set.expected(), "the same bytes");
        set.damage();
        let error = set.plan(&set.records()).unwrap_err();
        assert!(error.find::<rocwheel_wheel::Error>().is_some(), "everything is read: {error:?}");
    }
    let set = Set::new(Vec::new());
    set.change_record(|record| record["searched"]["sha256"] = "0".repeat(64).into());
    assert!(is_changed(set.promoted(&set.records()), &set.wheel));
}

#[test]
fn a_record_that_lies_about_members_keeps_no_text_that_has_to_change() {
    for members in [json!([]), json!(["_rocm_sdk_core/lib/kernels.kpack", "no/such/member"])] {
        let set = Set::new(Vec::new());
        set.change_record(|record| record["searched"]["members"] = members);
        assert!(set.promoted(&set.records()).expect("promoted") == set.expected(), "the same bytes");
    }
}
