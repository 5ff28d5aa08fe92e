//! Input: what a program prints, page by page. Output: the same in the log, and its count of
//! commands as progress: Ninja's `[12/345]`, and the `[ 12%]` of the makefiles that CMake writes.

use std::io::{self, Write};

use rocwheel_progress::{OpenStage, Reporter, Unit};

/// Bytes of a line in which its count is.
const START: usize = 32;
/// A program with fewer commands tells nothing of the time that is left.
const FEW: u64 = 10;

/// A log that follows the count.
pub(super) struct CountedOutput<'a> {
    log: &'a mut dyn Write,
    reporter: &'a dyn Reporter,
    /// The name of the stage that is counted.
    name: String,
    /// The beginning of the line that has not yet ended.
    start: Vec<u8>,
    counting: Option<Counting<'a>>,
}

struct Counting<'a> {
    done: u64,
    total: u64,
    /// Ends when the count is dropped.
    _stage: OpenStage<'a>,
}

impl<'a> CountedOutput<'a> {
    pub(super) fn new(log: &'a mut dyn Write, reporter: &'a dyn Reporter, name: String) -> CountedOutput<'a> {
        CountedOutput { log, reporter, name, start: Vec::with_capacity(START), counting: None }
    }

    /// Reports the count at the start of a line that has ended.
    fn count(&mut self) {
        let count = std::str::from_utf8(&self.start).ok().and_then(count_of);
        self.start.clear();
        let Some((done, total)) = count else { return };
        // Ninja corrects its total on the way, and a parallel make prints percentages out of order.
        // A new stage for each would always be at its beginning, and know no time that is left.
        let is_next_program = self
            .counting
            .as_ref()
            .is_none_or(|counting| total.abs_diff(counting.total) > counting.total / 10 || done < counting.done / 2);
        if is_next_program {
            self.counting = None;
            let stage = self.reporter.stage(&self.name, Some(total), Unit::Items);
            self.counting = Some(Counting { done: 0, total, _stage: stage });
        }
        if let Some(counting) = self.counting.as_mut().filter(|counting| counting.done < done) {
            self.reporter.advance(done - counting.done);
            counting.done = done;
        }
    }
}

impl Write for CountedOutput<'_> {
    fn write(&mut self, page: &[u8]) -> io::Result<usize> {
        self.log.write_all(page)?;
        for byte in page {
            match byte {
                b'\n' | b'\r' => self.count(),
                _ if self.start.len() < START => self.start.push(*byte),
                _ => {}
            }
        }
        Ok(page.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.log.flush()
    }
}

/// The commands that are done and their number, or percent of a hundred.
fn count_of(line: &str) -> Option<(u64, u64)> {
    let (count, _) = line.trim_start().strip_prefix('[')?.split_once(']')?;
    let (done, total) = match count.split_once('/') {
        Some((done, total)) => (done.trim().parse().ok()?, total.trim().parse().ok()?),
        None => (count.strip_suffix('%')?.trim().parse().ok()?, 100),
    };
    (done <= total && total >= FEW).then_some((done, total))
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[derive(Default)]
    struct Said(Mutex<String>);

    impl Said {
        fn add(&self, word: &str) {
            self.0.lock().unwrap().push_str(word);
        }
    }

    impl Reporter for Said {
        fn begin(&self, stage: &str, total: Option<u64>, _: Unit) {
            self.add(&format!(" {stage} of {}:", total.unwrap()));
        }
        fn advance(&self, amount: u64) {
            self.add(&format!(" +{amount}"));
        }
        fn end(&self) {
            self.add(" over");
        }
        fn warn(&self, _: &str) {}
        fn interrupted(&self) -> bool {
            false
        }
    }

    fn said(pages: &[&str]) -> String {
        let (said, mut log) = (Said::default(), Vec::new());
        let mut output = CountedOutput::new(&mut log, &said, "wheel".into());
        for page in pages {
            output.write_all(page.as_bytes()).unwrap();
        }
        drop(output);
        assert_eq!(log, pages.concat().as_bytes());
        said.0.into_inner().unwrap()
    }

    #[test]
    fn the_commands_of_ninja_are_counted_also_where_a_page_ends_within_a_line() {
        let pages = ["-- Configuring\n[1/40] Generating\n[2", "/40] Generating\n[4/40] Linking\n"];
        assert_eq!(said(&pages), " wheel of 40: +1 +1 +2 over");
    }

    #[test]
    fn each_program_has_its_own_count() {
        let pages = ["[40/40] Generating\n[1/900] Building a.cpp.o\r\n  [9/900] Building b.cpp.o\n[1/900] again\n"];
        assert_eq!(said(&pages), " wheel of 40: +40 over wheel of 900: +1 +8 over wheel of 900: +1 over");
    }

    #[test]
    fn a_corrected_total_or_a_percentage_out_of_order_is_no_other_program() {
        assert_eq!(said(&["[1/40] a\n[20/40] b\n[21/38] c\n[38/38] d\n"]), " wheel of 40: +1 +19 +1 +17 over");
        assert_eq!(said(&["[ 13%] a\n[ 15%] b\n[ 14%] c\n[ 16%] d\n"]), " wheel of 100: +13 +2 +1 over");
    }

    #[test]
    fn the_percentage_of_a_makefile_counts() {
        assert_eq!(said(&["[  7%] Building\n[ 30%] Building\n[100%] Built\n"]), " wheel of 100: +7 +23 +70 over");
    }

    #[test]
    fn other_brackets_are_no_count() {
        let line = format!("{}[1/2]\n", " ".repeat(START));
        assert_eq!(said(&["[50/40] a\n[1/4] few\n[1/0] b\n[x/3]\n[notice] c\n[a%]\n[1/2 d\n\n[\u{e9}]\n", &line]), "");
    }
}
