//! The programs take what the charts tell them: every flag, every gate, every variable.

use anyhow::{Result, bail};
use clap::Parser;
use member_agent::{daemon, manager};
use serde_json::Value;

use crate::{
    chart::{HUB, HUB_FULL, MEMBER, MEMBER_FULL},
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
    for values in [&[][..], MEMBER_FULL] {
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
fn the_hub_takes_what_the_chart_gives_it() -> Result<()> {
    for values in [&[][..], HUB_FULL] {
        let objects = HUB.render(values)?;
        let [("kruise-hub", pod)] = pods(&objects)[..] else { bail!("the hub is one Deployment") };
        let container = &pod["containers"][0];
        let parsed = hub::process::Arguments::try_parse_from(arguments(container))?;
        let settings = hub::process::Settings::new(parsed, &environment(container))?;
        assert_eq!(settings.dedicated_api, !values.is_empty());
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
