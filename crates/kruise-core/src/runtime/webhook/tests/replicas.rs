//! Several replicas, and certificates that change under them.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::Duration,
};

use axum::http::Method;
use tokio::time::timeout;

use super::{
    fake_api::{FakeApi, MUTATING, SECRETS, VALIDATING},
    replica::{
        DNS_NAME, MUTATE, PATIENCE, Replica, SECRET, TestClock, VALIDATE, ask, client_config, decode,
        install, put_secret, real_now, review, secret, terms,
    },
};
use crate::runtime::webhook::certs::{
    CA_CERT, Contents, Judgement, KeySet, RETIRED_AT, is_within, issue_with_new_authority, judge,
};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

fn secret_writes(api: &FakeApi) -> Vec<Method> {
    api.writes().into_iter().filter(|it| it.1.starts_with(SECRETS)).map(|it| it.0).collect()
}

async fn start_two_at_once(api: &FakeApi) -> [Replica; 2] {
    api.answer_secret_reads_together(2);
    let (one, two) = (Replica::start(api, |it| it), Replica::start(api, |it| it));
    [one.ready().await, two.ready().await]
}

#[tokio::test]
async fn two_replicas_that_start_at_once_share_one_secret_and_both_are_trusted() {
    let api = FakeApi::new();
    install(&api);
    let replicas = start_two_at_once(&api).await;
    assert_eq!(secret_writes(&api), [Method::POST]);
    for it in replicas {
        it.answers(&api).await.unwrap();
        it.stop().await;
    }
}

#[tokio::test]
async fn two_replicas_that_repair_at_once_overwrite_each_other_never() {
    let api = FakeApi::new();
    install(&api);
    put_secret(&api, Contents::from([(CA_CERT.to_owned(), b"garbage".to_vec())]));
    let replicas = start_two_at_once(&api).await;
    assert_eq!(secret_writes(&api), [Method::PUT]);
    for it in replicas {
        it.answers(&api).await.unwrap();
        it.stop().await;
    }
}

/// Calls the replicas in turn, each time over a new connection, until told to stop. Like an API server whose watch lags,
/// it always trusts what the configurations said one call ago.
struct Caller {
    calls: Arc<AtomicU32>,
    stop: Arc<AtomicBool>,
    task: tokio::task::JoinHandle<Vec<String>>,
}

impl Caller {
    fn start(api: &FakeApi, replicas: &[Replica]) -> Self {
        let addresses: Vec<_> = replicas.iter().map(|it| it.handle.address()).collect();
        let (calls, stop) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicBool::new(false)));
        let (api, counting, stopping) = (api.clone(), Arc::clone(&calls), Arc::clone(&stop));
        let task = tokio::spawn(async move {
            let mut failures = Vec::new();
            let mut known = [MUTATING, VALIDATING].map(|it| client_config(&api, it).0);
            while !stopping.load(Ordering::SeqCst) {
                for address in &addresses {
                    for (it, path) in known.iter().zip([MUTATE, VALIDATE]) {
                        if let Err(error) = ask(it, *address, path, &review(1)).await {
                            failures.push(format!("{address}{path}: {error}"));
                        }
                        counting.fetch_add(1, Ordering::SeqCst);
                    }
                }
                known = [MUTATING, VALIDATING].map(|it| client_config(&api, it).0);
            }
            failures
        });
        Self { calls, stop, task }
    }

    /// Waits for `more` calls from now on.
    async fn calls(&self, more: u32) {
        let target = self.calls.load(Ordering::SeqCst) + more;
        let reached = async {
            while self.calls.load(Ordering::SeqCst) < target {
                tokio::task::yield_now().await;
            }
        };
        timeout(PATIENCE, reached).await.unwrap();
    }

    async fn failures(mut self) -> Vec<String> {
        self.stop.store(true, Ordering::SeqCst);
        timeout(PATIENCE, &mut self.task).await.unwrap().unwrap()
    }
}

/// A test that fails must not leave it calling: without a runtime each call fails at once, and the loop would never yield.
impl Drop for Caller {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_of_authority_fails_no_call_and_needs_no_restart() {
    let api = FakeApi::new();
    install(&api);
    // The first certificate was made so long ago that it is due for renewal in the present, but is still valid.
    let clock = TestClock::at(real_now() - DAY * (3650 - 100));
    let start = || {
        let clock = clock.clone();
        Replica::start(&api, |it| it.clock(move || clock.now()))
    };
    let mut replicas = [start().ready().await, start().ready().await];
    let before = secret(&api).unwrap();
    let caller = Caller::start(&api, &replicas);
    caller.calls(8).await;

    clock.set(real_now());
    put_secret(&api, before.clone()); // Any event will do: the time has come.
    for it in &mut replicas {
        timeout(PATIENCE, it.handle.certificate_changed()).await.unwrap();
    }
    caller.calls(8).await;

    let after = secret(&api).unwrap();
    assert_eq!(judge(Some(&after), &terms(real_now())), Judgement::Keep);
    let keys = KeySet::read(&after).unwrap();
    assert!(!is_within(&keys.ca_cert, &before[CA_CERT]), "the authority ends as soon as the certificate");
    assert!(is_within(&before[CA_CERT], &keys.trust_bundle()));

    // A day later the old authority is trusted no more, and still no call fails.
    clock.set(real_now() + DAY + DAY);
    put_secret(&api, after);
    let forgotten = api.wait_until(|it| {
        let bundles =
            [MUTATING, VALIDATING].map(|collection| decode(&client_config(it, collection).0["caBundle"]));
        !secret(it).unwrap().contains_key(RETIRED_AT) && bundles.iter().all(|it| *it == keys.ca_cert)
    });
    timeout(PATIENCE, forgotten).await.unwrap();
    caller.calls(8).await;
    assert_eq!(caller.failures().await, Vec::<String>::new());
    for it in replicas {
        it.answers(&api).await.unwrap();
        it.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deleting_the_secret_changes_the_authority_and_fails_no_call() {
    let api = FakeApi::new();
    install(&api);
    let mut replicas = start_two_at_once(&api).await;
    let before = secret(&api).unwrap();
    let caller = Caller::start(&api, &replicas);
    caller.calls(4).await;

    api.delete(SECRETS, SECRET);
    for it in &mut replicas {
        timeout(PATIENCE, it.handle.certificate_changed()).await.unwrap();
    }
    caller.calls(8).await;
    assert_eq!(caller.failures().await, Vec::<String>::new());
    assert_ne!(secret(&api).unwrap()[CA_CERT], before[CA_CERT]);
    for it in replicas {
        it.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_secret_restored_from_elsewhere_is_taken_over_and_fails_no_call() {
    let api = FakeApi::new();
    install(&api);
    let mut replicas = start_two_at_once(&api).await;
    let caller = Caller::start(&api, &replicas);
    caller.calls(4).await;

    let restored = issue_with_new_authority(&terms(real_now())).unwrap();
    put_secret(&api, restored.contents());
    for it in &mut replicas {
        timeout(PATIENCE, it.handle.certificate_changed()).await.unwrap();
        assert_eq!(it.handle.dns_name(), DNS_NAME);
    }
    caller.calls(8).await;
    assert_eq!(caller.failures().await, Vec::<String>::new());
    assert!(KeySet::read(&secret(&api).unwrap()).unwrap().serves_like(&restored));
    for it in replicas {
        it.stop().await;
    }
}
