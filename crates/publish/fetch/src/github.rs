//! Input: a commit or a branch. Output: the runs of a workflow that built it, newest first, as
//! GitHub's REST API lists them (`GET /repos/{owner}/{repo}/actions/workflows/{id}/runs`).

use rocwheel_index::Http;
use rocwheel_progress::{Exit, Failure};
use serde::Deserialize;
use url::Url;

use crate::error::{unreachable, wrong_place};
use crate::http::shown;

/// The answer of GitHub is at most this large, in bytes.
const LARGEST: u64 = 32 << 20;

pub struct GitHub {
    http: Http,
    /// Ends in a slash.
    base: Url,
    token: Option<String>,
}

/// Which runs are wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunQuery {
    Commit(String),
    /// Those of a branch that ended well.
    LatestGood(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkflowRun {
    pub id: String,
    /// `true` if its code comes from a fork of the repository.
    pub is_fork: bool,
    pub commit: String,
}

#[derive(Deserialize)]
struct RunsAnswer {
    workflow_runs: Vec<RunAnswer>,
}

#[derive(Deserialize)]
struct RunAnswer {
    id: u64,
    #[serde(default)]
    head_sha: String,
    head_repository: Option<RepositoryAnswer>,
}

#[derive(Deserialize)]
struct RepositoryAnswer {
    full_name: String,
}

#[derive(Deserialize)]
struct Complaint {
    message: String,
}

impl GitHub {
    /// `base` is the address of the API (`https://api.github.com`). The token is sent nowhere else.
    pub fn new(base: &str, token: Option<String>, proxy: Option<&str>) -> Result<GitHub, Failure> {
        let base = format!("{}/", base.trim_end_matches('/'));
        let base = Url::parse(&base).map_err(|error| wrong_place(format!("`{base}` is no address: {error}")))?;
        let http = Http::new(proxy).map_err(|error| unreachable(&shown(&base), error))?;
        Ok(GitHub { http, base, token })
    }

    /// The runs of a workflow (its file name) in a repository, newest first.
    pub fn runs(&self, repository: &str, workflow: &str, query: &RunQuery) -> Result<Vec<WorkflowRun>, Failure> {
        let path = format!("repos/{repository}/actions/workflows/{workflow}/runs");
        let mut address = self.base.join(&path).map_err(|error| wrong_place(format!("`{repository}`: {error}")))?;
        {
            let mut pairs = address.query_pairs_mut();
            match query {
                RunQuery::Commit(commit) => pairs.append_pair("head_sha", commit),
                RunQuery::LatestGood(branch) => pairs.append_pair("branch", branch).append_pair("status", "success"),
            };
            pairs.append_pair("per_page", "50");
        }
        let answer: RunsAnswer = self.ask(&address)?;
        let runs: Vec<WorkflowRun> = answer
            .workflow_runs
            .into_iter()
            .map(|run| WorkflowRun {
                id: run.id.to_string(),
                is_fork: run.head_repository.is_none_or(|head| head.full_name != repository),
                commit: run.head_sha,
            })
            .collect();
        if runs.is_empty() {
            let wanted = match query {
                RunQuery::Commit(commit) => format!("for commit `{commit}`"),
                RunQuery::LatestGood(branch) => format!("on `{branch}` that ended well"),
            };
            let text = format!("`{repository}` has no run of `{workflow}` {wanted}");
            return Err(Failure::message(text)
                .with_hint("check the commit, `--repository` and `--workflow`, or name the run with `--run-id`"));
        }
        Ok(runs)
    }

    fn ask<T: for<'de> Deserialize<'de>>(&self, address: &Url) -> Result<T, Failure> {
        use std::io::Read as _;
        let bearer = self.token.as_ref().map(|token| format!("Bearer {token}"));
        let mut headers = vec![("Accept", "application/vnd.github+json"), ("X-GitHub-Api-Version", "2022-11-28")];
        headers.extend(bearer.as_deref().map(|bearer| ("Authorization", bearer)));
        let shown = shown(address);
        let mut answer = self.http.get_with(address, &headers).map_err(|error| unreachable(&shown, error))?;
        let mut body = Vec::new();
        answer.body.by_ref().take(LARGEST).read_to_end(&mut body).map_err(|error| unreachable(&shown, error))?;
        if answer.status != 200 {
            let complaint = serde_json::from_slice::<Complaint>(&body).map(|complaint| complaint.message);
            let reason = complaint.unwrap_or_else(|_| "no reason is given".to_owned());
            let status = answer.status;
            let failure = Failure::message(format!("GitHub answers {status} to `{shown}`: {reason}"));
            let failure = failure.with_hint(match status {
                401 | 403 | 429 => "set GITHUB_TOKEN: without one GitHub allows few requests an hour",
                _ => "check `--repository` and `--workflow`",
            });
            return Err(if status == 429 || status >= 500 { failure.with_exit(Exit::TryAgain) } else { failure });
        }
        serde_json::from_slice(&body)
            .map_err(|error| unreachable(&shown, format_args!("the answer is not GitHub's: {error}")))
    }
}
