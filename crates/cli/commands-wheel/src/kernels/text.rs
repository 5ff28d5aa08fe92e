//! Input: a tally. Output: the table for people.

use comfy_table::CellAlignment::{Left, Right};
use rocwheel_console::failure::Result;
use rocwheel_console::message;
use rocwheel_console::printer::{Column, Printer};

use super::By;
use super::tally::{Span, Sum, Tally, targets_of};

const BY_TARGET: [Column; 5] =
    [("Target", Left), ("Code objects", Right), ("Kernels", Right), ("Size", Right), ("Stored", Right)];
// Long names come last, where they do not move the numbers.
const BY_FILE: [Column; 8] = [
    ("Targets", Right),
    ("Bundles", Right),
    ("Wrappers", Right),
    ("Code objects", Right),
    ("Kernels", Right),
    ("Size", Right),
    ("Stored", Right),
    ("File", Left),
];
const BY_KERNEL: [Column; 8] = [
    ("Code objects", Right),
    ("VGPRs", Right),
    ("AGPRs", Right),
    ("SGPRs", Right),
    ("Spills", Right),
    ("LDS", Right),
    ("Scratch", Right),
    ("Kernel", Left),
];

pub(super) fn print(tally: &Tally, by: By, printer: &Printer) -> Result<()> {
    if tally.total.code_objects == 0 {
        return Ok(());
    }
    match by {
        By::Target => {
            let mut sums = tally.sorted_targets();
            if sums.len() > 1 {
                sums.push(("total", &tally.total));
            }
            let rows = sums.into_iter().map(|(name, sum)| {
                let mut row = vec![name.to_owned(), sum.code_objects.to_string()];
                row.extend(amounts(sum));
                row
            });
            printer.table(&BY_TARGET, rows)
        }
        By::File => {
            let rows = tally.files.iter().filter(|(file, _)| !file.code_objects.is_empty()).map(|(file, sum)| {
                let counts = [targets_of(file).len(), file.bundles.len(), file.wrappers, file.code_objects.len()];
                let mut row: Vec<String> = counts.iter().map(ToString::to_string).collect();
                row.extend(amounts(sum));
                row.push(file.location.to_string());
                row
            });
            printer.table(&BY_FILE, rows)
        }
        By::Kernel => {
            let rows = tally.kernels.iter().map(|(name, sum)| {
                let mut row = vec![sum.code_objects.to_string()];
                row.extend([sum.vgpr, sum.agpr, sum.sgpr, sum.spills, sum.lds, sum.scratch].map(range));
                row.push(name.escape_debug().to_string());
                row
            });
            printer.table(&BY_KERNEL, rows)
        }
    }
}

fn amounts(sum: &Sum) -> [String; 3] {
    let kernels = sum.kernels.map_or_else(|| "-".to_owned(), |count| count.to_string());
    [kernels, message::bytes(sum.size), message::bytes(sum.stored)]
}

/// A range for the table: `24`, `24-64` or `-`.
fn range(span: Span) -> String {
    match span.0 {
        None => "-".to_owned(),
        Some((low, high)) if low == high => low.to_string(),
        Some((low, high)) => format!("{low}-{high}"),
    }
}
