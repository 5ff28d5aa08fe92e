//! Input: missing cells. Output: matrices for GitHub Actions, and a reusable workflow that builds
//! them (`data/github`).

mod jobs;

use std::collections::BTreeMap;

use serde_json::{Value, json};

pub use jobs::{GpuTargetSet, JobSources, RunnerLabels, StagedJobs};
use rocwheel_recipe::Platform;
use rocwheel_recipe::matrix::MatrixQuery;

/// Largest number of jobs in a matrix ("Workflow syntax for GitHub Actions",
/// `jobs.<job_id>.strategy.matrix`).
pub const MOST_JOBS: usize = 256;
/// Stages of the workflow: triton, torch, and the recipes that need torch.
pub const STAGES: usize = 3;
/// Matrices of a stage; each is a job of the workflow.
pub const PARTS: usize = 4;
/// How many times a cell that was stopped at its time limit continues by itself.
const ROUNDS: usize = 4;

const HEAD: &str = include_str!("../../../../data/github/workflow.yml");
const BUILD: &str = include_str!("../../../../data/github/build.yml");
const BUILD_STEPS: (&str, &str) = ("build", include_str!("../../../../data/github/build-steps.yml"));
const REST: &str = include_str!("../../../../data/github/rest.yml");
const REST_STEPS: (&str, &str) = ("rest", include_str!("../../../../data/github/rest-steps.yml"));
const TEST: &str = include_str!("../../../../data/github/test.yml");
const RELEASE: &str = include_str!("../../../../data/github/release.yml");
const CALL: &str = include_str!("../../../../data/github/call.yml");

/// Jobs as matrices with at most [`MOST_JOBS`] each; a single empty matrix if there are no jobs.
pub fn matrices(jobs: &[Value]) -> Vec<String> {
    let parts = if jobs.is_empty() { vec![jobs] } else { jobs.chunks(MOST_JOBS).collect() };
    parts.into_iter().map(|jobs| json!({ "include": jobs }).to_string()).collect()
}

/// The matrix of the jobs that test what was built: a GPU target and a machine for each. Empty
/// without machines, since GitHub accepts no empty matrix.
pub fn test_matrix(machines: &BTreeMap<String, Value>) -> String {
    if machines.is_empty() {
        return String::new();
    }
    let rows = machines.iter().map(|(target, runner)| json!({ "target": target, "runner": runner }));
    json!({ "include": rows.collect::<Vec<_>>() }).to_string()
}

/// The text of the workflow, a file of `.github/workflows`.
pub fn workflow() -> String {
    let outputs = (1..=STAGES).flat_map(|stage| (1..=PARTS).map(move |part| format!("matrix-{stage}-{part}")));
    let outputs: Vec<String> =
        outputs.map(|name| format!("      {name}: ${{{{ steps.matrix.outputs.{name} }}}}")).collect();
    let mut text = HEAD
        .replace("@OUTPUTS@", &outputs.join("\n"))
        .replace("@PARTS@", &PARTS.to_string())
        .replace("@STAGES@", &STAGES.to_string());
    let mut jobs = vec!["plan".to_owned(), "windows".to_owned()];
    let mut before = jobs.clone();
    for stage in 1..=STAGES {
        let of_stage = add_stage(&mut text, stage, &before);
        before.truncate(2);
        before.extend(of_stage.iter().cloned());
        jobs.extend(of_stage);
    }
    text += &TEST.replace("@NEEDS@", &jobs.join(", "));
    jobs.extend(["test".to_owned(), "report".to_owned()]);
    text += &RELEASE.replace("@NEEDS@", &jobs.join(", "));
    text.truncate(text.trim_end().len());
    text + "\n"
}

/// Adds the jobs of a stage and returns their names. `before` lists the jobs that they wait for.
fn add_stage(text: &mut String, stage: usize, before: &[String]) -> Vec<String> {
    let builds: Vec<String> = (1..=PARTS).map(|part| format!("build-{stage}-{part}")).collect();
    for (part, job) in builds.iter().enumerate() {
        let matrix = format!("plan.outputs.matrix-{stage}-{}", part + 1);
        *text += &Block {
            template: BUILD,
            steps: BUILD_STEPS,
            job,
            title: "",
            needs: &before.join(", "),
            condition: &format!("needs.{matrix} != ''"),
            matrix: &matrix,
            place: (stage, 1),
        }
        .text();
    }
    let mut jobs = builds.clone();
    for round in 1..ROUNDS {
        let (needs, condition) = if round == 1 {
            (format!("plan, {}", builds.join(", ")), format!("needs.plan.outputs.matrix-{stage}-1 != ''"))
        } else {
            let rest = format!("rest-{stage}-{}", round - 1);
            (format!("{rest}, again-{stage}-{round}"), is_left(&rest))
        };
        let (rest, again) = (format!("rest-{stage}-{round}"), format!("again-{stage}-{}", round + 1));
        // Cells that continue do not wait for a cell that failed.
        let gathering = Block {
            template: REST,
            steps: REST_STEPS,
            job: &rest,
            title: "",
            needs: &needs,
            condition: &condition,
            matrix: "",
            place: (stage, round),
        };
        let building = Block {
            template: BUILD,
            steps: BUILD_STEPS,
            job: &again,
            title: &format!(" (round {})", round + 1),
            needs: &rest,
            condition: &is_left(&rest),
            matrix: &format!("{rest}.outputs.matrix"),
            place: (stage, round + 1),
        };
        *text += &(gathering.text() + &building.text());
        jobs.extend([rest, again]);
    }
    jobs
}

/// The condition that a gathering job has cells that continue.
fn is_left(rest: &str) -> String {
    format!("needs.{rest}.result == 'success' && needs.{rest}.outputs.count != '0'")
}

/// A workflow for pushed tags that calls the other workflow with the requested axes and `more`
/// inputs. Empty inputs are skipped.
pub fn release_workflow(wanted: &MatrixQuery, more: &[(&str, String)]) -> String {
    let python: Vec<String> = wanted.python.iter().map(ToString::to_string).collect();
    let is_usual = wanted.platforms.iter().all(|platform| *platform == Platform::Linux);
    let platforms: Vec<String> = wanted.platforms.iter().map(ToString::to_string).collect();
    let axes = [
        ("recipes", wanted.recipes.join(" ")),
        ("versions", wanted.versions.join(",")),
        ("backends", wanted.backends.join(",")),
        ("rocm", wanted.rocm.join(",")),
        ("torch", wanted.torch.join(",")),
        ("python", python.join(",")),
        ("platforms", if is_usual { String::new() } else { platforms.join(",") }),
    ];
    let named = axes.iter().chain(more).filter(|(_, values)| !values.is_empty());
    // JSON strings are valid YAML, and quotes keep `3.10` a string.
    let inputs: Vec<String> = named.map(|(name, values)| format!("      {name}: {}", json!(values))).collect();
    CALL.replace("@INPUTS@", &inputs.join("\n"))
}

/// A job of the workflow: a head from a template, and steps that all jobs of its kind share. The
/// first job defines the steps under a YAML anchor, and the others refer to it.
struct Block<'a> {
    template: &'a str,
    steps: (&'a str, &'a str),
    job: &'a str,
    title: &'a str,
    needs: &'a str,
    condition: &'a str,
    matrix: &'a str,
    /// Numbers of the stage and the round.
    place: (usize, usize),
}

impl Block<'_> {
    fn text(&self) -> String {
        let (name, steps) = self.steps;
        let is_first = self.place == (1, 1) && !self.job.ends_with(['2', '3', '4']);
        let steps = if is_first { format!("&{name}\n{}", steps.trim_end()) } else { format!("*{name}") };
        self.template
            .replace("@JOB@", self.job)
            .replace("@TITLE@", self.title)
            .replace("@NEEDS@", self.needs)
            .replace("@CONDITION@", self.condition)
            .replace("@MATRIX@", self.matrix)
            .replace("@STAGE@", &self.place.0.to_string())
            .replace("@ROUND@", &self.place.1.to_string())
            .replace("@STEPS@", &steps)
            .replace("@ROUNDS@", &ROUNDS.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rocwheel_recipe::Book;
    use rocwheel_recipe::matrix::{self, CellStatus, FrameworkTable, Matrix, MatrixRow, Origin};

    fn wanted(recipes: &[&str], python: &str) -> MatrixQuery {
        MatrixQuery {
            recipes: recipes.iter().map(|&name| name.to_owned()).collect(),
            rocm: vec!["7.2".into()],
            torch: vec!["2.11".into(), "2.12".into()],
            python: python.parse().into_iter().collect(),
            platforms: vec![Platform::Linux, Platform::Windows],
            ..MatrixQuery::default()
        }
    }

    /// The jobs for all missing rows.
    fn staged(matrix: &Matrix, targets: &[GpuTargetSet], runners: &RunnerLabels) -> StagedJobs {
        let (book, table) = (Book::built_in().unwrap(), FrameworkTable::built_in().unwrap());
        let missing = matrix.rows.iter().filter(|row| row.status == CellStatus::Missing);
        let rows: Vec<(&MatrixRow, Option<Origin>)> =
            missing.map(|row| (row, Some(Origin::Line("2.11".into())))).collect();
        let sources = JobSources { table: &table, book: &book, matrix, targets, runners };
        StagedJobs::new(&rows, &sources).unwrap()
    }

    fn made(wanted: &MatrixQuery, wheels: &[&str]) -> Matrix {
        let wheels: Vec<String> = wheels.iter().map(|&name| name.to_owned()).collect();
        matrix::make(&FrameworkTable::built_in().unwrap(), &Book::built_in().unwrap(), wanted, &wheels).unwrap()
    }

    fn job<'a>(jobs: &'a [Value], name: &str) -> &'a Value {
        jobs.iter().find(|job| job["name"] == name).unwrap_or_else(|| panic!("{name} is not among {jobs:#?}"))
    }

    #[test]
    fn matrices_have_as_many_jobs_as_github_takes() {
        let jobs: Vec<Value> = (0..600).map(|number| json!({ "name": number })).collect();
        let sizes: Vec<usize> = matrices(&jobs)
            .iter()
            .map(|part| serde_json::from_str::<Value>(part).unwrap()["include"].as_array().unwrap().len())
            .collect();
        assert_eq!(sizes, [256, 256, 88]);
        assert_eq!(matrices(&[]), [r#"{"include":[]}"#]);
    }

    #[test]
    fn what_is_built_with_a_wheel_waits_for_it() {
        let recipes = ["torchvision", "torch", "triton", "torchaudio", "flash-attn"];
        let matrix = made(&wanted(&recipes, "3.12"), &[]);
        let jobs = staged(&matrix, &[], &RunnerLabels::default());
        let names = |stage: usize| -> Vec<String> {
            let mut names: Vec<String> =
                jobs.stages[stage].iter().map(|job| job["recipe"].as_str().unwrap().to_owned()).collect();
            names.dedup();
            names
        };
        // The Triton backend of flash-attn is for any Python and built against nothing. There is no
        // triton for Windows, so torch comes first there.
        assert_eq!(jobs.stages.len(), 3);
        assert_eq!(names(0), ["torch", "triton", "flash-attn"]);
        assert_eq!(names(1), ["torchvision", "torch", "torchaudio"]);
        assert_eq!(names(2), ["torchvision", "torchaudio", "flash-attn"]);
        let torch = job(&jobs.stages[1], "torch-2.11-rocm-rocm7.2-py3.12");
        let triton = "triton-3.6-rocm-rocm7.2-torch2.11-py3.12";
        assert_eq!((&torch["needs"], &torch["pattern"]), (&json!(triton), &json!(format!("wheel-{triton}"))));
        assert!(torch.get("work").is_none() && torch.get("with").is_none() && torch["platform"] == "linux");
        let vision = job(&jobs.stages[2], "torchvision-0.26.0-rocm-rocm7.2-torch2.11-py3.12");
        assert_eq!(vision["pattern"], json!(format!("wheel-{{torch-2.11-rocm-rocm7.2-py3.12,{triton}}}")));
        let windows = job(&jobs.stages[1], "torchvision-0.26.0-rocm-rocm7.2-torch2.11-py3.12-windows");
        assert_eq!(windows["needs"], "torch-2.11-rocm-rocm7.2-py3.12-windows");
        assert_eq!((&windows["runner"], &windows["work"]), (&json!("windows-2022"), &json!("C:/b")));
        assert!(jobs.has(Platform::Windows));
        // Within one stage no job can wait for another.
        let count = jobs.count();
        let jobs = jobs.independent();
        assert_eq!((jobs.stages.len(), jobs.count()), (1, count));
        assert!(jobs.stages[0].iter().all(|job| job.get("needs").is_none() && job.get("pattern").is_none()));
    }

    #[test]
    fn wheels_that_exist_are_not_built_and_not_waited_for() {
        let linux = MatrixQuery { platforms: Vec::new(), ..wanted(&["torch", "torchvision"], "3.12") };
        let torch = "torch-2.11.0+rocm7.2-cp312-cp312-manylinux_2_28_x86_64.whl";
        let jobs = staged(&made(&linux, &[torch]), &[], &RunnerLabels::default());
        let vision = job(&jobs.stages[0], "torchvision-0.26.0-rocm-rocm7.2-torch2.11-py3.12");
        assert_eq!(vision["with"], torch);
        // The other torch has to be built.
        let other = job(&jobs.stages[1], "torchvision-0.27.1-rocm-rocm7.2-torch2.12-py3.12");
        assert_eq!(other["needs"], "torch-2.12-rocm-rocm7.2-py3.12");
        let alone = staged(&made(&wanted(&["torchvision"], "3.12"), &[]), &[], &RunnerLabels::default());
        assert!(alone.stages.len() == 1 && alone.stages[0].iter().all(|job| job.get("needs").is_none()));
    }

    #[test]
    fn machines_are_chosen_by_what_says_most_of_a_cell() {
        let set = |text: &str, names: &[&str]| GpuTargetSet {
            text: text.into(),
            names: names.iter().map(|&name| name.to_owned()).collect(),
        };
        let targets = [set("gfx942", &["gfx942"]), set("gfx115X-all", &["gfx1150", "gfx1151", "gfx1152", "gfx1153"])];
        let labels = [
            ("ck", json!("compilers")),
            ("gfx942", json!(["self-hosted", "mi300"])),
            ("gfx115X-all", json!("strix")),
            ("windows gfx115X-all", json!("strix-windows")),
        ];
        let labels = labels.into_iter().map(|(words, label)| (words.to_owned(), label)).collect();
        let runners = RunnerLabels { default: Some(json!("usual")), labels };
        let jobs = staged(&made(&wanted(&["torch", "flash-attn"], "3.12"), &[]), &targets, &runners);
        let runner = |stage: usize, name: &str| job(&jobs.stages[stage], name)["runner"].clone();
        assert_eq!(runner(0, "torch-2.11-rocm-rocm7.2-py3.12-gfx942"), json!(["self-hosted", "mi300"]));
        assert_eq!(runner(0, "torch-2.11-rocm-rocm7.2-py3.12-gfx115X-all"), "strix");
        assert_eq!(runner(0, "torch-2.11-rocm-rocm7.2-py3.12-windows-gfx115X-all"), "strix-windows");
        // A label that does not name the system is for Linux.
        assert_eq!(runner(0, "torch-2.11-rocm-rocm7.2-py3.12-windows-gfx942"), "windows-2022");
        assert_eq!(runner(0, "flash-attn-2.8.3-triton-rocm7.2-torch2.11"), "usual");
        let ck = job(&jobs.stages[1], "flash-attn-2.8.3-ck-rocm7.2-torch2.11-py3.12-gfx942");
        assert_eq!(ck["needs"], "torch-2.11-rocm-rocm7.2-py3.12-gfx942");
        assert_eq!(ck["targets"], "gfx942");
        // Composable Kernel has no kernels for the others.
        let is_of_ck = |job: &&Value| job["backend"] == "ck";
        assert!(jobs.stages.iter().flatten().filter(is_of_ck).all(|job| job["targets"] == "gfx942"));
        assert!(jobs.left_out.iter().any(|reason| reason.contains("gfx1151")), "{:?}", jobs.left_out);
        let book = Book::built_in().unwrap();
        assert_eq!(runners.unknown(&book, &targets[..1]), ["gfx115X-all", "gfx115X-all"]);
        assert!(runners.unknown(&book, &targets).is_empty());
    }

    #[test]
    fn nothing_of_the_templates_is_left_open() {
        let text = workflow();
        let is_name = |part: &str| !part.is_empty() && part.chars().all(|letter| letter.is_ascii_uppercase());
        assert_eq!(text.split('@').find(|part| is_name(part)), None);
        for job in ["plan", "windows", "build-1-1", "build-3-4", "rest-1-1", "again-2-2", "rest-3-3", "again-3-4"] {
            assert!(text.contains(&format!("\n  {job}:\n")), "{job}");
        }
        assert!(!text.contains("again-1-5") && !text.contains("rest-1-4") && !text.contains("build-4-1"));
        // The steps are written once, and every job of the kind refers to them.
        for (name, count) in [("build", STAGES * (PARTS + ROUNDS - 1)), ("rest", STAGES * (ROUNDS - 1))] {
            assert_eq!(text.matches(&format!("steps: &{name}\n")).count(), 1);
            assert_eq!(text.matches(&format!("steps: *{name}\n")).count(), count - 1);
        }
    }
}
