//! A reporter that keeps what it is told.

use std::sync::{Mutex, PoisonError};

use rocwheel_report::{Reporter, Unit};

/// Keeps warnings, shows no progress, and never interrupts.
#[derive(Debug, Default)]
pub struct Warnings(Mutex<Vec<String>>);

impl Warnings {
    /// The warnings so far, in order.
    pub fn all(&self) -> Vec<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Reporter for Warnings {
    fn begin(&self, _stage: &str, _total: Option<u64>, _unit: Unit) {}
    fn advance(&self, _amount: u64) {}
    fn end(&self) {}
    fn warn(&self, message: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(message.to_owned());
    }
    fn interrupted(&self) -> bool {
        false
    }
}
