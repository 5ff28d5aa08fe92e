//! Input: the name of a component. Output: its position in the chain and the files that belong to
//! it by default.

use std::fmt;

use serde::{Deserialize, Serialize};

use rocwheel_tables::{Pattern, Predicate};

/// The six parts of an artifact. Each extends the one before it: a file claimed by an earlier
/// component is not offered to a later one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Component {
    /// Shared libraries.
    Lib,
    /// Files needed at run time; takes every file that it is offered.
    Run,
    /// Separate debug files.
    Dbg,
    /// Headers, static libraries, `CMake` and pkg-config files.
    Dev,
    /// Documentation.
    Doc,
    /// Tests; takes every file that is left.
    Test,
}

impl Component {
    /// All components in processing order.
    pub const CHAIN: [Self; 6] = [Self::Lib, Self::Run, Self::Dbg, Self::Dev, Self::Doc, Self::Test];

    /// Parses a name in lower case, as it is in artifact names.
    pub fn parse(name: &str) -> Option<Self> {
        Self::CHAIN.into_iter().find(|component| component.name() == name)
    }

    /// As in artifact names.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Lib => "lib",
            Self::Run => "run",
            Self::Dbg => "dbg",
            Self::Dev => "dev",
            Self::Doc => "doc",
            Self::Test => "test",
        }
    }

    /// The component before this one in the chain, whose files are not offered to this one.
    pub fn extends(self) -> Option<Self> {
        let place = Self::CHAIN.iter().position(|component| *component == self)?;
        place.checked_sub(1).map(|before| Self::CHAIN[before])
    }

    /// None for the two components that take everything.
    pub const fn default_includes(self) -> &'static [&'static str] {
        match self {
            Self::Lib => &["**/*.dll", "**/*.dylib", "**/*.dylib.*", "**/*.so", "**/*.so.*"],
            Self::Dbg => &[".build-id/**/*.debug"],
            Self::Dev => {
                &["**/*.a", "**/*.lib", "**/cmake/**", "**/include/**", "**/share/modulefiles/**", "**/pkgconfig/**"]
            }
            Self::Doc => &["**/share/doc/**"],
            Self::Run | Self::Test => &[],
        }
    }

    pub const fn takes_everything(self) -> bool {
        self.default_includes().is_empty()
    }

    /// Patterns that are included regardless of excludes: the kernel archives of this component of
    /// `artifact`.
    pub fn forced_includes(self, artifact: &str) -> [String; 2] {
        [format!(".kpack/{artifact}_{self}.kpm"), format!(".kpack/{artifact}_{self}_*.kpack")]
    }

    /// The default rule of this component of `artifact`, which a descriptor can replace.
    pub fn predicate(self, artifact: &str) -> Predicate {
        Predicate {
            includes: self.default_includes().iter().map(|glob| Pattern::new(glob)).collect(),
            excludes: Vec::new(),
            forced: self.forced_includes(artifact).iter().map(|glob| Pattern::new(glob)).collect(),
        }
    }
}

impl fmt::Display for Component {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chain_runs_from_lib_to_test() {
        let mut names = vec!["test"];
        let mut component = Component::Test;
        while let Some(before) = component.extends() {
            names.push(before.name());
            component = before;
        }
        assert_eq!(names, ["test", "doc", "dev", "dbg", "run", "lib"]);
        assert_eq!(Component::parse("dev"), Some(Component::Dev));
        assert_eq!(Component::parse("Dev"), None);
    }

    #[test]
    fn default_patterns() {
        let claims = |component: Component, path: &str| component.predicate("blas").matches(path);
        assert!(claims(Component::Lib, "lib/librocblas.so.4.1"));
        assert!(claims(Component::Lib, "x.so"));
        assert!(!claims(Component::Lib, "lib/rocblas/library/a.co"));
        assert!(claims(Component::Lib, ".kpack/blas_lib_gfx942:xnack+.kpack"));
        assert!(claims(Component::Lib, ".kpack/blas_lib.kpm"));
        assert!(!claims(Component::Lib, ".kpack/fft_lib_gfx942.kpack"));
        assert!(claims(Component::Dev, "lib/cmake"));
        assert!(claims(Component::Dev, "include/rocblas/rocblas.h"));
        assert!(claims(Component::Dbg, ".build-id/ab/cd.debug"));
        assert!(!claims(Component::Dbg, "lib/.build-id/ab/cd.debug"));
        assert!(claims(Component::Doc, "share/doc/rocblas/LICENSE"));
        assert!(claims(Component::Run, "anything") && claims(Component::Test, "anything"));
    }
}
