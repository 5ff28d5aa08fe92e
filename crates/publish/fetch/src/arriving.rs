//! Input: an archive to download. Output: it in the cache, and unpacked by the time it is complete.

use std::path::Path;

use rocwheel_artifact::archive::unpack_stream;
use rocwheel_progress::{Reporter, WithoutProgress};

use crate::DownloadFault;
use crate::cache::{CachedFile, DownloadCache, Wanted};
use crate::growth::{DownloadGrowth, FollowingReader};

/// Downloads an archive and unpacks it meanwhile; `older` is as in [`unpack_stream`]. The directory
/// `staged` exists afterwards only if the archive is verified and all of it was unpacked.
pub(crate) fn unpack_as_it_arrives(
    cache: &DownloadCache,
    wanted: Wanted<'_>,
    (staged, older): (&Path, Option<&Path>),
    reporter: &dyn Reporter,
) -> Result<CachedFile, DownloadFault> {
    let growth = DownloadGrowth::default();
    let wanted = Wanted { growth: Some(&growth), ..wanted };
    let muted = WithoutProgress(reporter);
    // A thread of its own: it waits for the network most of the time.
    let archive = std::thread::scope(|scope| {
        scope.spawn(|| {
            let reader = Box::new(FollowingReader::new(&growth, reporter));
            // What could not be unpacked on the way is unpacked from the verified archive, and
            // then its faults are reported.
            let _ = unpack_stream(reader, Path::new(&wanted.file.name), (staged, older), &muted);
        });
        let archive = cache.download(&wanted, reporter);
        growth.ended(archive.is_ok());
        archive
    });
    if archive.is_err() && staged.exists() {
        fs_err::remove_dir_all(staged).map_err(DownloadFault::disk(staged))?;
    }
    archive
}
