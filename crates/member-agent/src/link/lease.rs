//! The heartbeat: one Lease on the hub, renewed for as long as the agent leads (STATE-1).

use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kruise_core::{
    api::fleet::keys,
    backoff::Doubling,
    runtime::{
        client::call,
        clock::{Clock, Seed},
        key::version,
    },
};
use kube::api::{Patch, PatchParams};
use serde_json::json;
use tracing::{debug, warn};

use super::{LEASE, hub::Hub};

/// How often the Lease is renewed.
const EVERY: Duration = Duration::from_secs(10);
/// How often it is tried by an agent that is refused.
const REFUSED: Doubling = Doubling { first: EVERY, ceiling: Duration::from_secs(60) };

/// The wait until the next renewal: ten seconds, a quarter more or less, so that agents which started together do not come
/// together for ever.
pub fn pause(draw: u64) -> Duration {
    let permille = 750 + draw % 501;
    EVERY * u32::try_from(permille).unwrap_or(1_000) / 1_000
}

/// The same after so many refusals in a row: an agent without rights keeps asking, but rarely (JOIN-5).
pub fn pause_after(refusals: u32, draw: u64) -> Duration {
    pause(draw).max(REFUSED.delay(refusals))
}

/// Renews the Lease for ever. The hub made it: an agent that may not touch it any more was revoked.
pub async fn renew(hub: &Hub, identity: &str, clock: &Clock, seed: &Seed) {
    let (mut refusals, mut is_away) = (0_u32, false);
    loop {
        let is_refused = !hub.standings.get().lets_act();
        refusals = if is_refused { refusals.saturating_add(1) } else { 0 };
        tokio::time::sleep(pause_after(refusals, seed.draw())).await;
        let was_away = std::mem::replace(&mut is_away, once(hub, identity, clock).await == Heard::Nothing);
        if was_away && !is_away {
            hub.has_returned();
        }
    }
}

/// Whether the hub has answered at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Heard {
    /// It has, if only to refuse.
    Something,
    /// It has not, or is ill.
    Nothing,
}

impl Heard {
    fn by(code: Option<u16>) -> Self {
        if code.is_some_and(|it| it < 500) { Self::Something } else { Self::Nothing }
    }
}

/// Renews the Lease, and hears what the hub thinks of us.
pub(super) async fn once(hub: &Hub, identity: &str, clock: &Clock) -> Heard {
    let now = MicroTime(clock.now());
    // By this word a hub knows whether what it has stored is what we do (HA-5).
    let told = hub.told().unwrap_or_default();
    let patch = Patch::Merge(json!({
        "metadata": {"annotations": {(keys::TOLD): told}},
        "spec": {"holderIdentity": identity, "renewTime": now},
    }));
    let leases = hub.leases();
    let renewed =
        call("renew our lease on the hub", leases.patch(LEASE, &PatchParams::default(), &patch)).await;
    hub.standings.hear(&renewed);
    let error = match renewed {
        Ok(lease) => {
            hub.stored(version(&lease));
            return Heard::Something;
        }
        Err(error) => error,
    };
    let (cause, label) = (&error as &dyn std::error::Error, error.label());
    if hub.standings.get().lets_act() {
        warn!(error = cause, label, "the hub does not hear us");
    } else {
        // That was said when it began.
        debug!(error = cause, label, "the hub still refuses us");
    }
    Heard::by(error.code())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn state_1_renewals_are_ten_seconds_apart_a_quarter_more_or_less() {
        let seed = Seed::from_number(1);
        let pauses: Vec<_> = (0..1_000).map(|_| pause(seed.draw())).collect();
        let (least, most) = (pauses.iter().min().unwrap(), pauses.iter().max().unwrap());
        assert!(*least >= Duration::from_millis(7_500) && *least < Duration::from_millis(7_600), "{least:?}");
        assert!(*most <= Duration::from_millis(12_500) && *most > Duration::from_millis(12_400), "{most:?}");
    }

    #[test]
    fn st_1_a_hub_that_refuses_is_there_and_one_that_is_ill_is_not() {
        assert!([200, 403, 409, 429].map(|it| Heard::by(Some(it))) == [Heard::Something; 4]);
        assert!([None, Some(500), Some(504)].map(Heard::by) == [Heard::Nothing; 3]);
    }

    #[test]
    fn join_5_an_agent_that_is_refused_asks_ever_more_rarely() {
        assert_eq!(pause_after(0, 250), pause(250));
        assert_eq!(pause_after(2, 0), Duration::from_secs(20));
        assert_eq!(pause_after(u32::MAX, 0), Duration::from_secs(60));
    }
}
