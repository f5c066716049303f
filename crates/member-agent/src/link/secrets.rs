//! Secrets for the registry that a job names: what they are called here, and what is to be done about each (IPJ-6). Pure.
//!
//! A Secret is the job's from its first moment: the job is made first, and downloads nothing before its Secrets are there. So there
//! is no moment at which a crash leaves a Secret behind that nobody owns, and nothing has to be looked for and deleted.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Secret;
use kruise_core::{
    api::{
        APPS_V1BETA1,
        fleet::{FederatedObject, assignment::PullSecret, keys},
    },
    runtime::access::{self, Right},
};
use kube::ResourceExt;
use serde_json::{Map, Value, json};

use super::marks::{Marks, Pair};

/// The longest name of a Secret.
const LONGEST: usize = 253;

/// The types that are written, and the one key of each. A hub sends no others, and a hub that does is not obeyed (SEC-6).
const TYPES: [(&str, &str); 2] =
    [("kubernetes.io/dockerconfigjson", ".dockerconfigjson"), ("kubernetes.io/dockercfg", ".dockercfg")];

/// Whether a Secret is for a registry and nothing else.
pub fn is_for_registry(secret: &PullSecret) -> bool {
    let key = TYPES.iter().find(|it| it.0 == secret.type_).map(|it| it.1);
    key.is_some() && secret.data.keys().map(|it| Some(it.as_str())).eq([key])
}

/// The rights this needs. They are not the link's by itself: whoever wants pull secrets brought here grants them.
pub fn needs() -> Vec<Right> {
    vec![access::cluster("", "secrets", &["get", "create", "patch"])]
}

/// What a Secret of the hub is called here. Always the same for one job and one Secret, so that trying again makes no second one.
pub fn name(job: &str, secret: &str) -> String {
    // FNV-1a, which never changes, as names must not. Neither name has a slash.
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    let hash = format!("{job}/{secret}").bytes().fold(0xcbf2_9ce4_8422_2325, step);
    let end = format!("-pull-{hash:016x}");
    let stem = &job[..job.floor_char_boundary(LONGEST - end.len())];
    format!("{}{end}", stem.trim_end_matches(['.', '-']))
}

/// Gives the Secrets that a job names the names that they have here. Others are those of this cluster, by an override.
pub(super) fn rename(spec: &mut Map<String, Value>, job: &str, secrets: &[PullSecret]) {
    for it in spec.get_mut("pullSecrets").and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(known) = secrets.iter().find(|known| it == known.name.as_str()) {
            *it = name(job, &known.name).into();
        }
    }
}

/// The job as it is made before its Secrets: it downloads nothing, and has no plan yet.
pub(super) fn held(mut body: Value) -> Value {
    body["spec"]["parallelism"] = 0.into();
    body["metadata"]["annotations"][keys::APPLIED_PLAN] = Pair::default().to_string().into();
    body
}

/// Whose Secrets are judged.
#[derive(Debug, Clone, Copy)]
pub struct Holder<'a> {
    /// UID of our hub.
    pub hub_uid: &'a str,
    /// The job on the hub.
    pub object: &'a FederatedObject,
    /// UID of the job here; nothing if it is not there yet.
    pub job: Option<&'a str>,
}

/// What to do about a Secret.
#[derive(Clone, PartialEq)]
pub enum Step {
    /// It is as it should be.
    Leave,
    /// Make it.
    Create(Value),
    /// Change it by this merge patch.
    Change(Value),
    /// It is that of a predecessor, or on its way out.
    Wait,
    /// It is somebody else's.
    Conflict,
}

impl Step {
    /// What is to be done so that the job here has what the hub's Secret says.
    pub fn judge(wanted: &PullSecret, found: Option<&Secret>, holder: Holder<'_>) -> Self {
        let Holder { hub_uid, object, job } = holder;
        let job_uid = job.unwrap_or_default();
        let owner = json!([{
            "apiVersion": APPS_V1BETA1, "kind": object.kind, "name": object.name, "uid": job_uid,
        }]);
        let marks = json!({(keys::HUB_UID): hub_uid, (keys::OBJECT_UID): object.uid});
        let PullSecret { name: source, type_, data } = wanted;
        let Some(found) = found else {
            return Self::Create(json!({
                "apiVersion": "v1", "kind": "Secret",
                "metadata": {
                    "name": name(&object.name, source), "namespace": object.namespace,
                    "annotations": marks, "ownerReferences": owner,
                },
                "type": type_, "data": data,
            }));
        };
        let owners: Vec<_> = found.owner_references().iter().map(|it| it.uid.as_str()).collect();
        let is_of_job = !job_uid.is_empty() && owners.contains(&job_uid);
        match Marks::of(&json!({"metadata": {"annotations": found.annotations()}})) {
            Some(it) if it.hub_uid == hub_uid => {
                let is_ours = it.object_uid == object.uid || is_of_job;
                if !is_ours || found.metadata.deletion_timestamp.is_some() {
                    return Self::Wait;
                }
                let is_same = it.object_uid == object.uid
                    && owners == [job_uid]
                    && found.type_.as_ref() == Some(type_)
                    && found.data.as_ref() == Some(data);
                if is_same {
                    return Self::Leave;
                }
            }
            _ => return Self::Conflict,
        }
        let mut changed: BTreeMap<&String, Value> = BTreeMap::new();
        changed.extend(found.data.iter().flatten().map(|it| (it.0, Value::Null)));
        changed.extend(data.iter().map(|(key, value)| (key, json!(value))));
        Self::Change(json!({
            "metadata": {
                "uid": found.metadata.uid, "resourceVersion": found.metadata.resource_version,
                "annotations": marks, "ownerReferences": owner,
            },
            "type": type_, "data": changed,
        }))
    }
}

impl std::fmt::Debug for Step {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // What a Secret says is never printed (SEC-3).
        f.write_str(match self {
            Self::Leave => "Leave",
            Self::Create(_) => "Create",
            Self::Change(_) => "Change",
            Self::Wait => "Wait",
            Self::Conflict => "Conflict",
        })
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::ByteString;

    use super::*;

    fn job() -> FederatedObject {
        FederatedObject {
            api_version: APPS_V1BETA1.into(),
            kind: "ImagePullJob".into(),
            namespace: Some("shop".into()),
            name: "warm".into(),
            uid: "on-the-hub".into(),
        }
    }

    fn wanted(text: &str) -> PullSecret {
        PullSecret {
            name: "registry".into(),
            type_: "kubernetes.io/dockerconfigjson".into(),
            data: BTreeMap::from([(".dockerconfigjson".to_owned(), ByteString(text.as_bytes().to_vec()))]),
        }
    }

    fn judge(text: &str, found: Option<&Secret>, job_uid: Option<&str>) -> Step {
        Step::judge(&wanted(text), found, Holder { hub_uid: "hub", object: &job(), job: job_uid })
    }

    fn made(text: &str) -> Secret {
        let Step::Create(body) = judge(text, None, Some("here")) else { panic!("it is not there") };
        serde_json::from_value(body).unwrap()
    }

    #[test]
    fn ipj_6_names_are_fixed_fit_and_stay_apart() {
        assert_eq!(name("warm", "registry"), "warm-pull-02ae7803fca3113e");
        assert_ne!(name("warm", "other"), name("warm", "registry"));
        let long = |end: &str| name(&format!("{}{end}", "x".repeat(252)), "registry");
        assert!(long("a").len() == LONGEST && long("a") != long("b"));
        assert!(name(&format!("{}.{}", "x".repeat(230), "y".repeat(20)), "registry").contains("x-pull-"));
    }

    #[test]
    fn sec_6_nothing_but_logins_at_registries_is_written() {
        assert!(is_for_registry(&wanted("one")));
        let mut more = wanted("one");
        more.data.insert("token".into(), ByteString(Vec::new()));
        let token = PullSecret { type_: "kubernetes.io/service-account-token".into(), ..wanted("one") };
        assert!(!is_for_registry(&more) && !is_for_registry(&token));
        assert!(!is_for_registry(&PullSecret { data: BTreeMap::new(), ..wanted("one") }));
    }

    #[test]
    fn ipj_6_a_secret_is_the_jobs_from_the_beginning_and_then_left_alone() {
        let secret = made("one");
        assert_eq!(secret.owner_references()[0].uid, "here");
        assert_eq!(secret.data.as_ref(), Some(&wanted("one").data));
        assert_eq!(judge("one", Some(&secret), Some("here")), Step::Leave);
    }

    #[test]
    fn ipj_6_what_changed_is_put_right_and_what_is_too_much_goes() {
        let mut secret = made("one");
        secret.data.as_mut().unwrap().insert("more".into(), ByteString(Vec::new()));
        let Step::Change(patch) = judge("two", Some(&secret), Some("here")) else { panic!("it differs") };
        assert_eq!(
            (&patch["data"]["more"], &patch["data"][".dockerconfigjson"]),
            (&Value::Null, &json!("dHdv"))
        );
        // The job was made anew.
        let Step::Change(patch) = judge("one", Some(&made("one")), Some("new")) else {
            panic!("its owner is gone")
        };
        assert_eq!(patch["metadata"]["ownerReferences"][0]["uid"], "new");
    }

    #[test]
    fn ipj_6_secrets_of_others_are_never_touched_and_those_of_predecessors_waited_for() {
        let mut secret = made("one");
        secret.metadata.annotations = None;
        assert_eq!(judge("two", Some(&secret), Some("here")), Step::Conflict);
        let mut secret = made("one");
        secret.annotations_mut().insert(keys::HUB_UID.into(), "another".into());
        assert_eq!(judge("two", Some(&secret), Some("here")), Step::Conflict);
        let mut secret = made("one");
        secret.annotations_mut().insert(keys::OBJECT_UID.into(), "before".into());
        assert_eq!(judge("one", Some(&secret), Some("new")), Step::Wait);
        // The copy itself was taken over from a predecessor, and its Secret with it.
        assert!(matches!(judge("one", Some(&secret), Some("here")), Step::Change(_)));
        let mut secret = made("one");
        secret.metadata.deletion_timestamp =
            Some(serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap());
        assert_eq!(judge("one", Some(&secret), Some("here")), Step::Wait);
    }

    #[test]
    fn ipj_6_a_job_names_what_it_finds_here_and_names_by_an_override_stay() {
        let mut spec = json!({"pullSecrets": ["registry", "local"]}).as_object().unwrap().clone();
        rename(&mut spec, "warm", &[wanted("one")]);
        assert_eq!(spec["pullSecrets"], json!([name("warm", "registry"), "local"]));
    }

    #[test]
    fn sec_3_what_is_to_be_done_does_not_print_secrets() {
        let steps =
            [judge("hunter2", None, Some("here")), judge("hunter2", Some(&made("one")), Some("here"))];
        let printed = format!("{steps:?}");
        assert_eq!(printed, "[Create, Change]");
    }
}
