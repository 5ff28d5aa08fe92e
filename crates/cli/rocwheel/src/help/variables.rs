//! The environment variables that commands read, for their help. Those that clap reads itself are
//! shown at their options, as `[env: …]`.

const STORES: &[&str] = &[
    "artifact push",
    "index build",
    "release publish",
    "release promote",
    "release list",
    "release diff",
    "release verify",
    "release rollback",
    "release yank",
    "release prune",
    "release bisect",
    "release get",
    "release mirror",
    "release upload",
];
const SIGNED: &[&str] = &["release publish", "release promote", "release rollback", "release yank", "release prune"];
const DOWNLOADS: &[&str] = &["audit", "artifact fetch", "source checkout", "build"];
const SERVERS: &[&str] = &["audit", "artifact fetch", "choose", "index check", "release get", "release mirror"];
const BUILDS: &[&str] = &["build", "build plan"];
const ACTIVE: &[&str] = &["doctor", "test smoke", "test suite"];

/// Commands, variable, meaning.
const VARIABLES: &[(&[&str], &str, &str)] = &[
    (DOWNLOADS, "ROCWHEEL_CACHE", "folder for downloads (default: rocwheel in the user's cache)"),
    (&["audit"], "PIP_INDEX_URL, UV_INDEX, …", "the indexes of `--with index`, as for pip and uv"),
    (&["release get"], "PIP_INDEX_URL, UV_INDEX, …", "the indexes, if `--index` names none"),
    (SERVERS, "NETRC", "file with the users of private indexes (default: ~/.netrc)"),
    (SERVERS, "HTTPS_PROXY, ALL_PROXY", "the proxy for addresses with https"),
    (BUILDS, "MAX_JOBS", "number of compilers, if `--jobs` does not give it"),
    (&["build"], "ROCM_PATH, ROCM_HOME", "the installed ROCm, if `--rocm-sdk` names none"),
    (BUILDS, "DOCKER_CMD", "program of the container engine, if `--engine` names none"),
    (&["artifact fetch", "index build"], "GITHUB_TOKEN, GH_TOKEN", "token for GitHub"),
    (STORES, "AWS_ACCESS_KEY_ID, AWS_REGION, …", "access to buckets, as for AWS' own tools"),
    (SIGNED, "ROCWHEEL_SIGNING_KEY", "private key in PEM, if `--signing-key` names no file"),
    (&["release upload"], "TWINE_*, UV_PUBLISH_*", "user and password, as twine and uv read them"),
    (ACTIVE, "VIRTUAL_ENV, CONDA_PREFIX", "the active Python environment"),
];

/// The variables of a command, each with its meaning. `path` is `source hipify`.
pub(crate) fn variables(path: &str) -> Vec<(&'static str, &'static str)> {
    let rows = VARIABLES.iter().filter(|(commands, ..)| commands.contains(&path));
    rows.map(|(_, variable, meaning)| (*variable, *meaning)).collect()
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::arguments::Arguments;

    #[test]
    fn the_commands_of_every_row_exist() {
        for (commands, variable, _) in VARIABLES {
            for path in *commands {
                let program = Arguments::command();
                let found = path.split(' ').try_fold(&program, |command, name| command.find_subcommand(name));
                assert!(found.is_some(), "{variable}: {path}");
            }
        }
    }
}
