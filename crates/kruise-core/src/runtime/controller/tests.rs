use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use futures::future::BoxFuture;
use tokio::sync::watch;

use super::*;

#[derive(Debug, thiserror::Error)]
#[error("no")]
struct Fault;

impl ReconcileError for Fault {
    fn label(&self) -> &'static str {
        "fault"
    }
}

/// What a reconcile of the test does, by the object's name.
type Script = fn(&str, usize) -> (Duration, Result<Next, Fault>);

/// Notes when each reconcile began, in milliseconds from the start.
#[derive(Clone)]
struct Probe {
    script: Script,
    clock: Clock,
    start: tokio::time::Instant,
    begun: Arc<Mutex<Vec<(String, u128)>>>,
    at_once: Arc<AtomicUsize>,
    most: Arc<AtomicUsize>,
    gone: Arc<AtomicBool>,
}

impl Probe {
    fn new(script: Script) -> Self {
        let clock = Clock::system();
        Self {
            script,
            start: clock.instant(),
            clock,
            begun: Arc::default(),
            at_once: Arc::default(),
            most: Arc::default(),
            gone: Arc::default(),
        }
    }

    fn begun(&self) -> Vec<(String, u128)> {
        self.begun.lock().unwrap().clone()
    }

    fn times(&self) -> Vec<u128> {
        self.begun().into_iter().map(|it| it.1).collect()
    }
}

impl Reconcile for Probe {
    type Error = Fault;

    async fn reconcile(&self, key: Key) -> Result<Next, Fault> {
        let nth = {
            let mut begun = self.begun.lock().unwrap();
            begun.push((key.name.to_string(), self.clock.since(self.start).as_millis()));
            begun.iter().filter(|it| *it.0 == *key.name).count()
        };
        self.most.fetch_max(self.at_once.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        let (takes, result) = (self.script)(&key.name, nth);
        tokio::time::sleep(takes).await;
        self.at_once.fetch_sub(1, Ordering::SeqCst);
        result
    }

    fn exists(&self, _: &Key) -> bool {
        !self.gone.load(Ordering::SeqCst)
    }

    fn rest(&self, key: &Key) -> Duration {
        if &*key.name == "large" { Duration::from_millis(50) } else { Duration::ZERO }
    }
}

struct Bench {
    probe: Probe,
    triggers: Triggers,
    token: CancellationToken,
    controller: Option<Controller<Probe>>,
}

impl Bench {
    fn new(workers: usize, feeds: Vec<Arc<dyn Feed>>, script: Script) -> Self {
        let probe = Probe::new(script);
        let settings = Settings {
            name: "probe",
            workers: NonZeroUsize::new(workers).unwrap(),
            backoff: Doubling { first: Duration::from_millis(100), ceiling: Duration::from_secs(4) },
            clock: probe.clock.clone(),
            metrics: Metrics::default(),
        };
        let triggers = Triggers::new(probe.clock.clone());
        let controller = Controller::new(settings, triggers.clone(), feeds, probe.clone());
        Self { probe, triggers, token: CancellationToken::new(), controller: Some(controller) }
    }

    fn trigger(&self, name: &str) {
        self.triggers.now(Key::new("n", name));
    }

    fn spawn(&mut self) -> tokio::task::JoinHandle<()> {
        tokio::spawn(self.controller.take().unwrap().run(self.token.clone()))
    }
}

async fn pass(millis: u64) {
    tokio::time::sleep(Duration::from_millis(millis)).await;
}

const QUICK: Script = |_, _| (Duration::ZERO, Ok(Next::Change));

#[tokio::test(start_paused = true)]
async fn objects_run_side_by_side_up_to_the_limit_but_never_one_twice() {
    let mut bench = Bench::new(2, Vec::new(), |_, _| (Duration::from_millis(100), Ok(Next::Change)));
    let running = bench.spawn();
    for name in ["a", "a", "b", "c"] {
        bench.trigger(name);
    }
    pass(50).await;
    bench.trigger("a");
    bench.trigger("a");
    pass(500).await;
    let names: Vec<_> = bench.probe.begun().into_iter().map(|(name, at)| format!("{name}@{at}")).collect();
    assert_eq!(
        names,
        ["a@0", "b@0", "c@100", "a@100"],
        "the trigger during the run leads to exactly one more"
    );
    assert_eq!(bench.probe.most.load(Ordering::SeqCst), 2);
    bench.token.cancel();
    running.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn failures_wait_longer_each_time_and_a_success_starts_over() {
    let mut bench = Bench::new(1, Vec::new(), |_, nth| {
        (Duration::ZERO, if nth == 4 { Ok(Next::After(Duration::from_secs(1))) } else { Err(Fault) })
    });
    let running = bench.spawn();
    bench.trigger("a");
    pass(1_850).await;
    assert_eq!(bench.probe.times(), [0, 100, 300, 700, 1_700, 1_800]);
    bench.token.cancel();
    running.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_trigger_beats_a_long_wait_but_no_failing_object_runs_hot() {
    let mut bench = Bench::new(1, Vec::new(), |_, _| (Duration::ZERO, Err(Fault)));
    let running = bench.spawn();
    bench.trigger("a");
    // What a failing reconcile writes comes back as a trigger.
    for _ in 0..160 {
        pass(10).await;
        bench.trigger("a");
    }
    assert_eq!(bench.probe.times(), [0, 100, 300, 700, 1_500], "waits of less than a second are kept");
    pass(950).await;
    assert_eq!(bench.probe.times().last(), Some(&2_500), "after a second somebody may have mended it");
    bench.token.cancel();
    running.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn changes_of_an_object_that_rests_are_seen_to_together() {
    let mut bench = Bench::new(1, Vec::new(), QUICK);
    let running = bench.spawn();
    for _ in 0..10 {
        bench.trigger("large");
        pass(10).await;
    }
    pass(1000).await;
    assert_eq!(bench.probe.times(), [0, 50, 100]);
    bench.token.cancel();
    running.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_panic_fails_one_object_and_no_other() {
    let mut bench = Bench::new(1, Vec::new(), |name, nth| {
        assert!(name != "bad" || nth > 1, "a bug");
        (Duration::ZERO, Ok(Next::Change))
    });
    let running = bench.spawn();
    bench.trigger("bad");
    bench.trigger("good");
    pass(150).await;
    let names: Vec<_> = bench.probe.begun().into_iter().map(|it| it.0).collect();
    assert_eq!(names, ["bad", "good", "bad"]);
    bench.token.cancel();
    running.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn stopping_lets_what_is_under_way_finish_and_begins_nothing() {
    let mut bench = Bench::new(1, Vec::new(), |_, _| (Duration::from_secs(1), Ok(Next::Change)));
    let running = bench.spawn();
    bench.trigger("a");
    bench.trigger("b");
    pass(10).await;
    bench.token.cancel();
    let start = bench.probe.clock.instant();
    running.await.unwrap();
    assert_eq!(bench.probe.clock.since(start), Duration::from_millis(990));
    assert_eq!(bench.probe.begun().len(), 1);
    assert_eq!(bench.probe.at_once.load(Ordering::SeqCst), 0, "it ran to its end");
}

#[tokio::test(start_paused = true)]
async fn nothing_is_kept_of_objects_that_are_gone() {
    let mut bench = Bench::new(4, Vec::new(), |_, nth| {
        (Duration::ZERO, if nth == 1 { Err(Fault) } else { Ok(Next::After(Duration::from_secs(60))) })
    });
    let controller = bench.controller.take().unwrap();
    let (triggers, token, probe) = (bench.triggers.clone(), bench.token.clone(), bench.probe.clone());
    for it in 0..1_000 {
        bench.trigger(&it.to_string());
    }
    let driver = async {
        pass(50).await;
        assert_eq!(controller.failures.len(), 1_000);
        probe.gone.store(true, Ordering::SeqCst);
        pass(500).await;
        assert!(controller.failures.is_empty());
        assert!(triggers.queue().is_empty());
        token.cancel();
    };
    // The controller is only borrowed here, so that the test can look into it.
    tokio::join!(run_borrowed(&controller, token.clone()), driver);
}

async fn run_borrowed(controller: &Controller<Probe>, token: CancellationToken) {
    while !token.is_cancelled() {
        while let Some(key) = controller.next() {
            controller.run_one(key).await;
        }
        pass(10).await;
    }
}

struct FakeFeed {
    synced: watch::Receiver<bool>,
    behind: Arc<AtomicBool>,
}

impl Feed for FakeFeed {
    fn name(&self) -> &'static str {
        "fake"
    }

    fn is_synced(&self) -> bool {
        *self.synced.borrow()
    }

    fn synced(&self) -> BoxFuture<'static, ()> {
        let mut synced = self.synced.clone();
        async move {
            let _ = synced.wait_for(|it| *it).await;
        }
        .boxed()
    }

    fn is_behind(&self) -> bool {
        self.behind.load(Ordering::SeqCst)
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_runs_before_every_cache_is_complete_nor_while_one_is_too_far_behind() {
    let behind = Arc::new(AtomicBool::new(false));
    let (send_first, first) = watch::channel(false);
    let (send_second, second) = watch::channel(false);
    let feeds: Vec<Arc<dyn Feed>> = vec![
        Arc::new(FakeFeed { synced: first, behind: behind.clone() }),
        Arc::new(FakeFeed { synced: second, behind: Arc::default() }),
    ];
    let mut bench = Bench::new(1, feeds, QUICK);
    let running = bench.spawn();
    bench.trigger("a");
    send_first.send_replace(true);
    pass(1_000).await;
    assert!(bench.probe.begun().is_empty());
    send_second.send_replace(true);
    pass(1).await;
    assert_eq!(bench.probe.begun().len(), 1);

    behind.store(true, Ordering::SeqCst);
    bench.trigger("b");
    pass(1_500).await;
    assert_eq!(bench.probe.begun().len(), 1);
    behind.store(false, Ordering::SeqCst);
    pass(1_000).await;
    assert_eq!(bench.probe.begun().len(), 2);
    bench.token.cancel();
    running.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_controller_can_be_stopped_while_it_waits_for_its_caches() {
    let (_send, synced) = watch::channel(false);
    let mut bench = Bench::new(1, vec![Arc::new(FakeFeed { synced, behind: Arc::default() })], QUICK);
    let running = bench.spawn();
    pass(10).await;
    bench.token.cancel();
    running.await.unwrap();
    assert!(bench.probe.begun().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_wait_beyond_all_time_stops_nothing() {
    let mut bench = Bench::new(1, Vec::new(), |_, _| (Duration::ZERO, Ok(Next::After(Duration::MAX))));
    let task = bench.spawn();
    bench.triggers.after(Key::new("n", "later"), Duration::from_secs(u64::MAX));
    bench.trigger("a");
    pass(10).await;
    bench.trigger("a");
    pass(10).await;
    bench.token.cancel();
    task.await.unwrap();
    assert_eq!(bench.probe.begun(), [("a".to_owned(), 0), ("a".to_owned(), 10)]);
}
