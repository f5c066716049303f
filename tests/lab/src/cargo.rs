//! Cargo, called by a program that cargo itself has started.

use std::{ffi::OsString, process::Command};

/// The cargo that runs this program, as if a person had typed it.
///
/// Cargo tells the programs that it starts about their own package. Build scripts of others look at the same variables, and
/// would run anew each time the package that calls is another one, with everything that is built on them.
pub fn command() -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    for (name, _) in std::env::vars_os().filter(|(name, _)| is_about_the_caller(name)) {
        cargo.env_remove(name);
    }
    cargo
}

fn is_about_the_caller(name: &OsString) -> bool {
    let about = ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_CRATE_", "CARGO_BIN_"];
    name.to_str().is_some_and(|name| about.iter().any(|it| name.starts_with(it)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cargo_is_told_nothing_about_the_package_that_calls_it() {
        assert!(std::env::var_os("CARGO_PKG_NAME").is_some(), "cargo tells this test");
        let cargo = command();
        let removed: Vec<_> = cargo.get_envs().filter(|it| it.1.is_none()).map(|it| it.0).collect();
        assert!(
            ["CARGO_PKG_NAME", "CARGO_MANIFEST_DIR"].iter().all(|it| removed.iter().any(|one| one == it))
        );
        assert!(
            !is_about_the_caller(&"CARGO_TARGET_DIR".into()) && !is_about_the_caller(&"CARGO_HOME".into())
        );
    }
}
