//! Input: tests of any kind (pytest, gtest, ctest, scripts, PyTorch's own runner, computations for
//! installed packages), [`lists`] of known failures and GPUs. Output: a folder with the events of
//! the run, and its sum.
//!
//! Tests run in processes of their own under a [`supervisor`], so a test that crashes or hangs
//! costs itself and its time limit. What did not run is `not_run`, which is never a pass. [`shard`]
//! divides a suite, and [`mod@bench`] compares measurements with earlier ones.

pub mod bench;
mod ctest;
mod driver;
mod durations;
mod engine;
mod gpus;
mod gtest;
pub mod lists;
mod median;
mod name_expression;
mod pytest;
mod python;
mod pytorch;
mod recorder;
mod run;
mod run_test;
mod script;
pub mod shard;
pub mod smoke;
pub mod supervisor;
mod worker;

pub use ctest::CtestDriver;
pub use driver::{
    Collection, CollectionRequest, FailedCollection, StreamEvent, TestDriver, TestStream, WaitingProcess,
};
pub use gpus::{GpuTable, find_gpus, targets_of, workers_for};
pub use gtest::GtestDriver;
pub use name_expression::NameExpression;
pub use pytest::{PytestDriver, PytestSetup};
pub use python::{InstalledTorch, PythonFacts, check_source, platforms, probe_python, source_of};
pub use pytorch::{PYTORCH_FILES, PytorchTests, RunnerOptions};
pub use recorder::{EVENTS, RunRecorder, RunSummary, run_name};
pub use run::{SuitePreview, SuiteRequest, preview_suite, run_suite};
pub use run_test::{RunTest, run_with_run_test};
pub use script::ScriptDriver;
pub use worker::{SuiteLimits, TestWorker};
