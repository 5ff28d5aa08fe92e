//! Input: the libraries' reports while they work. Output: a bar on a terminal, elsewhere a line
//! every ten seconds. Stages of less than a second are not shown.
//!
//! The libraries' threads only count; a separate thread reads the counters ten times a second and
//! draws. What does not fit into the terminal is left out, the name of the stage last of all.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use rocwheel_progress::{Reporter, Unit};

use crate::github;
use crate::message;
use crate::message::Talk;

const TICK: Duration = Duration::from_millis(100);
/// Shorter stages are not shown.
const PATIENCE: Duration = Duration::from_secs(1);
const LINE_EVERY: Duration = Duration::from_secs(10);
/// A count that did not change for this long is no base for an estimate.
const STALLED: Duration = Duration::from_secs(3);
/// A count stalls after this many times its usual time for a unit: some files compile longer.
const SLOW: u32 = 10;
/// Widths of the bar, the first that fits.
const BAR_WIDTHS: [usize; 2] = [24, 10];
/// Columns where the terminal does not tell.
const COLUMNS: usize = 80;

/// The way in which progress is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Display {
    /// A bar on the terminal's last line.
    Bar,
    /// Lines, for logs.
    Lines,
    /// Not shown.
    Nothing,
}

/// Follows the stages of one command.
pub struct Progress {
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
    /// The count when it was last read, and when it got to it.
    seen: (u64, Instant),
}

impl Progress {
    /// Starts a thread that draws, unless `display` is [`Display::Nothing`].
    pub fn start(display: Display, talk: Talk) -> Arc<Self> {
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
                while drawn.draw(Instant::now(), &mut message::talk) {
                    thread::sleep(TICK);
                }
            });
        }
        progress
    }

    /// Asks the work to stop.
    pub fn interrupt(&self) {
        self.interrupted.store(true, Ordering::SeqCst);
    }

    /// Ends the drawing and clears the bar.
    pub fn stop(&self) {
        let mut state = lock(&self.state);
        state.stopped = true;
        if let Some(bar) = state.bar.take() {
            bar.finish_and_clear();
        }
        state.end_group();
    }

    /// Prints a line to stderr, above the bar.
    pub fn say(&self, text: &str) {
        self.suspended(|| message::talk(&format!("{text}\n")));
    }

    /// Runs `print` while the bar is off the terminal.
    pub fn suspended<T>(&self, print: impl FnOnce() -> T) -> T {
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
        let done = self.done.load(Ordering::Relaxed);
        let Some(stage) = state.stages.last_mut() else { return true };
        if stage.seen.0 != done {
            stage.seen = (done, now);
        }
        if now.duration_since(stage.begun) < PATIENCE {
            // The bar stays for a moment between two long stages, so that it does not flicker.
            return true;
        }
        match self.display {
            Display::Bar => {
                let text = stage.bar(done, now, columns());
                let bar = state.bar.get_or_insert_with(new_bar);
                if bar.message() != text {
                    bar.set_message(text);
                }
            }
            Display::Lines => {
                let (text, begun) = (stage.line(done, now), stage.begun);
                let last = state.last_line.map_or(begun, |last| last.max(begun));
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
            message::talk(line);
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

/// Columns of the terminal that shows the bar.
fn columns() -> usize {
    terminal_size::terminal_size_of(std::io::stderr()).map_or(COLUMNS, |(width, _)| usize::from(width.0))
}

impl Stage {
    /// Thousandths that are done, if the whole is known.
    fn permille(&self, done: u64) -> Option<u64> {
        let total = self.total.filter(|total| *total > 0)?;
        Some((u128::from(done.min(total)) * 1000 / u128::from(total)) as u64)
    }

    /// How much is done: `1.0 MB of 4.0 MB`; empty if nothing is counted.
    fn amount(&self, done: u64) -> String {
        match (self.unit, self.total.filter(|total| *total > 0)) {
            (Unit::Bytes, Some(total)) => format!("{} of {}", message::bytes(done.min(total)), message::bytes(total)),
            (Unit::Items, Some(total)) => format!("{} of {total}", done.min(total)),
            (_, None) if done == 0 => String::new(),
            (Unit::Bytes, None) => message::bytes(done),
            (Unit::Items, None) => done.to_string(),
        }
    }

    /// The time that is left, or the time so far where the former would be a guess; empty when the
    /// end is near.
    fn time(&self, done: u64, now: Instant) -> String {
        let elapsed = now.duration_since(self.begun);
        let (seen, since) = self.seen;
        let usual = elapsed / u32::try_from(done).unwrap_or(u32::MAX).max(1);
        let is_stalled = seen == done && now.saturating_duration_since(since) >= STALLED.max(usual * SLOW);
        let Some(total) = self.total.filter(|total| *total > 0) else { return duration(elapsed) };
        // An estimate from less than a twentieth would vary too much.
        if is_stalled || u128::from(done) * 20 < u128::from(total) {
            return format!("{} so far", duration(elapsed));
        }
        let left = elapsed.as_millis() * u128::from(total.saturating_sub(done)) / u128::from(done.max(1));
        if left < 1000 { String::new() } else { format!("{} left", duration(Duration::from_millis(left as u64))) }
    }

    /// The stage as a line of a log.
    fn line(&self, done: u64, now: Instant) -> String {
        let percent = self.permille(done).map(|permille| format!("{:>3} % ", permille / 10)).unwrap_or_default();
        let parts = [self.amount(done), self.time(done, now)];
        let parts: Vec<&str> = parts.iter().map(String::as_str).filter(|part| !part.is_empty()).collect();
        format!("{percent}{}: {}", parts.join(", "), self.name)
    }

    /// The stage as a line of a terminal with this many columns. The name stays longest.
    fn bar(&self, done: u64, now: Instant, columns: usize) -> String {
        let permille = self.permille(done);
        let percent = permille.map(|permille| format!("{:>3} % ", permille / 10)).unwrap_or_default();
        let (amount, time) = (self.amount(done), self.time(done, now));
        let [wide, narrow] = BAR_WIDTHS.map(|width| match permille {
            Some(permille) => {
                let filled = permille as usize * width / 1000;
                format!(" [{}{}]", "#".repeat(filled), ".".repeat(width - filled))
            }
            None => String::new(),
        });
        let [both, time] = [vec![amount, time.clone()], vec![time]].map(|mut facts| {
            facts.retain(|fact| !fact.is_empty());
            if facts.is_empty() { String::new() } else { format!(" {}", facts.join(", ")) }
        });
        let forms = [format!("{wide}{both}"), format!("{narrow}{both}"), both, time, String::new()];
        // The last column stays free: some terminals begin a line when it is written.
        let room = columns.saturating_sub(percent.chars().count() + 1);
        let name = self.name.chars().count();
        let rest = forms.iter().find(|form| name + form.chars().count() <= room).map_or("", String::as_str);
        format!("{percent}{}{rest}", shortened(&self.name, room))
    }
}

/// The beginning of a text, with `…` where it is cut.
fn shortened(text: &str, room: usize) -> String {
    if text.chars().count() <= room {
        return text.to_owned();
    }
    text.chars().take(room.saturating_sub(1)).chain(['…']).collect()
}

/// A duration in two units: `59 s`, `2 min 05 s`, `3 h 07 min`.
fn duration(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds / 60 {
        0 => format!("{seconds} s"),
        minutes @ 1..60 => format!("{minutes} min {:02} s", seconds % 60),
        minutes => format!("{} h {:02} min", minutes / 60, minutes % 60),
    }
}

impl Reporter for Progress {
    fn begin(&self, stage: &str, total: Option<u64>, unit: Unit) {
        let mut state = lock(&self.state);
        let outer_done = self.done.swap(0, Ordering::Relaxed);
        let (name, begun) = (stage.to_owned(), Instant::now());
        state.stages.push(Stage { name, total, unit, begun, outer_done, seen: (0, begun) });
    }

    fn advance(&self, amount: u64) {
        self.done.fetch_add(amount, Ordering::Relaxed);
    }

    fn end(&self) {
        let mut state = lock(&self.state);
        let Some(stage) = state.stages.pop() else { return };
        self.done.store(stage.outer_done, Ordering::Relaxed);
        if let Some(outer) = state.stages.last_mut() {
            // The outer stage did not stand still while this one went on.
            outer.seen = (stage.outer_done, Instant::now());
        }
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
        self.say(&message::warning(message));
    }

    fn interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stage(name: &str, total: Option<u64>, unit: Unit) -> Stage {
        let begun = Instant::now();
        Stage { name: name.to_owned(), total, unit, begun, outer_done: 0, seen: (0, begun) }
    }

    /// The stage after some seconds, and how much was done a moment before.
    fn later(mut stage: Stage, seconds: u64, done: u64) -> (Stage, Instant) {
        let now = stage.begun + Duration::from_secs(seconds);
        stage.seen = (done, stage.begun + Duration::from_secs(seconds).saturating_sub(TICK));
        (stage, now)
    }

    #[test]
    fn a_stage_says_how_far_it_is() {
        let (bytes, now) = later(stage("Reading", Some(4_000_000), Unit::Bytes), 30, 1_000_000);
        assert_eq!(bytes.line(1_000_000, now), " 25 % 1.0 MB of 4.0 MB, 1 min 30 s left: Reading");
        assert_eq!(
            bytes.bar(1_000_000, now, 100),
            " 25 % Reading [######..................] 1.0 MB of 4.0 MB, 1 min 30 s left"
        );
        assert_eq!(bytes.bar(0, now, 60), "  0 % Reading [..........] 0 B of 4.0 MB, 30 s so far");
        let unknown = stage("Reading", None, Unit::Items);
        let (unknown, now) = later(unknown, 3, 0);
        assert_eq!((unknown.bar(0, now, 60), unknown.line(0, now)), ("Reading 3 s".into(), "3 s: Reading".into()));
        assert_eq!(unknown.bar(12, now, 60), "Reading 12, 3 s");
        assert_eq!(stage("Reading", Some(0), Unit::Items).bar(0, Instant::now(), 60), "Reading 0 s");
    }

    #[test]
    fn what_does_not_fit_is_left_out_and_the_name_last() {
        let name = "Reading libMIOpen.so.1.0.60400";
        let (bytes, now) = later(stage(name, Some(4_000_000), Unit::Bytes), 30, 1_000_000);
        let bar = |columns| bytes.bar(1_000_000, now, columns);
        assert!(bar(120).contains("[######..................] 1.0 MB of 4.0 MB, 1 min 30 s left"), "{}", bar(120));
        assert_eq!(bar(88), format!(" 25 % {name} [##........] 1.0 MB of 4.0 MB, 1 min 30 s left"));
        assert_eq!(bar(80), format!(" 25 % {name} 1.0 MB of 4.0 MB, 1 min 30 s left"));
        assert_eq!(bar(60), format!(" 25 % {name} 1 min 30 s left"));
        assert_eq!(bar(40), format!(" 25 % {name}"));
        assert_eq!(bar(24), " 25 % Reading libMIOpe…");
        for columns in 0..130 {
            assert!(bar(columns).chars().count() <= columns.max(8), "{columns}: {}", bar(columns));
        }
    }

    #[test]
    fn no_estimate_is_shown_while_nothing_moves_or_when_the_end_is_near() {
        let (items, now) = later(stage("headers", Some(100), Unit::Items), 20, 93);
        assert_eq!(items.time(93, now), "1 s left");
        assert_eq!(items.time(93, now + STALLED), "23 s so far");
        let (files, then) = later(stage("files", Some(100), Unit::Items), 500, 50);
        assert_eq!(files.time(50, then + Duration::from_mins(1)), "9 min 20 s left");
        assert_eq!(files.time(50, then + Duration::from_secs(200)), "11 min 40 s so far");
        assert_eq!(items.time(99, now), "");
        assert_eq!(items.time(100, now), "");
        assert_eq!(items.time(93, now + Duration::from_secs(3750)), "1 h 02 min so far");
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
