//! Carrying out many actions at once: carefully at first, fast when it works, and not at all while the server is busy.

use std::{num::NonZeroUsize, time::Duration};

use futures::{StreamExt, stream::FuturesUnordered};

use super::{clock::Clock, throttle::Throttle};

/// Runs the actions of plans against one API server.
#[derive(Debug, Clone)]
pub struct Executor {
    /// At most this many actions are under way for one plan.
    pub limit: NonZeroUsize,
    /// The group wait that all plans of the cluster share. The cluster's client notes refusals in it: only the client
    /// knows what was asked, and so which of them are signs of load.
    pub throttle: Throttle,
    /// Time for the group wait.
    pub clock: Clock,
}

/// What became of a list of actions.
#[derive(Debug)]
pub struct Report<R, E> {
    /// What the actions that worked gave, in the order in which they ended.
    pub done: Vec<R>,
    /// Why the others did not.
    pub failed: Vec<E>,
    /// How many were never begun.
    pub skipped: usize,
    /// How long the server wants to be left alone.
    pub wait: Option<Duration>,
}

impl<R, E> Report<R, E> {
    /// Whether every action worked.
    pub fn is_complete(&self) -> bool {
        self.failed.is_empty() && self.skipped == 0
    }
}

impl Executor {
    /// Runs `actions` in batches of 1, 2, 4 and so on, each begun when the one before has worked completely.
    ///
    /// A failure lets the actions under way finish and begins no other: if quota or admission refuses one pod, it
    /// refuses its thousand siblings as well, and asking for each of them would only burden the server. Nothing is
    /// retried here. While the server wants to be left alone nothing is begun, and the report says for how long.
    pub async fn run<A, R, E, F>(&self, actions: Vec<A>, mut run: impl FnMut(A) -> F) -> Report<R, E>
    where
        F: Future<Output = Result<R, E>>,
    {
        let mut report = Report { done: Vec::new(), failed: Vec::new(), skipped: 0, wait: None };
        let mut rest = actions.into_iter();
        let mut batch = 1;
        while rest.len() > 0 && report.failed.is_empty() && self.throttle.wait(self.clock.instant()).is_none()
        {
            let members: Vec<A> = rest.by_ref().take(batch).collect();
            let not_begun = self.run_batch(members, &mut run, &mut report).await;
            report.skipped += not_begun;
            batch = batch.saturating_mul(2);
        }
        report.skipped += rest.len();
        report.wait = self.throttle.wait(self.clock.instant());
        report
    }

    /// Runs one batch with at most `limit` under way and returns how many of it were not begun.
    async fn run_batch<A, R, E, F>(
        &self,
        members: Vec<A>,
        run: &mut impl FnMut(A) -> F,
        report: &mut Report<R, E>,
    ) -> usize
    where
        F: Future<Output = Result<R, E>>,
    {
        let mut waiting = members.into_iter();
        let mut under_way: FuturesUnordered<F> =
            waiting.by_ref().take(self.limit.get()).map(&mut *run).collect();
        while let Some(ended) = under_way.next().await {
            match ended {
                Ok(it) => report.done.push(it),
                Err(error) => report.failed.push(error),
            }
            let may_go_on = report.failed.is_empty() && self.throttle.wait(self.clock.instant()).is_none();
            if may_go_on && let Some(next) = waiting.next() {
                under_way.push(run(next));
            }
        }
        waiting.len()
    }
}

#[cfg(test)]
mod tests {
    use std::{cell::RefCell, rc::Rc};

    use axum::http::{Request, Response};
    use kube::client::Body;
    use serde_json::json;
    use tower::service_fn;

    use super::*;
    use crate::runtime::{client, metrics::Metrics};

    #[derive(Debug, PartialEq)]
    enum Fault {
        Quota,
        Busy(u64),
    }

    fn executor(limit: usize) -> Executor {
        Executor {
            limit: NonZeroUsize::new(limit).unwrap(),
            throttle: Throttle::default(),
            clock: Clock::system(),
        }
    }

    /// When each action began, in seconds from the start; each takes one second.
    type Begun = Rc<RefCell<Vec<u64>>>;

    async fn run(
        executor: &Executor,
        actions: usize,
        fault: impl Fn(usize) -> Option<Fault> + Clone,
    ) -> (Report<usize, Fault>, Vec<u64>) {
        let (begun, start) = (Begun::default(), executor.clock.instant());
        let report = executor
            .run((0..actions).collect(), |it| {
                let (begun, fault, Executor { throttle, clock, .. }) =
                    (begun.clone(), fault.clone(), executor.clone());
                async move {
                    begun.borrow_mut().push(clock.since(start).as_secs());
                    tokio::time::sleep(Duration::from_secs(1)).await;
                    let fault = fault(it);
                    if let Some(Fault::Busy(seconds)) = fault {
                        throttle.refused(Some(Duration::from_secs(seconds)), clock.instant());
                    }
                    fault.map_or(Ok(it), Err)
                }
            })
            .await;
        let begun = begun.borrow().clone();
        (report, begun)
    }

    #[tokio::test(start_paused = true)]
    async fn batches_double_while_they_work() {
        let (report, begun) = run(&executor(100), 20, |_| None).await;
        assert!(report.is_complete());
        assert_eq!(report.done.len(), 20);
        let expected: Vec<u64> =
            [(0, 1), (1, 2), (2, 4), (3, 8), (4, 5)].into_iter().flat_map(|(t, n)| vec![t; n]).collect();
        assert_eq!(begun, expected);
    }

    #[tokio::test(start_paused = true)]
    async fn no_more_than_the_limit_is_under_way() {
        let (report, begun) = run(&executor(3), 15, |_| None).await;
        assert!(report.is_complete());
        for second in 0..10 {
            assert!(begun.iter().filter(|it| **it == second).count() <= 3, "{begun:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_failure_lets_the_batch_finish_and_skips_the_rest() {
        let (report, begun) = run(&executor(100), 100, |it| (it == 4).then_some(Fault::Quota)).await;
        assert_eq!(report.failed, [Fault::Quota]);
        assert_eq!(report.done.len(), 6, "1 + 2 + the three siblings of the batch of 4");
        assert_eq!(report.skipped, 93);
        assert_eq!(begun.len(), 7);
        assert_eq!(report.wait, None);

        let (report, begun) = run(&executor(2), 100, |it| (it == 3).then_some(Fault::Quota)).await;
        assert_eq!(
            (report.done.len() + report.failed.len(), report.skipped),
            (begun.len(), 100 - begun.len())
        );
        assert_eq!(begun.len(), 5, "with two at a time the batch of 4 had begun two");
    }

    #[tokio::test(start_paused = true)]
    async fn a_busy_server_is_left_alone_by_everybody_for_as_long_as_it_asks() {
        let executor = executor(100);
        let (report, _) = run(&executor, 50, |it| (it == 2).then_some(Fault::Busy(5))).await;
        assert_eq!((report.done.len(), report.skipped), (2, 47));
        assert_eq!(report.wait, Some(Duration::from_secs(5)));

        let (report, begun) = run(&executor.clone(), 10, |_| None).await;
        assert_eq!((report.skipped, begun.len()), (10, 0), "another plan begins nothing either");
        assert_eq!(report.wait, Some(Duration::from_secs(5)));

        tokio::time::advance(Duration::from_secs(5)).await;
        let (report, _) = run(&executor, 10, |_| None).await;
        assert!(report.is_complete());
    }

    /// Runs one request to `path` through the client of a server that refuses everything, and says how long all wait.
    async fn wait_after(path: &'static str) -> Option<Duration> {
        let executor = executor(1);
        let options = client::Options {
            user_agent: "kruise-test/1".into(),
            metrics: Metrics::default(),
            throttle: executor.throttle.clone(),
            clock: executor.clock.clone(),
        };
        let refusal = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 429});
        let server = service_fn(move |_: Request<Body>| {
            let answer = Response::builder().status(429).body(Body::from(refusal.to_string().into_bytes()));
            async move { answer }
        });
        let client = client::over(server, &options);
        let report = executor
            .run(vec![path], |path| {
                let request = Request::post(path).body(Vec::new()).unwrap();
                client::call("post", client.request::<serde_json::Value>(request))
            })
            .await;
        assert_eq!(report.failed[0].label(), "throttled");
        report.wait
    }

    #[tokio::test(start_paused = true)]
    async fn an_eviction_that_a_budget_forbids_makes_nobody_wait() {
        assert_eq!(wait_after("/api/v1/namespaces/n/pods/a/eviction").await, None);
        assert_eq!(wait_after("/api/v1/namespaces/n/pods").await, Some(Duration::from_secs(1)));
    }
}
