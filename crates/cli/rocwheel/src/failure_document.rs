//! Input: the error of a command. Output: the JSON document about it.

use rocwheel_audit::written::Verdict;
use rocwheel_commands_wheel::last_look::Refused;
use rocwheel_console::failure::Failure;
use rocwheel_console::failure_text;
use serde::Serialize;

/// The document that `--json` prints when a command fails.
#[derive(Debug, Serialize)]
pub(crate) struct Document {
    error: Description,
    /// The verdict of the audit at the end of a command, if that is the error.
    #[serde(skip_serializing_if = "Option::is_none")]
    audit: Option<Verdict>,
}

#[derive(Debug, Serialize)]
struct Description {
    message: String,
    /// From the outermost cause to the first.
    causes: Vec<String>,
    hint: Option<String>,
    /// All rows of a list that the message shortens.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    rows: Vec<String>,
    exit_code: u8,
    /// The failed step of a build, its log and the last lines of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    failed_step: Option<rocwheel_builder::StepFailure>,
}

/// The error for machines, with the content that [`failure_text::print()`] has for people.
pub(crate) fn document(failure: &Failure) -> Document {
    let mut chain = failure_text::sentences(failure).into_iter();
    let message = chain.next().unwrap_or_default();
    let audit = failure.find::<Refused>().map(|refused| refused.verdict.clone());
    let error = Description {
        message,
        causes: chain.collect(),
        hint: failure.hint().map(str::to_owned),
        rows: failure.rows().to_vec(),
        exit_code: failure.exit() as u8,
        failed_step: rocwheel_builder::failed_step(failure).cloned(),
    };
    Document { error, audit }
}

#[cfg(test)]
mod tests {
    use rocwheel_console::failure::Usage;
    use rocwheel_progress::Exit;

    use super::*;

    #[test]
    fn the_step_that_failed_is_there_for_programs() {
        let failure = rocwheel_builder::StepFailure {
            job: "torch".into(),
            step: "wheel".into(),
            reason: "exit code 1".into(),
            tail: vec!["ninja: stopped".into()],
            log: "/builds/torch/wheel.log".into(),
            cause: None,
        };
        let failure = Failure::from(rocwheel_builder::ContainerFailure {
            image: "image".into(),
            message: "no".into(),
            hint: None,
            exit: Exit::Failed,
            failed_step: Some(Box::new(failure)),
        });
        let text = serde_json::to_value(document(&failure)).unwrap();
        assert_eq!(text["error"]["failed_step"]["log"], "/builds/torch/wheel.log");
        assert_eq!(text["error"]["failed_step"]["tail"][0], "ninja: stopped");
        assert!(serde_json::to_value(document(&Failure::message("x"))).unwrap()["error"]["failed_step"].is_null());
    }

    #[test]
    fn a_list_that_the_message_cuts_is_whole_for_programs() {
        let found: Vec<String> = (0..30).map(|number| format!("?? file-{number}")).collect();
        let failure = Failure::message("`torch` has work in it").with_rows(found.clone()).context("cannot check out");
        assert_eq!(serde_json::to_value(document(&failure)).unwrap()["error"]["rows"], serde_json::json!(found));
        let failure: Failure = Usage::new("wrong").into();
        assert!(serde_json::to_value(document(&failure)).unwrap()["error"].get("rows").is_none());
    }
}
