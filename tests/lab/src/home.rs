//! Where things are kept: caches and running clusters, per user.

use std::{env, fs, path::PathBuf};

use anyhow::{Context, Result};

/// Overrides both the cache and the place of running clusters.
pub const HOME_VARIABLE: &str = "KRUISE_FLEET_HOME";

/// Binaries that were built or unpacked; safe to delete at any time no cluster runs.
pub fn cache() -> Result<PathBuf> {
    place("XDG_CACHE_HOME", ".cache", "cache")
}

/// One folder per cluster that runs, or that was not taken down.
pub fn clusters() -> Result<PathBuf> {
    Ok(place("XDG_STATE_HOME", ".local/state", "state")?.join("clusters"))
}

fn place(variable: &str, below_home: &str, below_override: &str) -> Result<PathBuf> {
    let folder = if let Some(home) = env::var_os(HOME_VARIABLE) {
        PathBuf::from(home).join(below_override)
    } else if let Some(base) = env::var_os(variable) {
        PathBuf::from(base).join("kruise-fleet")
    } else {
        let home =
            env::var_os("HOME").context("HOME is not set; set KRUISE_FLEET_HOME to a folder of yours")?;
        PathBuf::from(home).join(below_home).join("kruise-fleet")
    };
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    Ok(folder)
}
