//! The heartbeat: one Lease on the hub, renewed for as long as the agent leads (STATE-1).

use std::time::Duration;

use k8s_openapi::{api::coordination::v1::Lease, apimachinery::pkg::apis::meta::v1::MicroTime};
use kruise_core::runtime::{
    client::call,
    clock::{Clock, Seed},
};
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use serde_json::json;
use tracing::warn;

/// How often the Lease is renewed.
const EVERY: Duration = Duration::from_secs(10);

/// The wait until the next renewal: ten seconds, a quarter more or less, so that agents which started together do not come
/// together for ever.
pub fn pause(draw: u64) -> Duration {
    let permille = 750 + draw % 501;
    EVERY * u32::try_from(permille).unwrap_or(1_000) / 1_000
}

/// Renews the Lease for ever. The hub made it: an agent that may not touch it any more was revoked, and says so.
pub async fn renew(leases: Api<Lease>, name: &str, identity: &str, clock: &Clock, seed: &Seed) {
    loop {
        let now = MicroTime(clock.now());
        let patch = Patch::Merge(json!({"spec": {"holderIdentity": identity, "renewTime": now}}));
        if let Err(error) =
            call("renew our lease on the hub", leases.patch(name, &PatchParams::default(), &patch)).await
        {
            warn!(
                error = &error as &dyn std::error::Error,
                label = error.label(),
                "the hub does not hear us"
            );
        }
        tokio::time::sleep(pause(seed.draw())).await;
    }
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
}
