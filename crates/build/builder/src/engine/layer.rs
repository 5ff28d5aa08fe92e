//! Input: an image, and system packages that it lacks. Output: the image with an additional layer
//! that has them. The layer is made once.
//!
//! A container of the image installs the packages as root with its own package manager, and is
//! committed. `build` of the engines would do the same, but it takes other options than `run`, so
//! the options that make containers work on this machine (`--engine-option`, `--network`) would
//! have no effect.

use std::path::Path;
use std::time::Duration;

use rocwheel_progress::{Failure, Interrupted, Reporter, Silent};

use super::{Engine, PATIENCE, is_labelled};
use rocwheel_process::ProcessEnd;
use rocwheel_recipe::executor::{Image, ImagePackages};
use rocwheel_recipe::surroundings::Surroundings;

/// Time limit for downloading and installing the packages.
const INSTALLING: Duration = Duration::from_hours(1);
/// Time limit for a commit, which writes the installed files.
const COMMITTING: Duration = Duration::from_mins(30);
/// Folder of the script and the settings, in the container.
const FOLDER: &str = "/rocwheel-layer";
const PROXIES: [&str; 8] =
    ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "all_proxy", "no_proxy"];
/// Settings of this machine's apt for access to mirrors.
const APT_SETTINGS: [&str; 4] =
    ["Acquire::http::Proxy", "Acquire::https::Proxy", "Acquire::http::Timeout", "Acquire::Retries"];

/// The script: `$1` are the packages for dnf, `$2` those for apt. The lists that `apt-get update`
/// downloads are removed again. The user `_apt` may not exist in a container without other users.
const INSTALL: &str = r#"set -e
. /rocwheel-layer/proxies
for manager in dnf yum microdnf apt-get none; do
    command -v "$manager" >/dev/null 2>&1 && break
done
case $manager in
    none) echo "the image has none of dnf, yum, microdnf and apt-get"; exit 1 ;;
    apt-get) packages=$2 ;;
    *) packages=$1 ;;
esac
[ -n "$packages" ] || { echo "the recipe names no packages for $manager, which the image has"; exit 1; }
echo "$manager: $packages"
if [ "$manager" = apt-get ]; then
    export DEBIAN_FRONTEND=noninteractive APT_CONFIG=/rocwheel-layer/apt.conf
    mkdir -p /var/lib/apt/lists/partial /var/cache/apt/archives/partial
    apt-get -q update
    apt-get -q -y install --no-install-recommends $packages
    apt-get clean
    rm -rf /var/lib/apt/lists/*
else
    "$manager" -y install $packages
    "$manager" clean all
fi
"#;

impl Engine {
    /// The image with the packages installed, or the image itself if there are none. `work` is the
    /// folder for files that the container reads.
    ///
    /// If it fails, the error has the last lines of the package manager.
    pub fn with_packages(
        &self,
        image: &Image,
        packages: &ImagePackages,
        work: &Path,
        reporter: &dyn Reporter,
        told: &dyn Fn(&str),
    ) -> Result<Image, Failure> {
        if packages.is_empty() {
            return Ok(image.clone());
        }
        let tag = tag(image, packages);
        if let Some(digest) = self.inspect(&tag, reporter)? {
            return Ok(Image { name: tag, digest: Some(digest) });
        }
        told(&format!("installing {} as root in a new layer on the image `{}`", packages.describe(), image.name));
        let name = format!("{}-{}", tag.replace([':', '/'], "-"), std::process::id());
        let made = self.install(image, packages, &name, (work, reporter)).and_then(|()| {
            let answer = self.run_for(&["commit", &name, &tag], COMMITTING, reporter)?;
            match answer.ended {
                ProcessEnd::Code(0) => Ok(()),
                _ => Err(self.refused(&format!("could not commit the layer on the image `{}`", image.name), &answer)),
            }
        });
        // The container is removed even if the user stops the work.
        let _ = self.run_for(&["rm", "--force", &name], PATIENCE, &Silent);
        made?;
        let digest = self.inspect(&tag, reporter)?;
        Ok(Image { name: tag, digest })
    }

    /// Runs a container of the image that installs the packages. The stopped container remains.
    fn install(
        &self,
        image: &Image,
        packages: &ImagePackages,
        name: &str,
        (work, reporter): (&Path, &dyn Reporter),
    ) -> Result<(), Failure> {
        fs_err::create_dir_all(work)?;
        let scratch = tempfile::Builder::new().prefix(".rocwheel-layer-").tempdir_in(work)?;
        let surroundings = &self.request.surroundings;
        fs_err::write(scratch.path().join("install"), INSTALL)?;
        // Proxies may contain names and passwords. A file keeps them off the command line and out
        // of the image.
        fs_err::write(scratch.path().join("proxies"), proxies(surroundings))?;
        fs_err::write(scratch.path().join("apt.conf"), apt_settings(surroundings, reporter))?;
        let source = super::mounts::mountable(scratch.path())?;
        let mount = format!("type=bind,source={source},target={FOLDER},readonly");
        let mut words: Vec<&str> = vec!["run", "--pull", "never", "--label", "rocwheel", "--name", name];
        words.extend(["--user", "0:0", "--mount", &mount]);
        words.extend(self.request.network.iter().flat_map(|network| ["--network", network]));
        if is_labelled() {
            words.extend(["--security-opt", "label=disable"]);
        }
        words.extend(self.request.options.iter().map(String::as_str));
        let (dnf, apt) = (packages.dnf.join(" "), packages.apt.join(" "));
        words.extend(["--entrypoint", "sh", &image.name, "/rocwheel-layer/install", &dnf, &apt]);
        let answer = self.run_for(&words, INSTALLING, reporter)?;
        match answer.ended {
            ProcessEnd::Code(0) => Ok(()),
            _ if rocwheel_process::is_stopping(reporter) => Err(Interrupted.into()),
            _ => Err(self
                .refused(&format!("could not install {} in the image `{}`", packages.describe(), image.name), &answer)),
        }
    }
}

/// The name of the image with the layer: the name of the image, and a hash of everything that
/// decides its content.
fn tag(image: &Image, packages: &ImagePackages) -> String {
    let identity = serde_json::json!([image.identity(), packages, INSTALL]).to_string();
    let hash = blake3::hash(identity.as_bytes()).to_hex();
    let name = image.name.split('@').next().unwrap_or_default();
    // `host:5000/path:tag`: only the last colon separates the tag, and the host is dropped because
    // the layer does not come from there.
    let path = match name.split_once('/') {
        Some((host, path)) if host.contains(['.', ':']) => path,
        _ => name,
    };
    let (path, tag) = path.split_once(':').unwrap_or((path, "latest"));
    format!("rocwheel/{path}:{}-{}", &tag[..tag.len().min(64)], &hash[..16])
}

/// Shell lines that set the caller's proxies.
fn proxies(surroundings: &Surroundings) -> String {
    let set = PROXIES.iter().filter_map(|name| Some((name, surroundings.get(*name)?)));
    set.map(|(name, value)| format!("export {name}='{}'\n", value.replace('\'', r"'\''"))).collect()
}

/// Settings for apt in the container: downloads run as root, and mirrors are reached as on this
/// machine, if it has apt.
fn apt_settings(surroundings: &Surroundings, reporter: &dyn Reporter) -> String {
    // Not every container has the user that apt switches to for downloads.
    let mut text = String::from("APT::Sandbox::User \"root\";\n");
    let words = ["apt-config", "dump"].iter().chain(&APT_SETTINGS).map(|&word| word.to_owned()).collect();
    let program = rocwheel_process::Program {
        words,
        directory: Path::new("/"),
        environment: surroundings,
        timeout: PATIENCE,
        deadline: None,
    };
    if let Ok(answer) = rocwheel_process::run(&program, None, reporter)
        && answer.ended == ProcessEnd::Code(0)
    {
        let lines = answer.said.lines().filter(|line| APT_SETTINGS.iter().any(|name| line.starts_with(name)));
        lines.for_each(|line| text.extend([line, "\n"]));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_layer_is_named_by_image_and_packages() {
        let image = |digest: &str| Image { name: "host:5000/x:1".into(), digest: Some(digest.into()) };
        let packages = |names: &[&str]| ImagePackages {
            apt: names.iter().map(|&name| name.to_owned()).collect(),
            ..ImagePackages::default()
        };
        let one = tag(&image("sha256:1"), &packages(&["g++"]));
        assert!(one.starts_with("rocwheel/x:1-") && one.len() == "rocwheel/x:1-".len() + 16, "{one}");
        assert_eq!(one, tag(&image("sha256:1"), &packages(&["g++"])));
        assert_ne!(one, tag(&image("sha256:2"), &packages(&["g++"])));
        assert_ne!(one, tag(&image("sha256:1"), &packages(&["gfortran"])));
    }

    #[test]
    fn proxies_are_lines_of_a_shell() {
        let caller = [("https_proxy", "http://me:it's@proxy:1/"), ("TOKEN", "secret")];
        let caller: Surroundings =
            caller.map(|(name, value)| (name.to_owned(), value.to_owned())).into_iter().collect();
        assert_eq!(proxies(&caller), "export https_proxy='http://me:it'\\''s@proxy:1/'\n");
    }
}
