//! Input: the libraries' reports while they work. Output: a bar on a terminal, elsewhere a line
//! every ten seconds. Stages of less than a second are not shown.
//!
//! The libraries' threads only count; a separate thread reads the counters ten times a second and
//! draws. The bar is text that is cut at the terminal's width, so a narrow window shows less
//! instead of garbage.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use rocwheel_report::{Reporter, Unit};

use crate::github;
use crate::printer::{self, Talk};

const TICK: Duration = Duration::from_millis(100);
/// Shorter stages are not shown.
const PATIENCE: Duration = Duration::from_secs(1);
const LINE_EVERY: Duration = Duration::from_secs(10);
const BAR_WIDTH: usize = 24;

/// The way in which progress is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Display {
    /// A bar on the terminal's last line.
    Bar,
    /// Lines, for logs.
    Lines,
    /// Not shown.
    Nothing,
}

/// Follows the stages of one command.
pub(crate) struct Progress {
    display: Display,
    talk: Talk,
    interrupted: AtomicBool,
    done: AtomicU64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Nested stages; the last one is shown.
    stages: Vec<Stage>,
    bar: Option<ProgressBar>,
    last_line: Option<Instant>,
    stopped: bool,
    /// `true` if a group of GitHub's log is open: that of the outermost stage.
    in_group: bool,
}

struct Stage {
    name: String,
    total: Option<u64>,
    unit: Unit,
    begun: Instant,
    /// The count of the outer stage when this one began.
    outer_done: u64,
}

impl Progress {
    /// Starts a thread that draws, unless `display` is [`Display::Nothing`].
    pub(crate) fn start(display: Display, talk: Talk) -> Arc<Self> {
        let progress = Arc::new(Self {
            display,
            talk,
            interrupted: AtomicBool::default(),
            done: AtomicU64::new(0),
            state: Mutex::default(),
        });
        if display != Display::Nothing {
            let drawn = Arc::clone(&progress);
            thread::spawn(move || {
                while drawn.draw(Instant::now(), &mut printer::talk) {
                    thread::sleep(TICK);
                }
            });
        }
        progress
    }

    /// Asks the work to stop.
    pub(crate) fn interrupt(&self) {
        self.interrupted.store(true, Ordering::SeqCst);
    }

    /// Ends the drawing and clears the bar.
    pub(crate) fn stop(&self) {
        let mut state = lock(&self.state);
        state.stopped = true;
        if let Some(bar) = state.bar.take() {
            bar.finish_and_clear();
        }
        state.end_group();
    }

    /// Prints a line to stderr, above the bar.
    pub(crate) fn say(&self, text: &str) {
        self.suspended(|| printer::talk(&format!("{text}\n")));
    }

    /// Runs `print` while the bar is off the terminal.
    pub(crate) fn suspended<T>(&self, print: impl FnOnce() -> T) -> T {
        let state = lock(&self.state);
        match &state.bar {
            Some(bar) => bar.suspend(print),
            None => print(),
        }
    }

    /// Reads the counters once and passes `say` a line if one is due. Returns `false` when there is
    /// nothing more to draw.
    fn draw(&self, now: Instant, say: &mut dyn FnMut(&str)) -> bool {
        let mut state = lock(&self.state);
        if state.stopped {
            return false;
        }
        let Some(stage) = state.stages.last().filter(|stage| now.duration_since(stage.begun) >= PATIENCE) else {
            // The bar stays for a moment between two long stages, so that it does not flicker.
            return true;
        };
        let text = stage.text(self.done.load(Ordering::Relaxed), now, self.display);
        match self.display {
            Display::Bar => {
                let bar = state.bar.get_or_insert_with(new_bar);
                if bar.message() != text {
                    bar.set_message(text);
                }
            }
            Display::Lines => {
                let last = state.last_line.map_or(stage.begun, |last| last.max(stage.begun));
                if now.duration_since(last) >= LINE_EVERY {
                    state.last_line = Some(now);
                    state.begin_group(say);
                    say(&format!("{text}\n"));
                }
            }
            Display::Nothing => {}
        }
        true
    }
}

impl State {
    /// Opens a group of GitHub's log for a stage that takes long enough to be shown.
    fn begin_group(&mut self, say: &mut dyn FnMut(&str)) {
        let Some(stage) = self.stages.first().filter(|_| !self.in_group) else { return };
        if let Some(line) = github::step().group(&stage.name) {
            say(&line);
            self.in_group = true;
        }
    }

    fn end_group(&mut self) {
        if let Some(line) = github::step().end_group().filter(|_| self.in_group) {
            printer::talk(line);
            self.in_group = false;
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic of another thread ends the program anyway; its message should still be printed.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn new_bar() -> ProgressBar {
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(10));
    // wide_msg cuts the text at the terminal's width, also when that changes.
    if let Ok(style) = ProgressStyle::with_template("{wide_msg}") {
        bar.set_style(style);
    }
    bar
}

impl Stage {
    /// The text of a stage, most important part first, since the end may be cut.
    fn text(&self, done: u64, now: Instant, display: Display) -> String {
        let amount = |number| match self.unit {
            Unit::Bytes => printer::bytes(number),
            Unit::Items => number.to_string(),
        };
        let elapsed = now.duration_since(self.begun);
        let text = match self.total.filter(|total| *total > 0) {
            Some(total) => {
                let done = done.min(total);
                let part_of = |whole: u128| (u128::from(done) * whole / u128::from(total)) as usize;
                let (percent, filled) = (part_of(100), part_of(BAR_WIDTH as u128));
                let (full, empty) = ("#".repeat(filled), ".".repeat(BAR_WIDTH - filled));
                let bar = if display == Display::Bar { format!("[{full}{empty}] ") } else { String::new() };
                let mut text = format!("{percent:>3} % {bar}{} of {}", amount(done), amount(total));
                // An estimate from less than a twentieth would vary too much.
                if (5..100).contains(&percent) {
                    let left = elapsed.as_millis() * u128::from(total - done) / u128::from(done);
                    text = format!("{text}, {} left", duration(Duration::from_millis(left as u64)));
                }
                text
            }
            None if done > 0 => format!("{}, {}", amount(done), duration(elapsed)),
            None => duration(elapsed),
        };
        format!("{text}: {}", self.name)
    }
}

/// A duration in whole seconds, or in minutes and seconds: `59 s`, `2 min 05 s`.
fn duration(duration: Duration) -> String {
    let seconds = duration.as_secs();
    if seconds < 60 { format!("{seconds} s") } else { format!("{} min {:02} s", seconds / 60, seconds % 60) }
}

impl Reporter for Progress {
    fn begin(&self, stage: &str, total: Option<u64>, unit: Unit) {
        let mut state = lock(&self.state);
        let outer_done = self.done.swap(0, Ordering::Relaxed);
        state.stages.push(Stage { name: stage.to_owned(), total, unit, begun: Instant::now(), outer_done });
    }

    fn advance(&self, amount: u64) {
        self.done.fetch_add(amount, Ordering::Relaxed);
    }

    fn end(&self) {
        let mut state = lock(&self.state);
        let Some(stage) = state.stages.pop() else { return };
        self.done.store(stage.outer_done, Ordering::Relaxed);
        if state.stages.is_empty()
            && let Some(bar) = state.bar.take()
        {
            bar.finish_and_clear();
        }
        if state.stages.is_empty() {
            state.end_group();
        }
        drop(state);
        if self.talk >= Talk::Verbose {
            self.say(&format!("{}: {:.2} s", stage.name, stage.begun.elapsed().as_secs_f64()));
        }
    }

    fn warn(&self, message: &str) {
        self.say(&printer::warning(message));
    }

    fn interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stage(total: Option<u64>, unit: Unit) -> Stage {
        Stage { name: "Reading".to_owned(), total, unit, begun: Instant::now(), outer_done: 0 }
    }

    #[test]
    fn a_stage_says_how_far_it_is() {
        let bytes = stage(Some(4_000_000), Unit::Bytes);
        let later = bytes.begun + Duration::from_secs(30);
        assert_eq!(
            bytes.text(1_000_000, later, Display::Bar),
            " 25 % [######..................] 1.0 MB of 4.0 MB, 1 min 30 s left: Reading"
        );
        assert_eq!(bytes.text(1_000_000, later, Display::Lines), " 25 % 1.0 MB of 4.0 MB, 1 min 30 s left: Reading");
        assert_eq!(bytes.text(0, later, Display::Bar), "  0 % [........................] 0 B of 4.0 MB: Reading");
        assert_eq!(
            bytes.text(9_000_000, later, Display::Bar),
            "100 % [########################] 4.0 MB of 4.0 MB: Reading"
        );
        let unknown = stage(None, Unit::Items);
        let later = unknown.begun + Duration::from_secs(3);
        assert_eq!(unknown.text(0, later, Display::Bar), "3 s: Reading");
        assert_eq!(unknown.text(12, later, Display::Bar), "12, 3 s: Reading");
        assert_eq!(stage(Some(0), Unit::Items).text(0, Instant::now(), Display::Bar), "0 s: Reading");
    }

    #[test]
    fn the_outer_stage_goes_on_where_it_was() {
        let progress = Progress::start(Display::Nothing, Talk::Quiet);
        progress.begin("outer", Some(10), Unit::Items);
        progress.advance(4);
        progress.begin("inner", Some(100), Unit::Bytes);
        progress.advance(50);
        assert_eq!(progress.done.load(Ordering::Relaxed), 50);
        progress.end();
        assert_eq!(progress.done.load(Ordering::Relaxed), 4);
        progress.end();
        progress.end();
        assert!(lock(&progress.state).stages.is_empty());
    }

    #[test]
    fn short_stages_are_not_mentioned_and_long_ones_every_ten_seconds() {
        let progress = Progress::start(Display::Nothing, Talk::Quiet);
        let lines = Progress { display: Display::Lines, ..Arc::try_unwrap(progress).ok().unwrap() };
        // As in a build: the step is a stage within that of the build.
        lines.begin("Building demo", None, Unit::Items);
        lines.begin("demo: tools (step 6 of 14)", None, Unit::Items);
        let begun = lock(&lines.state).stages[1].begun;
        let said = |seconds: f64| {
            let mut said = String::new();
            let now = begun + Duration::from_secs_f64(seconds);
            // In a job of GitHub a group begins before the first line.
            assert!(lines.draw(now, &mut |text| said.push_str(text.trim_start_matches("::group::Building demo\n"))));
            said
        };
        assert_eq!(said(0.9), "");
        assert_eq!(said(9.9), "");
        assert_eq!(said(10.0), "10 s: demo: tools (step 6 of 14)\n");
        assert_eq!(said(19.9), "");
        assert_eq!(said(80.1), "1 min 20 s: demo: tools (step 6 of 14)\n");
        lines.stop();
        assert!(!lines.draw(begun, &mut |text| panic!("{text}")));
    }
}
