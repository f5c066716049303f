use clap::Parser;
use serde_json::json;

use super::*;

fn settings(arguments: &[&str], variables: &[(&str, &str)]) -> Settings {
    let arguments = Arguments::try_parse_from([&["kruise-hub"], arguments].concat()).unwrap();
    let environment = |name: &str| variables.iter().find(|it| it.0 == name).map(|it| it.1.to_owned());
    Settings::new(arguments, &environment).unwrap()
}

#[test]
fn the_lease_is_in_the_namespace_of_the_process() {
    let plain = settings(&[], &[]);
    assert_eq!(plain.lease, Some(("fleet-system".into(), "kruise-hub".into(), Timings::default())));
    let moved = settings(&["--metrics-addr=0"], &[("POD_NAMESPACE", "hub"), ("POD_NAME", "hub-0")]);
    assert_eq!(
        (moved.lease.unwrap().0, moved.host_name, moved.metrics),
        ("hub".into(), "hub-0".into(), None)
    );
    assert_eq!(settings(&["--enable-leader-election=false"], &[]).lease, None);
}

#[test]
fn admission_is_reached_through_the_hubs_own_service_or_a_url() {
    let plain = settings(&[], &[]).webhook;
    assert_eq!(plain.host, Host::service("fleet-system", "kruise-hub-webhook-service"));
    let local = settings(&[], &[("WEBHOOK_HOST", "127.0.0.1"), ("WEBHOOK_PORT", "0")]).webhook;
    assert_eq!((local.host, local.listen), (Host::url("127.0.0.1"), "127.0.0.1:0".parse().unwrap()));
}

#[test]
fn flags_that_make_no_sense_are_named() {
    let wrong = |it: &str| Arguments::try_parse_from(["kruise-hub", it]).unwrap_err().to_string();
    assert!(wrong("--metrics-addr=nowhere").contains("is no address such as :8080"));
    assert!(wrong("--leader-election-lease-duration=5").contains("is no duration such as 60s"));
    assert!(wrong("--auto-approve=eu-*,env").contains("is no label such as env=prod"));
}

#[test]
fn join_2_rules_for_clusters_that_join_may_be_given_more_than_once() {
    let given = settings(&["--auto-approve=eu-*,env=prod", "--auto-approve", "us-1"], &[]).auto_approve;
    assert_eq!(given, ["eu-*,env=prod".parse().unwrap(), "us-1".parse().unwrap()]);
    assert_eq!(settings(&[], &[]).auto_approve, []);
}

#[test]
fn join_4_agents_are_known_by_certificates_unless_tokens_are_asked_for() {
    assert_eq!(settings(&[], &[]).credentials, Credentials::Certificate);
    assert_eq!(settings(&["--agent-credentials=token"], &[]).credentials, Credentials::Token);
    let wrong = Arguments::try_parse_from(["kruise-hub", "--agent-credentials=none"]).unwrap_err();
    assert!(wrong.to_string().contains("[possible values: certificate, token]"), "{wrong}");
}

#[test]
fn api_3_only_a_lease_that_has_not_run_out_has_a_holder() {
    let lease = |holder: &str| -> Lease {
        serde_json::from_value(json!({"spec": {
            "holderIdentity": holder, "leaseDurationSeconds": 15, "renewTime": "2030-01-01T00:00:00.000000Z",
        }}))
        .unwrap()
    };
    let at = |text: &str| text.parse::<Timestamp>().unwrap();
    assert_eq!(live_holder(&lease("manager-0"), at("2030-01-01T00:00:14Z")), Some("manager-0"));
    assert_eq!(live_holder(&lease("manager-0"), at("2030-01-01T00:00:15Z")), None);
    assert_eq!(live_holder(&lease(""), at("2030-01-01T00:00:01Z")), None);
    let error = Error::NotAlone { holder: "a".into(), lease: "b".into() };
    assert_eq!((error.exit_code(), Error::LeadershipLost.exit_code()), (3, 1));
}

#[test]
fn api_3_a_manager_is_found_in_whatever_namespace_it_is_installed() {
    let lease = |namespace: &str, name: &str, holder: &str| -> Lease {
        serde_json::from_value(json!({"metadata": {"namespace": namespace, "name": name}, "spec": {
            "holderIdentity": holder, "leaseDurationSeconds": 15, "renewTime": "2030-01-01T00:00:00.000000Z",
        }}))
        .unwrap()
    };
    let now: Timestamp = "2030-01-01T00:00:01Z".parse().unwrap();
    let told = |leases: &[Lease]| company(leases, now).map(|it| it.to_string());
    let idle = lease("kruise-system", "kruise-manager", "");
    let found = told(&[idle.clone(), lease("elsewhere", "kruise-manager", "manager-0")]);
    assert!(found.as_ref().is_some_and(|it| it.contains("elsewhere/kruise-manager")), "{found:?}");
    assert_eq!(told(&[idle, lease("fleet-system", "kruise-hub", "hub-0")]), None, "that is ours");
}
