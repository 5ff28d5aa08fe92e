//! Ctrl-C, SIGTERM and SIGHUP. The first signal asks the work to stop, which then removes its
//! temporary files; the second one ends the program at once.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rocwheel_progress::Context;
use rocwheel_progress::Exit;

use crate::failure::{Failure, Result};
use crate::progress::Progress;

/// Signals within this time count as one: `timeout`, `uv run` and job systems send a signal to the
/// program and then to its process group, and terminals send it to both as well.
const SAME_SIGNAL: Duration = Duration::from_millis(500);

/// Starts to watch for signals.
pub fn install(progress: Arc<Progress>) -> Result<()> {
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
