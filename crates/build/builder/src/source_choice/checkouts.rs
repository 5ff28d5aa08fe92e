//! Input: the recipes of a run and a cell. Output: one request for all missing checkouts, because
//! some pin the commits of others; then the trees.

use std::ffi::OsString;
use std::path::PathBuf;

use rocwheel_progress::Failure;
use rocwheel_source::{
    Git, PerProject, Plan, Request, Submodules, Table, TreeConversion, WantedCheckout, absolute, local_origin,
};

use super::{Kind, PlannedCheckout, SourceChoice};
use crate::error;
use crate::execute::{JobPlace, Listener};
use rocwheel_recipe::recipe::Recipe;
use rocwheel_recipe::{BuildPurpose, Cell, minor};

struct Needed {
    wanted: WantedCheckout,
    folder: PathBuf,
}

impl SourceChoice {
    /// The checkouts that must be made before these recipes can be built. They are one request,
    /// because some pin others.
    pub(super) fn request(
        &self,
        recipes: &[&Recipe],
        cell: &Cell,
        place: &JobPlace,
    ) -> Result<Option<(Request, &Table)>, Failure> {
        let table = self.table()?;
        let projects: Vec<_> = recipes.iter().filter_map(|recipe| table.project(&recipe.source).ok()).collect();
        let references = PerProject::new("--ref", &self.reference, table);
        let origins = PerProject::new("--origin", &self.origin, table);
        references.check(&projects)?;
        origins.check(&projects)?;
        let line = self.line(cell, table)?;
        let mut needed: Vec<Needed> = Vec::new();
        let (mut torch, mut torch_moves) = (None, false);
        // torch comes first, because projects that follow its pins move with it.
        let mut order = recipes.to_vec();
        order.sort_by_key(|recipe| recipe.source != "torch");
        for recipe in order {
            let tag = match self.kind(recipe, table)? {
                Kind::Checkout(tag) => tag,
                Kind::Path(path) => {
                    if recipe.source == "torch" {
                        torch = Some(absolute(&self.directory, &path));
                    }
                    continue;
                }
                Kind::Archive(_) => continue,
            };
            // A project that is in no table belongs to a user's recipe, whose sources are named.
            let Ok(project) = table.project(&recipe.source) else { continue };
            let folder = self.folder(recipe, tag.as_deref(), cell, place)?;
            let is_torch = project.name == "torch";
            let origin = origins.of(project).map(|origin| local_origin(project, origin, &self.directory));
            let named = references.of(project).map(str::to_owned).or(tag);
            // A requested line decides the commit of torch, and torch those of the others.
            let of_line = self.line.as_ref().filter(|_| is_torch && named.is_none());
            let of_line = of_line.and_then(|line| Some(table.line(line).ok()?.torch_ref.clone()));
            let asked = named.clone().or(of_line);
            let follows_torch = is_torch || project.pinned_by_torch || project.related.is_some();
            if let (true, None, None, Some(torch)) = (follows_torch, &asked, &self.line, &cell.torch) {
                // Otherwise another torch would be built than the requested one.
                table.line(&minor(torch))?;
            }
            let is_empty = fs_err::read_dir(&folder).is_ok_and(|mut entries| entries.next().is_none());
            let moves = match rocwheel_source::obtained(&folder) {
                _ if !folder.exists() || is_empty => true,
                Some(obtained) => {
                    let is_elsewhere = asked.as_ref().is_some_and(|asked| *asked != obtained.reference);
                    let follows = torch_moves && (project.pinned_by_torch || project.related.is_some());
                    !obtained.is_complete || is_elsewhere || (follows && named.is_none())
                }
                // A checkout that rocwheel did not make stays unchanged, unless another reference
                // or origin is requested.
                None => asked.is_some() || origin.is_some(),
            };
            if is_torch {
                torch = Some(folder.clone());
                torch_moves = moves;
            }
            if moves && !self.memory.obtained.borrow().contains(&folder) {
                let directory = Some(folder.clone());
                let project = project.name.clone();
                let submodules = self.leaves_submodules(recipe, cell).then_some(Submodules::Leave);
                let wanted = WantedCheckout {
                    project,
                    directory,
                    origin,
                    reference: named,
                    submodules,
                    ..WantedCheckout::default()
                };
                needed.push(Needed { wanted, folder });
            }
        }
        if needed.is_empty() {
            return Ok(None);
        }
        if torch.is_none()
            && let Some(pins) = self.torch_that_pins(&needed, table, &line, place)?
        {
            torch.clone_from(&pins.wanted.directory);
            needed.extend(Some(pins).filter(|pins| !self.memory.obtained.borrow().contains(&pins.folder)));
        }
        if self.no_checkout {
            let (project, folder) = (&needed[0].wanted.project, needed[0].folder.display());
            return Err(error::request_with(
                format!("there are no sources of {project} at `{folder}`"),
                "remove `--no-checkout`, or name them with `--source`",
            ));
        }
        let root = self.root.clone().unwrap_or_else(|| place.work.join("sources").join(&line));
        let wanted = needed.into_iter().map(|needed| needed.wanted).collect();
        let mut request = Request::new(&absolute(&self.directory, &root), wanted);
        request.line = Some(line);
        request.torch = torch;
        // Versions of such builds name the commit, which has to be upstream's.
        if matches!(cell.release, BuildPurpose::Dev | BuildPurpose::DevBkc) {
            request.conversion = TreeConversion::Keep;
        }
        Ok(Some((request, table)))
    }

    /// A checkout of torch that is only read for its pins. `None` if no needed project follows
    /// torch, or if torch is checked out in the usual place.
    fn torch_that_pins(
        &self,
        needed: &[Needed],
        table: &Table,
        line: &str,
        place: &JobPlace,
    ) -> Result<Option<Needed>, Failure> {
        let is_required = table.line(line)?.related;
        let has_followers = needed.iter().filter(|needed| needed.wanted.reference.is_none()).any(|needed| {
            let project = table.project(&needed.wanted.project);
            project.is_ok_and(|project| project.pinned_by_torch || (is_required && project.related.is_some()))
        });
        let torch = table.project("torch")?;
        let root = self.root.clone().unwrap_or_else(|| place.work.join("sources").join(line));
        let root = absolute(&self.directory, &root);
        if root.join(&torch.directory).exists() || !has_followers {
            return Ok(None);
        }
        let folder = root.join(format!("{}-pins", torch.directory));
        let wanted =
            WantedCheckout { directory: Some(folder.clone()), only_pins: true, ..WantedCheckout::of(&torch.name) };
        Ok(Some(Needed { wanted, folder }))
    }

    pub fn planned(&self, recipes: &[&Recipe], cell: &Cell, place: &JobPlace) -> Result<Vec<PlannedCheckout>, Failure> {
        let Some((request, table)) = self.request(recipes, cell, place)? else { return Ok(Vec::new()) };
        let plan = Plan::new(&request, table)?;
        let planned = plan.checkouts.into_iter().map(|checkout| PlannedCheckout {
            reference: checkout.reference.describe(),
            project: checkout.project,
            directory: checkout.directory,
        });
        Ok(planned.collect())
    }

    pub(super) fn check_out(
        &self,
        request: &Request,
        table: &Table,
        place: &JobPlace,
        listener: &dyn Listener,
    ) -> Result<(), Failure> {
        fs_err::create_dir_all(&request.root)?;
        let variables = place.surroundings.iter();
        let git = Git::new(variables.map(|(name, value)| (OsString::from(name), OsString::from(value))))?;
        let outcomes = rocwheel_source::check_out(request, table, &git, &self.convert, listener.reporter())?;
        for outcome in &outcomes {
            let commit: String = outcome.commit.chars().take(12).collect();
            let (project, folder) = (&outcome.project, outcome.directory.display());
            listener.note(&format!("{project}: {} ({commit}) checked out in {folder}", outcome.reference));
        }
        self.memory.obtained.borrow_mut().extend(outcomes.into_iter().map(|outcome| outcome.directory));
        Ok(())
    }
}
