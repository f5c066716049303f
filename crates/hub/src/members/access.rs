//! What an agent may do on the hub, and when it renews its credential (JOIN-3, 4, 5, SEC-1).
//!
//! Everything is made by the hub after approval; the joining cluster can create none of it. All of it is bound to one
//! user name, which the agent's certificate carries. That name has a part of the pinned key's hash: when a name is given
//! to another cluster, certificates of the one that had it before open nothing. Where agents have tokens, it is bound to their
//! ServiceAccount as well: an agent changes from one credential to the other without losing its rights in between.

use std::time::Duration;

use kruise_core::api::fleet::{
    API_VERSION,
    keys::{CLUSTER, CONTENT_NAMESPACE},
};
use serde_json::{Value, json};

use super::{account, key};
use crate::{
    admission::joining::BOOTSTRAP_USER,
    names::{cluster_namespace, fitted},
};

/// How long a client certificate is valid, and a token is asked for (JOIN-4).
pub const CREDENTIAL_LIFE: Duration = Duration::from_secs(24 * 3600);
/// The part of its life after which a credential is renewed, in percent.
const RENEW_AT_PERCENT: u32 = 60;
/// How much earlier that may be, in percent of its life, so that a fleet that joined at once does not renew at once.
const RENEW_JITTER_PERCENT: u32 = 10;

/// Start of the user names of agents; the cluster's name follows, and for those with a pinned key its fingerprint.
pub const USER_PREFIX: &str = "fleet:agent:";
/// The group of roles and bindings.
pub const RBAC: &str = "rbac.authorization.k8s.io";

/// The user name in an agent's certificate. A cluster that joined by hand without a key (`""`) has none in its name.
pub fn user(cluster: &str, public_key: &str) -> String {
    match key::read(public_key) {
        Some(der) => format!("{USER_PREFIX}{cluster}:{}", key::fingerprint(&der)),
        None => format!("{USER_PREFIX}{cluster}"),
    }
}

/// The cluster whose agent a user is, by the user's name alone.
pub fn cluster_of(user: &str) -> Option<&str> {
    let rest = user.strip_prefix(USER_PREFIX)?;
    // Names of clusters have no colons.
    Some(rest.split_once(':').map_or(rest, |it| it.0))
}

/// The name of the Lease by which an agent shows that it is alive, in its own namespace.
pub const LEASE: &str = "agent";

/// What is made for a cluster that was approved and the user of its agent, in the order in which it is made. The
/// MemberCluster comes after all of it, so that a member that is there has everything it needs.
pub fn granted(cluster: &str, user: &str) -> Vec<Value> {
    granted_with(cluster, user, None)
}

/// The same with a ServiceAccount for the key with this fingerprint.
pub fn granted_with(cluster: &str, user: &str, key: Option<&str>) -> Vec<Value> {
    let mut objects = granted_to(cluster, &subjects(cluster, user, key));
    // Right after the namespace.
    objects.splice(1..1, key.map(|it| account::object(cluster, it)));
    objects
}

/// The part of that which is for whoever the agent is, in the same order: its roles and its Lease. An agent may make none of it
/// again by itself.
pub fn means(cluster: &str) -> Vec<Value> {
    let is_means = |it: &Value| matches!(it["kind"].as_str(), Some("Role" | "ClusterRole" | "Lease"));
    granted_to(cluster, &Value::Null).into_iter().filter(is_means).collect()
}

/// Whom all of it is for: the names of users, in their order.
pub fn holders(cluster: &str, user: &str, key: Option<&str>) -> Vec<String> {
    let account = key.map(|_| account::user(cluster));
    [user.to_owned()].into_iter().chain(account).collect()
}

fn subjects(cluster: &str, user: &str, key: Option<&str>) -> Value {
    let mut subjects = vec![json!({ "apiGroup": RBAC, "kind": "User", "name": user })];
    if key.is_some() {
        let namespace = cluster_namespace(cluster);
        subjects.push(json!({ "kind": "ServiceAccount", "name": account::ACCOUNT, "namespace": namespace }));
    }
    json!(subjects)
}

fn granted_to(cluster: &str, subjects: &Value) -> Vec<Value> {
    let namespace = cluster_namespace(cluster);
    let labels = json!({ CLUSTER: fitted(cluster) });
    let of_agent = role_name(cluster);
    let annotations = json!({ CLUSTER: cluster });
    let binding = |kind, metadata, of: &str| binding(kind, metadata, (of, &of_agent), subjects);
    let global = || json!({ "name": of_agent, "labels": labels, "annotations": annotations });
    let within = |namespace: &str| {
        let mut metadata = global();
        metadata["namespace"] = json!(namespace);
        metadata
    };
    let (own, content) = (|| within(&namespace), || within(CONTENT_NAMESPACE));
    vec![
        json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": namespace, "labels": labels } }),
        role("Role", own(), own_rules()),
        role("Role", content(), json!([rule("fleet.kruise.io", "fleetrevisions", &["get"], None)])),
        role("ClusterRole", global(), global_rules(cluster)),
        binding("RoleBinding", own(), "Role"),
        binding("RoleBinding", content(), "Role"),
        binding("ClusterRoleBinding", global(), "ClusterRole"),
        json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": { "name": LEASE, "namespace": namespace, "labels": labels },
        }),
    ]
}

/// What is removed when a cluster is not accepted any more, in order: kind, namespace and name. Only bindings go: what
/// the agent has in its own cluster runs on, and nothing on the hub is lost (JOIN-5).
pub fn withdrawn(cluster: &str) -> Vec<(&'static str, Option<String>, String)> {
    let name = role_name(cluster);
    vec![
        ("RoleBinding", Some(cluster_namespace(cluster)), name.clone()),
        ("RoleBinding", Some(CONTENT_NAMESPACE.to_owned()), name.clone()),
        ("ClusterRoleBinding", None, name),
    ]
}

/// What lets the holder of a token read the one request that was made with it, and nothing else: a ClusterRole and its
/// binding. Both go with the request.
pub fn reader(request: &str, request_uid: &str, token: &str) -> [Value; 2] {
    let name = reader_name(request);
    let metadata = || {
        json!({
            "name": name, "labels": { CLUSTER: fitted(request) }, "annotations": { CLUSTER: request },
            "ownerReferences": [{
                "apiVersion": API_VERSION, "kind": "JoinRequest", "name": request, "uid": request_uid,
            }],
        })
    };
    let rules = json!([rule("fleet.kruise.io", "joinrequests", &["get"], Some(request))]);
    [
        role("ClusterRole", metadata(), rules),
        binding(
            "ClusterRoleBinding",
            metadata(),
            ("ClusterRole", &name),
            &json!([{ "apiGroup": RBAC, "kind": "User", "name": format!("{BOOTSTRAP_USER}{token}") }]),
        ),
    ]
}

/// The name of both.
pub fn reader_name(request: &str) -> String {
    fitted(&format!("fleet-join-{request}"))
}

/// How long after its issue a credential that lives for `life` is renewed. `seed` spreads the fleet (JOIN-4).
pub fn renew_after(life: Duration, seed: u64) -> Duration {
    let latest = life / 100 * RENEW_AT_PERCENT;
    let spread = life / 100 * RENEW_JITTER_PERCENT;
    let steps = u32::try_from(seed % 1000).unwrap_or(0);
    latest.saturating_sub(spread / 1000 * steps)
}

fn role(kind: &str, metadata: Value, rules: Value) -> Value {
    json!({ "apiVersion": format!("{RBAC}/v1"), "kind": kind, "metadata": metadata, "rules": rules })
}

fn binding(kind: &str, metadata: Value, (role_kind, role): (&str, &str), subjects: &Value) -> Value {
    json!({
        "apiVersion": format!("{RBAC}/v1"), "kind": kind, "metadata": metadata,
        "roleRef": { "apiGroup": RBAC, "kind": role_kind, "name": role },
        "subjects": subjects,
    })
}

fn role_name(cluster: &str) -> String {
    fitted(&format!("fleet-agent-{cluster}"))
}

fn own_rules() -> Value {
    json!([
        rule("fleet.kruise.io", "assignments", &["get", "list", "watch"], None),
        rule("fleet.kruise.io", "assignments/status", &["patch"], None),
        rule("coordination.k8s.io", "leases", &["get", "patch", "update"], Some(LEASE)),
        rule("events.k8s.io", "events", &["create"], None),
    ])
}

fn global_rules(cluster: &str) -> Value {
    json!([
        rule("fleet.kruise.io", "memberclusters", &["get"], Some(cluster)),
        rule("fleet.kruise.io", "memberclusters/status", &["patch"], Some(cluster)),
        rule("certificates.k8s.io", "certificatesigningrequests", &["create"], None),
    ])
}

fn rule(group: &str, resource: &str, verbs: &[&str], name: Option<&str>) -> Value {
    let mut rule = json!({ "apiGroups": [group], "resources": [resource], "verbs": verbs });
    if let Some(name) = name {
        rule["resourceNames"] = json!([name]);
    }
    rule
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{key::tests::KEY, *};

    #[test]
    fn join_6_the_user_of_a_cluster_with_a_pinned_key_is_that_keys_alone() {
        let fingerprint = key::fingerprint(&key::read(KEY).unwrap());
        assert_eq!(user("eu-1", KEY), format!("fleet:agent:eu-1:{fingerprint}"));
        assert_eq!(user("eu-1", ""), "fleet:agent:eu-1", "joined by hand");
        for user in [user("eu-1.a", KEY), user("eu-1.a", "")] {
            assert_eq!(cluster_of(&user), Some("eu-1.a"));
        }
        assert_eq!(cluster_of("system:bootstrap:abcdef"), None);
    }

    #[test]
    fn join_1_a_token_may_read_the_request_that_was_made_with_it_and_nothing_else() {
        let [role, binding] = reader("eu-1", "uid-1", "abcdef");
        assert_eq!(
            role["rules"],
            json!([{
                "apiGroups": ["fleet.kruise.io"], "resources": ["joinrequests"], "verbs": ["get"], "resourceNames": ["eu-1"],
            }])
        );
        assert_eq!(binding["subjects"][0]["name"], "system:bootstrap:abcdef");
        assert_eq!(binding["roleRef"]["name"], role["metadata"]["name"]);
        for object in [role, binding] {
            assert_eq!(object["metadata"]["ownerReferences"][0]["uid"], "uid-1", "it goes with the request");
        }
    }

    #[test]
    fn rbac_exact() {
        // Whether it has a token or a certificate, an agent may do the same.
        let (user, key) = (user("eu-1", KEY), key::fingerprint(&key::read(KEY).unwrap()));
        for objects in [granted("eu-1", &user), granted_with("eu-1", &user, Some(&key))] {
            are_exact(&objects);
        }
    }

    fn are_exact(objects: &[Value]) {
        let mut rights = Vec::new();
        for object in objects {
            let place = object["metadata"]["namespace"].as_str().unwrap_or("*").to_owned();
            for rule in object["rules"].as_array().into_iter().flatten() {
                let names = rule["resourceNames"][0].as_str().unwrap_or("any");
                for verb in rule["verbs"].as_array().unwrap() {
                    let resource = rule["resources"][0].as_str().unwrap();
                    rights.push(format!("{place} {resource} {} {names}", verb.as_str().unwrap()));
                }
                assert!(!rule.to_string().contains('*'), "no wildcard: {rule}");
            }
        }
        assert_eq!(
            rights,
            [
                "fleet-eu-1 assignments get any",
                "fleet-eu-1 assignments list any",
                "fleet-eu-1 assignments watch any",
                "fleet-eu-1 assignments/status patch any",
                "fleet-eu-1 leases get agent",
                "fleet-eu-1 leases patch agent",
                "fleet-eu-1 leases update agent",
                "fleet-eu-1 events create any",
                "fleet-content fleetrevisions get any",
                "* memberclusters get eu-1",
                "* memberclusters/status patch eu-1",
                "* certificatesigningrequests create any",
            ]
        );
    }

    #[test]
    fn join_3_the_namespace_comes_first_and_rights_before_the_lease() {
        let kinds: Vec<_> = granted("eu-1", &user("eu-1", KEY))
            .iter()
            .map(|it| it["kind"].as_str().unwrap().to_owned())
            .collect();
        assert_eq!(
            kinds,
            [
                "Namespace",
                "Role",
                "Role",
                "ClusterRole",
                "RoleBinding",
                "RoleBinding",
                "ClusterRoleBinding",
                "Lease"
            ]
        );
        let name = user("eu-1", KEY);
        let subjects = json!([{ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": name }]);
        let bindings = granted("eu-1", &user("eu-1", KEY))
            .into_iter()
            .filter(|it| it["kind"].as_str().unwrap().ends_with("Binding"));
        assert!(bindings.into_iter().all(|it| it["subjects"] == subjects));
    }

    #[test]
    fn join_3_what_is_for_any_agent_is_all_but_the_namespace_and_the_bindings() {
        let (means, granted) = (means("eu-1"), granted("eu-1", &user("eu-1", KEY)));
        let others = granted.iter().filter(|it| !means.contains(it)).map(|it| it["kind"].as_str().unwrap());
        let others: Vec<_> = others.collect();
        assert_eq!(others, ["Namespace", "RoleBinding", "RoleBinding", "ClusterRoleBinding"]);
        assert!(means.len() == 4 && means.iter().all(|it| granted.contains(it)), "{means:?}");
    }

    #[test]
    fn join_4_the_account_comes_right_after_the_namespace_and_every_binding_is_for_both() {
        let with = granted_with("eu-1", &user("eu-1", KEY), Some("0123"));
        let without = granted("eu-1", &user("eu-1", KEY));
        assert_eq!((with.len(), &with[1]["kind"]), (without.len() + 1, &json!("ServiceAccount")));
        assert_eq!(with[1]["metadata"]["annotations"]["fleet.kruise.io/agent-key"], "0123");
        let subjects = json!([
            { "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user("eu-1", KEY) },
            { "kind": "ServiceAccount", "name": "fleet-agent", "namespace": "fleet-eu-1" },
        ]);
        let bindings: Vec<_> = with.iter().filter(|it| !it["subjects"].is_null()).collect();
        assert!(bindings.len() == 3 && bindings.iter().all(|it| it["subjects"] == subjects), "{bindings:?}");
    }

    #[test]
    fn join_5_every_binding_that_was_made_is_withdrawn_and_nothing_else() {
        let place = |it: &Value| it.as_str().map(str::to_owned);
        let bindings: Vec<_> = granted("eu-1", &user("eu-1", KEY))
            .iter()
            .filter(|it| it["kind"].as_str().unwrap().ends_with("Binding"))
            .map(|it| {
                (
                    place(&it["kind"]).unwrap(),
                    place(&it["metadata"]["namespace"]),
                    place(&it["metadata"]["name"]).unwrap(),
                )
            })
            .collect();
        let withdrawn: Vec<_> =
            withdrawn("eu-1").into_iter().map(|it| (it.0.to_owned(), it.1, it.2)).collect();
        assert_eq!(withdrawn, bindings);
    }

    proptest! {
        #[test]
        fn join_4_a_credential_is_renewed_at_about_three_fifths_of_its_life(seed in any::<u64>()) {
            let after = renew_after(CREDENTIAL_LIFE, seed);
            prop_assert!(after <= CREDENTIAL_LIFE / 100 * 60);
            prop_assert!(after >= CREDENTIAL_LIFE / 100 * 50);
        }

        #[test]
        fn no_cluster_reaches_into_anothers_namespace(a in "[a-z][a-z0-9.-]{0,80}[a-z0-9]", b in "[a-z][a-z0-9.-]{0,80}[a-z0-9]") {
            prop_assume!(a != b);
            prop_assert_ne!(cluster_namespace(&a), cluster_namespace(&b));
            prop_assert_ne!(role_name(&a), role_name(&b));
            prop_assert_ne!(user(&a, KEY), user(&b, KEY));
        }
    }
}
