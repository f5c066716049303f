//! The set of keys as files.

use std::{
    fs::{self, DirBuilder, OpenOptions},
    io::{self, ErrorKind, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt, symlink},
    path::{Path, PathBuf},
};

use super::{Contents, RETIRED_AT, RETIRED_CERTS};
use crate::runtime::webhook::Error;

/// The link that names the files in force. All files change at once when it does.
const CURRENT: &str = "..data";
const GENERATIONS: [&str; 2] = ["..data-a", "..data-b"];

/// A directory laid out as the kubelet lays out mounted Secrets: the files are links into the generation that
/// `..data` points to, so a reader never sees one file of an old set and another of a new one.
#[derive(Debug, Clone)]
pub struct Directory {
    path: PathBuf,
}

impl Directory {
    /// Files below `path`, which is made when the first set is written.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// All files, or nothing if there is no such directory.
    pub async fn read(&self) -> Result<Option<Contents>, Error> {
        let path = self.path.clone();
        blocking(move || read(&path)).await
    }

    /// Puts `contents` in place of all files.
    pub async fn write(&self, contents: Contents) -> Result<(), Error> {
        let path = self.path.clone();
        blocking(move || write(&path, &contents)).await
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, Error> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(io::Error::other).flatten().map_err(|source| Error::Directory { source })
}

fn read(path: &Path) -> io::Result<Option<Contents>> {
    let entries = match fs::read_dir(path) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut contents = Contents::new();
    for entry in entries {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if name.starts_with('.') {
            continue;
        }
        match fs::read(path.join(&name)) {
            Ok(bytes) => drop(contents.insert(name, bytes)),
            // A link into a generation without that file, or a directory of somebody else's.
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::IsADirectory) => {}
            Err(error) => return Err(error),
        }
    }
    Ok((!contents.is_empty()).then_some(contents))
}

fn write(path: &Path, contents: &Contents) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    let current = fs::read_link(path.join(CURRENT)).unwrap_or_default();
    let next = if current == Path::new(GENERATIONS[0]) { GENERATIONS[1] } else { GENERATIONS[0] };

    let generation = path.join(next);
    remove(&generation)?;
    DirBuilder::new().mode(0o700).create(&generation)?;
    for (name, bytes) in contents {
        let mut file =
            OpenOptions::new().write(true).create_new(true).mode(0o600).open(generation.join(name))?;
        file.write_all(bytes)?;
        file.sync_all()?;
    }

    relink(path, CURRENT, Path::new(next))?;
    for name in contents.keys() {
        let target = Path::new(CURRENT).join(name);
        if fs::read_link(path.join(name)).ok().as_deref() != Some(&target) {
            relink(path, name, &target)?;
        }
    }
    for name in [RETIRED_CERTS, RETIRED_AT].into_iter().filter(|it| !contents.contains_key(*it)) {
        remove(&path.join(name))?;
    }
    Ok(())
}

/// Makes `name` a link to `target` in one step, whatever it was before.
fn relink(path: &Path, name: &str, target: &Path) -> io::Result<()> {
    let link = path.join(name);
    let temporary = path.join(format!("..new-{}", name.trim_start_matches('.')));
    remove(&temporary)?;
    symlink(target, &temporary)?;
    if link.is_dir() && !link.is_symlink() {
        remove(&link)?;
    }
    fs::rename(&temporary, &link)
}

fn remove(path: &Path) -> io::Result<()> {
    let removed = match fs::symlink_metadata(path) {
        Ok(it) if it.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    };
    match removed {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
