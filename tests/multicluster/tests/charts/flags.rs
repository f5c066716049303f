//! The programs take what the charts tell them: every flag, every gate, every variable.

use anyhow::{Result, bail};
use clap::Parser;
use hub::members::{account::Credentials, joining::AutoApprove};
use member_agent::{daemon, manager};
use serde_json::Value;

use crate::{
    chart::{HUB, HUB_FULL, MEMBER, MEMBER_FULL, MEMBER_JOINS},
    render::pods,
};

/// `kruise-agent`, as far as its roles go.
#[derive(Debug, Parser)]
enum Agent {
    Manager(Box<manager::Arguments>),
    Daemon(Box<daemon::Arguments>),
}

fn arguments(container: &Value) -> Vec<&str> {
    let given = container["args"].as_array().into_iter().flatten().filter_map(Value::as_str);
    ["program"].into_iter().chain(given).collect()
}

/// The variables of a container; a field of the pod has some value.
fn environment(container: &Value) -> impl Fn(&str) -> Option<String> {
    let variables = container["env"].as_array().cloned().unwrap_or_default();
    move |name| {
        let variable = variables.iter().find(|it| it["name"] == name)?;
        Some(variable["value"].as_str().unwrap_or("some").to_owned())
    }
}

#[test]
fn the_agent_takes_what_the_chart_gives_it() -> Result<()> {
    for values in [&[][..], MEMBER_FULL, MEMBER_JOINS] {
        let objects = MEMBER.render(values)?;
        let mut roles = Vec::new();
        for (name, pod) in pods(&objects) {
            let container = &pod["containers"][0];
            roles.push(name);
            match Agent::try_parse_from(arguments(container))? {
                Agent::Manager(it) => {
                    let settings = manager::Settings::new(*it, &environment(container))?;
                    assert_eq!(settings.without_effect, [], "{name}");
                    let ports = container["ports"].as_array().unwrap();
                    let port = |name: &str| {
                        ports.iter().find(|it| it["name"] == name).unwrap()["containerPort"].clone()
                    };
                    assert_eq!(port("webhook-server"), settings.webhook.listen.port());
                    assert_eq!(port("metrics"), settings.metrics.unwrap().port());
                    assert_eq!(port("health"), settings.probes.unwrap().port());
                    assert_eq!(settings.hub.is_some(), !values.is_empty());
                }
                Agent::Daemon(it) => {
                    let settings = daemon::Settings::new(*it, &environment(container))?;
                    assert_eq!(settings.without_effect, [], "{name}");
                    let port = &container["ports"][0]["containerPort"];
                    assert_eq!(*port, settings.daemon.address.unwrap().port());
                }
            }
        }
        roles.sort_unstable();
        assert_eq!(roles, ["kruise-controller-manager", "kruise-daemon"]);
    }
    Ok(())
}

#[test]
fn join_2_a_cluster_that_joins_by_itself_is_told_everything() -> Result<()> {
    let objects = MEMBER.render(MEMBER_JOINS)?;
    let pods = pods(&objects);
    let Some((_, pod)) = pods.iter().find(|it| it.0 == "kruise-controller-manager") else {
        bail!("no manager")
    };
    let Agent::Manager(it) = Agent::try_parse_from(arguments(&pod["containers"][0]))? else {
        bail!("no manager")
    };
    let settings = manager::Settings::new(*it, &environment(&pod["containers"][0]))?;
    let Some(manager::settings::Hub::Joining { server, ca_file, ca_hash, credential }) = settings.hub else {
        bail!("it is joined by hand")
    };
    assert_eq!((server.as_str(), ca_hash.as_deref()), ("https://hub:6443", Some("sha256:00")));
    assert_eq!(credential.wish.cluster, "eu-1");
    assert_eq!(credential.wish.labels, [("env".to_owned(), "prod".to_owned())].into());
    let places = [&credential.wish.region, &credential.wish.zone, &credential.wish.provider];
    assert_eq!(places.map(|it| it.as_deref()), [Some("eu"), Some("eu-a"), Some("own")]);
    // Both files are in the Secret that is mounted.
    let mount = pod["containers"][0]["volumeMounts"][0]["mountPath"].as_str().unwrap_or_default();
    for file in [Some(ca_file), credential.token].into_iter().flatten() {
        assert_eq!(file.parent(), Some(std::path::Path::new(mount)));
    }
    assert_eq!(pod["volumes"][0]["secret"]["secretName"], "other");
    Ok(())
}

#[test]
fn the_hub_takes_what_the_chart_gives_it() -> Result<()> {
    for values in [&[][..], HUB_FULL] {
        let objects = HUB.render(values)?;
        let [("kruise-hub", pod)] = pods(&objects)[..] else { bail!("the hub is one Deployment") };
        let container = &pod["containers"][0];
        let parsed = hub::process::Arguments::try_parse_from(arguments(container))?;
        let settings = hub::process::Settings::new(parsed, &environment(container))?;
        assert_eq!(settings.dedicated_api, !values.is_empty());
        let rules: &[&str] = if values.is_empty() { &[] } else { &["eu-*,env=prod", "us-1"] };
        let rules: Vec<AutoApprove> = rules.iter().map(|it| it.parse().unwrap()).collect();
        assert_eq!(settings.auto_approve, rules);
        let credentials = if values.is_empty() { Credentials::Certificate } else { Credentials::Token };
        assert_eq!(settings.credentials, credentials);
        let port = |name: &str| {
            let ports = container["ports"].as_array().into_iter().flatten();
            ports.filter(|it| it["name"] == name).map(|it| it["containerPort"].clone()).next()
        };
        assert_eq!(port("metrics"), Some(settings.metrics.unwrap().port().into()));
        assert_eq!(port("health"), Some(settings.probes.unwrap().port().into()));
        assert_eq!(port("webhook-server"), Some(settings.webhook.listen.port().into()));
    }
    Ok(())
}
