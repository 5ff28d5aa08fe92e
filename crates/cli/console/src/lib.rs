//! What every command shares. Input: the environment, the global options and the configuration
//! files. Output: messages, progress, JSON and annotations; failures with their exit codes.

pub mod any_index;
pub mod arguments;
pub mod configuration;
pub mod environment;
pub mod failure;
pub mod failure_text;
pub mod github;
pub mod index_site;
pub mod interrupt;
pub mod message;
pub mod output_file;
pub mod printer;
pub mod progress;
pub mod store;

/// Makes the settings of a command, prints them with `-vv`, and hands them to the command.
#[macro_export]
macro_rules! run {
    ($command:ident, $arguments:expr, $printer:expr) => {{
        let settings = $command::Settings::try_from($arguments)?;
        $printer.settings(&settings);
        $command::command(&settings, $printer)
    }};
}
