//! Running a test in a world: invariants after every write, deadlines in virtual time, and what a failure prints.

use std::{any::Any, future::Future, path::Path, sync::Arc, time::Duration};

use super::{Invariant, Shared, World, lock};

/// How many lines of the log a failing run prints.
const SHOWN: usize = 60;

/// Runs `test` in a fresh world on a paused clock in this thread.
///
/// With `SIM_LOG=FOLDER` in the environment the whole log goes to `FOLDER/SEED.log`: two runs that differ can be compared.
///
/// When the test, a process or anything on the agenda panics, or an invariant breaks, the seed and the newest events are printed.
pub fn run<F, T>(seed: u64, test: impl FnOnce(World) -> F) -> T
where
    F: Future<Output = T>,
{
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime without I/O needs nothing from the system");
    runtime.block_on(async {
        let world = World::new(seed);
        if let Some(folder) = std::env::var_os("SIM_LOG") {
            let path = Path::new(&folder).join(format!("{seed}.log"));
            world.log().copy_to(&path).unwrap_or_else(|error| panic!("SIM_LOG: {}: {error}", path.display()));
        }
        let _report = Report(world.clone());
        let mut broken = world.shared.broken.subscribe();
        let result = tokio::select! {
            biased;
            result = test(world.clone()) => result,
            _ = broken.wait_for(Option::is_some) => panic!("{}", world.violation().unwrap_or_default()),
        };
        if let Some(violation) = world.violation() {
            panic!("{violation}");
        }
        result
    })
}

/// Prints how to see a failure again.
struct Report(World);

impl Drop for Report {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("--- world with seed {}; its last events:", self.0.seed());
            for line in self.0.log().last(SHOWN) {
                eprintln!("{line}");
            }
        }
    }
}

impl World {
    /// Checks a rule after every write to any cluster. The first break ends [`run`].
    pub fn invariant(&self, name: &str, rule: impl Fn(&World) -> Result<(), String> + Send + Sync + 'static) {
        let rule: Arc<Invariant> = Arc::new(Box::new(rule));
        lock(&self.shared.invariants).push((name.to_owned(), rule));
    }

    /// What ended the run: the first invariant that broke or the first panic outside the test, and how.
    pub fn violation(&self) -> Option<String> {
        self.shared.broken.borrow().clone()
    }

    /// Waits until `condition` holds. It is a failure when it does not within `deadline` of virtual time.
    pub async fn eventually(&self, what: &str, deadline: Duration, condition: impl Fn(&World) -> bool) {
        let step = Duration::from_millis(100);
        let mut waited = Duration::ZERO;
        while !condition(self) {
            assert!(waited < deadline, "within {deadline:?} of virtual time it was not so that {what}");
            tokio::time::sleep(step).await;
            waited += step;
        }
    }
}

impl Shared {
    pub(super) fn check_invariants(self: &Arc<Self>) {
        if self.broken.borrow().is_some() {
            return;
        }
        let rules: Vec<(String, Arc<Invariant>)> = lock(&self.invariants).clone();
        let world = World { shared: self.clone() };
        for (name, rule) in rules {
            if let Err(cause) = rule(&world) {
                self.fail(format!("the invariant {name:?} is broken: {cause}"));
                return;
            }
        }
    }

    /// Ends [`run`] with this text, unless something else has ended it before.
    pub(crate) fn fail(&self, text: String) {
        self.write_log(format_args!("{text}"));
        // A world that is served has no run: there only the log can tell.
        tracing::error!(seed = self.number, "{text}");
        self.broken.send_if_modified(|it| {
            let is_first = it.is_none();
            if is_first {
                *it = Some(text);
            }
            is_first
        });
    }
}

/// What a panic has said.
pub(crate) fn said(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("it said nothing")
}
