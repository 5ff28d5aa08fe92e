//! RW036: the set has GPU code for a generic target, and the package of a target that runs it
//! neither has that code nor brings it.

use rocwheel_loader::site::Distribution;
use rocwheel_tables::{DevicePackages, PackageLevel, device_packages};
use rocwheel_wheel::Platform;

use crate::Error;
use crate::analysis::{Context, listed};
use crate::check::Check;
use crate::finding::{Code, Finding};
use crate::fix;
use crate::options::AuditScope;

pub const CHECK: Check = Check { code: Code::GenericCode, scope: AuditScope::Names, run };

fn run(context: &Context<'_>, findings: &mut Vec<Finding>) -> Result<(), Error> {
    let packages = DevicePackages::embedded();
    for (wheel, installed) in context.audited() {
        let Some((prefix, target)) = device_package(installed) else { continue };
        let runs = packages.chain(target).into_iter().filter(|key| packages.level(key) == PackageLevel::Generic);
        for generic in runs.filter(|generic| generic != target) {
            let name = device_packages::distribution(prefix, &generic);
            let platform = Platform::of_wheels([&installed.platforms()[..]]);
            let Some(other) = context.named_on(platform, &name) else { continue };
            let lacking = lacking(context, (wheel, target), (other, &generic));
            if lacking.is_empty() || is_brought(context, platform, (wheel, target), &name) {
                continue;
            }
            let files: Vec<String> = lacking.iter().map(|path| context.member(path)).collect();
            let files = listed(files.iter().map(String::as_str));
            let message = format!("has no code in place of {files}, and does not require `{name}`, which has it");
            let requirement = format!("{name}=={}", context.site.distributions[other].version());
            let finding = Finding::new(Code::GenericCode, name, message).of(installed.file_name());
            findings.push(finding.fixed_by(fix::require(installed, &requirement)));
        }
    }
    Ok(())
}

/// The name of a device package in front of its target, and the target: `rocm-sdk-device` and
/// `gfx1201`.
fn device_package(installed: &Distribution) -> Option<(&str, &str)> {
    let at = installed.name.rfind("-gfx")?;
    Some((&installed.name[..at], &installed.name[at + 1..]))
}

/// The files of a generic target's package of which the target's package has no counterpart: a
/// library with code for the target itself does not look for other code.
fn lacking<'a>(context: &Context<'a>, (wheel, target): (usize, &str), (other, generic): (usize, &str)) -> Vec<&'a str> {
    let own = context.paths(wheel);
    let files = context.paths(other).iter().filter(|path| path.contains(generic));
    files.filter(|path| own.binary_search(&path.replace(generic, target).as_str()).is_err()).copied().collect()
}

/// `true` if the package of a target, or the extra for the target of another wheel, requires the
/// package.
fn is_brought(context: &Context<'_>, platform: Platform, (wheel, target): (usize, &str), name: &str) -> bool {
    let extra = device_packages::extra(target);
    context.required_on(platform, wheel).plain.contains(name)
        || (0..context.site.distributions.len()).any(|wheel| {
            let extras = &context.required_on(platform, wheel).extras;
            extras.get(&extra).is_some_and(|required| required.contains(name))
        })
}
