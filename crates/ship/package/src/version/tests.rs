use pep440_rs::Version;

use super::{Date, ReleaseType, Request, VersionFile, VersionForm, compare};

const COMMIT: &str = "89553ce3746eda74ade42557470d25e37c91b6f0";

fn request(release_type: ReleaseType) -> Request {
    Request {
        base: "10.1.0".to_owned(),
        form: VersionForm::Type(release_type),
        prerelease: (release_type == ReleaseType::Prerelease).then_some(2),
        base_date: Some("20260811".parse().unwrap()),
        date: "20260814".parse().unwrap(),
        commit: Some(COMMIT.to_owned()),
        rerun: 0,
    }
}

fn triple(request: &Request) -> [String; 3] {
    let versions = request.versions().unwrap();
    [versions.wheel, versions.deb, versions.rpm]
}

#[test]
fn every_release_type_has_its_exact_form() {
    let dev =
        ["10.1.0.dev0+89553ce3746eda74ade42557470d25e37c91b6f0", "10.1.0~dev20260814", "10.1.0~20260814g89553ce3"];
    let expected = [
        ["10.1.0", "10.1.0", "10.1.0"],
        ["10.1.0rc2", "10.1.0~pre2", "10.1.0~rc2"],
        ["10.1.0a20260814", "10.1.0~20260814", "10.1.0~20260814"],
        ["10.1.0a20260811+bkc.20260814", "10.1.0~20260811.bkc.20260814", "10.1.0~20260811.bkc.20260814"],
        dev,
        dev,
        dev,
    ];
    for (release_type, expected) in ReleaseType::ALL.into_iter().zip(expected) {
        assert_eq!(triple(&request(release_type)), expected, "{}", release_type.name());
    }
}

#[test]
fn reruns_of_a_day_are_post_versions_which_sort_between_this_day_and_the_next() {
    let expected = [
        ["10.1.0.post1", "10.1.0.post1", "10.1.0.post1"],
        ["10.1.0rc2.post1", "10.1.0~pre2.post1", "10.1.0~rc2.post1"],
        ["10.1.0a20260814.post1", "10.1.0~20260814.post1", "10.1.0~20260814.post1"],
        [
            "10.1.0a20260811+bkc.20260814.post.1",
            "10.1.0~20260811.bkc.20260814.post1",
            "10.1.0~20260811.bkc.20260814.post1",
        ],
    ];
    for (release_type, expected) in ReleaseType::ALL.into_iter().zip(expected) {
        assert_eq!(triple(&Request { rerun: 1, ..request(release_type) }), expected, "{}", release_type.name());
    }
    for release_type in [ReleaseType::Nightly, ReleaseType::NightlyBkc] {
        let wheel = |rerun, date: &str| -> Version {
            let request = Request { rerun, date: date.parse().unwrap(), ..request(release_type) };
            request.versions().unwrap().wheel.parse().unwrap()
        };
        assert!(wheel(0, "20260814") < wheel(1, "20260814"));
        assert!(wheel(1, "20260814") < wheel(2, "20260814"));
        assert!(wheel(9, "20260814") < wheel(10, "20260814"));
        assert!(wheel(10, "20260814") < wheel(0, "20260815"));
    }
    let rerun: Version = Request { rerun: 1, ..request(ReleaseType::Dev) }.versions().unwrap().wheel.parse().unwrap();
    let first: Version = request(ReleaseType::Dev).versions().unwrap().wheel.parse().unwrap();
    assert!(first < rerun && rerun < "10.1.0a1".parse().unwrap(), "{rerun}");
}

#[test]
fn the_types_sort_as_required() {
    let wheel = |release_type| -> Version { request(release_type).versions().unwrap().wheel.parse().unwrap() };
    assert!(wheel(ReleaseType::Release) > wheel(ReleaseType::Prerelease));
    assert!(wheel(ReleaseType::Prerelease) > wheel(ReleaseType::Nightly));
    assert!(wheel(ReleaseType::Nightly) > wheel(ReleaseType::NightlyBkc));
    assert!(wheel(ReleaseType::NightlyBkc) > wheel(ReleaseType::DevBkc));
    assert_eq!(wheel(ReleaseType::DevBkc), wheel(ReleaseType::Dev));

    let chain = ["10.1.0a20260811", "10.1.0a20260811+bkc.20260814", "10.1.0a20260812"];
    assert!(chain.is_sorted_by_key(|text| text.parse::<Version>().unwrap()));
}

#[test]
fn a_suffix_is_taken_as_it_is_but_must_be_canonical() {
    let with = |suffix: &str| {
        Request { form: VersionForm::Suffix(suffix.to_owned()), ..request(ReleaseType::Release) }.versions()
    };
    let versions = with(".dev0+mine.1").unwrap();
    assert_eq!([versions.wheel, versions.deb, versions.rpm], ["10.1.0.dev0+mine.1"; 3].map(str::to_owned));
    for (suffix, canonical) in [("-rc1", "10.1.0rc1"), ("+Mine", "10.1.0+mine")] {
        assert_eq!(with(suffix).unwrap_err().hint(), Some(&*format!("use `{canonical}`")));
    }
    let error = with("~ubuntu").unwrap_err();
    assert_eq!(error.to_string(), "`10.1.0~ubuntu` is not a version that pip accepts (PEP 440)");
    let rerun = Request { form: VersionForm::Suffix("a1".to_owned()), rerun: 1, ..request(ReleaseType::Release) };
    assert_eq!(rerun.versions().unwrap_err().to_string(), "`--rerun` has no meaning for a custom suffix");
}

#[test]
fn a_commit_of_decimal_digits_with_a_leading_zero_is_refused() {
    let with = |commit: &str| Request { commit: Some(commit.to_owned()), ..request(ReleaseType::Dev) }.versions();
    let error = with("0123456").unwrap_err();
    assert_eq!(
        error.to_string(),
        "pip would rewrite the version `10.1.0.dev0+0123456` to `10.1.0.dev0+123456` (PEP 440) and not find its files"
    );
    assert!(error.hint().unwrap().contains("all of its 40 digits"));
    assert_eq!(with("1234567").unwrap().wheel, "10.1.0.dev0+1234567");
    assert_eq!(with("0123456a").unwrap().wheel, "10.1.0.dev0+0123456a");
    assert_eq!(with("ABCDEF0").unwrap().wheel, "10.1.0.dev0+abcdef0");
    assert_eq!(with("abcdef0").unwrap().rpm, "10.1.0~20260814gabcdef0");
    for wrong in ["", "abc", "HEAD", "abcdefg", "0123456+"] {
        assert!(with(wrong).unwrap_err().to_string().contains("` is not a git commit"), "{wrong}");
    }
}

#[test]
fn what_is_missing_or_superfluous_is_named() {
    let error = |change: &dyn Fn(&mut Request), release_type| {
        let mut request = request(release_type);
        change(&mut request);
        request.versions().unwrap_err().to_string()
    };
    assert_eq!(
        error(&|request| request.prerelease = None, ReleaseType::Prerelease),
        "release type `prerelease` needs the number of the release candidate"
    );
    assert_eq!(
        error(&|request| request.prerelease = Some(1), ReleaseType::Nightly),
        "`--prerelease-version` has no meaning for release type `nightly`"
    );
    for release_type in [ReleaseType::NightlyBkc, ReleaseType::DevBkc] {
        let message = error(&|request| request.base_date = None, release_type);
        assert!(message.contains("needs `release-metadata.base-date`"), "{message}");
    }
    for release_type in [ReleaseType::Ci, ReleaseType::Dev, ReleaseType::DevBkc] {
        assert!(error(&|request| request.commit = None, release_type).ends_with("needs the git commit"));
    }
    for base in ["", "7.1", "7.1.0.0", "7.1.x", "v7.1.0", "7.01.0", "7..0", " 7.1.0"] {
        let message = error(&|request| base.clone_into(&mut request.base), ReleaseType::Release);
        assert_eq!(message, format!("the base version `{base}` is not of the form X.Y.Z"));
    }
}

#[test]
fn version_json_is_read_as_therock_writes_it() {
    let read = |text: &str| VersionFile::parse(text, "version.json");
    let plain = read(r#"{"rocm-version": "7.10.0", "comment": 1}"#).unwrap();
    assert_eq!(plain, VersionFile { rocm_version: "7.10.0".to_owned(), base_date: None });
    assert_eq!(read(r#"{"rocm-version": "7.10.0", "release-metadata": {"base-date": ""}}"#).unwrap(), plain);
    let dated = read(r#"{"rocm-version": "7.10.0", "release-metadata": {"base-date": "20240229", "x": 2}}"#).unwrap();
    assert_eq!(dated.base_date.unwrap().to_string(), "20240229");
    for wrong in ["20230229", "2026-8-1", "20261301", "20260800", "202608011", "tomorrow"] {
        let error = read(&format!(r#"{{"rocm-version": "7.10.0", "release-metadata": {{"base-date": "{wrong}"}}}}"#));
        assert!(error.unwrap_err().to_string().contains("valid date in YYYYMMDD format"), "{wrong}");
    }
    for wrong in ["{}", "["] {
        assert!(read(wrong).unwrap_err().to_string().starts_with("cannot understand `"), "{wrong}");
    }
    let error = read(r#"{"rocm-version": "7.10"}"#).unwrap_err();
    assert_eq!(error.to_string(), "the base version `7.10` is not of the form X.Y.Z");
    assert!("20260811".parse::<Date>().unwrap() < "20260812".parse().unwrap());
}

#[test]
fn pip_takes_the_higher_version_and_the_reason_is_said() {
    let cases = [
        ("7.1.0", "7.0.2", "7.1.0", "release 7.1.0 is above 7.0.2"),
        ("7.9.0", "7.10.0", "7.10.0", "release 7.10.0 is above 7.9.0"),
        ("1!1.0", "7.0", "1!1.0", "epoch 1 is above 0"),
        ("7.1.0", "7.1.0.post1", "7.1.0.post1", "post-release 1 comes after the final release"),
        (
            "7.1.0a20260811",
            "7.1.0a20260812",
            "7.1.0a20260812",
            "pre-release a20260812 comes after pre-release a20260811",
        ),
        (
            "7.1.0a20260811.post2",
            "7.1.0a20260811",
            "7.1.0a20260811.post2",
            "pre-release a20260811, post-release 2 comes after",
        ),
        ("7.1.0.dev0+abc", "7.1.0a1", "7.1.0a1", "pre-release a1 comes after development build dev0"),
        ("2.9.0", "2.9.0+rocm7.1", "2.9.0+rocm7.1", "`+rocm7.1` added to the same version makes it higher"),
        ("2.9.0+1", "2.9.0+rocm7.1", "2.9.0+1", "a number (`1`) is above any text (`rocm7`)"),
        ("2.9.0+rocm7.1", "2.9.0+rocm7.1.1", "2.9.0+rocm7.1.1", "has more segments"),
        ("2.9.0+rocm7.9", "2.9.0+rocm7.10", "2.9.0+rocm7.10", "10 is the larger number"),
        ("2.9.0+devrocm7.1", "2.9.0+rocm6.0", "2.9.0+rocm6.0", "compare as text"),
    ];
    for (left, right, preferred, reason) in cases {
        for (left, right) in [(left, right), (right, left)] {
            let comparison = compare(left, right).unwrap();
            assert_eq!(comparison.preferred.as_deref(), Some(preferred), "{left} {right}");
            assert!(comparison.reasons[0].contains(reason), "{left} {right}: {:?}", comparison.reasons);
            assert_eq!(comparison.warnings, Vec::<String>::new(), "{left} {right}");
        }
    }
}

#[test]
fn rocm_ten_sorts_below_rocm_seven_in_local_versions() {
    let comparison = compare("2.12.0+rocm10.0", "2.12.0+rocm7.0").unwrap();
    assert_eq!(comparison.preferred.as_deref(), Some("2.12.0+rocm7.0"));
    assert_eq!(comparison.passed_over.as_deref(), Some("2.12.0+rocm10.0"));
    assert!(
        comparison.warnings[0].starts_with("`rocm7` wins over the newer `rocm10`, because as text `7` comes after `1`"),
        "{:?}",
        comparison.warnings
    );
    // The order of texts is that of their numbers, so there is no warning.
    assert!(compare("2.12.0+rocm6.4", "2.12.0+rocm7.0").unwrap().warnings.is_empty());
    assert!(compare("2.11.0+rocm7.0", "2.12.0+rocm10.0").unwrap().warnings.is_empty());
}

#[test]
fn a_pre_release_is_passed_over_while_there_is_a_final_version() {
    let comparison = compare("7.2.0a20260811", "7.1.0").unwrap();
    assert_eq!(comparison.preferred.as_deref(), Some("7.1.0"));
    assert!(comparison.reasons[0].starts_with("`7.2.0a20260811` is the higher version"));
    assert!(comparison.reasons[1].contains("with `--pre`"));
}

#[test]
fn spellings_of_one_version_are_the_same_to_pip() {
    let comparison = compare("7.1.0-RC1", "7.1rc1").unwrap();
    assert_eq!(comparison.preferred, None);
    assert_eq!(comparison.warnings, ["pip reads `7.1.0-RC1` as `7.1.0rc1`"]);
    let error = compare("7.1.0~pre2", "7").unwrap_err();
    assert_eq!(error.to_string(), "`7.1.0~pre2` is not a version that pip accepts (PEP 440)");
}
