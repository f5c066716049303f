//! The garbage collector held to the real one. It takes its time, so that what it has done is compared after each request when
//! both sides have come to rest, and not what happens on the way.

use std::time::Duration;

use http::Method;
use kube::Client;
use serde_json::{Value, json};

use super::{
    Difference, Observation, Step, compare, family, generate::KINDS, observe::Run, owners::NOBODY, prepare,
};
use crate::{fleet, seed::Seed};

/// After this long a simulated collector is at rest, and has looked again at everything that failed.
const AT_REST: Duration = Duration::from_secs(1100);

/// How long a real collector that has nothing to do is watched for doing something all the same, in between and at the end.
const DOUBT: Duration = Duration::from_millis(800);
const LAST_DOUBT: Duration = Duration::from_secs(4);

/// How long, and how often, a real collector is waited for.
const PATIENCE: Duration = Duration::from_secs(180);
const BETWEEN: Duration = Duration::from_millis(250);

/// How long a collector may take to learn of the custom kind: it asks the server every 30 seconds.
const LEARNING_TRIES: u32 = 480;

/// Waits until the garbage collector of a real server works and knows the custom kind.
pub async fn await_collector(client: &Client, run: &str) -> Result<bool, kube::Error> {
    let namespace = format!("collector-{run}");
    let run = Run::start(client, &namespace).await?;
    let list = format!("/apis/conformance.example.com/v1/namespaces/{namespace}/widgets");
    let owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "nobody", "uid": NOBODY});
    let stray = json!({
        "apiVersion": "conformance.example.com/v1", "kind": "Widget",
        "metadata": {"name": "stray", "ownerReferences": [owner]}, "spec": {"size": "large"},
    });
    run.send(&Method::POST, &list, "application/json", &stray).await?;
    for _ in 0..LEARNING_TRIES {
        let path = format!("{list}/stray");
        if run.send(&Method::GET, &path, "application/json", &Value::Null).await?.0 == 404 {
            return Ok(true);
        }
        tokio::time::sleep(BETWEEN).await;
    }
    Ok(false)
}

/// In how many worlds a family is simulated. What the workers of a collector do side by side may end in more ways than one: a world
/// draws who is first, and the real collector must do what that of one of these worlds does.
const WORLDS: u64 = 12;

/// Runs the family of a seed on both, and returns what differs from the simulated run that is most like the real one. `run` makes
/// namespaces of this run unique.
pub async fn hold_collected(
    client: &Client,
    run: &str,
    seed: u64,
    length: usize,
) -> Result<Vec<Difference>, kube::Error> {
    // A world runs in a runtime of its own, on a thread that belongs to no other.
    let simulated = tokio::task::spawn_blocking(move || simulate(seed, length)).await;
    let simulated = simulated.expect("a simulated run does not panic")?;
    let steps = family(Seed::new(seed).of("family"), length);
    let real = observe(client, &format!("family-{run}-{seed}"), &steps, Rest::Like(&simulated)).await?;
    let best = simulated.iter().max_by_key(|it| agreement(&real, it)).expect("there is at least one world");
    Ok(compare(&real, best))
}

/// Every way in which the family of a seed ends.
fn simulate(seed: u64, length: usize) -> Result<Vec<Vec<Observation>>, kube::Error> {
    let mut ways = Vec::new();
    for world in 0..WORLDS {
        let steps = family(Seed::new(seed).of("family"), length);
        let observed = fleet().nodes(0).seed(seed + (world << 32)).define(prepare()).run(async |world| {
            let client = world.client("conformance", "member-1");
            observe(&client, &format!("family-{seed}"), &steps, Rest::After(AT_REST)).await
        })?;
        if !ways.contains(&observed) {
            ways.push(observed);
        }
    }
    Ok(ways)
}

/// How many observations of two runs agree before the first that does not.
fn agreement(real: &[Observation], simulated: &[Observation]) -> usize {
    let agrees = |index: &usize| compare(&real[*index..=*index], &simulated[*index..=*index]).is_empty();
    (0..real.len().min(simulated.len())).take_while(agrees).count()
}

/// When a collector counts as being at rest.
#[derive(Clone, Copy)]
enum Rest<'a> {
    /// After so much time, all of which is virtual.
    After(Duration),
    /// When everything is as in one of these runs and stays so, or when patience is at its end.
    Like(&'a [Vec<Observation>]),
}

/// Runs a sequence: each answer is followed by what is left when the collector is at rest. The first difference from all runs that it
/// may be like ends it, as everything after it would be waited for in vain.
async fn observe(
    client: &Client,
    namespace: &str,
    steps: &[Step],
    rest: Rest<'_>,
) -> Result<Vec<Observation>, kube::Error> {
    let mut run = Run::start(client, namespace).await?;
    for (index, step) in steps.iter().enumerate() {
        run.step(index, step).await?;
        let is_last = index + 1 == steps.len();
        let left = match rest {
            Rest::After(time) => {
                tokio::time::sleep(time).await;
                all_objects(&mut run).await?
            }
            Rest::Like(others) => {
                let so_far = run.observations.len();
                let alike = others.iter().filter(|it| agreement(&run.observations, it) == so_far);
                let expected: Vec<&Value> =
                    alike.filter_map(|it| it.get(so_far)).map(|it| &it.answer).collect();
                let doubt = if is_last { LAST_DOUBT } else { DOUBT };
                wait_for(&mut run, &expected, doubt).await?
            }
        };
        let step = format!("after {}", run.observations.last().map_or("", |it| &it.step));
        run.observations.push(Observation { step, code: 200, answer: left });
        let so_far = run.observations.len();
        if let Rest::Like(others) = rest
            && others.iter().all(|it| agreement(&run.observations, it) < so_far)
        {
            break;
        }
    }
    Ok(run.observations)
}

async fn wait_for(run: &mut Run<'_>, expected: &[&Value], doubt: Duration) -> Result<Value, kube::Error> {
    tokio::time::sleep(doubt).await;
    let mut waited = doubt;
    loop {
        let left = all_objects(run).await?;
        if expected.contains(&&left) || waited > PATIENCE {
            return Ok(left);
        }
        tokio::time::sleep(BETWEEN).await;
        waited += BETWEEN;
    }
}

/// Everything in the namespace.
async fn all_objects(run: &mut Run<'_>) -> Result<Value, kube::Error> {
    let mut all = Vec::new();
    for kind in KINDS {
        let path = run.placed(&kind.list());
        let (_, answer) = run.send(&Method::GET, &path, "application/json", &Value::Null).await?;
        let answer = run.normal(answer);
        all.push(answer["items"].clone());
    }
    Ok(json!(all))
}
