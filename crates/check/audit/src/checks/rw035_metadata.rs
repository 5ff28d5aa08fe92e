//! RW035: METADATA breaks rules of core metadata, so that the index or an installer refuses it.

use std::collections::BTreeMap;

use rocwheel_loader::site::Distribution;
use rocwheel_wheel::{RefusedBy, metadata_faults};

use crate::Error;
use crate::analysis::{Context, listed};
use crate::check::Check;
use crate::finding::{Code, Finding, Severity};
use crate::options::AuditScope;

pub const CHECK: Check = Check { code: Code::Metadata, scope: AuditScope::Names, run };

fn run(context: &Context<'_>, findings: &mut Vec<Finding>) -> Result<(), Error> {
    // An installed distribution is neither installed again nor published.
    for (_, installed) in context.audited().filter(|(_, installed)| installed.wheel().is_some()) {
        let member = format!("{}/METADATA", installed.info());
        // Many values of one field with one fault are one finding.
        let mut faults: BTreeMap<(String, RefusedBy), Vec<String>> = BTreeMap::new();
        for fault in metadata_faults(&installed.metadata) {
            faults.entry((fault.field, fault.refused_by)).or_default().push(fault.message);
        }
        for ((field, refused_by), messages) in faults {
            let (severity, whom) = match refused_by {
                RefusedBy::Installer => (Severity::Error, "; uv and PyPI refuse it"),
                RefusedBy::Index => (Severity::Warning, "; PyPI refuses it"),
                RefusedBy::Nobody => (Severity::Warning, ""),
            };
            let more = if messages.len() > 1 { format!(", and {} more", messages.len() - 1) } else { String::new() };
            let finding = Finding::new(Code::Metadata, field, format!("{}{more}{whom}", messages[0]));
            let finding = finding.weighing(severity).of(installed.file_name()).in_files([member.clone()]);
            findings.push(if messages.len() > 1 { finding.naming(messages) } else { finding });
        }
        findings.extend(missing_licenses(installed));
    }
    Ok(())
}

/// Reports licence texts that METADATA names and the wheel does not have. Since core metadata 2.4
/// they are in `.dist-info/licenses` (PEP 639).
fn missing_licenses(installed: &Distribution) -> Option<Finding> {
    let wheel = installed.wheel()?;
    let info = installed.info();
    let has_folder = installed.metadata.get("Metadata-Version").is_some_and(|version| {
        let numbers: Vec<u32> = version.split('.').filter_map(|part| part.parse().ok()).collect();
        numbers >= vec![2, 4]
    });
    let named = installed.metadata.all("License-File");
    let missing = named.iter().filter(|file| wheel.member(&format!("{info}/licenses/{file}")).is_none());
    let missing: Vec<&str> = missing.map(String::as_str).collect();
    if !has_folder || missing.is_empty() {
        return None;
    }
    let list = listed(missing.iter().copied());
    let message = format!("names the licence files {list}, which are not in `{info}/licenses`, and PyPI refuses that");
    let finding = Finding::new(Code::Metadata, "License-File", message).weighing(Severity::Warning);
    Some(finding.of(installed.file_name()).in_files([format!("{info}/METADATA")]).naming(missing))
}
