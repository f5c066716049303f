//! Runs cargo's tests and adds up what they say.

use std::{
    fmt,
    io::{BufRead, BufReader},
    ops::AddAssign,
    process::{Command, Stdio},
};

use anyhow::{Context, Result, bail};

/// How many tests ended how.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Tally {
    pub(super) passed: usize,
    pub(super) failed: usize,
    pub(super) skipped: usize,
    /// Names of what failed.
    pub(super) failures: Vec<String>,
}

impl Tally {
    /// One check that passed, or failed under `name`.
    pub(super) fn one(name: &str, passed: bool) -> Self {
        match passed {
            true => Self { passed: 1, ..Self::default() },
            false => Self { failed: 1, failures: vec![name.to_owned()], ..Self::default() },
        }
    }

    /// Reads one line of a test program.
    fn read(&mut self, line: &str) {
        if let Some(counts) = line.strip_prefix("test result: ") {
            self.passed += number_before(counts, " passed");
            self.failed += number_before(counts, " failed");
            self.skipped += number_before(counts, " ignored");
        } else if let Some(name) = line.strip_prefix("test ").and_then(|it| it.strip_suffix(" ... FAILED")) {
            self.failures.push(name.to_owned());
        }
    }
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
        self.failures.extend(other.failures);
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed, {} skipped", self.passed, self.failed, self.skipped)
    }
}

/// Cargo, with the wanted number of cases for property tests.
pub(super) fn cargo(cases: Option<u32>) -> Command {
    let mut cargo = crate::cargo();
    if let Some(cases) = cases {
        cargo.env("FLEET_CASES", cases.to_string());
    }
    cargo
}

/// Runs `cargo test` with `arguments`.
pub(super) fn cargo_test(cases: Option<u32>, arguments: &[&str]) -> Result<Tally> {
    let mut cargo = cargo(cases);
    cargo.arg("test").args(arguments);
    run(cargo)
}

/// Runs a test command, passing its output on.
pub(super) fn run(mut command: Command) -> Result<Tally> {
    // One failure must not hide what the rest would have shown.
    command.arg("--no-fail-fast");
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().context("cannot start cargo")?;
    let output = child.stdout.take().context("the output of cargo is piped")?;
    let mut tally = Tally::default();
    for line in BufReader::new(output).lines() {
        let line = line?;
        println!("{line}");
        tally.read(&line);
    }
    if !child.wait()?.success() && tally.failed == 0 {
        // It did not build, or a test program ended without a word.
        tally += Tally::one(&format!("{command:?}"), false);
    }
    Ok(tally)
}

/// Builds test programs without running them.
pub(super) fn build(tests: &[&str]) -> Result<()> {
    // Tests start it as a process of its own.
    let agent = cargo(None).args(["build", "--workspace", "--bin", "kruise-agent"]).status()?;
    if !agent.success() {
        bail!("kruise-agent does not build");
    }
    let status = cargo(None).args(["test", "--no-run"]).args(programs(tests)).status()?;
    if !status.success() {
        bail!("the tests {} do not build", tests.join(", "));
    }
    Ok(())
}

/// Arguments of cargo for these test programs. Always of the whole workspace: the dependencies of a single package would
/// be built once more with the few features that it needs alone.
pub(super) fn programs<'a>(tests: &[&'a str]) -> Vec<&'a str> {
    let named = tests.iter().flat_map(|it| ["--test", *it]);
    std::iter::once("--workspace").chain(named).collect()
}

/// The names of all test programs of the workspace.
pub(super) fn all_programs() -> Result<Vec<String>> {
    let output = crate::cargo().args(["metadata", "--no-deps", "--format-version=1"]).output()?;
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    let packages = metadata["packages"].as_array().context("cargo lists no packages")?;
    let targets = packages.iter().filter_map(|it| it["targets"].as_array()).flatten();
    let tests = targets.filter(|it| it["kind"] == serde_json::json!(["test"]));
    Ok(tests.filter_map(|it| it["name"].as_str().map(str::to_owned)).collect())
}

/// How many tests there are in test programs that are not run.
pub(super) fn count(tests: &[&str]) -> Result<usize> {
    let output = cargo(None).arg("test").args(programs(tests)).args(["--", "--list"]).output()?;
    Ok(String::from_utf8_lossy(&output.stdout).lines().filter(|it| it.ends_with(": test")).count())
}

fn number_before(text: &str, word: &str) -> usize {
    let Some((before, _)) = text.split_once(word) else { return 0 };
    before.rsplit(|it: char| !it.is_ascii_digit()).next().and_then(|it| it.parse().ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_of_several_programs_add_up_and_failures_keep_their_names() {
        let mut tally = Tally::default();
        for line in [
            "test a::b ... ok",
            "test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.01s",
            "test c ... FAILED",
            "test result: FAILED. 3 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out",
        ] {
            tally.read(line);
        }
        assert_eq!(tally.to_string(), "15 passed, 1 failed, 1 skipped");
        assert_eq!(tally.failures, ["c"]);
    }
}
