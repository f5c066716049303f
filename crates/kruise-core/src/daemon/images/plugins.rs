//! Credentials of the node itself: the kubelet's credential provider plugins, which cloud registries need.
//!
//! A plugin is a program that is asked on its standard input for one image and answers on its standard output. Its
//! configuration is the kubelet's (`CredentialProviderConfig`).

use std::{
    collections::{BTreeMap, HashMap},
    fmt, io,
    path::{Path, PathBuf},
    process::Stdio,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use serde::Deserialize;
use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    process::{Child, Command},
    time::Instant,
};
use tracing::{info, warn};

use super::credentials::{Credential, Keyring, Secret, applies};
use crate::{image::Reference, runtime::clock::Clock};

/// How long a plugin may take.
const TIMEOUT: Duration = Duration::from_secs(60);

/// No plugin has more to say than this.
const LONGEST_ANSWER: u64 = 1 << 20;

/// Where the plugins' configuration is, if nothing else is said.
pub const CONFIG_FILE: &str = "/kruise/CredentialProviderPlugin.yaml";
/// Where their programs are.
pub const BINARIES: &str = "/kruise/plugins";

#[derive(Debug, Clone, Deserialize)]
struct Config {
    #[serde(default)]
    providers: Vec<Provider>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Provider {
    name: String,
    match_images: Vec<String>,
    #[serde(default)]
    default_cache_duration: String,
    api_version: String,
    #[serde(default)]
    args: Vec<String>,
    #[serde(default)]
    env: Vec<Variable>,
}

#[derive(Debug, Clone, Deserialize)]
struct Variable {
    name: String,
    #[serde(default)]
    value: String,
}

/// What a plugin answers. Has no printable form.
#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Answer {
    #[serde(default)]
    cache_key_type: String,
    #[serde(default)]
    cache_duration: Option<String>,
    #[serde(default)]
    auth: BTreeMap<String, Login>,
}

#[derive(Clone, Deserialize)]
struct Login {
    #[serde(default)]
    username: String,
    #[serde(default)]
    password: String,
}

/// Why plugins cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The configuration cannot be read.
    #[error("cannot read {0}")]
    Read(PathBuf, #[source] io::Error),
    /// It is no configuration.
    #[error("{0} is no CredentialProviderConfig: {1}")]
    Malformed(PathBuf, String),
}

/// The plugins of a node, with what they answered lately.
pub struct Plugins {
    providers: Vec<Provider>,
    binaries: PathBuf,
    clock: Clock,
    kept: Mutex<HashMap<String, Kept>>,
}

#[derive(Clone)]
struct Kept {
    keyring: Keyring,
    until: Instant,
}

impl fmt::Debug for Plugins {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.providers.iter().map(|it| &it.name).collect();
        f.debug_struct("Plugins").field("providers", &names).finish_non_exhaustive()
    }
}

impl Plugins {
    /// No plugins at all.
    pub fn none(clock: Clock) -> Self {
        Self { providers: Vec::new(), binaries: PathBuf::new(), clock, kept: Mutex::default() }
    }

    /// The plugins of a configuration file; none if there is no such file.
    pub fn load(file: &Path, binaries: &Path, clock: Clock) -> Result<Self, Error> {
        let text = match std::fs::read_to_string(file) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                info!(file = %file.display(), "no credential provider plugins are configured");
                return Ok(Self::none(clock));
            }
            Err(error) => return Err(Error::Read(file.to_owned(), error)),
        };
        // Without the lines around the fault: they may hold secrets for the plugins.
        let config: Config = serde_saphyr::from_str(&text)
            .map_err(|error| Error::Malformed(file.to_owned(), error.without_snippet().to_string()))?;
        Ok(Self { providers: config.providers, binaries: binaries.to_owned(), clock, kept: Mutex::default() })
    }

    /// The credentials that plugins have for an image. A plugin that fails is logged and passed over.
    pub async fn credentials(&self, image: &Reference) -> Vec<Credential> {
        let repository = image.repository();
        let mut found = Vec::new();
        for provider in &self.providers {
            if !provider.match_images.iter().any(|it| applies(it, &repository)) {
                continue;
            }
            match self.ask(provider, image).await {
                Ok(keyring) => found.extend(keyring.for_image(image)),
                Err(error) => warn!(%error, plugin = provider.name, "a credential provider plugin failed"),
            }
        }
        found
    }

    async fn ask(&self, provider: &Provider, image: &Reference) -> Result<Keyring, String> {
        let now = self.clock.instant();
        let keys = ["Image", "Registry", "Global"].map(|it| cache_key(&provider.name, it, image));
        let kept = keys.iter().find_map(|it| self.kept().get(it).filter(|it| it.until > now).cloned());
        if let Some(kept) = kept {
            return Ok(kept.keyring);
        }
        let answer = run(&self.binaries, provider, &image.repository()).await?;
        let mut keyring = Keyring::default();
        for (key, Login { username, password }) in &answer.auth {
            keyring.add(
                key,
                Credential { username: username.clone(), password: Secret::new(password.as_str()) },
            );
        }
        let duration = answer.cache_duration.as_deref().unwrap_or(&provider.default_cache_duration);
        let keep = go_duration(duration).unwrap_or_default();
        if !keep.is_zero() {
            let key = cache_key(&provider.name, &answer.cache_key_type, image);
            let mut kept = self.kept();
            kept.retain(|_, it| it.until > now);
            kept.insert(key, Kept { keyring: keyring.clone(), until: now + keep });
        }
        Ok(keyring)
    }

    fn kept(&self) -> MutexGuard<'_, HashMap<String, Kept>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn cache_key(plugin: &str, kind: &str, image: &Reference) -> String {
    match kind {
        "Registry" => format!("{plugin} registry {}", image.registry),
        "Global" => format!("{plugin} global"),
        _ => format!("{plugin} image {}", image.repository()),
    }
}

/// Runs a plugin. What it says about a failure is not passed on: it may contain anything.
///
/// Its program never outlives this: given up, it is killed, and the runtime collects what is left of it.
async fn run(binaries: &Path, provider: &Provider, image: &str) -> Result<Answer, String> {
    let question = json!({
        "apiVersion": provider.api_version, "kind": "CredentialProviderRequest", "image": image,
    });
    let mut child = Command::new(binaries.join(&provider.name))
        .args(&provider.args)
        .envs(provider.env.iter().map(|it| (&it.name, &it.value)))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| format!("it cannot be started: {error}"))?;
    let talk = talk(&mut child, question.to_string());
    let output = tokio::time::timeout(TIMEOUT, talk)
        .await
        .map_err(|_| format!("it did not answer within {TIMEOUT:?}"))??;
    serde_json::from_slice(&output).map_err(|_| "its answer is no CredentialProviderResponse".into())
}

/// Asks and listens until the plugin has ended well.
async fn talk(child: &mut Child, question: String) -> Result<Vec<u8>, String> {
    if let Some(mut stdin) = child.stdin.take() {
        // A plugin that answers without listening is right as well.
        let _ = stdin.write_all(question.as_bytes()).await;
    }
    let mut output = Vec::new();
    if let Some(stdout) = child.stdout.take() {
        let read = stdout.take(LONGEST_ANSWER).read_to_end(&mut output).await;
        read.map_err(|_| "the conversation broke off")?;
    }
    match child.wait().await {
        Ok(status) if status.success() => Ok(output),
        _ => Err("it ended with an error".into()),
    }
}

/// Reads a duration as Go writes it: `12h`, `6h0m0s`, `1.5h`.
fn go_duration(text: &str) -> Option<Duration> {
    let mut rest = text;
    let mut seconds = 0.0;
    while !rest.is_empty() {
        let digits = rest.find(|it: char| !it.is_ascii_digit() && it != '.')?;
        let number: f64 = rest[..digits].parse().ok()?;
        let unit_end =
            rest[digits..].find(|it: char| it.is_ascii_digit()).map_or(rest.len(), |it| digits + it);
        seconds += number
            * match &rest[digits..unit_end] {
                "h" => 3600.0,
                "m" => 60.0,
                "s" => 1.0,
                "ms" => 0.001,
                _ => return None,
            };
        rest = &rest[unit_end..];
    }
    Duration::try_from_secs_f64(seconds).ok()
}

#[cfg(test)]
mod tests;
