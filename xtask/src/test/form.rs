//! What can be said about the code without running it.

use std::process::Command;

use lab::home;

use super::tally::{self, Tally};

const DENY: &str = "0.20.2";

/// The checks, each counted like a test.
pub(super) fn check() -> Tally {
    let mut total = Tally::default();
    total += step("format", cargo(&["fmt", "--all", "--check"]));
    total +=
        step("lints", cargo(&["clippy", "--workspace", "--all-targets", "--quiet", "--", "--deny=warnings"]));
    let mut documentation = cargo(&["doc", "--workspace", "--no-deps", "--quiet"]);
    documentation.env("RUSTDOCFLAGS", "--deny=warnings");
    total += step("documentation", documentation);

    eprintln!("--- generated files");
    let generated = crate::generated::run(true);
    if let Err(error) = &generated {
        eprintln!("{error:#}");
    }
    total += Tally::one("generated files", generated.is_ok());
    total += licences();
    total
}

/// Licences, banned crates and sources, by cargo-deny. Advisories need a database from the network and are left out.
fn licences() -> Tally {
    let Ok(cache) = home::cache() else { return Tally::one("licences", false) };
    let program = cache.join("tools/bin/cargo-deny");
    if !program.exists() {
        eprintln!("building cargo-deny {DENY}, once per user (about 5 minutes on 2 cores)");
        let mut install =
            cargo(&["install", "--locked", "--quiet", "--version", DENY, "cargo-deny", "--root"]);
        // Built away from this workspace, so that neither its lints nor its target folder matter.
        install.arg(cache.join("tools")).current_dir(&cache).env_remove("CARGO_TARGET_DIR");
        if !install.status().is_ok_and(|it| it.success()) {
            return Tally::one("licences: cargo-deny does not build", false);
        }
    }
    let mut deny = Command::new(program);
    deny.args(["--log-level=error", "check", "bans", "licenses", "sources"]);
    step("licences, banned crates, sources", deny)
}

fn cargo(arguments: &[&str]) -> Command {
    let mut cargo = tally::cargo(None);
    cargo.args(arguments);
    cargo
}

fn step(name: &str, mut command: Command) -> Tally {
    eprintln!("--- {name}");
    let passed = command.status().is_ok_and(|it| it.success());
    Tally::one(name, passed)
}
