//! `rocwheel compat`: today's scripts as build files and workflows call them.

#![allow(clippy::unwrap_used, reason = "a failed expectation fails the test")]

mod check;

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use rocwheel_fixtures::{Ran, TestContext, files_below};

fn context() -> TestContext {
    TestContext::new(env!("CARGO_BIN_EXE_rocwheel"))
}

fn compat(context: &TestContext, arguments: &[&str]) -> Ran {
    context.run([&["compat"], arguments].concat())
}

/// The words of a line after `compat`, which end well.
fn typed(context: &TestContext, line: &str) -> Ran {
    good(context, &line.split(' ').collect::<Vec<_>>())
}

fn good(context: &TestContext, arguments: &[&str]) -> Ran {
    let ran = compat(context, arguments);
    assert_eq!(ran.code, Some(0), "{arguments:?}: {ran:?}");
    ran
}

mod versions {
    use super::*;

    const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

    #[test]
    fn the_outputs_are_those_of_today() {
        let context = context();
        context.write("version.json", r#"{"rocm-version": "10.1.0", "release-metadata": {"base-date": ""}}"#);
        let outputs = context.write("outputs", "");
        let context = context.with_variable("GITHUB_OUTPUT", outputs.display().to_string());
        let script = "compute_rocm_package_version";
        // A workflow passes all its inputs, including the empty ones.
        good(
            &context,
            &[
                &[script, "--release-type", "dev", "--override-git-sha", COMMIT][..],
                &["--custom-version-suffix", "", "--prerelease-version", "", "--override-base-version", ""],
            ]
            .concat(),
        );
        let text = fs_err::read_to_string(&outputs).unwrap();
        let [wheel, deb, rpm] = text.lines().collect::<Vec<_>>()[..] else { panic!("{text}") };
        assert_eq!(wheel, format!("rocm_package_version=10.1.0.dev0+{COMMIT}"));
        let day = deb.strip_prefix("rocm_deb_package_version=10.1.0~dev").unwrap();
        assert!(day.len() == 8 && day.bytes().all(|byte| byte.is_ascii_digit()), "{deb}");
        assert_eq!(rpm, format!("rocm_rpm_package_version=10.1.0~{day}g01234567"));

        let ran = good(&context, &[script, "--release-type", "prerelease", "--prerelease-version", "3"]);
        assert_eq!(ran.stdout, "wheel  10.1.0rc3\ndeb    10.1.0~pre3\nrpm    10.1.0~rc3\n");
        let ran = good(&context, &[script, "--custom-version-suffix", ".dev5", "--override-base-version", "7.0.0"]);
        assert!(ran.stdout.starts_with("wheel  7.0.0.dev5\n"), "{ran:?}");
        let ran = good(&context, &[script, "--release-type", "asan", "--asan-build-id", "My_Build-7"]);
        assert!(ran.stdout.starts_with("wheel  10.1.0+asan.my.build.7\n"), "{ran:?}");
        for (arguments, expected) in [
            (vec![], "neither `--release-type` nor"),
            (vec!["--release-type", ""], "neither `--release-type` nor"),
            (vec!["--release-type", "weekly"], "there is no release type `weekly`"),
            (vec!["--release-type", "nightly", "--prerelease-version", "3"], "`--prerelease-version` has no meaning"),
            (vec!["--release-type", "prerelease", "--prerelease-version", ""], "needs the number"),
            (vec!["--release-type", "prerelease", "--prerelease-version", "x"], "`--prerelease-version x` is not"),
            (vec!["--release-type", "release", "--custom-version-suffix", "a1"], "exclude each other"),
            (vec!["--release-type", "nightly", "--asan-build-id", "1"], "is for `--release-type asan`"),
            (vec!["--release-type", "asan", "--asan-build-id", "a b"], "cannot be part of a version"),
        ] {
            let ran = compat(&context, &[&[script], &arguments[..]].concat());
            assert_eq!(ran.code, Some(2), "{ran:?}");
            assert!(ran.stderr.contains(expected), "{arguments:?}: {ran:?}");
        }
    }

    #[test]
    fn families_become_targets_or_extras() {
        let context = context();
        let outputs = context.path("outputs");
        let context = context.with_variable("GITHUB_OUTPUT", outputs.display().to_string());
        let expand = |list: &str, more: &[&str]| {
            compat(&context, &[&["expand_amdgpu_families", "--amdgpu-families", list], more].concat())
        };
        assert_eq!(expand("gfx94X-dcgpu;gfx120X-all", &[]).stdout, "gfx942,gfx1200,gfx1201\n");
        assert_eq!(expand(" gfx942 , gfx94X-all ;", &[]).stdout, "gfx942\n");
        assert_eq!(expand("", &["--output-mode", "device-extras"]).stdout, "\n");
        assert!(!outputs.exists(), "the other mode, and nothing, have no output");
        assert_eq!(expand("gfx110X-dgpu", &["--output-mode", "device-extras"]).code, Some(0));
        let extras = "device-gfx1100,device-gfx1101,device-gfx1102";
        assert_eq!(fs_err::read_to_string(&outputs).unwrap(), format!("device_extras={extras}\n"));
        // It has no device package, so there is no extra of its name.
        assert_eq!(expand("gpu-generic;gfx1100", &[]).stdout, "amdgcnspirv,gfx1100\n");
        assert_eq!(expand("gpu-generic,gfx1100", &["--output-mode", "device-extras"]).stdout, "device-gfx1100\n");
        let unknown = expand("gfx90X-dcgpu", &[]);
        assert_eq!((unknown.code, unknown.stdout.as_str()), (Some(2), ""));
        assert!(
            unknown.stderr.contains("`gfx90X-dcgpu`") && unknown.stderr.contains("did you mean `gfx908-dcgpu`?"),
            "{unknown:?}"
        );
    }
}

mod fileset {
    use super::*;

    const DESCRIPTOR: &str = "[components.lib.\"a/stage\"]\n[components.run.\"a/stage\"]\ninclude = [\"bin/**\"]\n\
        [components.dev.\"a/stage\"]\n[components.dev.\"b/stage\"]\noptional = true\n[components.test.\"c/stage\"]\n";

    fn tree() -> TestContext {
        let context = context();
        context.write("src/a/stage/lib/liba.so.1", "1");
        rocwheel_system::symlink("liba.so.1", context.path("src/a/stage/lib/liba.so")).unwrap();
        context.write("src/a/stage/bin/t", "t");
        context.write("src/a/stage/include/x/h.h", "h");
        context.write("src/a/stage/share/doc/z/d", "d");
        context.write("src/b/stage/lib/libb.a", "l");
        context.write("artifact.toml", DESCRIPTOR);
        context
    }

    fn divide(context: &TestContext, components: &[&str]) -> Ran {
        let head = "fileset_tool artifact --root-dir src --descriptor artifact.toml --artifact-name foo";
        compat(context, &head.split(' ').chain(components.iter().copied()).collect::<Vec<_>>())
    }

    #[test]
    fn a_build_is_divided_packed_and_laid_out() {
        let context = tree();
        let ran = divide(
            &context,
            &["lib", "run", "dev", "test"].map(|name| [name, &*format!("out/foo_{name}_generic").leak()]).concat(),
        );
        assert_eq!(ran.code, Some(0), "{ran:?}");
        assert!(ran.stderr.contains("there is no `src/c/stage`"), "{ran:?}");
        assert_eq!(
            files_below(&context.path("out")).join(" "),
            "foo_dev_generic/a/stage/include/x/h.h foo_dev_generic/artifact_manifest.txt \
            foo_dev_generic/b/stage/lib/libb.a foo_lib_generic/a/stage/lib/liba.so \
            foo_lib_generic/a/stage/lib/liba.so.1 foo_lib_generic/artifact_manifest.txt \
            foo_run_generic/a/stage/bin/t foo_run_generic/artifact_manifest.txt \
            foo_test_generic/artifact_manifest.txt"
        );
        let manifest =
            |name: &str| fs_err::read_to_string(context.path("out").join(name).join("artifact_manifest.txt"));
        assert_eq!(manifest("foo_dev_generic").unwrap(), "a/stage\nb/stage\n");
        assert_eq!(manifest("foo_test_generic").unwrap(), "c/stage\n");

        typed(
            &context,
            "fileset_tool artifact-archive out/foo_lib_generic -o up/foo_lib_generic.tar.xz --hash-file up/foo_lib_generic.tar.xz.sha256sum",
        );
        assert_eq!(files_below(&context.path("up")), ["foo_lib_generic.tar.xz", "foo_lib_generic.tar.xz.sha256sum"]);
        let digest = fs_err::read_to_string(context.path("up/foo_lib_generic.tar.xz.sha256sum")).unwrap();
        assert_eq!(digest.split_whitespace().next().unwrap().len(), 64, "readers take the first word");
        typed(
            &context,
            "fileset_tool artifact-archive out/foo_lib_generic -o up/foo_lib_generic.tar.zst --compression-type zstd --compression-level 1 --hash-file digest",
        );
        assert!(context.path("digest").is_file() && context.path("up/foo_lib_generic.tar.zst").is_file());

        context.write("flat/kept", "");
        let ran = typed(
            &context,
            "fileset_tool artifact-flatten up/foo_lib_generic.tar.zst out/foo_dev_generic -o flat --verbose",
        );
        assert_eq!(ran.stdout, "include\ninclude/x\ninclude/x/h.h\nlib\nlib/liba.so\nlib/liba.so.1\nlib/libb.a\n");
        assert_eq!(
            files_below(&context.path("flat")),
            ["include/x/h.h", "kept", "lib/liba.so", "lib/liba.so.1", "lib/libb.a"]
        );
        let inode = |path: &str| fs_err::metadata(context.path(path)).unwrap().ino();
        assert_ne!(inode("flat/lib/libb.a"), inode("src/b/stage/lib/libb.a"));
        let split = ["fileset_tool", "artifact-flatten-split", "-o", "flat2", "--artifacts-dir", "out"];
        good(&context, &[&split[..], &["foo_lib", "foo_run", "foo"]].concat());
        assert_eq!(
            files_below(&context.path("flat2")),
            ["bin/t", "include/x/h.h", "lib/liba.so", "lib/liba.so.1", "lib/libb.a"]
        );
        let none = good(&context, &[&split[..], &["bar_lib"]].concat());
        assert!(none.stderr.contains("no artifact in `out` begins with `bar_lib`"), "{none:?}");
    }

    #[test]
    fn files_are_listed_and_copied() {
        let context = tree();
        let list = |arguments: &[&str]| good(&context, &[&["fileset_tool", "list"], arguments].concat()).stdout;
        assert_eq!(list(&["src/a/stage", "--include", "lib/**", "bin/*"]), "bin/t\nlib\nlib/liba.so\nlib/liba.so.1\n");
        assert_eq!(list(&["src/b/stage", "--include", ""]), "lib\nlib/libb.a\n");
        assert_eq!(list(&["src/b/stage", "--include", "nothing"]), "");
        assert!(list(&[]).contains("artifact.toml\n"));
        let copy = |arguments: &[&str]| compat(&context, &[&["fileset_tool", "copy"], arguments].concat());
        context.write("dst/old", "");
        assert_eq!(copy(&["dst", "src/a/stage", "--no-remove-dest", "--exclude", "share/**"]).code, Some(0));
        assert_eq!(
            files_below(&context.path("dst")),
            ["bin/t", "include/x/h.h", "lib/liba.so", "lib/liba.so.1", "old"]
        );
        let inode = |path: &str| fs_err::metadata(context.path(path)).unwrap().ino();
        assert_eq!(inode("dst/bin/t"), inode("src/a/stage/bin/t"));
        assert_eq!(copy(&["dst", "src/a/stage", "--always-copy"]).code, Some(0));
        assert!(!context.path("dst/old").exists() && context.path("dst/share/doc/z/d").exists());
        assert_ne!(inode("dst/bin/t"), inode("src/a/stage/bin/t"));
        let overlap = copy(&["src", "src/a/stage"]);
        assert_eq!(overlap.code, Some(1), "{overlap:?}");
        assert!(context.path("src/b/stage/lib/libb.a").exists());
    }

    #[test]
    fn what_is_wrong_is_said_and_nothing_is_written() {
        let context = tree();
        let wrong = |components: &[&str], code: i32, expected: &str| {
            let ran = divide(&context, components);
            assert_eq!(ran.code, Some(code), "{ran:?}");
            assert!(ran.stderr.contains(expected), "{expected}: {ran:?}");
            assert!(!context.path("out").exists());
        };
        wrong(&["lib"], 2, "component `lib` has no directory");
        wrong(&["lib", "out/x_lib_generic", "libs", "out/y"], 2, "has no component `libs`");
        wrong(&["lib", "out/x", "run", "out/x"], 2, "are both to be written to `out/x`");
        wrong(&["lib", "src"], 1, "are inside one another");
        context.write("src/b/stage/lib/liba.so.1", "other");
        context.write("artifact.toml", "[components.lib.\"a/stage\"]\n[components.lib.\"b/stage\"]\n");
        wrong(&["lib", "out/x_lib_generic"], 1, "`lib/liba.so.1` is in the basedirs `a/stage` and `b/stage`");
        context.write("artifact.toml", "[components.lib.\"a/stage\"]\nincludes = []\n");
        wrong(&["lib", "out/x_lib_generic"], 1, "illegal key: `includes`");

        let archive = |arguments: &[&str]| {
            compat(&context, &[&["fileset_tool", "artifact-archive", "x_lib_generic", "-o"], arguments].concat())
        };
        for (arguments, expected) in [
            (vec!["x.tar.gz"], "x.tar.gz"),
            (vec!["x_lib_generic.tar.zst", "--compression-type", "xz"], "does not end in `.tar.xz`"),
            (vec!["x.tar.xz", "--hash-algorithm", "md5"], "`--hash-algorithm md5` is not supported"),
            (vec!["x.tar.xz", "y_lib_generic"], "only one artifact goes into an archive"),
        ] {
            let ran = archive(&arguments);
            assert_eq!(ran.code, Some(2), "{ran:?}");
            assert!(ran.stderr.contains(expected), "{ran:?}");
        }
        assert_eq!(archive(&["x_lib_generic.tar.xz"]).code, Some(1), "there is no such artifact");
    }
}

/// The flags of TheRock's open change #7239.
#[test]
fn artifacts_are_reached_as_asked_for() {
    let context = context()
        .with_variable("THEROCK_LOCAL_STAGING_DIR", "stage")
        .with_variable("AWS_ENDPOINT_URL", "http://127.0.0.1:9");
    let (run, push) = (["--run-id", "5", "--dry-run"], ["--run-id", "5", "--stage", "all", "--build-dir", "o"]);
    for (words, said) in [
        (&[&["fetch_artifacts"], &run[..]].concat(), "--from stage"),
        (&[&["fetch_artifacts", "--transport", "local"], &run[..]].concat(), "--from stage"),
        (&[&["fetch_artifacts", "--transport", "s3"], &run[..]].concat(), "--platform linux --output"),
        (&[&["fetch_artifacts", "--transport", "http"], &run[..]].concat(), "--platform linux --anonymous --output"),
        (&[&["fetch_artifacts", "--bucket-config-file", "b.json"], &run[..]].concat(), "b.json` is not read"),
        (&[&["artifact_manager", "push", "--transport", "http"], &push[..]].concat(), "`--transport http` only reads"),
        (&[&["artifact_manager", "push", "--transport", "s3"], &push[..]].concat(), "--to s3://"),
        (&[&["artifact_manager", "push"], &push[..]].concat(), "--to stage"),
    ] {
        let ran = compat(&context, words);
        assert!(ran.code != Some(0) && ran.stderr.contains(said), "{words:?}: {ran:?}");
    }
    let context = self::context();
    let ran = compat(&context, &[&["fetch_artifacts", "--transport", "local"], &run[..]].concat());
    assert!(ran.code == Some(2) && ran.stderr.contains("needs the folder"), "{ran:?}");
    let context = context.with_variable("THEROCK_ARTIFACT_TRANSPORT", "htp");
    let ran = compat(&context, &[&["fetch_artifacts"], &run[..]].concat());
    assert!(ran.code == Some(2) && ran.stderr.contains("`THEROCK_ARTIFACT_TRANSPORT=htp` is no transport"), "{ran:?}");
}

mod packages {
    use super::*;

    fn filled(context: &TestContext) {
        let manifest = r#"{"the_rock_commit": null, "rocm_package_version": "10.1.0a1", "rocm_version": "10.1.0",
            "submodules": [], "flags": {"KPACK_SPLIT_ARTIFACTS": true}}"#;
        let directory = "base/aux-overlay/stage/share/therock";
        context.artifact(
            "in",
            "base_lib_generic",
            &[
                (&format!("{directory}/therock_manifest.json"), manifest.as_bytes()),
                (&format!("{directory}/dist_info.json"), br#"{"dist_amdgpu_targets": "gfx942;gfx1100"}"#),
            ],
        );
        context.artifact("in", "core-hip_lib_generic", &[("core/stage/bin/hipconfig", b"#!/bin/sh\n")]);
        context.artifact("in", "core-hip_dev_generic", &[("core/stage/include/hip/hip.h", b"#pragma once\n")]);
        context.artifact("in", "blas_lib_generic", &[("blas/stage/share/blas/readme", b"x")]);
        for target in ["gfx942", "gfx1100"] {
            let path = format!("blas/stage/lib/rocblas/library/k_{target}.co");
            context.artifact("in", &format!("blas_lib_{target}"), &[(&path, target.as_bytes())]);
        }
    }

    /// TheRock's open changes #7312 and #7313.
    #[test]
    fn a_build_with_the_address_sanitizer_has_its_version_and_its_runtime() {
        let context = context();
        filled(&context);
        for (more, reason) in [
            (&["--asan"][..], "has no shared runtime of the address sanitizer"),
            (&["--asan", "--version", "10.1.0"], "wants `10.1.0+asan.ID`"),
            (&["--asan", "--version", "10.1.1+asan.1"], "is not that of a build with the address sanitizer"),
            (&["--asan", "--asan-build-id", "a..b"], "cannot be part of a version"),
            (&["--asan-build-id", "1"], "--asan"),
        ] {
            let ran = build(&context, more);
            assert!(ran.code != Some(0) && ran.stderr.contains(reason), "{more:?}: {ran:?}");
            assert!(!context.path("out").exists(), "{more:?}");
        }
        let runtime = "llvm/stage/lib/llvm/lib/clang/22/lib/linux/libclang_rt.asan-x86_64.so";
        let still = "llvm/stage/lib/llvm/lib/clang/22/lib/linux/libclang_rt.asan-x86_64.a";
        context.artifact("in", "amd-llvm_dev_generic", &[(still, b"archive")]);
        assert_eq!(build(&context, &["--asan"]).code, Some(1), "the static runtime is none");
        context.artifact("in", "amd-llvm_lib_generic", &[(runtime, b"runtime")]);
        for (more, version) in [(&["--asan-build-id", "x-1"][..], "x.1"), (&["--version", "10.1.0+asan.2"], "2")] {
            let ran = build(&context, &[&["--asan", "--no-audit"], more].concat());
            assert_eq!(ran.code, Some(0), "{ran:?}");
            assert!(context.path(format!("out/dist/rocm-10.1.0+asan.{version}.tar.gz")).exists(), "{ran:?}");
        }
    }

    const SCRIPT: [&str; 5] = ["build_python_packages", "--artifact-dir", "in", "--dest-dir", "out"];

    fn build(context: &TestContext, more: &[&str]) -> Ran {
        compat(context, &[&SCRIPT, more].concat())
    }

    #[test]
    fn the_version_is_that_of_a_development_build() {
        let context = context();
        filled(&context);
        let plan = |more: &[&str]| build(&context, &[&["--no-build-packages", "--version", ""], more].concat());
        let ran = plan(&[]);
        assert!(ran.stdout.contains("version 10.1.0.dev0, shape split"), "{ran:?}");
        assert!(!context.path("out").exists(), "the plan writes nothing");
        context.write("version.json", r#"{"rocm-version": "10.2.0"}"#);
        assert!(plan(&["--devel-tarball-compression"]).stdout.contains("version 10.2.0.dev0"));
        let ran = plan(&["--devel-tarball-compression"]);
        assert!(ran.stderr.contains("`--devel-tarball-compression` has no effect"), "{ran:?}");
        assert!(!plan(&["--devel-tarball-compression", "--no-devel-tarball-compression"]).stderr.contains("no effect"));
    }

    #[test]
    fn targets_that_are_missing_and_flags_of_other_scripts_are_named() {
        let context = context();
        filled(&context);
        let ran = build(&context, &["--linux-amdgpu-families", "gfx950-dcgpu,gfx942"]);
        assert_eq!(ran.code, Some(1), "{ran:?}");
        assert!(ran.stderr.contains("gfx950") && !context.path("out/dist").exists(), "{ran:?}");
        let ran = build(&context, &["--run-id", "12"]);
        assert_eq!(ran.code, Some(2), "{ran:?}");
        assert!(ran.stderr.contains("`--run-id` is of `fetch_artifacts`"), "{ran:?}");
        let ran = build(&context, &["--nonsense"]);
        assert!(ran.code == Some(2) && ran.stderr.contains("'--nonsense'"), "{ran:?}");
    }

    #[test]
    fn a_github_step_gets_outputs_a_summary_and_annotations() {
        let context = context();
        filled(&context);
        context.artifact("in", "zzz::stop_lib_generic", &[("zzz/stage/lib/x", b"x")]);
        let outputs = context.write("outputs", "earlier=1");
        let summary = context.path("summary");
        let context = context
            .with_variable("GITHUB_ACTIONS", "true")
            .with_variable("GITHUB_OUTPUT", outputs.display().to_string())
            .with_variable("GITHUB_STEP_SUMMARY", summary.display().to_string());
        let families = [
            &["--linux-amdgpu-families", "gfx94X-dcgpu;gfx1100;gpu-generic"][..],
            &["--windows-amdgpu-families", "gfx1100;amdgcnspirv", "--build-packages", "--no-wheel-compression"],
        ];
        let ran = build(&context, &[&["--version", "1.0", "--version-suffix", ""], &families.concat()[..]].concat());
        assert_eq!(ran.code, Some(0), "{ran:?}");
        let warning =
            "::warning title=rocwheel compat build_python_packages::no rule claims `zzz::stop_lib_generic` (1 file)";
        assert!(ran.stderr.lines().any(|line| line.starts_with(warning)), "{ran:?}");
        assert!(ran.stderr.contains("::group::What is in no package\n") && ran.stderr.contains("::endgroup::\n"));
        let text = fs_err::read_to_string(&outputs).unwrap();
        assert!(text.starts_with("earlier=1\nversion=1.0\ndist=out/dist\npackages<<END_OF_VALUE\nout/dist/"), "{text}");
        assert!(text.ends_with("END_OF_VALUE\ntargets=gfx942,gfx1100\nkpack_split=true\nexit_code=0\n"), "{text}");
        let text = fs_err::read_to_string(&summary).unwrap();
        let title = "### rocwheel compat build&#95;python&#95;packages\n\n| Package | Files |";
        assert!(text.starts_with(title) && text.contains("| dist/rocm&#45;1.0.tar.gz |"), "{text}");

        let failed = build(&context, &["--linux-amdgpu-families", "gfx950"]);
        assert_eq!(failed.code, Some(1), "{failed:?}");
        let error = "::error title=rocwheel compat build_python_packages::no artifact holds code for gfx950%0Ahint: ";
        assert!(failed.stderr.starts_with(error), "{failed:?}");
        assert_eq!(failed.stderr.lines().count(), 1, "one annotation holds all of it");
        assert!(fs_err::read_to_string(&outputs).unwrap().ends_with("\nexit_code=1\n"));
        assert!(fs_err::read_to_string(&summary).unwrap().contains("exit code 1&#58; a check failed"));
        let usage = build(&context, &["--nonsense"]);
        assert!(usage.stderr.starts_with("::error title=rocwheel::unexpected argument '--nonsense'"), "{usage:?}");
    }
}

#[test]
fn buckets_and_roles_are_outputs() {
    let context = context();
    let outputs = context.write("outputs", "");
    let event = |head: &str| {
        let text = r#"{"pull_request": {"head": {"repo": {"full_name": "HEAD"}}, "base": {"repo": {"full_name": "ROCm/TheRock"}}}}"#;
        context.write("event.json", text.replace("HEAD", head)).display().to_string()
    };
    let own = event("ROCm/TheRock");
    let context = context.with_variable("GITHUB_OUTPUT", outputs.display().to_string());
    let context = context.with_variable("GITHUB_EVENT_PATH", own);
    let ran = good(&context, &["write_artifacts_bucket_info.py", "--release-type", ""]);
    let expected =
        "bucket=therock-ci-artifacts\niam_role=arn:aws:iam::692859939525:role/therock-ci\naws_region=us-east-2\n";
    assert_eq!((ran.stdout.as_str(), fs_err::read_to_string(&outputs).unwrap().as_str()), (expected, expected));
    context.write("event.json", fs_err::read_to_string(context.path("event.json")).unwrap().replacen("ROCm", "me", 1));
    let ran = typed(&context, "write_artifacts_bucket_info");
    assert_eq!(ran.stdout, "bucket=therock-ci-artifacts-external\niam_role=\naws_region=us-east-2\n");
    context.write("event.json", "no event");
    let ran = compat(&context, &["write_artifacts_bucket_info"]);
    assert!(ran.code == Some(1) && ran.stderr.contains("is no event"), "{ran:?}");

    let release = ["write_product_release_bucket_info", "--release-type", "prerelease", "--product", "core"];
    let ran = good(&context, &release);
    assert!(ran.stdout.ends_with("\npackage_index_url=https://rc.repo.amd.com/rocm/whl-next/\n"), "{ran:?}");
    let ran = compat(&context, &["write_product_release_bucket_info", "--release-type", "ci", "--product", "core"]);
    assert!(ran.code != Some(0) && ran.stderr.contains("not published by machine"), "{ran:?}");
}

#[test]
fn names_of_scripts_may_end_as_their_files_do() {
    let context = context();
    let without = typed(&context, "expand_amdgpu_families --amdgpu-families=gfx94X-dcgpu");
    for script in ["expand_amdgpu_families.py", "./build_tools/expand_amdgpu_families.py"] {
        let with = compat(&context, &[script, "--amdgpu-families=gfx94X-dcgpu"]);
        assert_eq!((with.code, &with.stdout), (without.code, &without.stdout), "{script}");
    }
    for script in ["publish_rocm_to_release_buckets", "tools/upload_release_packages.py"] {
        let ran = compat(&context, &[script]);
        assert_eq!(ran.code, Some(2), "{ran:?}");
        assert!(ran.stderr.contains("does not cover the script") && !ran.stderr.contains("similar"), "{ran:?}");
    }
    let ran = compat(&context, &["make", "magma-rocm63"]);
    assert!(ran.code == Some(2) && ran.stderr.contains("rocwheel build magma-rocm63"), "{ran:?}");
}

#[test]
fn every_script_is_listed() {
    let context = context();
    let listed = context.types("compat");
    for script in ["build_python_packages", "compute_rocm_package_version", "expand_amdgpu_families", "fileset_tool"] {
        assert!(listed.stdout.contains(script), "{listed:?}");
        let help = context.run(["compat", script, "--help"]);
        assert_eq!(help.code, Some(0), "{help:?}");
    }
}
