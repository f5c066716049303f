//! What comes of flags and variables.

use clap::Parser;
use kruise_core::runtime::webhook::{Host, certs};

use super::*;
use crate::link::credential;

#[derive(Debug, Parser)]
struct Line {
    #[command(flatten)]
    arguments: Arguments,
}

fn parse(flags: &[&str]) -> Result<Arguments, String> {
    let line = Line::try_parse_from([&["manager"], flags].concat()).map_err(|it| it.to_string())?;
    Ok(line.arguments)
}

fn settings(flags: &[&str], variables: &[(&str, &str)]) -> Result<Settings, Error> {
    let environment =
        |name: &str| variables.iter().find(|it| it.0 == name).map(|(_, value)| (*value).to_owned());
    Settings::new(parse(flags).unwrap(), &environment)
}

#[test]
fn a_hub_is_told_by_its_kubeconfig_and_its_uid_or_not_at_all() {
    let it = settings(&["--hub-kubeconfig=/hub", "--hub-uid=u"], &[]).unwrap();
    assert_eq!(it.hub, Some(Hub::ByHand { kubeconfig: "/hub".into(), uid: "u".into(), cluster: None }));
    assert_eq!(settings(&[], &[]).unwrap().hub, None);
}

#[test]
fn join_2_a_cluster_that_joins_by_itself_says_what_it_wants() {
    let it = settings(
        &[
            "--hub-server=https://hub:6443",
            "--hub-ca-file=/ca",
            "--hub-ca-hash=sha256:ab",
            "--hub-token-file=/token",
            "--hub-cluster=eu-1",
            "--hub-label=env=prod",
            "--hub-label=tier=",
            "--hub-region=eu",
            "--hub-renew-after=5s",
        ],
        &[],
    );
    let labels = [("env", "prod"), ("tier", "")].map(|(key, value)| (key.to_owned(), value.to_owned()));
    let expected = Hub::Joining {
        server: "https://hub:6443".into(),
        ca_file: "/ca".into(),
        ca_hash: Some("sha256:ab".into()),
        credential: credential::Settings {
            wish: credential::Wish {
                cluster: "eu-1".into(),
                labels: labels.into(),
                region: Some("eu".into()),
                zone: None,
                provider: None,
            },
            token: Some("/token".into()),
            renew_after: Some(Duration::from_secs(5)),
        },
    };
    assert_eq!(it.unwrap().hub, Some(expected));
}

#[test]
fn flags_about_a_hub_that_do_not_fit_are_named_with_what_helps() {
    let joining = ["--hub-server=https://hub", "--hub-ca-file=/ca", "--hub-cluster=eu-1"];
    for (flags, words) in [
        (
            vec!["--hub-kubeconfig=/hub", "--hub-uid=u", "--hub-server=https://hub"],
            "--hub-server and --hub-kubeconfig exclude",
        ),
        (
            vec!["--hub-kubeconfig=/hub", "--hub-uid=u", "--hub-token-file=/t"],
            "--hub-token-file and --hub-kubeconfig exclude",
        ),
        (vec!["--hub-kubeconfig=/hub"], "--hub-kubeconfig needs --hub-uid"),
        (vec!["--hub-uid=u"], "--hub-uid needs --hub-kubeconfig"),
        (vec!["--hub-cluster=eu-1"], "--hub-cluster needs --hub-server"),
        (vec!["--hub-token-file=/t"], "--hub-token-file needs --hub-server"),
        (joining[..1].to_vec(), "--hub-server needs --hub-ca-file"),
        (joining[..2].to_vec(), "--hub-server needs --hub-cluster"),
        ([&joining[..], &["--hub-uid=u"]].concat(), "--hub-uid needs --hub-kubeconfig"),
        ([&joining[..2], &["--hub-cluster=EU"]].concat(), "--hub-cluster is \"EU\""),
        ([&joining[..], &["--hub-label=env"]].concat(), "--hub-label is \"env\""),
    ] {
        let fault = settings(&flags, &[]).unwrap_err().to_string();
        assert!(fault.starts_with(words), "{flags:?}: {fault}");
    }
    assert!(parse(&["--hub-renew-after=5"]).unwrap_err().contains("--hub-renew-after"));
}

#[test]
fn without_any_flag_everything_is_as_openkruise_has_it() {
    let it = settings(&[], &[]).unwrap();
    let lease = it.lease.unwrap();
    assert_eq!((lease.namespace.as_str(), lease.name.as_str()), ("kruise-system", "kruise-manager"));
    assert_eq!(lease.timings, Timings::default());
    assert_eq!(it.metrics, Some("0.0.0.0:8080".parse().unwrap()));
    assert_eq!(it.probes, Some("0.0.0.0:8000".parse().unwrap()));
    assert_eq!(it.namespace, None);
    assert_eq!(it.cloneset.workers.get(), 3);
    assert!(!it.cloneset.exclude_preparing_delete);
    assert_eq!(it.gates, Gates::defaults());
    assert_eq!((it.nodes.node_image_workers.get(), it.nodes.creation_delay.as_secs()), (3, 30));
    assert_eq!(
        (it.nodes.jobs.secrets_namespace.as_str(), it.nodes.jobs.default_ttl),
        ("kruise-daemon-config", 300)
    );
    assert_eq!(
        it.webhook,
        Webhook {
            host: Host::service("kruise-system", "kruise-webhook-service"),
            listen: "0.0.0.0:9876".parse().unwrap(),
            storage: Storage::Secret("kruise-webhook-certs".to_owned()),
            own_namespace: "kruise-system".to_owned(),
            renew_before: certs::DEFAULT_RENEW_BEFORE,
            initialize_within: Duration::from_secs(60),
        }
    );
}

#[test]
fn the_flags_of_the_stock_manifest_start_this_manager() {
    let gates =
        "--feature-gates=AllAlpha=true,AllBeta=true,EnableExternalCerts=false,TemplateNoDefaults=false";
    let it = settings(&["--enable-leader-election", "--logtostderr=true", "--v=5", gates], &[]).unwrap();
    assert!(it.lease.is_some());
    assert_eq!(it.log.level, "info");
    assert!(it.gates.is_on(Gate::KruisePodReadiness) && !it.gates.is_on(Gate::EnableExternalCerts));
    assert_eq!(it.without_effect, [("logtostderr", "logs always go to standard error")]);
}

#[test]
fn flags_without_effect_are_named_with_the_reason() {
    let it =
        settings(&["--expectation-timeout", "5m", "--rest-config-qps=30", "--enable-pprof"], &[]).unwrap();
    let names: Vec<_> = it.without_effect.iter().map(|it| it.0).collect();
    assert_eq!(names, ["enable-pprof", "expectation-timeout", "rest-config-qps"]);
}

#[test]
fn node_duties_can_be_tuned() {
    let flags = [
        "--crr-workers=7",
        "--imagepulljob-workers=8",
        "--default-ttlseconds-for-always-nodeimage=0",
        "--sidecarterminator-workers=9",
    ];
    let it = settings(&flags, &[("KRUISE_DAEMON_CONFIG_NS", "elsewhere")]).unwrap().nodes;
    assert_eq!((it.request_workers.get(), it.job_workers.get(), it.list_workers.get()), (7, 8, 3));
    assert_eq!(it.terminator_workers.get(), 9);
    assert_eq!((it.jobs.secrets_namespace.as_str(), it.jobs.default_ttl), ("elsewhere", 0));
}

#[test]
fn switches_take_a_value_or_none() {
    let leads = |flag: &str| settings(&[flag], &[]).unwrap().lease.is_some();
    assert!(leads("--enable-leader-election"));
    assert!(!leads("--enable-leader-election=false"));
    assert!(parse(&["--enable-leader-election=maybe"]).unwrap_err().contains("--enable-leader-election"));
}

#[test]
fn a_wrong_value_is_refused_with_the_name_of_its_flag_or_variable() {
    for (flag, name) in [
        ("--metrics-addr=localhost", "--metrics-addr"),
        ("--webhook-initialize-timeout=60", "--webhook-initialize-timeout"),
        ("--cloneset-workers=0", "--cloneset-workers"),
        ("--log-format=xml", "--log-format"),
        ("--default-ttlseconds-for-always-nodeimage=2678401", "--default-ttlseconds-for-always-nodeimage"),
    ] {
        assert!(parse(&[flag]).unwrap_err().contains(name), "{flag}");
    }
    let error = settings(&["--feature-gates=Bananas=true"], &[]).unwrap_err();
    assert_eq!(error.to_string(), "--feature-gates cannot be used");
    for (name, value) in
        [("WEBHOOK_PORT", "https"), ("WEBHOOK_CERT_WRITER", "vault"), ("WEBHOOK_HOST", "host:https")]
    {
        let error = settings(&[], &[(name, value)]).unwrap_err();
        assert!(error.to_string().starts_with(&format!("{name}={value:?} cannot be used")), "{error}");
    }
}

#[test]
fn a_host_means_a_url_and_files_unless_told_otherwise() {
    let it = settings(&[], &[("WEBHOOK_HOST", "127.0.0.1"), ("WEBHOOK_PORT", "0")]).unwrap().webhook;
    assert_eq!(it.host, Host::url("127.0.0.1"));
    assert_eq!(it.listen, "127.0.0.1:0".parse().unwrap());
    assert!(matches!(it.storage, Storage::Directory(_)));

    let variables = [("WEBHOOK_HOST", "hooks.example:8443"), ("WEBHOOK_CERT_WRITER", "secret")];
    let it = settings(&[], &variables).unwrap().webhook;
    assert_eq!(it.host, Host::Url { host: "hooks.example".to_owned(), port: Some(8443) });
    assert_eq!(it.listen, "0.0.0.0:9876".parse().unwrap());
    assert_eq!(it.storage, Storage::Secret("kruise-webhook-certs".to_owned()));

    let external =
        settings(&["--feature-gates=EnableExternalCerts=true"], &[("SECRET_NAME", "certs")]).unwrap();
    assert_eq!(external.webhook.storage, Storage::External("certs".to_owned()));
}

#[test]
fn the_cluster_is_the_named_one_or_the_one_around_us() {
    let source = |flags: &[&str], variables: &[(&str, &str)]| settings(flags, variables).unwrap().source;
    let pod = ("KUBERNETES_SERVICE_HOST", "10.0.0.1");
    let by_default = Source::Kubeconfig { path: None, context: None };
    assert_eq!(source(&[], &[]), by_default);
    assert_eq!(source(&[], &[pod]), Source::InCluster);
    assert_eq!(source(&[], &[pod, ("KUBECONFIG", "/k")]), by_default);
    let named = Source::Kubeconfig { path: Some("/k".into()), context: Some("c".to_owned()) };
    assert_eq!(source(&["--kubeconfig=/k", "--context=c"], &[pod]), named);
}

#[test]
fn an_empty_variable_is_no_variable_and_an_empty_lease_namespace_is_our_own() {
    let variables = [("WEBHOOK_HOST", ""), ("POD_NAMESPACE", "ours")];
    let it = settings(&["--leader-election-namespace="], &variables).unwrap();
    assert_eq!(it.webhook.host, Host::service("ours", "kruise-webhook-service"));
    assert_eq!(it.lease.unwrap().namespace, "ours");
}
