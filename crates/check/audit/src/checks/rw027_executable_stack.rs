//! RW027: a library requests an executable stack.

use rocwheel_elf::ElfKind;
use rocwheel_loader::facts::Object;

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
    let asks = |(_, object): &(&str, &Object)| {
        object.elf.kind == ElfKind::SharedLibrary && object.elf.wants_executable_stack()
    };
    let paths: Vec<&str> = context.native(wheel).filter(asks).map(|(path, _)| path).collect();
    // musl's loader ignores the flag.
    if !paths.is_empty() && !context.is_for_musl(wheel) {
        let message = "asks for an executable stack, with which glibc 2.41 and newer refuses to load it";
        let finding = context.finding((Code::ExecutableStack, wheel), "PT_GNU_STACK", message, paths);
        findings.push(finding.fixed_by(fix::repair(&context.site.distributions[wheel])));
    }
}
