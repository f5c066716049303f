mod server;

use futures::FutureExt;
use k8s_openapi::api::coordination::v1::LeaseSpec;
use proptest::prelude::*;
use server::{LeaseServer, Link};

use super::*;
use crate::runtime::leader::lease::Step;

const START: &str = "2026-01-01T00:00:00Z";

/// A candidate whose work is to note when it acts.
struct Candidate {
    election: Election,
    link: Link,
    token: CancellationToken,
    acts: Arc<Mutex<Vec<Duration>>>,
}

impl Candidate {
    fn new(server: &LeaseServer, identity: &str) -> Self {
        let link = Link::default();
        let clock = Clock::following(START.parse().unwrap());
        let lease = ("kruise-system", LEASE_NAME);
        let client = server.client(link.clone());
        let election =
            Election::new(client, lease, identity, Timings::default(), clock, Metrics::default()).unwrap();
        Self { election, link, token: CancellationToken::new(), acts: Arc::default() }
    }

    /// Acts every 100 ms while it leads, and comes to an end when asked to stop.
    fn spawn(&self, server: &LeaseServer) -> tokio::task::JoinHandle<Ended<()>> {
        let (election, token, acts, server) =
            (self.election.clone(), self.token.clone(), self.acts.clone(), server.clone());
        tokio::spawn(async move {
            election
                .lead(&token, |leadership| async {
                    let leadership = leadership;
                    while !token.is_cancelled() {
                        if leadership.may_act() {
                            acts.lock().unwrap().push(server.passed());
                        }
                        tokio::time::sleep(Duration::from_millis(100)).await;
                    }
                })
                .await
        })
    }

    fn first_act(&self) -> Option<Duration> {
        self.acts.lock().unwrap().first().copied()
    }

    fn last_act(&self) -> Option<Duration> {
        self.acts.lock().unwrap().last().copied()
    }
}

async fn pass(seconds: f64) {
    tokio::time::sleep(Duration::from_secs_f64(seconds)).await;
}

#[tokio::test(start_paused = true)]
async fn when_the_leader_is_killed_another_takes_over_after_the_lease_time() {
    let server = LeaseServer::new();
    let (a, b) = (Candidate::new(&server, "a"), Candidate::new(&server, "b"));
    let leader = a.spawn(&server);
    pass(1.0).await;
    let _follower = b.spawn(&server);
    pass(60.0).await;
    assert_eq!((a.first_act(), b.first_act()), (Some(Duration::ZERO), None));

    let killed = server.passed();
    leader.abort();
    pass(20.0).await;
    let takeover = b.first_act().unwrap() - killed;
    let Timings { lease, retry, .. } = Timings::default();
    assert!(takeover <= lease + retry, "{takeover:?}");
    assert_eq!(server.lease().lease_transitions, Some(1));
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_is_cut_off_stops_before_another_one_starts() {
    for cut in [Link::hang as fn(&Link), Link::refuse, Link::lose_answers] {
        let server = LeaseServer::new();
        let (a, b) = (Candidate::new(&server, "a"), Candidate::new(&server, "b"));
        let leader = a.spawn(&server);
        pass(1.0).await;
        let _follower = b.spawn(&server);
        pass(30.0).await;
        let cut_off = server.passed();
        cut(&a.link);
        pass(40.0).await;
        assert_eq!(leader.await.unwrap(), Ended::Lost);
        let (stopped, started) = (a.last_act().unwrap(), b.first_act());
        assert!(stopped <= cut_off + Timings::default().renew, "{stopped:?}");
        // Renewals whose answers are lost keep the lease alive for as long as they are sent.
        let started = started.expect("the other one takes over");
        assert!(stopped < started, "{stopped:?} {started:?}");
        assert!(started - stopped >= Duration::from_secs(2), "{stopped:?} {started:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_stops_gives_the_lease_back_when_its_work_is_done() {
    let server = LeaseServer::new();
    let (a, b) = (Candidate::new(&server, "a"), Candidate::new(&server, "b"));
    let leader = a.spawn(&server);
    pass(1.0).await;
    let _follower = b.spawn(&server);
    pass(5.0).await;
    a.token.cancel();
    assert_eq!(leader.await.unwrap(), Ended::Finished(()));
    let stopped = server.passed();
    pass(2.1).await;
    assert!(b.first_act().unwrap() - stopped <= Timings::default().retry);
}

#[tokio::test(start_paused = true)]
async fn a_candidate_stops_waiting_when_asked_and_leaves_no_lease_behind() {
    let server = LeaseServer::new();
    let (a, b) = (Candidate::new(&server, "a"), Candidate::new(&server, "b"));
    let _leader = a.spawn(&server);
    pass(1.0).await;
    let follower = b.spawn(&server);
    pass(5.0).await;
    b.token.cancel();
    assert_eq!(follower.await.unwrap(), Ended::Stopped);
    assert_eq!(server.lease().holder_identity.as_deref(), Some("a"));
}

#[tokio::test(start_paused = true)]
async fn a_short_outage_is_survived_and_a_deleted_lease_is_not() {
    let server = LeaseServer::new();
    let a = Candidate::new(&server, "a");
    let leader = a.spawn(&server);
    pass(5.0).await;
    for outage in [Link::hang as fn(&Link), Link::refuse, Link::lose_answers] {
        outage(&a.link);
        pass(6.0).await;
        a.link.mend();
        pass(6.0).await;
        assert!(server.passed() - a.last_act().unwrap() <= Duration::from_millis(100));
    }
    server.delete();
    assert_eq!(leader.await.unwrap(), Ended::Lost);
}

#[tokio::test(start_paused = true)]
async fn leadership_counts_from_when_the_request_was_sent_not_from_its_answer() {
    let server = LeaseServer::new();
    let a = Candidate::new(&server, "a");
    a.link.delay(Duration::from_secs(3));
    let leader = a.spawn(&server);
    pass(6.05).await;
    assert_eq!(a.first_act(), Some(Duration::from_secs(6)), "read until 3, written until 6");
    a.link.hang();
    assert_eq!(leader.await.unwrap(), Ended::Lost);
    assert_eq!(server.passed(), Duration::from_secs(3) + Timings::default().renew);
}

#[tokio::test(start_paused = true)]
async fn a_frozen_process_may_not_act_when_it_wakes_up() {
    let leadership = Leadership {
        lost: CancellationToken::new(),
        until: Arc::new(Mutex::new(Clock::system().instant() + Duration::from_secs(10))),
        clock: Clock::system(),
    };
    assert!(leadership.may_act());
    // Nothing but the clock has moved: no task ran, no answer came.
    tokio::time::advance(Duration::from_secs(10)).await;
    assert!(!leadership.may_act());
    assert!(leadership.over().now_or_never().is_some());
}

#[test]
fn a_lease_is_taken_only_after_it_was_seen_unchanged_for_its_own_duration() {
    let start = Clock::system().instant();
    let at = |seconds: u64| start + Duration::from_secs(seconds);
    let timings = Timings::default();
    let spec = |holder: &str, transitions: i32| LeaseSpec {
        holder_identity: Some(holder.into()),
        lease_transitions: Some(transitions),
        lease_duration_seconds: Some(20),
        ..LeaseSpec::default()
    };
    let mut follower = Follower::default();
    let mut step = |spec: &LeaseSpec, now| follower.step(spec, "me", &timings, now);
    let retry = Step::Wait(timings.retry);
    assert_eq!(step(&spec("you", 0), at(0)), retry);
    assert_eq!(step(&spec("you", 1), at(19)), retry, "it was renewed");
    assert_eq!(
        step(&spec("you", 1), at(38)),
        Step::Wait(Duration::from_secs(1)),
        "looked at exactly when it ends"
    );
    assert_eq!(step(&spec("you", 1), at(39)), Step::Take);
    assert_eq!(step(&spec("", 1), at(39)), Step::Take);
    assert_eq!(step(&spec("me", 1), at(39)), Step::Take);
    let broken = LeaseSpec { lease_duration_seconds: Some(-1), ..spec("other", 0) };
    assert_eq!(step(&broken, at(40)), retry);
    assert_eq!(
        step(&broken, at(54)),
        Step::Wait(Duration::from_secs(1)),
        "our own setting where theirs is nonsense"
    );
}

#[tokio::test]
async fn unsafe_settings_are_refused() {
    let server = LeaseServer::new();
    let build = |identity: &str, timings| {
        let (client, clock) = (server.client(Link::default()), Clock::system());
        Election::new(client, ("n", "l"), identity, timings, clock, Metrics::default()).map(|_| ())
    };
    let seconds = Duration::from_secs;
    let ok = Timings::default();
    assert_eq!(build("a", ok), Ok(()));
    assert_eq!(build("", ok), Err(Error::Identity));
    assert_eq!(build("a", Timings { renew: seconds(15), ..ok }), Err(Error::Timings));
    assert_eq!(build("a", Timings { retry: seconds(10), ..ok }), Err(Error::Timings));
    assert_eq!(build("a", Timings { lease: Duration::from_millis(15_500), ..ok }), Err(Error::Timings));
    assert_ne!(identity("pod", &super::super::clock::Seed::from_system()), "pod");
}

/// What happens to one candidate's link, and for how long.
fn faults() -> impl Strategy<Value = Vec<(usize, u8, f64)>> {
    prop::collection::vec((0..3_usize, 0..5_u8, 0.1..12.0), 0..25)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn whatever_happens_to_their_links_two_never_act_at_the_same_time(faults in faults()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        let acts = runtime.block_on(async {
            let server = LeaseServer::new();
            let candidates: Vec<_> = ["a", "b", "c"].iter().map(|it| Candidate::new(&server, it)).collect();
            let mut tasks: Vec<_> = candidates.iter().map(|it| it.spawn(&server)).collect();
            pass(0.1).await;
            for (who, fault, lasts) in faults {
                let link = &candidates[who].link;
                match fault {
                    0 => link.hang(),
                    1 => link.refuse(),
                    2 => link.lose_answers(),
                    3 => link.delay(Duration::from_secs_f64(lasts / 3.0)),
                    _ => link.mend(),
                }
                pass(lasts).await;
                // A process that lost the lease exits and is started again.
                for (task, candidate) in tasks.iter_mut().zip(&candidates) {
                    if task.is_finished() {
                        *task = candidate.spawn(&server);
                    }
                }
            }
            candidates.iter().map(|it| it.acts.lock().unwrap().clone()).collect::<Vec<_>>()
        });
        // Each act lasts until just before the next one: between the first and last of one stretch nobody else acts.
        let mut all: Vec<_> =
            acts.iter().enumerate().flat_map(|(who, acts)| acts.iter().map(move |at| (*at, who))).collect();
        all.sort();
        prop_assert!(!all.is_empty(), "somebody leads");
        for pair in all.windows(2) {
            let [(before, one), (after, other)] = pair else { unreachable!() };
            prop_assert!(one == other || *after - *before >= Duration::from_secs(2), "{before:?} {one}, {after:?} {other}");
        }
    }
}
