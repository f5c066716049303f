//! The time between taking a pod out of rotation and changing it.

use std::time::Duration;

use jiff::SignedDuration;

use super::{
    Context, batches,
    body::Body,
    refresh::{Hold, Refresh},
    spec::UpdateSpec,
    state::{UpdateState, annotation},
    update::record,
};
use crate::{api::common::keys, revision::hash::short_hash, runtime::cache::pod::PodLite};

const KEYS: [&str; 2] = [keys::INPLACE_UPDATE_GRACE, keys::INPLACE_UPDATE_GRACE_LEGACY];

/// Whether an update waits on this pod for its grace period to end.
pub fn is_in_grace(pod: &PodLite) -> bool {
    text(pod).is_some()
}

/// The waiting update, as it was written.
pub(super) fn text(pod: &PodLite) -> Option<&str> {
    annotation(pod, KEYS).filter(|it| !it.is_empty())
}

/// Writes an update down until its grace period has ended.
pub(super) fn begin(pod: &PodLite, spec: &UpdateSpec, body: &mut Body) {
    end(pod, body);
    let text = serde_json::to_string(spec).expect("maps of strings are always JSON");
    body.annotation(keys::INPLACE_UPDATE_GRACE, &text);
}

/// Takes the waiting update away.
pub(super) fn end(pod: &PodLite, body: &mut Body) {
    for key in KEYS.into_iter().filter(|it| pod.annotations().contains_key(*it)) {
        body.drop_annotation(key);
    }
}

/// Carries the waiting update out when its time has come. If the pod has been given another revision meanwhile, the
/// update is dropped: the other one has its own.
pub(super) fn finish(pod: &PodLite, text: &str, ctx: &Context) -> Refresh {
    let Ok(spec) = serde_json::from_str::<UpdateSpec>(text) else { return Refresh::held(Hold::Unreadable) };
    let mut state = match UpdateState::of(pod) {
        None => return Refresh::held(Hold::GraceWithoutState),
        Some(Err(_)) => return Refresh::held(Hold::Unreadable),
        Some(Ok(state)) => state,
    };
    let mut body = Body::default();
    let revision = pod.labels().get(keys::CONTROLLER_REVISION_HASH).map_or("", String::as_str);
    if short_hash(revision) != short_hash(&spec.revision) {
        end(pod, &mut body);
        return Refresh { patches: vec![body.into_main()], ..Refresh::default() };
    }

    let grace = SignedDuration::from_secs(spec.grace_seconds.into());
    let left = state.update_timestamp.map_or(SignedDuration::ZERO, |it| grace - ctx.now.duration_since(it));
    if left.is_positive() {
        return Refresh {
            look_again: Some(round_up(left.unsigned_abs())),
            hold: Some(Hold::Grace),
            ..Refresh::default()
        };
    }
    let resize = batches::apply(pod, &spec, &mut state, ctx, &mut body);
    end(pod, &mut body);
    record(pod, &state, &mut body);
    Refresh { patches: resize.into_iter().chain([body.into_main()]).collect(), ..Refresh::default() }
}

fn round_up(duration: Duration) -> Duration {
    Duration::from_secs(duration.as_secs() + u64::from(duration.subsec_nanos() > 0))
}
