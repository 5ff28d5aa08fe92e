//! The codes of the findings.
//!
//! Generated from `data/findings.toml`:
//! `INSTA_UPDATE=always cargo test --package rocwheel-audit` writes it anew.

/// The code of a finding. A code is never given another meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Code {
    /// A needed library is missing.
    LibraryNotFound,
    /// A library is found only outside the environment.
    LibraryOutside,
    /// A search path leaves the environment.
    SearchPath,
    /// Two copies of one library.
    TwoCopies,
    /// A symbol is not defined anywhere.
    UndefinedSymbol,
    /// A library lacks a symbol version.
    SymbolVersion,
    /// A newer system is needed than the tag promises.
    TooNew,
    /// A newer CPU is needed than the tag promises.
    CpuLevel,
    /// The tags are not true.
    Tags,
    /// An extension module is for another Python.
    Python,
    /// Not the ROCm build that it claims to be.
    NotRocm,
    /// A requirement is not declared.
    MissingRequirement,
    /// A requirement that nothing needs.
    UnneededRequirement,
    /// A stray package at the top level.
    StrayPackage,
    /// Two wheels install the same file.
    SharedFile,
    /// RECORD does not match.
    Record,
    /// RECORD has no usable hash.
    RecordHash,
    /// A path is too long.
    PathLength,
    /// The preload list does not fit.
    PreloadList,
    /// Too large to be published.
    Size,
    /// The runtime cannot read split GPU code.
    KpackRuntime,
    /// A library that is loaded by name is missing.
    DlopenMissing,
    /// A file is not what it claims to be.
    Unreadable,
    /// GPU code is not what its table says.
    GpuCode,
    /// A requirement was not given.
    NotGiven,
    /// A file is for another machine.
    Machine,
    /// A file asks for an executable stack.
    ExecutableStack,
    /// A library of `LD_LIBRARY_PATH` comes first.
    LibraryPath,
    /// Windows does not find a DLL.
    DllNotFound,
    /// A requirement cannot be right.
    WrongRequirement,
    /// A requirement is not met where it was looked for.
    UnmetRequirement,
    /// Installers refuse the wheel.
    Refused,
    /// The loader refuses a file.
    NotLoadable,
    /// An entry point cannot work.
    EntryPoint,
    /// METADATA is refused.
    Metadata,
    /// Nothing brings the GPU code of a generic target.
    GenericCode,
    /// An installer does not bring the wheel.
    NotBrought,
    /// A name of the set is not yours on the public index.
    PublicName,
}

impl Code {
    /// All codes, by number.
    pub const ALL: [Code; 38] = [
        Code::LibraryNotFound,
        Code::LibraryOutside,
        Code::SearchPath,
        Code::TwoCopies,
        Code::UndefinedSymbol,
        Code::SymbolVersion,
        Code::TooNew,
        Code::CpuLevel,
        Code::Tags,
        Code::Python,
        Code::NotRocm,
        Code::MissingRequirement,
        Code::UnneededRequirement,
        Code::StrayPackage,
        Code::SharedFile,
        Code::Record,
        Code::RecordHash,
        Code::PathLength,
        Code::PreloadList,
        Code::Size,
        Code::KpackRuntime,
        Code::DlopenMissing,
        Code::Unreadable,
        Code::GpuCode,
        Code::NotGiven,
        Code::Machine,
        Code::ExecutableStack,
        Code::LibraryPath,
        Code::DllNotFound,
        Code::WrongRequirement,
        Code::UnmetRequirement,
        Code::Refused,
        Code::NotLoadable,
        Code::EntryPoint,
        Code::Metadata,
        Code::GenericCode,
        Code::NotBrought,
        Code::PublicName,
    ];

    /// The code as users write it, `RW012`.
    pub fn text(self) -> &'static str {
        match self {
            Code::LibraryNotFound => "RW001",
            Code::LibraryOutside => "RW002",
            Code::SearchPath => "RW003",
            Code::TwoCopies => "RW004",
            Code::UndefinedSymbol => "RW005",
            Code::SymbolVersion => "RW006",
            Code::TooNew => "RW007",
            Code::CpuLevel => "RW008",
            Code::Tags => "RW009",
            Code::Python => "RW010",
            Code::NotRocm => "RW011",
            Code::MissingRequirement => "RW012",
            Code::UnneededRequirement => "RW013",
            Code::StrayPackage => "RW014",
            Code::SharedFile => "RW015",
            Code::Record => "RW016",
            Code::RecordHash => "RW017",
            Code::PathLength => "RW018",
            Code::PreloadList => "RW019",
            Code::Size => "RW020",
            Code::KpackRuntime => "RW021",
            Code::DlopenMissing => "RW022",
            Code::Unreadable => "RW023",
            Code::GpuCode => "RW024",
            Code::NotGiven => "RW025",
            Code::Machine => "RW026",
            Code::ExecutableStack => "RW027",
            Code::LibraryPath => "RW028",
            Code::DllNotFound => "RW029",
            Code::WrongRequirement => "RW030",
            Code::UnmetRequirement => "RW031",
            Code::Refused => "RW032",
            Code::NotLoadable => "RW033",
            Code::EntryPoint => "RW034",
            Code::Metadata => "RW035",
            Code::GenericCode => "RW036",
            Code::NotBrought => "RW037",
            Code::PublicName => "RW038",
        }
    }
}
