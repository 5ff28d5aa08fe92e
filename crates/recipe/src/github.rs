//! Input: cells that are missing. Output: matrices for GitHub Actions, and a reusable workflow that
//! builds them (`data/github`).

use serde_json::{Value, json};

use crate::book::Book;
use crate::matrix::{Origin, Row, Wanted};

/// Jobs that one matrix may have ("Workflow syntax for GitHub Actions",
/// `jobs.<job_id>.strategy.matrix`).
pub const MOST_JOBS: usize = 256;
/// Matrices of the workflow: each is a job of it.
pub const PARTS: usize = 4;
/// How often a cell that was stopped at its time limit goes on by itself.
const ROUNDS: usize = 4;

const HEAD: &str = include_str!("../../../data/github/workflow.yml");
const BUILD: &str = include_str!("../../../data/github/build.yml");
const REST: &str = include_str!("../../../data/github/rest.yml");
const LAST: &str = include_str!("../../../data/github/last.yml");
const RELEASE: &str = include_str!("../../../data/github/release.yml");
const CALL: &str = include_str!("../../../data/github/call.yml");

/// Cells as matrices, each with as many as GitHub takes; one that is empty where there is nothing.
pub fn matrices(rows: &[(&Row, Option<Origin>)], book: &Book) -> Vec<String> {
    let text = |rows: &[(&Row, Option<Origin>)]| {
        json!({ "include": rows.iter().map(|(row, origin)| cell(row, origin.as_ref(), book)).collect::<Vec<_>>() })
            .to_string()
    };
    if rows.is_empty() { vec![text(&[])] } else { rows.chunks(MOST_JOBS).map(text).collect() }
}

fn cell(row: &Row, origin: Option<&Origin>, book: &Book) -> Value {
    let point = &row.point;
    let needs_sdk = book.get(&point.recipe).is_ok_and(|entry| !entry.recipe.without_sdk.contains(&point.backend));
    let python = point.python.map(|python| python.to_string());
    // Names of artifacts may not hold everything (`actions/upload-artifact`, "Inputs").
    let parts = [
        Some(point.recipe.clone()),
        Some(point.version.clone()),
        Some(point.backend.clone()),
        Some(format!("rocm{}", point.rocm)),
        point.torch.as_ref().map(|torch| format!("torch{torch}")),
        python.as_ref().map(|python| format!("py{python}")),
    ];
    let name: Vec<String> = parts.into_iter().flatten().collect();
    let is_plain = |character: char| character.is_ascii_alphanumeric() || "._-+".contains(character);
    let name = name.join("-").replace(|character| !is_plain(character), "_");
    let mut values = serde_json::Map::from_iter([
        ("backend".to_owned(), json!(point.backend)),
        ("name".to_owned(), json!(name)),
        ("recipe".to_owned(), json!(point.recipe)),
        ("rocm".to_owned(), json!(point.rocm)),
        ("sdk".to_owned(), json!(needs_sdk)),
        ("version".to_owned(), json!(point.version)),
    ]);
    values.extend(point.torch.as_ref().map(|torch| ("torch".to_owned(), json!(torch))));
    values.extend(python.map(|python| ("python".to_owned(), json!(python))));
    values.extend(origin.map(Origin::option).map(|(name, value)| (name.to_owned(), json!(value))));
    Value::Object(values)
}

/// The workflow, as it belongs into `.github/workflows`.
pub fn workflow() -> String {
    let outputs: Vec<String> =
        (1..=PARTS).map(|part| format!("      matrix-{part}: ${{{{ steps.matrix.outputs.matrix-{part} }}}}")).collect();
    let mut text = HEAD.replace("@OUTPUTS@", &outputs.join("\n")).replace("@PARTS@", &PARTS.to_string());
    let (mut builds, mut jobs) = (Vec::new(), vec!["plan".to_owned()]);
    for part in 1..=PARTS {
        let job = format!("build-{part}");
        text += &build(&Block {
            job: &job,
            title: "",
            needs: "plan",
            condition: &format!("needs.plan.outputs.matrix-{part} != ''"),
            matrix: &format!("plan.outputs.matrix-{part}"),
            round: 1,
        });
        builds.push(job);
    }
    jobs.extend(builds.iter().cloned());
    for round in 1..ROUNDS {
        let (needs, condition) = match round {
            1 => (format!("plan, {}", builds.join(", ")), "needs.plan.result == 'success'".to_owned()),
            _ => (
                format!("rest-{}, again-{round}", round - 1),
                format!("needs.rest-{0}.result == 'success' && needs.rest-{0}.outputs.count != '0'", round - 1),
            ),
        };
        // A cell that fails does not hold up those that go on.
        let rest = REST.replace("@ROUND@", &round.to_string()).replace("@NEEDS@", &needs);
        text += &rest.replace("@CONDITION@", &condition);
        text += &build(&Block {
            job: &format!("again-{}", round + 1),
            title: &format!(" (round {})", round + 1),
            needs: &format!("rest-{round}"),
            condition: &format!(
                "\"!cancelled() && needs.rest-{round}.result == 'success' && needs.rest-{round}.outputs.count != '0'\""
            ),
            matrix: &format!("rest-{round}.outputs.matrix"),
            round: round + 1,
        });
        jobs.extend([format!("rest-{round}"), format!("again-{}", round + 1)]);
    }
    text += &RELEASE.replace("@NEEDS@", &jobs.join(", "));
    text.truncate(text.trim_end().len());
    text + "\n"
}

/// A workflow for a tag that is pushed, which calls the other one with the axes that are wanted.
pub fn release_workflow(wanted: &Wanted) -> String {
    let python: Vec<String> = wanted.python.iter().map(ToString::to_string).collect();
    let axes = [
        ("recipes", wanted.recipes.join(" ")),
        ("versions", wanted.versions.join(",")),
        ("backends", wanted.backends.join(",")),
        ("rocm", wanted.rocm.join(",")),
        ("torch", wanted.torch.join(",")),
        ("python", python.join(",")),
    ];
    let named = axes.iter().filter(|(_, values)| !values.is_empty());
    // A text of JSON is one of YAML, and `3.10` stays what it is.
    let inputs: Vec<String> = named.map(|(name, values)| format!("      {name}: {}", json!(values))).collect();
    CALL.replace("@INPUTS@", &inputs.join("\n"))
}

/// What differs between the jobs that build.
struct Block<'a> {
    job: &'a str,
    title: &'a str,
    needs: &'a str,
    condition: &'a str,
    matrix: &'a str,
    round: usize,
}

fn build(block: &Block<'_>) -> String {
    let last = if block.round == ROUNDS { LAST } else { "" };
    BUILD
        .replace("@LAST@\n", last)
        .replace("@JOB@", block.job)
        .replace("@TITLE@", block.title)
        .replace("@NEEDS@", block.needs)
        .replace("@CONDITION@", block.condition)
        .replace("@MATRIX@", block.matrix)
        .replace("@ROUND@", &block.round.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matrix::{Point, Status};

    fn row(number: usize) -> Row {
        let point = Point {
            platform: crate::Platform::Linux,
            recipe: "flash-attn".into(),
            version: format!("2.8.{number}"),
            backend: "ck".into(),
            rocm: "7.2".into(),
            torch: Some("2.9".into()),
            python: "3.12".parse().ok(),
        };
        Row { point, status: Status::Missing, reason: None, files: Vec::new() }
    }

    #[test]
    fn matrices_have_as_many_jobs_as_github_takes() {
        let rows: Vec<Row> = (0..600).map(row).collect();
        let book = Book::built_in().unwrap();
        let origin = || Some(Origin::Line("2.8".into()));
        let parts = matrices(&rows.iter().map(|row| (row, origin())).collect::<Vec<_>>(), &book);
        let sizes: Vec<usize> = parts
            .iter()
            .map(|part| serde_json::from_str::<Value>(part).unwrap()["include"].as_array().unwrap().len())
            .collect();
        assert_eq!(sizes, [256, 256, 88]);
        assert!(parts[0].contains(r#""name":"flash-attn-2.8.0-ck-rocm7.2-torch2.9-py3.12""#));
        assert!(parts[0].contains(r#""line":"2.8""#) && !parts[0].contains("source"));
        assert!(parts[0].contains(r#""sdk":true"#));
        assert_eq!(matrices(&[], &book), [r#"{"include":[]}"#]);
    }

    #[test]
    fn nothing_of_the_templates_is_left_open() {
        let text = workflow();
        let is_name = |part: &str| !part.is_empty() && part.chars().all(|letter| letter.is_ascii_uppercase());
        assert_eq!(text.split('@').find(|part| is_name(part)), None);
        for job in ["plan", "build-1", "build-4", "rest-1", "again-2", "rest-3", "again-4", "release"] {
            assert!(text.contains(&format!("\n  {job}:\n")), "{job}");
        }
        assert!(!text.contains("again-5") && !text.contains("rest-4"));
        assert_eq!(
            text.matches("run the failed jobs again").count(),
            ROUNDS,
            "once in each gathering, and in the last round"
        );
    }
}
