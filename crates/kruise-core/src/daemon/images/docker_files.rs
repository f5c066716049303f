//! Credentials of the node itself: docker's configuration files, where the kubelet looks for them too.
//!
//! In a pod these are files of the daemon's own container: whoever wants the node's to be used mounts them there.

use std::{
    fmt, io,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
    time::Duration,
};

use tokio::time::Instant;
use tracing::warn;

use super::credentials::{Keyring, Unusable};
use crate::runtime::clock::Clock;

/// The files are read again after this long.
const KEEP: Duration = Duration::from_secs(300);

/// How a file is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// `config.json`: the entries are below `auths`.
    Config,
    /// `.dockercfg`: the file is the entries.
    Legacy,
}

/// Where docker's configuration may be, in the order in which the kubelet looks: the first file that can be used counts.
pub fn places(working: &Path, home: Option<&Path>) -> Vec<(PathBuf, Form)> {
    let root = Path::new("/");
    let configs = [Some(working.to_owned()), home.map(|it| it.join(".docker")), Some(root.join(".docker"))];
    let legacy = [Some(working.to_owned()), home.map(Path::to_owned), Some(root.to_owned())];
    let configs = configs.into_iter().flatten().map(|it| (it.join("config.json"), Form::Config));
    let legacy = legacy.into_iter().flatten().map(|it| (it.join(".dockercfg"), Form::Legacy));
    configs.chain(legacy).collect()
}

/// Reads the files and remembers what is in them.
pub struct DockerFiles {
    places: Vec<(PathBuf, Form)>,
    clock: Clock,
    kept: Mutex<Option<(Keyring, Instant)>>,
}

impl fmt::Debug for DockerFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DockerFiles").field("places", &self.places).finish_non_exhaustive()
    }
}

impl DockerFiles {
    /// The files at these places.
    pub fn new(places: Vec<(PathBuf, Form)>, clock: Clock) -> Self {
        Self { places, clock, kept: Mutex::default() }
    }

    /// What the first usable file says; nothing if there is none.
    pub fn keyring(&self) -> Keyring {
        let now = self.clock.instant();
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        match &*kept {
            Some((keyring, until)) if *until > now => keyring.clone(),
            _ => {
                let keyring = self.read();
                *kept = Some((keyring.clone(), now + KEEP));
                keyring
            }
        }
    }

    fn read(&self) -> Keyring {
        for (path, form) in &self.places {
            let body = match std::fs::read(path) {
                Ok(body) => body,
                Err(error) if is_nothing(&error) => continue,
                Err(error) => {
                    warn!(%error, path = %path.display(), "a docker configuration cannot be read");
                    continue;
                }
            };
            match parse(&body, *form) {
                Ok(keyring) => return keyring,
                Err(error) => {
                    warn!(%error, path = %path.display(), "a docker configuration is of no use");
                }
            }
        }
        Keyring::default()
    }
}

/// Nobody has put a file there.
fn is_nothing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

fn parse(body: &[u8], form: Form) -> Result<Keyring, Unusable> {
    let mut keyring = Keyring::default();
    match form {
        Form::Config => keyring.add_config(body)?,
        Form::Legacy => keyring.add_legacy(body)?,
    }
    Ok(keyring)
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;
    use crate::image::Reference;

    #[test]
    fn files_are_looked_for_where_the_kubelet_does() {
        let of = |home: Option<&Path>| -> Vec<String> {
            places(Path::new("/here"), home).iter().map(|it| it.0.display().to_string()).collect()
        };
        assert_eq!(
            of(Some(Path::new("/home/me"))),
            [
                "/here/config.json",
                "/home/me/.docker/config.json",
                "/.docker/config.json",
                "/here/.dockercfg",
                "/home/me/.dockercfg",
                "/.dockercfg",
            ]
        );
        assert_eq!(of(None).len(), 4);
    }

    /// A folder of the test's own, which goes with it.
    struct Folder(PathBuf);

    impl Folder {
        fn new(test: &str) -> Self {
            let path = std::env::temp_dir().join(format!("kruise-docker-{test}-{}", std::process::id()));
            std::fs::create_dir_all(path.join(".docker")).unwrap();
            Self(path)
        }

        fn files(&self) -> DockerFiles {
            let clock = Clock::following(Timestamp::UNIX_EPOCH);
            let mut places = places(Path::new("/nonexistent"), Some(&self.0));
            // Not what this machine may have.
            places.retain(|it| it.0.starts_with(&self.0));
            DockerFiles::new(places, clock)
        }

        fn write(&self, file: &str, text: &str) {
            std::fs::write(self.0.join(file), text).unwrap();
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn users(files: &DockerFiles) -> Vec<String> {
        let found = files.keyring().for_image(&Reference::parse("r.io/a").unwrap());
        found.into_iter().map(|it| it.username).collect()
    }

    const NEW: &str = r#"{"auths":{"r.io":{"username":"new","password":"topsecret"}},"credsStore":"x"}"#;
    const OLD: &str = r#"{"r.io":{"username":"old","password":"p"}}"#;

    #[tokio::test(start_paused = true)]
    async fn the_first_usable_file_counts_and_is_read_again_after_five_minutes() {
        let folder = Folder::new("first");
        folder.write(".dockercfg", OLD);
        let files = folder.files();
        assert_eq!(users(&files), ["old"]);
        folder.write(".docker/config.json", NEW);
        tokio::time::advance(Duration::from_secs(299)).await;
        assert_eq!(users(&files), ["old"], "kept");
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(users(&files), ["new"], "the new form comes first");
        assert!(!format!("{files:?}").contains("topsecret"));
    }

    #[tokio::test]
    async fn a_malformed_file_is_passed_over_and_none_is_no_failure() {
        let folder = Folder::new("malformed");
        assert!(users(&folder.files()).is_empty());
        folder.write(".docker/config.json", "{");
        assert!(users(&folder.files()).is_empty());
        folder.write(".dockercfg", OLD);
        assert_eq!(users(&folder.files()), ["old"]);
    }
}
