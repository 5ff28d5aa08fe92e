//! `rocwheel build`, `recipe` and `matrix`: small builds that need neither network nor compiler,
//! and the messages about wrong ones.

#![allow(clippy::unwrap_used, reason = "a failed expectation fails the test")]

mod containers;
mod plans;
mod recipes;

use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use insta::assert_snapshot;
use rocwheel_fixtures::{Ran, TestContext};
use serde_json::Value;

const RECIPE: &str = r#"
schema = 1
name = "tiny"
summary = "Something tiny"
distribution = "tiny"
source = "tiny"
platforms = ["linux"]
backends = ["plain", "rocm"]
without-sdk = ["plain"]
any-python = ["plain", "rocm"]
layers = ["compilers", "rocm"]
work-on = "copy"

[version-file]
path = "version.txt"

[[version]]
when = { backend = "plain" }
text = "${source.version}+rocm${rocm.minor}"

[[version]]
text = "${source.version}+${label}"

[[environment]]
set = { TINY_VERSION = "${version}" }
default = { TINY_FAST = "on" }

[[step]]
name = "count"
directory = "${work}"
run = ["${python}", "-c", "open('count', 'a').write('x')"]

[[step]]
name = "wheel"
timeout = "20s"
run = ["${python}", "make.py"]

[output]
wheel = "dist/*.whl"
"#;

/// Makes a wheel with only the standard library, or does what `how.txt` says.
const MAKE: &str = r#"
import base64, hashlib, os, pathlib, sys, time, zipfile
how = pathlib.Path("how.txt").read_text().strip()
version = os.environ["TINY_VERSION"]
if how == "memory" or how == "memory unless alone" and os.environ["TINY_JOBS"] != "1":
    print("\n".join(f"[{n}/9] compiling {n}.cpp" for n in range(30)))
    print("c++: fatal error: Killed signal terminated program cc1plus")
    sys.exit(1)
if how.startswith("sleep"):
    # Once: the next run goes on.
    mark = pathlib.Path(os.environ["VIRTUAL_ENV"]).parent / "slept"
    if not mark.exists():
        mark.write_text("")
        print("sleeping", flush=True)
        time.sleep(60)
if how == "nothing":
    sys.exit(0)
if how == "version":
    version = "9.9"
for name, value in sorted(os.environ.items()):
    print(f"{name}={value}")
pathlib.Path("dist").mkdir(exist_ok=True)
info = f"tiny-{version}.dist-info"
files = {
    "tiny.py": f"runs = {(pathlib.Path(os.environ['VIRTUAL_ENV']).parent / 'count').read_text()!r}" if how == "runs" else "",
    f"{info}/METADATA": f"Metadata-Version: 2.1\nName: tiny\nVersion: {version}\n",
    f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
}
rows = []
with zipfile.ZipFile(f"dist/tiny-{version}-py3-none-any.whl", "w") as wheel:
    def add(name, text):
        wheel.writestr(zipfile.ZipInfo(name), text)
    for name, text in files.items():
        add(name, text)
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).decode().rstrip("=")
        rows.append(f"{name},sha256={digest},{len(text)}\n")
    add(f"{info}/RECORD", "".join(rows) + f"{info}/RECORD,,\n")
"#;

fn context(how: &str) -> TestContext {
    let context = TestContext::new(env!("CARGO_BIN_EXE_rocwheel"));
    context.write("recipes/tiny.toml", RECIPE);
    context.write("source/version.txt", "1.0\n");
    context.write("source/make.py", MAKE);
    context.write("source/how.txt", how);
    context
}

const WHEEL: &str = "tiny-1.0+rocm7.2-py3-none-any.whl";

fn build(context: &TestContext, more: &[&str]) -> Ran {
    let arguments =
        ["build", "tiny", "--recipes", "recipes", "--source", "source", "--rocm", "7.2", "--output", "out", "--no-uv"];
    context.run(arguments.iter().chain(more))
}

/// The only folder of a job.
fn job(context: &TestContext) -> std::path::PathBuf {
    let mut jobs = fs_err::read_dir(context.path("out/.rocwheel/jobs")).unwrap();
    let job = jobs.next().unwrap().unwrap().path();
    assert!(jobs.next().is_none(), "there are several jobs");
    job
}

fn log(context: &TestContext, stage: &str) -> String {
    let mut logs = fs_err::read_dir(job(context).join("logs")).unwrap().map(|entry| entry.unwrap().path());
    let path = logs.find(|path| path.to_string_lossy().ends_with(&format!("-{stage}.log"))).unwrap();
    fs_err::read_to_string(path).unwrap()
}

#[test]
fn a_wheel_is_built_once() {
    let context = context("good").with_variable("SECRET", "mine").with_variable("CXXFLAGS", "-O9");
    let ran = build(&context, &["-v"]).ends(0, "audited: no errors");
    // The names of stages, as in the line that appears every ten seconds.
    for stage in ["sources (step 1 of 7)", "wheel (step 4 of 7)", "publish (step 7 of 7)"] {
        assert!(ran.stderr.contains(&format!("\ntiny-1.0-plain-rocm7.2: {stage}: ")), "{stage}: {ran:?}");
    }
    let bytes = fs_err::read(context.path("out").join(WHEEL)).unwrap();
    // Only the written records and the logs are left.
    let left: Vec<String> = fs_err::read_dir(job(&context))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert!(left.iter().all(|name| ["state.json", "job.toml", "lock", "logs"].contains(&name.as_str())), "{left:?}");
    assert!(!context.path("source/dist").exists(), "sources are never changed");
    let said = log(&context, "wheel");
    assert!(said.contains("TINY_VERSION=1.0+rocm7.2\n") && said.contains("PYTHONNOUSERSITE=1"), "{said}");
    assert!(!said.contains("SECRET") && !said.contains("-O9"), "{said}");
    assert!(said.lines().any(|line| line.starts_with("PATH=") && line.contains("/venv/bin:")), "{said}");
    let document = build(&context, &["--json"]).json();
    assert_eq!(document["jobs"][0]["status"], "unchanged");
    assert_eq!(document["jobs"][0]["outputs"][0]["path"], WHEEL);
    // A removed wheel is built again, with the same bytes.
    fs_err::remove_file(context.path("out").join(WHEEL)).unwrap();
    build(&context, &["--json"]).prints("\"status\": \"built\"");
    assert_eq!(fs_err::read(context.path("out").join(WHEEL)).unwrap(), bytes);
}

#[test]
fn a_job_file_is_the_same_job() {
    let context = context("good");
    for name in ["job.toml", "job.json"] {
        let ran = build(&context, &["--write-job", name]);
        assert_eq!((ran.code, ran.stdout.trim()), (Some(0), name), "{ran:?}");
    }
    assert!(build(&context, &["--write-job", "/dev/stdout"]).stdout.starts_with("schema = 1\n"));
    assert!(!context.path("out").exists());
    let document = context.types("build --job job.json --output out --no-uv --json").exits(0).json();
    let again = context.types("build --job job.toml --output out --no-uv --json").json();
    assert_eq!(again["jobs"][0]["status"], "unchanged");
    assert_eq!(again["jobs"][0]["key"], document["jobs"][0]["key"]);
    context.write("source/how.txt", "other");
    context.types("build --job job.toml --output elsewhere --no-uv").ends(1, "are not those that the job was made for");
    for (text, words) in [
        ("{\"schema\": 1}", "missing field"),
        ("schema = 1", "missing field"),
        ("schema = 1\nsorce = 1", "unknown field `sorce`\nhint: did you mean `source`?"),
    ] {
        context.write("bad.toml", text);
        context.types("build --job bad.toml --output out").ends(1, words);
    }
}

#[test]
fn what_a_variable_decides_is_a_part_of_the_job() {
    let key = |context: &TestContext| {
        let ran = build(context, &["--write-job", "job.toml", "--json"]);
        serde_json::from_str::<Value>(&ran.stdout).unwrap()["key"].clone()
    };
    let usual = context("good");
    let own = context("good").with_variable("TINY_FAST", "${off}");
    assert_ne!(key(&usual), key(&own));
    // The file has the same key wherever it is run.
    fs_err::copy(own.path("job.toml"), usual.path("own.toml")).unwrap();
    let text = fs_err::read_to_string(usual.path("own.toml")).unwrap();
    let text = text.replace(&*own.path("").to_string_lossy(), &usual.path("").to_string_lossy());
    usual.write("own.toml", &text);
    usual.types("build --job own.toml --output out --no-uv --keep").exits(0);
    assert!(log(&usual, "wheel").contains("TINY_FAST=${off}\n"));
}

#[test]
fn wheels_that_are_there_are_installed_before() {
    let context = context("good");
    assert_eq!(build(&context, &[]).code, Some(0));
    let asks = RECIPE.replace("\nname = \"tiny\"", "\nname = \"asks\"");
    let asks = asks.replace("open('count', 'a').write('x')", "import tiny; print(tiny.__file__)");
    context.write("recipes/asks.toml", asks);
    let wheel = format!("out/{WHEEL}");
    let base =
        ["build", "asks", "--recipes", "recipes", "--source", "source", "--rocm", "7.2", "--no-uv", "--output", "more"];
    let only = ["--only", "count"];
    context.run(base.iter().chain(&only)).ends(1, "No module named 'tiny'");
    context.run(base.iter().chain(&only).chain(&["--with", &wheel])).exits(0);
    for (with, words) in
        [("out/none-1.0-py3-none-any.whl", "none-1.0"), ("recipes/tiny.toml", "is not the name of a wheel")]
    {
        let ran = context.run(base.iter().chain(&["--with", with]));
        assert!(ran.code != Some(0) && ran.stderr.contains(words), "{ran:?}");
    }
}

/// The version of the Python that builds here: `3.11`.
fn python() -> String {
    let code = "import sys; print('%d.%d' % sys.version_info[:2])";
    let ran = std::process::Command::new("python3").args(["-c", code]).output().unwrap();
    String::from_utf8(ran.stdout).unwrap().trim().to_owned()
}

#[test]
fn a_wheel_for_any_python_is_tried_on_those_that_are_named() {
    let context = context("good");
    build(&context, &["--try-on", "3.99"]).ends(2, "fresh environments, and tiny has none");
    let check = "[[check]]\nname = \"call\"\nfresh = true\nrun = [\"${python}\", \"-c\", \"import tiny\"]\n";
    context.write("recipes/tiny.toml", format!("{RECIPE}\n{check}"));
    build(&context, &["--try-on", "3.99"]).ends(1, "there is no Python 3.99");
    assert!(!context.path("out").join(WHEEL).exists());
    build(&context, &["--try-on", &python()]).exits(0);
    assert!(context.path("out").join(WHEEL).exists());
}

#[test]
fn the_version_stands_in_places_of_one_cell_too() {
    let context = context("good");
    context.write("rocm-7.2/.info/version", "7.2.1-43\n");
    context.write("rocm-7.2/bin/hipcc", "");
    let job = ["--backend", "rocm", "--gpu-targets", "gfx942", "--write-job", "job.toml", "--rocm-sdk"];
    build(&context, &[&job[..], &["prefix=rocm-{rocm}"]].concat()).exits(0);
    assert!(fs_err::read_to_string(context.path("job.toml")).unwrap().contains("rocm-7.2"));
    fs_err::write(context.path("rocm-7.2/.info/version"), "7.1.0\n").unwrap();
    build(&context, &[&job[..], &["prefix=rocm-{rocm}"]].concat())
        .ends(2, "is ROCm 7.1.0, and 7.2 is to be built against");
    // A dry run of an existing job only prints it.
    context.types("build --job job.toml --dry-run").exits(0).prints("# step `wheel`");
    assert!(!context.path("out").exists());
}

#[test]
fn a_step_that_fails_says_why() {
    let context = context("memory");
    let ran = build(&context, &["--jobs", "1"]);
    let text = ran.snapshot().replace(&job(&context).file_name().unwrap().to_string_lossy().into_owned(), "tiny-[KEY]");
    assert_snapshot!("build_failed_step", text);
    assert!(log(&context, "wheel").contains("[0/9] compiling"));
    assert_eq!(fs_err::read_dir(context.path("out")).unwrap().count(), 1, "nothing but the jobs");
}

#[test]
fn what_a_recorded_run_took_is_said_before_the_build() {
    let context = context("good");
    let ran = build(&context, &["--only", "count"]).exits(0);
    assert!(!ran.stderr.contains("recorded run"), "the recipe has none");
    let cost = "[[cost]]\nmemory-per-job = 0.1\ndisk = 0.1\nrecorded = \"90m\"\n";
    context.write("recipes/tiny.toml", format!("{RECIPE}\n{cost}"));
    let said = "about 30 min 0 s on 3 free cores; a recorded run took 1 h 30 min of processor time";
    build(&context, &["--jobs", "3"]).exits(0).says(said);
    let ran = build(&context, &["--jobs", "3"]).exits(0);
    assert!(!ran.stderr.contains("recorded run"), "nothing is left to build");
}

#[test]
fn a_step_whose_compilers_took_all_memory_continues_with_fewer() {
    let context = context("memory unless alone");
    context.write("recipes/tiny.toml", RECIPE.replace("TINY_FAST = \"on\"", "TINY_JOBS = \"${jobs}\""));
    build(&context, &["--jobs", "5", "--keep"])
        .exits(0)
        .says("memory ran out with 5 compilers at once; `wheel` continues with 2")
        .says("memory ran out with 2 compilers at once; `wheel` continues with 1");
    assert!(log(&context, "wheel").contains("(memory ran out with 2 compilers at once; `wheel` continues with 1)"));
    // With one it is an error.
    let context = self::context("memory");
    context.write("recipes/tiny.toml", RECIPE.replace("TINY_FAST = \"on\"", "TINY_JOBS = \"${jobs}\""));
    build(&context, &["--jobs", "2"]).ends(1, "likely cause: memory ran out").says("`wheel` continues with 1");
}

#[test]
fn what_hangs_is_stopped_and_the_next_run_goes_on() {
    let context = context("sleep");
    let began = Instant::now();
    build(&context, &["--time-limit", "6s", "--keep"]).exits(3).prints("stopped in wheel");
    assert!(began.elapsed() < Duration::from_secs(30));
    assert!(!context.path("out").join(WHEEL).exists());
    build(&context, &["--keep"]).exits(0);
    assert!(context.path("out").join(WHEEL).exists());
    // Completed steps are not repeated.
    assert_eq!(fs_err::read_to_string(job(&context).join("count")).unwrap(), "x");
    build(&context, &["--from", "count", "--keep"]).exits(0);
    assert_eq!(fs_err::read_to_string(job(&context).join("count")).unwrap(), "xx");
    build(&context, &["--only", "count"]).exits(0).prints("done up to count");
    build(&context, &["--only", "cuont"]).ends(2, "hint: did you mean `count`?");
}

/// pip keeps an installed wheel of the same version: the checks would judge the one before.
#[test]
fn checks_judge_the_result_of_this_run() {
    let context = context("runs");
    let check = "install = true\n\n[[check]]\nname = \"import\"\n\
                 run = [\"${python}\", \"-c\", \"import tiny; assert tiny.runs == open('${work}/count').read()\"]";
    context.write("recipes/tiny.toml", format!("{RECIPE}{check}\n"));
    build(&context, &["--keep"]).exits(0);
    build(&context, &["--from", "count", "--keep", "--overwrite"]).exits(0);
    assert_eq!(fs_err::read_to_string(job(&context).join("count")).unwrap(), "xx");
}

#[test]
fn a_step_that_takes_too_long_fails() {
    let context = context("sleep");
    context.write("recipes/tiny.toml", RECIPE.replace("20s", "1s"));
    build(&context, &[])
        .ends(1, "failed: it took longer than [TIME] and was stopped")
        .says("raise `timeout` of that step");
}

/// The requirements of a recipe are checked before anything is installed.
#[cfg(unix)]
#[test]
fn requirements_of_a_recipe_are_looked_at_first() {
    use std::os::unix::fs::PermissionsExt as _;

    let requirement = "[[require]]\nprogram = \"forge\"\nversion = \">=1.13.1\"\nsays = \"older ones fail\"\n\
                       fix = \"install another\"\n\n[[step]]\nname = \"count\"";
    let context = context("good");
    context.write("recipes/tiny.toml", RECIPE.replacen("[[step]]\nname = \"count\"", requirement, 1));
    let path = format!("{}:{}", context.path("bin").display(), std::env::var("PATH").unwrap());
    let context = context.with_variable("PATH", &path);
    build(&context, &["--dry-run"]).prints("# needs forge >=1.13.1: older ones fail\n");
    build(&context, &[]).ends(1, "there is no forge >=1.13.1: older ones fail").says("hint: install another");
    let forge = |version: &str| {
        context.write("bin/forge", format!("#!/bin/sh\necho 'forge version {version} (now)'\n"));
        fs_err::set_permissions(context.path("bin/forge"), std::fs::Permissions::from_mode(0o755)).unwrap();
    };
    forge("1.13.0");
    build(&context, &[]).ends(1, "bin/forge` is 1.13.0 and not >=1.13.1");
    assert!(!context.path("out").join(WHEEL).exists() && !job(&context).join("count").exists());
    forge("1.14.2");
    assert_eq!(build(&context, &[]).code, Some(0));
    for (wrong, words) in [
        ("program = \"forge\"\nsays", "has `program` and `version`, or `python-without-spaces`"),
        ("program = \"forge\"\nversion = \"new\"\nsays", "a `require` has the version `new`"),
    ] {
        let text = requirement.replace("program = \"forge\"\nversion = \">=1.13.1\"\nsays", wrong);
        context.write("recipes/tiny.toml", RECIPE.replacen("[[step]]\nname = \"count\"", &text, 1));
        build(&context, &["--dry-run"]).ends(1, words);
    }
}

/// A Python with a space in its path, as in `C:\Program Files\Python312`.
#[cfg(unix)]
#[test]
fn a_python_with_a_space_in_its_path_is_refused_where_a_recipe_says_so() {
    let requirement = "[[require]]\npython-without-spaces = true\nsays = \"it would not build\"\n\
                       fix = \"use another\"\n\n[[step]]\nname = \"count\"";
    let context = context("good");
    context.write("recipes/tiny.toml", RECIPE.replacen("[[step]]\nname = \"count\"", requirement, 1));
    context.tool("python3", &["-m", "venv", "--without-pip", "Program Files"]);
    build(&context, &["--interpreter", "Program Files/bin/python"]).ends(1, "has a space: it would not build");
    assert!(build(&context, &["--no-preflight", "--interpreter", "Program Files/bin/python"]).code == Some(0));
    build(&context, &["--overwrite", "--interpreter", "python3"]).exits(0);
}

#[cfg(unix)]
#[test]
fn ctrl_c_stops_everything_and_leaves_no_wheel() {
    let context = context("sleep");
    let arguments =
        ["build", "tiny", "--recipes", "recipes", "--source", "source", "--rocm", "7.2", "--output", "out", "--no-uv"];
    let mut child = context.command().args(arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let mark = loop {
        let found = fs_err::read_dir(context.path("out/.rocwheel/jobs")).ok().and_then(|mut jobs| jobs.next());
        if let Some(Ok(job)) = found
            && job.path().join("slept").exists()
        {
            break job.path();
        }
        assert!(child.try_wait().unwrap().is_none(), "it ended before it slept");
        std::thread::sleep(Duration::from_millis(20));
    };
    // Another run of the same job does not disturb it.
    build(&context, &[]).ends(4, "another run builds tiny");
    let pid = child.id().to_string();
    assert!(std::process::Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert!(mark.join("state.json").exists() && !context.path("out").join(WHEEL).exists());
    assert_eq!(build(&context, &[]).code, Some(0));
}

#[test]
fn what_is_made_has_to_be_what_was_asked_for() {
    for (how, words, hint) in [
        ("nothing", "made the wrong thing: no file fits `dist/*.whl`", "its log says what it did"),
        ("version", "has version 9.9, not 1.0+rocm7.2", "did not take the version from its environment"),
    ] {
        let context = context(how);
        build(&context, &[]).ends(1, words).says(hint);
        assert_eq!(fs_err::read_dir(context.path("out")).unwrap().count(), 1);
    }
    let context = context("good");
    context.write("recipes/tiny.toml", RECIPE.replace("[output]", "[output]\nsmallest = 1000000"));
    build(&context, &[]).ends(1, "at least 1000000 were expected");
}

#[test]
fn a_file_of_somebody_else_stays() {
    let context = context("good");
    context.write(Path::new("out").join(WHEEL), "somebody's");
    build(&context, &[]).ends(1, "is no earlier result");
    assert_eq!(fs_err::read(context.path("out").join(WHEEL)).unwrap(), b"somebody's");
    build(&context, &["--overwrite"]).exits(0);
    assert!(fs_err::metadata(context.path("out").join(WHEEL)).unwrap().len() > 100);
}

#[test]
fn a_build_against_an_installed_rocm_knows_it() {
    let context = context("good");
    context.write("rocm/.info/version", "7.2.1-43\n");
    context.write("rocm/bin/hipcc", "");
    let arguments = ["--backend", "rocm", "--rocm-sdk", "prefix=rocm", "--gpu-targets", "gfx942,gfx1100"];
    build(&context, &arguments).ends(0, "HIP_DEVICE_LIB_PATH is not set");
    assert!(context.path("out/tiny-1.0+rocm7.2.1-py3-none-any.whl").exists());
    let said = log(&context, "wheel");
    let rocm = context.path("rocm");
    for line in [format!("ROCM_HOME={}", rocm.display()), "PYTORCH_ROCM_ARCH=gfx942;gfx1100".to_owned()] {
        assert!(said.lines().any(|said| said == line), "{line}: {said}");
    }
    assert!(said.contains(&format!("PATH={}/bin:", rocm.display())), "{said}");
    context.write("usr/bin/true", "");
    for (sdk, words) in [
        ("prefix=nowhere", "has no folder `bin`"),
        ("prefix=usr", "neither .info/version nor include/hip/hip_version.h"),
        ("prefix", "needs a place"),
        ("indx=x", "is nothing that is known"),
        ("directory=nowhere", "there is no folder `nowhere`"),
    ] {
        build(&context, &["--backend", "rocm", "--gpu-targets", "gfx942", "--rocm-sdk", sdk]).ends(2, words);
    }
    // As Debian's, whose version is the one that is asked for.
    context.write("usr/include/hip/hip_version.h", "");
    let of_debian = ["--backend", "rocm", "--gpu-targets", "gfx942", "--rocm-sdk", "prefix=usr", "--dry-run"];
    let ran = build(&context, &of_debian);
    assert!(ran.code == Some(0) && !ran.stderr.contains("would stop"), "{ran:?}");
    // With the variable there is no warning, and the job is another one.
    fs_err::remove_dir_all(context.path("out")).unwrap();
    let context = context.with_variable("HIP_DEVICE_LIB_PATH", "/usr/lib/bitcode");
    let ran = build(&context, &arguments);
    assert!(ran.code == Some(0) && !ran.stderr.contains("HIP_DEVICE_LIB_PATH"), "{ran:?}");
    assert!(log(&context, "wheel").contains("HIP_DEVICE_LIB_PATH=/usr/lib/bitcode"));
}

#[test]
fn wrong_usage_is_told_with_what_helps() {
    let context = context("good");
    let base = ["--output", "out", "--no-uv"];
    for (arguments, words) in [
        (&["build", "trch"][..], "hint: did you mean `torch`?"),
        (&["build", "flash-attn"], "hint: give it with `--torch`"),
        (&["build", "torch", "--gpu-targets", "gfx9999"], "unknown GPU target or family `gfx9999`"),
        (&["build", "torch", "--feature", "flash=maybe"], "a feature is `on` or `off`"),
        (&["build", "torch", "--time-limit", "soon"], "write it as `90s`"),
        (&["build", "torch", "--release-type", "nightley"], "there is no release type `nightley`"),
        (
            &["build", "flash-attn", "--backend", "triton", "--torch", "2.9", "--rocm", "7.2", "--repair", "rocm"],
            "is built without ROCm",
        ),
        (&["build", "magma-rocm63", "--rocm", "7.1"], "remove `--rocm`, or write `magma --rocm 7.1`"),
        (&["build", "torch", "--torch", "2.x", "--dry-run"], "there is no version line `2.x`"),
        (
            &["build", "flash-attn", "--backend", "triton", "--torch", "2.9", "--rocm", "7.2", "--source", "2.6.3"],
            "cannot be built: the Triton backend came with 2.7.1",
        ),
        (
            &["build", "flash-attn", "--torch", "2.5.1", "--rocm", "7.2", "--dry-run"],
            "cannot be built: torch 2.5 is not for ROCm 7.2, but for 6.1, 6.2",
        ),
        (
            &["build", "flash-attn", "--torch", "2.14", "--rocm", "7.14", "--label-style", "compact"],
            "`rocm714` can mean ROCm 7.1 or 7.14",
        ),
        (&["build", "torch", "--framework-version", "2.9,2.10"], "one version line at a time"),
        (&["build", "flash-attn", "--torch", "2.9", "--origin", "flash-atn=x"], "did you mean `flash-attn`?"),
        (&["build", "magma-rocm9"], "there is no version of ROCm `9` for magma"),
        (&["build", "torch", "triton", "--source", "x"], "does not say for which recipe it is"),
        (&["build", "torch", "--source", "triton=x"], "is for triton, which is not built"),
        (&["build", "--job", "x.toml", "--rocm", "7.2"], "cannot be used with"),
        (&["build", "torch", "--only", "a", "--from", "b"], "cannot be used with"),
    ] {
        let ran = context.run(arguments.iter().chain(&base));
        assert!(ran.code == Some(2) && ran.stderr.contains(words), "{arguments:?}: {ran:?}");
    }
    context.types("build --artifacts x").ends(2, "did you mean `rocwheel package`?");
    build(&context, &["--python", "3.99"]).ends(1, "there is no Python 3.99 on this machine");
    build(&context, &["--source", "nowhere"]).ends(1, "there are no sources at");
    let many = TestContext::new(env!("CARGO_BIN_EXE_rocwheel")).with_variable("MAX_JOBS", "many");
    assert!(many.types("build torch --dry-run").stderr.contains("MAX_JOBS is `many`"));
}
