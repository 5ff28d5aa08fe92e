//! Input: the GPU targets of the tables, and lists of targets and families. Output: lists of
//! targets.

use std::collections::BTreeSet;

use rocwheel_progress::{Exit, Failure};
use serde::Serialize;

use crate::RocmTables;
use crate::target::{base_target, compare, sort};

/// A GPU target that AMD's releases are built for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Target {
    /// The LLVM name, for example `gfx942`.
    pub name: String,
    /// The best-known product with this GPU.
    pub product: String,
    /// The products with this GPU, by the names on their boxes.
    #[serde(skip)]
    pub cards: Vec<String>,
    /// The groups that it belongs to. Its own name is also a family, which is not listed.
    pub families: Vec<String>,
    /// The first release of LLVM whose clang compiles for it; `None` if every current release does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub llvm: Option<u32>,
    /// The job of PyTorch's CI that tests on it.
    #[serde(skip)]
    pub pytorch_job: Option<String>,
}

/// The known GPU targets, in the order of the table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TargetTable {
    targets: Vec<Target>,
    /// Targets that are no GPU: the driver compiles their code for any.
    #[serde(skip)]
    portable: Vec<Target>,
}

/// Maximum number of names that are suggested for an unknown one.
const MOST_NEAR: usize = 4;

impl TargetTable {
    /// The targets that AMD's releases are built for: those with a product.
    pub fn embedded() -> Self {
        Self::of(RocmTables::in_use())
    }

    /// The targets of these tables that have a product.
    pub fn of(tables: &RocmTables) -> Self {
        let mut table = Self { targets: Vec::new(), portable: Vec::new() };
        for row in &tables.targets {
            let Some(product) = row.product.clone() else { continue };
            let list = if row.portable { &mut table.portable } else { &mut table.targets };
            list.push(Target {
                name: row.name.clone(),
                product,
                cards: row.cards.clone(),
                families: row.families.clone(),
                llvm: row.llvm,
                pytorch_job: row.pytorch_job.clone(),
            });
        }
        table
    }

    fn all(&self) -> impl Iterator<Item = &Target> {
        self.targets.iter().chain(&self.portable)
    }

    /// `true` for a target without device packages: its code is for every GPU.
    pub fn is_portable(&self, target: &str) -> bool {
        self.portable.iter().any(|known| known.name == base_target(target))
    }

    /// The GPUs.
    pub fn targets(&self) -> &[Target] {
        &self.targets
    }

    /// The row of a target. `target` may carry features.
    pub fn get(&self, target: &str) -> Option<&Target> {
        let base = base_target(target);
        self.all().find(|known| known.name == base)
    }

    /// `true` if the table has the target, which may carry features.
    pub fn is_known(&self, target: &str) -> bool {
        self.get(target).is_some()
    }

    /// The product name of a target, which may carry features.
    pub fn product(&self, target: &str) -> Option<&str> {
        self.get(target).map(|known| known.product.as_str())
    }

    /// The targets of cards whose names have all words of a text, or those of the card that it
    /// names exactly: `RX 7900 XTX`, `7900xtx`, `Radeon 780M`. Case does not matter, nor do blanks.
    pub fn of_card(&self, text: &str) -> Vec<&str> {
        let words = card_words(text);
        let wanted = words.concat();
        if wanted.is_empty() {
            return Vec::new();
        }
        let exact = self.with_card(|card| [card.concat(), card.concat().replacen("rx", "", 1)].contains(&wanted));
        if exact.is_empty() { self.with_card(|card| words.iter().all(|word| card.contains(word))) } else { exact }
    }

    /// The targets with a card whose words fit.
    fn with_card(&self, fits: impl Fn(&[String]) -> bool) -> Vec<&str> {
        let has = self.targets.iter().filter(|target| target.cards.iter().any(|card| fits(&card_words(card))));
        has.map(|target| target.name.as_str()).collect()
    }

    /// All names that [`TargetTable::expand`] accepts, sorted: the targets and their groups.
    pub fn family_names(&self) -> BTreeSet<&str> {
        let groups = self.all().flat_map(|target| target.families.iter().map(String::as_str));
        self.all().map(|target| target.name.as_str()).chain(groups).collect()
    }

    /// The targets of one family in the order of the table; empty for an unknown family.
    pub fn members(&self, family: &str) -> Vec<&str> {
        let members =
            self.all().filter(|target| target.name == family || target.families.iter().any(|name| name == family));
        members.map(|target| target.name.as_str()).collect()
    }

    /// Expands a list of targets and families, separated by `;` or `,`, to targets. The result
    /// keeps the order of the list, without duplicates; a target may carry features
    /// (`gfx942:xnack+`). An empty list expands to nothing.
    /// A name that is not in the table is an error.
    pub fn expand(&self, list: &str) -> Result<Vec<String>, Failure> {
        self.expand_with(list, &[])
    }

    /// Like [`TargetTable::expand`], but accepts the targets in `also` too, for example those that
    /// were found in the input.
    /// A name that is neither in the table nor in `also` is an error.
    pub fn expand_with(&self, list: &str, also: &[String]) -> Result<Vec<String>, Failure> {
        let mut expanded: Vec<String> = Vec::new();
        for name in list.split([';', ',']).map(str::trim).filter(|name| !name.is_empty()) {
            let members = self.members(name);
            let members = if !members.is_empty() {
                members
            } else if also.iter().any(|target| target == name) || (name.contains(':') && self.is_known(name)) {
                vec![name]
            } else {
                return Err(self.unknown(name));
            };
            for member in members {
                if !expanded.iter().any(|seen| seen == member) {
                    expanded.push(member.to_owned());
                }
            }
        }
        Ok(expanded)
    }

    fn unknown(&self, name: &str) -> Failure {
        let mut names: Vec<&str> = self.family_names().into_iter().collect();
        names.sort_by(|left, right| compare(left, right));
        let near = names.iter().copied().filter(|known| known.to_lowercase().starts_with(&name.to_lowercase()));
        let mut near: Vec<String> = near.map(str::to_owned).collect();
        if near.is_empty() || near.len() > MOST_NEAR {
            near = rocwheel_progress::nearest(name, names.iter().copied()).map(str::to_owned).into_iter().collect();
        }
        let (mut families, mut known): (Vec<String>, Vec<String>) =
            names.into_iter().map(str::to_owned).partition(|name| name.contains('-'));
        sort(&mut known);
        families.sort();
        known.extend(families);
        let hint = match near.split_last() {
            Some((only, [])) => format!("did you mean `{only}`?"),
            Some((last, others)) => format!("did you mean `{}` or `{last}`?", others.join("`, `")),
            None => format!("`rocwheel kernels` shows what a file has; known are: {}", known.join(", ")),
        };
        Failure::message(format!("unknown GPU target or family `{name}`")).with_hint(hint).with_exit(Exit::Usage)
    }
}

/// The words of a card's name in lower case, without those of all cards.
fn card_words(name: &str) -> Vec<String> {
    let words = name.to_lowercase();
    let words = words.split(|letter: char| !letter.is_ascii_alphanumeric());
    words.filter(|word| !["", "amd", "radeon", "instinct", "tm"].contains(word)).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_embedded_table() {
        let table = TargetTable::embedded();
        assert_eq!(table.targets().len(), 28);
        assert_eq!(table.family_names().len(), 55);
        assert_eq!(table.members("gpu-generic"), ["amdgcnspirv"]);
        assert!(table.is_portable("amdgcnspirv") && !table.is_portable("gfx942"));
        assert_eq!(table.members("dcgpu-all"), ["gfx908", "gfx90a", "gfx942", "gfx950", "gfx1250"]);
        assert_eq!(
            table.members("dgpu-all"),
            [
                "gfx900", "gfx906", "gfx1010", "gfx1011", "gfx1012", "gfx1030", "gfx1031", "gfx1032", "gfx1034",
                "gfx1100", "gfx1101", "gfx1102", "gfx1200", "gfx1201"
            ]
        );
        assert_eq!(table.members("igpu-all").len(), 9);
        assert_eq!(table.members("gfx103X-dgpu"), ["gfx1030", "gfx1031", "gfx1032", "gfx1034"]);
        assert_eq!(table.members("gfx103X-igpu"), ["gfx1033", "gfx1035", "gfx1036"]);
        assert_eq!(table.members("gfx110X-dgpu"), ["gfx1100", "gfx1101", "gfx1102"]);
        assert_eq!(table.members("gfx110X-igpu"), ["gfx1103"]);
        assert!(table.members("gfx90X-dcgpu").is_empty());
        assert_eq!(table.product("gfx942:xnack+"), Some("MI300A/MI300X CDNA"));
        assert!(!table.is_known("gfx803"));
    }

    #[test]
    fn cards_are_found_as_people_write_them() {
        let table = TargetTable::embedded();
        for (text, targets) in [
            ("RX 7900 XTX", &["gfx1100"][..]),
            ("amd radeon rx 7900xt", &["gfx1100"]),
            ("7900xtx", &["gfx1100"]),
            ("7700S", &["gfx1102"]),
            ("RX 7700", &["gfx1101"]),
            ("Radeon 780M", &["gfx1103"]),
            ("strix halo", &["gfx1151"]),
            ("Ryzen AI Max+ 395", &["gfx1151"]),
            ("MI300X", &["gfx942"]),
            ("R9700", &["gfx1201"]),
            ("vega", &["gfx900"]),
            ("Pro", &["gfx906", "gfx1010", "gfx1012"]),
            ("RTX 5090", &[]),
            ("Radeon", &[]),
            ("", &[]),
        ] {
            let found = table.of_card(text);
            assert_eq!(&found[..targets.len().min(found.len())], targets, "{text}: {found:?}");
            assert!(targets.len() > 1 || found.len() == targets.len(), "{text}: {found:?}");
        }
    }

    #[test]
    fn lists_keep_their_order() {
        let table = TargetTable::embedded();
        let expanded = table.expand(" gfx1201 ;gfx94X-dcgpu, gfx120X-all;;gfx942:xnack+").unwrap();
        assert_eq!(expanded, ["gfx1201", "gfx942", "gfx1200", "gfx942:xnack+"]);
        assert_eq!(table.expand(" ; ").unwrap(), Vec::<String>::new());
        assert_eq!(table.expand_with("gfx803", &["gfx803".into()]).unwrap(), ["gfx803"]);
    }

    #[test]
    fn unknown_names_get_a_hint() {
        let table = TargetTable::embedded();
        let error = table.expand("gfx942;gfx94x-dcgpu").unwrap_err();
        assert_eq!(error.to_string(), "unknown GPU target or family `gfx94x-dcgpu`");
        let hint = error.hint().unwrap();
        assert_eq!(hint, "did you mean `gfx94X-dcgpu`?");
        let hint = |name: &str| table.expand(name).unwrap_err().hint().unwrap().to_owned();
        assert_eq!(hint("gfx94x"), "did you mean `gfx94X-all` or `gfx94X-dcgpu`?");
        assert_eq!(hint("gfx125X-d"), "did you mean `gfx125X-dcgpu`?");
        let hint = hint("radeon");
        assert!(hint.starts_with("`rocwheel kernels` shows what a file has; known are: gfx900, gfx906, "), "{hint}");
        assert!(table.expand("gfx803:xnack+").is_err());
    }
}
