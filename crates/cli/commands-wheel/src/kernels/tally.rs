//! Input: surveyed files, one by one. Output: sums by target, file and kernel.

use std::collections::BTreeMap;
use std::path::Path;

use rocwheel_console::printer::ResultFormat;
use rocwheel_kpack::code_object::Kernel;
use rocwheel_survey::{FoundCode, Surveyed, Weight};
use serde::Serialize;

use super::By;
use super::plot::{PlotGroup, PlotRow};

/// An amount of code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(super) struct Sum {
    pub(super) code_objects: u64,
    /// `None` if some of the code objects were not read.
    pub(super) kernels: Option<u64>,
    /// Bytes of the code objects.
    pub(super) size: u64,
    /// Bytes that they occupy in their files, where bundles may be compressed.
    pub(super) stored: u64,
}

impl Default for Sum {
    fn default() -> Self {
        Self { code_objects: 0, kernels: Some(0), size: 0, stored: 0 }
    }
}

impl Sum {
    fn add(&mut self, found: &FoundCode) {
        self.code_objects += 1;
        self.kernels = self.kernels.zip(found.kernel_count).map(|(sum, count)| sum + count);
        self.size = self.size.saturating_add(found.size);
        self.stored = self.stored.saturating_add(found.stored);
    }
}

/// The smallest and largest value of a number that differs between targets.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Span(pub(super) Option<(u64, u64)>);

impl Span {
    fn add(&mut self, value: Option<u64>) {
        if let Some(value) = value {
            self.0 = Some(self.0.map_or((value, value), |(low, high)| (low.min(value), high.max(value))));
        }
    }
}

/// All code of one kernel.
#[derive(Debug, Clone, Default)]
pub(super) struct KernelSum {
    pub(super) code_objects: u64,
    pub(super) vgpr: Span,
    pub(super) agpr: Span,
    pub(super) sgpr: Span,
    pub(super) spills: Span,
    pub(super) lds: Span,
    pub(super) scratch: Span,
}

impl KernelSum {
    fn add(&mut self, kernel: &Kernel) {
        self.code_objects += 1;
        self.vgpr.add(kernel.vgpr);
        self.agpr.add(kernel.agpr);
        self.sgpr.add(kernel.sgpr);
        self.lds.add(kernel.lds);
        self.scratch.add(kernel.scratch);
        self.spills.add(match (kernel.vgpr_spills, kernel.sgpr_spills) {
            (None, None) => None,
            (vector, scalar) => Some(vector.unwrap_or(0).saturating_add(scalar.unwrap_or(0))),
        });
    }
}

/// Everything that the command prints.
pub(super) struct Tally {
    by: By,
    format: ResultFormat,
    pub(super) all_files: u64,
    pub(super) files_with_code: u64,
    pub(super) total: Sum,
    pub(super) targets: BTreeMap<String, Sum>,
    /// The files to list.
    pub(super) files: Vec<(Surveyed, Sum)>,
    pub(super) kernels: BTreeMap<String, KernelSum>,
    /// Number of findings that make the exit code 1.
    pub(super) faults: u64,
    /// Number of files with code for NVIDIA's GPUs.
    pub(super) cuda_files: u64,
}

impl Tally {
    pub(super) fn new(by: By, format: ResultFormat) -> Self {
        Self {
            by,
            format,
            all_files: 0,
            files_with_code: 0,
            total: Sum::default(),
            targets: BTreeMap::new(),
            files: Vec::new(),
            kernels: BTreeMap::new(),
            faults: 0,
            cuda_files: 0,
        }
    }

    pub(super) fn add(&mut self, mut file: Surveyed) {
        self.all_files += 1;
        self.cuda_files += u64::from(file.has_cuda);
        if !file.is_of_interest() {
            return;
        }
        self.faults += file.findings.iter().filter(|finding| finding.weight == Weight::Fault).count() as u64;
        self.files_with_code += u64::from(!file.code_objects.is_empty());
        let mut sum = Sum::default();
        for found in &mut file.code_objects {
            sum.add(found);
            self.total.add(found);
            match self.targets.get_mut(&found.target) {
                Some(target) => target.add(found),
                None => self.targets.entry(found.target.clone()).or_default().add(found),
            }
            if self.by == By::Kernel && self.format == ResultFormat::Text {
                for kernel in std::mem::take(&mut found.kernels) {
                    self.kernels.entry(kernel.name.clone()).or_default().add(&kernel);
                }
            }
        }
        self.files.push((file, sum));
    }

    /// The targets in numeric order.
    pub(super) fn sorted_targets(&self) -> Vec<(&str, &Sum)> {
        let mut targets: Vec<(&str, &Sum)> = self.targets.iter().map(|(name, sum)| (name.as_str(), sum)).collect();
        targets.sort_by(|left, right| rocwheel_tables::target::compare(left.0, right.0));
        targets
    }

    /// The sizes by wheel or archive, file and target.
    pub(super) fn groups(&self) -> Vec<PlotGroup> {
        let mut groups: BTreeMap<Option<&Path>, Vec<PlotRow>> = BTreeMap::new();
        for (file, _) in &self.files {
            let (archive, label) = match &file.location.member {
                Some(member) => (Some(file.location.path.as_path()), member.clone()),
                None => (None, file.location.path.display().to_string()),
            };
            let mut row = PlotRow { label, sizes: BTreeMap::new() };
            for found in &file.code_objects {
                *row.sizes.entry(found.target.clone()).or_default() += found.size;
            }
            groups.entry(archive).or_default().push(row);
        }
        let groups = groups.into_iter().map(|(archive, rows)| {
            let name = archive.map(|path| path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned());
            PlotGroup { name: name.unwrap_or_else(|| "files outside of archives".to_owned()), rows }
        });
        groups.collect()
    }
}

/// The targets of a file's code, in numeric order.
pub(super) fn targets_of(file: &Surveyed) -> Vec<&str> {
    let mut targets: Vec<&str> = file.code_objects.iter().map(|found| found.target.as_str()).collect();
    targets.sort_by(|left, right| rocwheel_tables::target::compare(left, right));
    targets.dedup();
    targets
}
