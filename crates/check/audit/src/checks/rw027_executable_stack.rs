//! RW027: a library requests an executable stack.

use rocwheel_elf::ElfKind;

use crate::Error;
use crate::analysis::Context;
use crate::check::Check;
use crate::finding::{Code, Finding};
use crate::fix;
use crate::options::AuditScope;

pub const CHECK: Check = Check { code: Code::ExecutableStack, scope: AuditScope::Files, run };

fn run(context: &Context<'_>, findings: &mut Vec<Finding>) -> Result<(), Error> {
    for (wheel, _) in context.audited() {
        stacks(context, wheel, findings);
    }
    Ok(())
}

fn stacks(context: &Context<'_>, wheel: usize, findings: &mut Vec<Finding>) {
    let libraries = context.native(wheel).filter(|(_, object)| object.elf.kind == ElfKind::SharedLibrary);
    let asking = libraries.filter(|(_, object)| object.elf.wants_executable_stack());
    let paths: Vec<&str> = asking.map(|(path, _)| path).collect();
    // musl's loader ignores the flag.
    if !paths.is_empty() && !context.is_for_musl(wheel) {
        let message = "asks for an executable stack, with which glibc 2.41 and newer refuses to load it";
        let finding = context.finding((Code::ExecutableStack, wheel), "PT_GNU_STACK", message, paths);
        findings.push(finding.fixed_by(fix::repair(&context.site.distributions[wheel])));
    }
}
