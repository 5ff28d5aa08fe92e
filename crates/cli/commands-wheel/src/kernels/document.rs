//! Input: a tally. Output: the JSON document. Its fields are stable; new ones may be added.

use rocwheel_kpack::bundle::Method;
use rocwheel_kpack::code_object::{Kernel, MetadataFormat};
use rocwheel_survey::{BundleSummary, FileMessage, FoundCode, Surveyed, Weight};
use serde::Serialize;

use super::tally::{Sum, Tally};

#[derive(Serialize)]
pub(super) struct Document<'a> {
    totals: Totals,
    targets: Vec<Target<'a>>,
    files: Vec<File<'a>>,
}

#[derive(Serialize)]
struct Totals {
    files: u64,
    files_with_code: u64,
    #[serde(flatten)]
    sum: Sum,
    faults: u64,
}

#[derive(Serialize)]
struct Target<'a> {
    target: &'a str,
    #[serde(flatten)]
    sum: Sum,
}

#[derive(Serialize)]
struct File<'a> {
    path: String,
    member: Option<&'a str>,
    kind: &'static str,
    size: u64,
    packed: Option<u64>,
    wrappers: usize,
    bundles: Vec<Bundle<'a>>,
    markers: Vec<Marker<'a>>,
    code_objects: Vec<CodeObject<'a>>,
    findings: Vec<Said<'a>>,
}

#[derive(Serialize)]
struct Bundle<'a> {
    offset: u64,
    length: u64,
    compression: Option<Compression>,
    wrappers: &'a [usize],
}

#[derive(Serialize)]
struct Compression {
    version: u16,
    method: &'static str,
    uncompressed: u64,
}

#[derive(Serialize)]
struct Marker<'a> {
    kernel_name: &'a str,
    search_paths: &'a [String],
}

#[derive(Serialize)]
struct CodeObject<'a> {
    target: &'a str,
    own_target: Option<String>,
    bundle: Option<usize>,
    entry: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    offset: Option<u64>,
    size: u64,
    stored: u64,
    code: &'static str,
    version: Option<u8>,
    metadata: &'static str,
    kernel_count: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    kernels: Option<Vec<KernelRow<'a>>>,
}

#[derive(Serialize)]
struct KernelRow<'a> {
    name: &'a str,
    symbol: &'a str,
    vgpr: Option<u64>,
    agpr: Option<u64>,
    sgpr: Option<u64>,
    vgpr_spills: Option<u64>,
    sgpr_spills: Option<u64>,
    lds: Option<u64>,
    scratch: Option<u64>,
    wavefront: Option<u64>,
    max_workgroup: Option<u64>,
}

#[derive(Serialize)]
struct Said<'a> {
    subject: &'static str,
    fault: bool,
    message: &'a str,
}

impl<'a> Document<'a> {
    /// With `with_kernels` it lists every kernel of every code object, otherwise only their number.
    pub(super) fn new(tally: &'a Tally, with_kernels: bool) -> Self {
        let totals = Totals {
            files: tally.all_files,
            files_with_code: tally.files_with_code,
            sum: tally.total,
            faults: tally.faults,
        };
        let targets = tally.sorted_targets().into_iter().map(|(target, sum)| Target { target, sum: *sum }).collect();
        let files = tally.files.iter().map(|(surveyed, _)| file(surveyed, with_kernels)).collect();
        Self { totals, targets, files }
    }
}

fn file(file: &Surveyed, with_kernels: bool) -> File<'_> {
    let markers = file.markers.iter();
    let markers = markers.map(|marker| Marker { kernel_name: &marker.kernel_name, search_paths: &marker.search_paths });
    File {
        path: file.location.path.to_string_lossy().into_owned(),
        member: file.location.member.as_deref(),
        kind: file.kind.name(),
        size: file.size,
        packed: file.packed,
        wrappers: file.wrappers,
        bundles: file.bundles.iter().map(bundle).collect(),
        markers: markers.collect(),
        code_objects: file.code_objects.iter().map(|found| code_object(found, with_kernels)).collect(),
        findings: file.findings.iter().map(said).collect(),
    }
}

fn bundle(bundle: &BundleSummary) -> Bundle<'_> {
    let compression = bundle.compression.map(|compression| Compression {
        version: compression.version,
        method: match compression.method {
            Method::Zlib => "zlib",
            Method::Zstd => "zstd",
        },
        uncompressed: compression.uncompressed,
    });
    Bundle { offset: bundle.offset, length: bundle.length, compression, wrappers: &bundle.wrappers }
}

fn code_object(found: &FoundCode, with_kernels: bool) -> CodeObject<'_> {
    CodeObject {
        target: &found.target,
        own_target: found.own_target.as_ref().map(ToString::to_string),
        bundle: found.bundle,
        entry: found.entry.as_deref(),
        offset: found.offset,
        size: found.size,
        stored: found.stored,
        code: found.code.name(),
        version: found.version,
        metadata: match found.metadata {
            MetadataFormat::Absent => "absent",
            MetadataFormat::MessagePack => "messagepack",
            MetadataFormat::Yaml => "yaml",
            MetadataFormat::Malformed(_) => "malformed",
        },
        kernel_count: found.kernel_count,
        kernels: with_kernels.then(|| found.kernels.iter().map(kernel).collect()),
    }
}

fn kernel(kernel: &Kernel) -> KernelRow<'_> {
    KernelRow {
        name: &kernel.name,
        symbol: &kernel.symbol,
        vgpr: kernel.vgpr,
        agpr: kernel.agpr,
        sgpr: kernel.sgpr,
        vgpr_spills: kernel.vgpr_spills,
        sgpr_spills: kernel.sgpr_spills,
        lds: kernel.lds,
        scratch: kernel.scratch,
        wavefront: kernel.wavefront,
        max_workgroup: kernel.max_workgroup,
    }
}

fn said(finding: &FileMessage) -> Said<'_> {
    Said { subject: finding.subject.name(), fault: finding.weight == Weight::Fault, message: &finding.message }
}
