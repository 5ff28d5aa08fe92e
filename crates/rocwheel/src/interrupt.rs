//! Ctrl-C, SIGTERM and SIGHUP: the first one asks the work to stop, which removes its temporary
//! files on the way out; the second one does not wait for that.

use std::sync::Arc;

use rocwheel_report::Context;
use rocwheel_report::Exit;

use crate::failure::{Failure, Result};
use crate::progress::Progress;

/// Watches for signals from here on.
pub(crate) fn install(progress: Arc<Progress>) -> Result<()> {
    ctrlc::set_handler(move || {
        if progress.interrupt() {
            std::process::exit(Exit::Interrupted as i32);
        }
        progress.say("stopping; once more stops at once and may leave temporary files");
    })
    .map_err(Failure::other)
    .context("cannot watch for Ctrl-C")
}
