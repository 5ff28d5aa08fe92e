//! Input: a program that may crash, hang, fork without end or print without end. Output: what it
//! printed, bounded, and how it ended; afterwards none of its processes is left.
//!
//! The program runs in its own process group. Processes that leave the group (`setsid`) inherit
//! a variable, and are found by it.

mod memory_group;
mod output_pump;
pub(crate) mod process_table;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use memory_group::MemoryGroup;
use output_pump::OutputPump;
use process_table::{ProcessState, are_more_than, process_start, process_states};
use rocwheel_report::ProgramEnd;
use rocwheel_system::{RunningGroup, kill_process};

/// Bytes of output that are kept of a test. The first quarter and the last three are kept.
pub const KEPT_OUTPUT: usize = 64 << 10;

/// Time between SIGTERM and SIGKILL. A hung test costs its own time and this.
pub const GRACE: Duration = Duration::from_secs(10);

/// Most processes that one program may have at once. PyTorch's own tests start up to about two for
/// each core. `RLIMIT_NPROC` would count the threads of all the user's programs, so an unrelated
/// program could fail a test.
pub const MOST_PROCESSES: usize = 4096;

/// Variable whose value is in the environment of every process of one program.
const MARK: &str = "ROCWHEEL_TEST_PROCESS";

/// How often the processes are counted. Reading their files in `/proc` costs about 5 ms for 120
/// processes, so it happens only if the machine has that many.
const CENSUS: Duration = Duration::from_millis(500);

/// How often their memory is measured: a program can fill 1 GB in this time.
const MEMORY_CENSUS: Duration = Duration::from_millis(250);

/// How long output is awaited after the program has ended.
const STRAGGLERS: Duration = Duration::from_millis(200);

/// Time that a debugger may take to show where a process hangs.
const LOOK: Duration = Duration::from_secs(5);

#[derive(Debug, Clone, Default)]
pub struct ProgramLine {
    /// The program and its arguments. A name without a folder is searched in `PATH` of `variables`.
    pub words: Vec<OsString>,
    pub directory: PathBuf,
    pub variables: BTreeMap<OsString, OsString>,
}

impl ProgramLine {
    /// The words as one line for messages.
    pub fn line(&self) -> String {
        let words: Vec<String> =
            self.words.iter().map(|word| rocwheel_progress::shell_word(&word.to_string_lossy())).collect();
        words.join(" ")
    }

    /// The environment of tests: `variables` without what hides GPUs in a third way.
    pub fn of_tests(directory: &Path, variables: impl Iterator<Item = (OsString, OsString)>) -> ProgramLine {
        let mut variables: BTreeMap<OsString, OsString> = variables.collect();
        // ROCm's profiler refuses to start if this disagrees with HIP_VISIBLE_DEVICES.
        variables.remove(&OsString::from("GPU_DEVICE_ORDINAL"));
        ProgramLine { words: Vec::new(), directory: directory.to_owned(), variables }
    }

    pub fn set(&mut self, name: &str, value: impl Into<OsString>) {
        self.variables.insert(name.into(), value.into());
    }

    /// Sets a variable that the environment does not have.
    pub fn set_default(&mut self, name: &str, value: &str) {
        self.variables.entry(name.into()).or_insert_with(|| value.into());
    }
}

/// The kept part of an output. Bytes in the middle are counted and dropped.
#[derive(Debug, Default)]
pub struct BoundedText {
    head: Vec<u8>,
    tail: Vec<u8>,
    dropped: u64,
}

impl BoundedText {
    /// Adds bytes of any kind.
    pub fn push(&mut self, bytes: &[u8]) {
        let room = (KEPT_OUTPUT / 4).saturating_sub(self.head.len()).min(bytes.len());
        self.head.extend_from_slice(&bytes[..room]);
        self.tail.extend_from_slice(&bytes[room..]);
        let most = KEPT_OUTPUT - KEPT_OUTPUT / 4;
        if self.tail.len() > 2 * most {
            self.cut(most);
        }
    }

    fn cut(&mut self, most: usize) {
        let excess = self.tail.len().saturating_sub(most);
        self.tail.drain(..excess);
        self.dropped += excess as u64;
    }

    /// The text, at most [`KEPT_OUTPUT`] bytes, and empties it. Bytes that are not UTF-8 become
    /// U+FFFD, and characters that JSON readers refuse are kept, since they are escaped there.
    pub fn take(&mut self) -> String {
        self.cut(KEPT_OUTPUT - KEPT_OUTPUT / 4 - 80);
        let Self { head, tail, dropped } = std::mem::take(self);
        let mut text = String::from_utf8_lossy(&head).into_owned();
        if dropped > 0 {
            text.push_str(&format!("\n[{dropped} bytes are not shown]\n"));
        }
        text.push_str(&String::from_utf8_lossy(&tail));
        // U+FFFD is longer than the byte that it replaces.
        while text.len() > KEPT_OUTPUT {
            text.truncate(text.floor_char_boundary(KEPT_OUTPUT));
        }
        text
    }
}

/// A running program.
#[derive(Debug)]
pub struct SupervisedProgram {
    child: RunningGroup,
    output: OutputPump,
    mark: String,
    /// Time of its start in the kernel's clock; processes that are older are not its own.
    begun: u64,
    counted: Instant,
    is_over: bool,
    /// Keeps the limit of memory, if the kernel does.
    memory: Option<MemoryGroup>,
}

impl SupervisedProgram {
    /// Starts a program. stdout and stderr are read in the order in which they come; stdin is
    /// empty. `mark` must be different for every program that runs at the same time.
    pub fn start(program: &ProgramLine, mark: &str) -> io::Result<Self> {
        let (reader, writer) = io::pipe()?;
        let word = program.words.first().ok_or(io::ErrorKind::InvalidInput)?;
        let path = program.variables.get(&OsString::from("PATH")).map(|path| path.to_string_lossy());
        let found = path.and_then(|path| rocwheel_system::find_program(&word.to_string_lossy(), &path));
        let mut command = Command::new(found.as_deref().unwrap_or(Path::new(word)));
        command.args(&program.words[1..]).current_dir(&program.directory);
        command.env_clear().envs(&program.variables).env(MARK, mark);
        command.stdin(Stdio::null()).stdout(writer.try_clone()?).stderr(writer);
        let child = RunningGroup::start(&mut command);
        // The command holds the write ends of the pipe.
        drop(command);
        let child = child.map_err(|error| {
            io::Error::new(error.kind(), format!("cannot start `{}`: {error}", word.to_string_lossy()))
        })?;
        let output = OutputPump::start(reader);
        let begun = process_start(child.id().cast_signed()).unwrap_or_default();
        Ok(Self { child, output, mark: mark.to_owned(), begun, counted: Instant::now(), is_over: false, memory: None })
    }

    /// As [`SupervisedProgram::start`]; the kernel keeps the limit of memory, if control groups are
    /// delegated to this process. Otherwise [`SupervisedProgram::excess`] measures it.
    pub fn start_limited(program: &ProgramLine, mark: &str, limits: ProcessLimits) -> io::Result<Self> {
        // Before the start: a group with other processes than this one cannot be divided.
        let group = limits.memory.and_then(|most| MemoryGroup::create(mark, most));
        let mut running = Self::start(program, mark)?;
        if let Some(group) = group
            && group.add(running.number()).is_ok()
        {
            // It has just begun, but may have a child already.
            for process in running.processes() {
                let _ = group.add(process.number.cast_unsigned());
            }
            running.memory = Some(group);
        }
        Ok(running)
    }

    /// The bytes that it used when the kernel ended it because of its limit.
    pub fn ran_out_of_memory(&self, limits: ProcessLimits) -> Option<ProcessExcess> {
        let group = self.memory.as_ref().filter(|group| group.kills() > 0)?;
        Some(ProcessExcess::Memory { used: group.peak().or(limits.memory)? })
    }

    pub fn number(&self) -> u32 {
        self.child.id()
    }

    /// Waits for `tick`, or until it closes its output or has printed 1 MiB, and returns what it
    /// printed meanwhile.
    pub fn read(&mut self, tick: Duration) -> Vec<u8> {
        let (bytes, is_closed) = self.output.take(tick);
        if is_closed && bytes.is_empty() {
            // It closed its output but may still run.
            thread::sleep(tick.min(Duration::from_millis(5)));
        }
        bytes
    }

    /// How it ended; `None` while it runs.
    pub fn end(&mut self) -> io::Result<Option<ProgramEnd>> {
        Ok(self.child.try_wait()?.map(ProgramEnd::of))
    }

    /// What it has too much of; measured two to four times a second.
    pub fn excess(&mut self, limits: ProcessLimits) -> Option<ProcessExcess> {
        let pause = if limits.memory.is_some() { MEMORY_CENSUS } else { CENSUS };
        if self.counted.elapsed() < pause {
            return None;
        }
        self.counted = Instant::now();
        let is_measured = limits.memory.is_some() && self.memory.is_none();
        let is_crowded = are_more_than(limits.processes);
        let own = if is_measured || is_crowded { self.processes() } else { Vec::new() };
        if own.len() > limits.processes {
            return Some(ProcessExcess::Processes);
        }
        if self.memory.is_some() {
            return self.ran_out_of_memory(limits);
        }
        let most = limits.memory?;
        // Pages that processes share are in the sum once for each of them, so the sum is the cheap
        // question and the proportional size the answer.
        let resident: u64 = own.iter().map(ProcessState::resident).sum();
        let used = if resident > most { own.iter().map(ProcessState::proportional).sum() } else { resident };
        (used > most).then_some(ProcessExcess::Memory { used })
    }

    /// Its processes that have not ended: those of its group, and those with its mark.
    fn processes(&self) -> Vec<ProcessState> {
        let group = self.child.id();
        let mark = format!("{MARK}={}", self.mark);
        let since = process_states().filter(|process| process.begun >= self.begun);
        since.filter(|process| process.group == group || process.has_variable(&mark)).collect()
    }

    /// Where its processes hang, as py-spy or gdb show it; `None` without either.
    pub fn stacks(&self, program: &ProgramLine) -> Option<String> {
        let path = program.variables.get(&OsString::from("PATH"))?.to_string_lossy().into_owned();
        let number = self.child.id().to_string();
        let tools: [(&str, Vec<&str>); 2] = [
            ("py-spy", vec!["dump", "--nonblocking", "--pid", &number]),
            ("gdb", vec!["-nx", "-batch", "-ex", "thread apply all backtrace 40", "-p", &number]),
        ];
        let texts: Vec<String> = tools
            .into_iter()
            .filter_map(|(name, arguments)| {
                let tool = rocwheel_system::find_program(name, &path)?;
                let words = [tool.into_os_string()].into_iter().chain(arguments.into_iter().map(OsString::from));
                let line = ProgramLine { words: words.collect(), ..program.clone() };
                let text = run_briefly(&line, &format!("{}-{name}", self.mark), LOOK / 2)?;
                (!text.trim().is_empty()).then(|| format!("{name}:\n{text}"))
            })
            .collect();
        (!texts.is_empty()).then(|| texts.join("\n"))
    }

    /// Ends the whole group: SIGTERM, and SIGKILL after `grace`.
    pub fn stop(&mut self, grace: Duration) {
        self.child.end(grace);
    }

    /// Waits for the end of a program that has been stopped or has ended, and kills what it left
    /// behind. Returns how it ended, its last output, and the number of processes that were left.
    pub fn finish(mut self) -> io::Result<(ProgramEnd, Vec<u8>, usize)> {
        let end = ProgramEnd::of(self.child.wait()?);
        let left = self.kill_rest();
        let mut bytes = Vec::new();
        let until = Instant::now() + STRAGGLERS;
        loop {
            let (more, is_closed) = self.output.take(until.saturating_duration_since(Instant::now()));
            let is_late = Instant::now() >= until;
            // What was on its way is at most 1 MiB; other processes may still write.
            if bytes.len() < 4 << 20 {
                bytes.extend(more);
            }
            if is_closed || is_late {
                break;
            }
        }
        Ok((end, bytes, left))
    }

    fn kill_rest(&mut self) -> usize {
        self.is_over = true;
        let mut count = 0;
        // A process may fork while it is being killed, so the search is repeated.
        for _ in 0..20 {
            let left = self.processes();
            if left.is_empty() {
                break;
            }
            count = count.max(left.len());
            for process in &left {
                kill_process(process.number);
            }
            thread::sleep(Duration::from_millis(10));
        }
        count
    }
}

impl Drop for SupervisedProgram {
    fn drop(&mut self) {
        if !self.is_over {
            self.child.end(Duration::ZERO);
            let _ = self.child.wait();
            self.kill_rest();
        }
    }
}

/// Most bytes of the answer of a helper program: the files of a whole ROCm are 1 MB of names.
pub(crate) const LONGEST_ANSWER: usize = 16 << 20;

/// How a program that gives an answer ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnswerEnd {
    /// By itself.
    Ended(ProgramEnd),
    /// It took longer than it may.
    Late,
    /// It printed more than it may.
    Long,
    Interrupted,
}

pub struct AnswerLimits<'a> {
    pub time: Duration,
    pub bytes: usize,
    /// `true` as soon as the work is to stop.
    pub is_interrupted: &'a dyn Fn() -> bool,
}

/// Runs a program to its end, and returns what it printed. It is killed at a limit.
pub fn run_for_answer(
    program: &ProgramLine,
    mark: &str,
    limits: &AnswerLimits<'_>,
) -> io::Result<(AnswerEnd, Vec<u8>)> {
    let mut running = SupervisedProgram::start(program, mark)?;
    let mut text = Vec::new();
    let until = Instant::now() + limits.time;
    let mut stopped = None;
    while running.end()?.is_none() {
        text.extend(running.read(Duration::from_millis(20)));
        stopped = if (limits.is_interrupted)() {
            Some(AnswerEnd::Interrupted)
        } else if text.len() > limits.bytes {
            Some(AnswerEnd::Long)
        } else if Instant::now() > until {
            Some(AnswerEnd::Late)
        } else {
            continue;
        };
        running.stop(Duration::ZERO);
        break;
    }
    let (end, rest, _) = running.finish()?;
    text.extend(rest);
    Ok((stopped.unwrap_or(AnswerEnd::Ended(end)), text))
}

/// Runs a helper program and returns its output; `None` if it cannot start. It is killed after
/// `limit`.
pub fn run_briefly(program: &ProgramLine, mark: &str, limit: Duration) -> Option<String> {
    let limits = AnswerLimits { time: limit, bytes: LONGEST_ANSWER, is_interrupted: &|| false };
    let (_, text) = run_for_answer(program, mark, &limits).ok()?;
    Some(String::from_utf8_lossy(&text).into_owned())
}

/// What a program and its processes may use together.
#[derive(Debug, Clone, Copy)]
pub struct ProcessLimits {
    pub processes: usize,
    /// Most bytes of memory; `None` for no limit. `RLIMIT_AS` cannot say this: HIP reserves many
    /// times the address space that it uses.
    pub memory: Option<u64>,
}

/// What a program has too much of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProcessExcess {
    Processes,
    /// It uses more memory than it may.
    Memory {
        /// Bytes that it used when that was noticed.
        used: u64,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> ProgramLine {
        let path = std::env::var_os("PATH").unwrap();
        ProgramLine {
            words: ["sh", "-c", script].map(OsString::from).to_vec(),
            directory: "/".into(),
            variables: BTreeMap::from([("PATH".into(), path)]),
        }
    }

    fn run_to_end(script: &str, mark: &str) -> (ProgramEnd, String, usize) {
        let mut running = SupervisedProgram::start(&shell(script), mark).unwrap();
        let mut text = BoundedText::default();
        while running.end().unwrap().is_none() {
            text.push(&running.read(Duration::from_millis(10)));
        }
        let (end, rest, left) = running.finish().unwrap();
        text.push(&rest);
        (end, text.take(), left)
    }

    #[test]
    fn ends_are_told_apart() {
        assert_eq!(run_to_end("echo a; echo b >&2; exit 3", "ends-1").0, ProgramEnd::Code(3));
        let (end, text, left) = run_to_end("echo a; kill -SEGV $$", "ends-2");
        assert_eq!((end, text.as_str(), left), (ProgramEnd::Signal(11), "a\n", 0));
        assert_eq!(end.words(), "was ended by signal 11 (SIGSEGV)");
    }

    #[test]
    fn what_leaves_the_group_is_killed() {
        let folder = tempfile::tempdir().unwrap();
        let mark = folder.path().join("mark");
        let script =
            format!("setsid sh -c 'sleep 1.5; touch {}' >/dev/null 2>&1 & setsid sleep 60 & exit 0", mark.display());
        let (end, _, left) = run_to_end(&script, "leaves-group");
        assert_eq!(end, ProgramEnd::Code(0));
        assert!(left >= 2, "{left}");
        thread::sleep(Duration::from_secs(2));
        assert!(!mark.exists());
        let is_marked = |process: &ProcessState| process.has_variable(&format!("{MARK}=leaves-group"));
        assert!(!process_states().any(|process| is_marked(&process)));
    }

    #[test]
    fn endless_output_is_counted_and_not_kept() {
        let (_, text, _) = run_to_end("echo begin; head -c 5000000 /dev/zero; echo; echo end", "endless");
        assert!(text.len() <= KEPT_OUTPUT, "{}", text.len());
        assert!(text.starts_with("begin\n") && text.ends_with("\nend\n"));
        assert!(text.contains("bytes are not shown"));
    }

    #[test]
    fn a_stopped_program_and_a_deaf_one_are_killed() {
        for (index, script) in ["kill -STOP $$", "trap '' TERM; while :; do sleep 1; done"].iter().enumerate() {
            let mut running = SupervisedProgram::start(&shell(script), &format!("deaf-{index}")).unwrap();
            thread::sleep(Duration::from_millis(200));
            assert_eq!(running.end().unwrap(), None);
            running.stop(Duration::from_millis(300));
            assert_eq!(running.finish().unwrap().0, ProgramEnd::Signal(9));
        }
    }

    #[test]
    fn a_fork_bomb_is_noticed_and_ended() {
        // The second one leaves the group.
        for (index, word) in ["", "setsid "].into_iter().enumerate() {
            let script = format!("for i in 1 2 3 4 5 6 7 8 9 10; do ({word}sleep 60) & done; wait");
            let mut running = SupervisedProgram::start(&shell(&script), &format!("bomb-{index}")).unwrap();
            let limits = ProcessLimits { processes: 8, memory: None };
            while running.excess(limits) != Some(ProcessExcess::Processes) {
                running.read(Duration::from_millis(50));
            }
            running.stop(Duration::ZERO);
            let group = running.number();
            running.finish().unwrap();
            thread::sleep(Duration::from_millis(100));
            let is_left = |process: &ProcessState| {
                process.group == group || process.has_variable(&format!("{MARK}=bomb-{index}"))
            };
            assert!(!process_states().any(|process| is_left(&process)));
        }
    }

    #[test]
    fn memory_is_that_of_all_processes_and_shared_pages_count_once() {
        let python = |script: &str| {
            let mut program = shell("");
            program.words = ["python3", "-c", script].map(OsString::from).to_vec();
            program
        };
        let limits = ProcessLimits { processes: 100, memory: Some(150 << 20) };
        let greedy = "import subprocess, sys, time\n\
            if len(sys.argv) == 1: [subprocess.Popen([sys.executable, '-c', 'a = bytearray(90 << 20); import time; time.sleep(60)']) for _ in '12']\n\
            time.sleep(60)";
        let mut running = SupervisedProgram::start(&python(greedy), "greedy").unwrap();
        let begun = Instant::now();
        let used = loop {
            running.read(Duration::from_millis(20));
            if let Some(ProcessExcess::Memory { used }) = running.excess(limits) {
                break used;
            }
            assert!(begun.elapsed() < Duration::from_secs(50), "the memory was not noticed");
        };
        assert!(used > 150 << 20, "{used}");
        running.stop(Duration::ZERO);
        running.finish().unwrap();
        let sharing = "import os, time\na = bytearray(90 << 20)\n[os.fork() or (time.sleep(3), os._exit(0)) for _ in '12']\ntime.sleep(3)";
        let mut running = SupervisedProgram::start(&python(sharing), "sharing").unwrap();
        let mut most = 0;
        while running.end().unwrap().is_none() {
            running.read(Duration::from_millis(20));
            most = most.max(running.processes().iter().map(ProcessState::resident).sum());
            assert_eq!(running.excess(limits), None);
        }
        assert!(most > 200 << 20, "the sum of the parts was {most}");
    }
}
