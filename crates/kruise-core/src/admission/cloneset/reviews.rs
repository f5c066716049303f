//! The webhooks of CloneSets.

use std::{fmt, sync::Arc};

use kube::Client;
use serde_json::{Value, json};

use super::{Context, FindPod, PodFacts, claims, default, validate, validate_delete, warnings};
use crate::{
    admission::{Version, of_our_kind, template, tree},
    api::cloneset::{v1alpha1, v1beta1},
    runtime::{
        gates::Gates,
        webhook::{AdmissionRequest, Builder, Operation, Registration, Verdict, registration::Phase},
    },
};

/// Where defaults are filled in.
pub const MUTATE_PATH: &str = "/mutate-apps-kruise-io-cloneset";
/// Where rules are checked.
pub const VALIDATE_PATH: &str = "/validate-apps-kruise-io-cloneset";

/// Finds a pod by namespace and name.
pub type PodLookup = Arc<dyn Fn(&str, &str) -> Option<PodFacts> + Send + Sync>;

/// What the webhooks need to answer.
#[derive(Clone)]
pub struct Setup {
    /// Which gates are on.
    pub gates: Gates,
    /// The API server, which judges pod templates.
    pub client: Client,
    /// The pods, where there are any; the hub has none.
    pub pods: Option<PodLookup>,
}

impl fmt::Debug for Setup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Setup").field("gates", &self.gates).finish_non_exhaustive()
    }
}

const RESOURCES: &[&str] = &["clonesets"];

/// Which requests are sent to the webhooks.
pub const REGISTRATIONS: &[Registration] = &[
    of_our_kind("mcloneset.kb.io", Phase::Mutating, MUTATE_PATH, RESOURCES),
    Registration {
        operations: &[Operation::Create, Operation::Update, Operation::Delete],
        ..of_our_kind("vcloneset.kb.io", Phase::Validating, VALIDATE_PATH, RESOURCES)
    },
];

/// Answers the webhooks of [`REGISTRATIONS`].
pub fn serve(server: Builder, setup: Setup) -> Builder {
    let gates = setup.gates;
    server.review(MUTATE_PATH, move |request| mutated(request, gates)).review_async(
        VALIDATE_PATH,
        move |request| {
            let setup = setup.clone();
            async move { validated(&request, &setup).await }
        },
    )
}

/// The object with its defaults.
pub fn mutated(request: &AdmissionRequest, gates: Gates) -> Verdict {
    let (version, object) = match read(request) {
        Ok(read) => read,
        Err(verdict) => return verdict,
    };
    let mut changed = object.clone();
    default(&mut changed, request.old_object.as_ref(), request.operation, version, gates);
    if changed == *object { Verdict::allow() } else { Verdict::patched(changed) }
}

/// Whether the object may pass.
pub async fn validated(request: &AdmissionRequest, setup: &Setup) -> Verdict {
    if request.operation == Operation::Delete {
        let denial = request.old_object.as_ref().and_then(|it| validate_delete(it, setup.gates));
        return denial.map_or_else(Verdict::allow, Verdict::Denied);
    }
    let (version, new) = match read(request) {
        Ok(read) => read,
        Err(verdict) => return verdict,
    };
    let old = request.old_object.as_ref().filter(|_| request.operation == Operation::Update);
    let namespace = request.namespace.as_deref().or_else(|| tree::text(new, &["metadata", "namespace"]));
    let namespace = namespace.unwrap_or_default();

    let mut faults = {
        let find = setup.pods.as_ref().map(|pods| |name: &str| pods(namespace, name));
        let pods = find.as_ref().map(|it| it as &FindPod<'_>);
        validate(new, old, version, &Context { pods })
    };
    if let Some(template) = template_to_judge(new, old) {
        let answer =
            template::validate::ask(setup.client.clone(), namespace, template, &claims::names(new)).await;
        match answer.into_faults() {
            // A field that our rules speak about has been told, and in words that are about CloneSets.
            Ok(mut more) => {
                more.retain(|it| !faults.iter().any(|known| known.path == it.path));
                faults.extend(more);
            }
            // What we know to be wrong is worth more to the user than that the rest is unknown.
            Err(verdict) if faults.is_empty() => return verdict,
            Err(_) => {}
        }
    }
    let warnings = warnings(new, old, version, setup.gates);
    warnings.into_iter().fold(Verdict::invalid(faults), Verdict::warn)
}

/// The template, if nobody has judged it yet as it is now.
pub(super) fn template_to_judge<'a>(new: &'a Value, old: Option<&Value>) -> Option<&'a Value> {
    let is_same =
        |path: &[&str]| old.is_some_and(|old| tree::is_same(tree::at(new, path), tree::at(old, path)));
    let template = tree::at(new, &["spec", "template"]).filter(|it| it.is_object())?;
    let is_judged = is_same(&["spec", "template"]) && is_same(&["spec", "volumeClaimTemplates"]);
    (!is_judged).then_some(template)
}

/// The version and the object of a request, or the answer to a request that cannot be read.
fn read(request: &AdmissionRequest) -> Result<(Version, &Value), Verdict> {
    let version = &request.kind.version;
    let Some(version) = Version::parse(version) else {
        return Err(Verdict::bad_request(format!("unsupported version: {version}")));
    };
    let Some(object) = request.object.as_ref().filter(|it| it.is_object()) else {
        return Err(Verdict::bad_request("the request has no object"));
    };
    match decode(object, version) {
        Ok(()) => Ok((version, object)),
        Err(error) => Err(Verdict::bad_request(format!("the CloneSet cannot be read: {error}"))),
    }
}

/// Whether the object has the right types. Missing fields and words out of place have rules of their own, which say
/// more than a decoder could.
fn decode(object: &Value, version: Version) -> Result<(), serde_json::Error> {
    let mut object = object.clone();
    if let Some(spec) =
        tree::fields(&mut object).and_then(|it| tree::fields(it.entry("spec").or_insert(Value::Null)))
    {
        for name in ["selector", "template"] {
            tree::fill(spec, name, &Value::Null, json!({}));
        }
        if let Some(strategy) = spec.get_mut("updateStrategy").and_then(Value::as_object_mut) {
            strategy.remove("type");
            if let Some(rolling) = strategy.get_mut("rollingUpdate").and_then(Value::as_object_mut) {
                rolling.remove("podUpdatePolicy");
            }
        }
    }
    match version {
        Version::V1Alpha1 => serde_json::from_value::<v1alpha1::CloneSet>(object).map(drop),
        Version::V1Beta1 => serde_json::from_value::<v1beta1::CloneSet>(object).map(drop),
    }
}
