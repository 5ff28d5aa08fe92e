//! Ctrl-C, SIGTERM and SIGHUP: the first one asks the work to stop, which removes its temporary
//! files on the way out; the second one does not wait for that.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rocwheel_report::Context;
use rocwheel_report::Exit;

use crate::failure::{Failure, Result};
use crate::progress::Progress;

/// Signals that come so close together are one: `timeout`, `uv run` and job systems send a signal
/// to the program and then to its process group, and terminals send it to both as well.
const SAME_SIGNAL: Duration = Duration::from_millis(500);

/// Watches for signals from here on.
pub(crate) fn install(progress: Arc<Progress>) -> Result<()> {
    let mut asked = None;
    ctrlc::set_handler(move || match asked {
        None => {
            asked = Some(Instant::now());
            progress.interrupt();
            progress.say("stopping; once more stops at once and may leave temporary files");
        }
        Some(first) if first.elapsed() < SAME_SIGNAL => {}
        Some(_) => std::process::exit(Exit::Interrupted as i32),
    })
    .map_err(Failure::other)
    .context("cannot watch for Ctrl-C")
}
