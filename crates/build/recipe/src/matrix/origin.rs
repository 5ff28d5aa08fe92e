//! Input: a cell of the matrix, and the table of sources. Output: the option of `rocwheel build`
//! that selects the cell's sources.

use rocwheel_source::{Project, Table};

use super::Point;
use crate::book::Book;
use crate::cell::minor;

/// The sources of a cell, as an option of `rocwheel build`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// `--source`: a release that has an archive or a tag.
    Release(String),
    /// `--line`: a branch of torch.
    Line(String),
    /// `--ref`: a commit.
    Commit(String),
}

impl Origin {
    /// The origin of a cell; `None`: the table of sources does not know the version, and the user
    /// has to name the sources.
    pub fn of(point: &Point, book: &Book, table: &Table) -> Option<Origin> {
        let (version, name) = (&point.version, &book.get(&point.recipe).ok()?.recipe.source);
        let project: Option<&Project> = table.project(name).ok();
        if rocwheel_source::is_commit(version) {
            return Some(Origin::Commit(version.clone()));
        }
        if table.archive(name, version).is_some() || project?.release_tag(version).is_some() {
            return Some(Origin::Release(version.clone()));
        }
        // Version lines belong to torch. A project that torch pins belongs to the line of its
        // torch.
        let torch = match &project {
            Some(project) if project.name == "torch" => version,
            Some(project) if project.pinned_by_torch => point.torch.as_ref()?,
            _ => return None,
        };
        let line = table.line(&minor(torch)).ok();
        line.map(|line| Origin::Line(line.name.clone()))
    }

    /// Name of the option, without its dashes, and its value.
    pub fn option(&self) -> (&'static str, &str) {
        match self {
            Origin::Release(version) => ("source", version),
            Origin::Line(line) => ("line", line),
            Origin::Commit(commit) => ("ref", commit),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cell_of_the_table_says_what_it_is_made_of() {
        let (book, table) = (Book::built_in().unwrap(), Table::built_in());
        let matrix = crate::matrix::make(
            &crate::matrix::FrameworkTable::built_in().unwrap(),
            &book,
            &crate::matrix::MatrixQuery::default(),
            &[],
        )
        .unwrap();
        let mut seen = std::collections::BTreeSet::new();
        for row in &matrix.rows {
            let point = &row.point;
            let origin = Origin::of(point, &book, &table);
            let origin = origin.unwrap_or_else(|| panic!("nobody knows the sources of {point:?}"));
            seen.insert((point.recipe.clone(), origin.option().0));
        }
        let seen: Vec<_> = seen.iter().map(|(recipe, option)| (recipe.as_str(), *option)).collect();
        let expected = [
            ("apex", "source"),
            ("flash-attn", "source"),
            ("magma", "ref"),
            ("torch", "line"),
            ("torchaudio", "source"),
            ("torchvision", "source"),
            ("triton", "line"),
        ];
        assert_eq!(seen, expected);
        let mut point = matrix.rows[0].point.clone();
        (point.recipe, point.version) = ("torch".into(), "1.0".into());
        assert_eq!(Origin::of(&point, &book, &table), None);
        point.version = "2.10.1".into();
        assert_eq!(Origin::of(&point, &book, &table), Some(Origin::Line("2.10".into())));
    }
}
