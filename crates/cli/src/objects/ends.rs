//! `withdraw` and `detach`: an object is taken back from clusters, or its end does not wait for those that are silent.

use ::hub::names;
use kruise_core::{
    api::fleet::{binding::FleetBinding, keys},
    runtime::client::call,
};
use serde_json::{Value, json};

use super::{Named, read};
use crate::{Answer, Error, connection::Hub};

/// `withdraw KIND/NAME`: members give the object up, and it stays on the hub (DEL-5).
pub async fn withdraw(hub: &Hub, named: &Named) -> Result<Answer, Error> {
    let object = found(hub, named).await?;
    let binding = binding(hub, named, &object).await?;
    let Some(binding) = binding else {
        let text = format!("{} {} is in no cluster", named.kind.kind, named.name);
        return Ok(Answer::done(text, json!({ "withdrawn": true })));
    };
    let note = withdrawal(named, &binding)?;
    read::change(hub, &named.kind, &hub.namespace, &named.name, &note).await?;
    let text = format!(
        "{} {} is being withdrawn; `kubectl fleet status` shows which clusters are waited for",
        named.kind.kind, named.name
    );
    Ok(Answer::done(text, json!({ "withdrawn": false })))
}

/// `detach KIND/NAME --force-detach`: silent clusters are not waited for (DEL-2).
pub async fn detach(hub: &Hub, named: &Named) -> Result<Answer, Error> {
    let object = found(hub, named).await?;
    let binding = binding(hub, named, &object).await?;
    let note = detachment(named, &object, binding.as_ref())?;
    read::change(hub, &named.kind, &hub.namespace, &named.name, &note).await?;
    let text = format!(
        "{} {} does not wait for clusters that are not heard; they are told when they are back",
        named.kind.kind, named.name
    );
    Ok(Answer::done(text, json!({ "detached": true })))
}

/// What is written on an object that is withdrawn: exactly what is bound now is meant.
fn withdrawal(named: &Named, binding: &FleetBinding) -> Result<Value, Error> {
    if let Some(policy) = &binding.spec.policy {
        return Err(Error::Refused(format!(
            "{}/{} places {} {}: delete it, or take the object out of its targets, or it would be placed again",
            policy.kind, policy.name, named.kind.kind, named.name
        )));
    }
    let uid = binding.metadata.uid.as_deref().unwrap_or_default();
    Ok(json!({ "metadata": { "annotations": { (keys::WITHDRAW): uid } } }))
}

/// What is written on an object whose end does not wait.
fn detachment(named: &Named, object: &Value, binding: Option<&FleetBinding>) -> Result<Value, Error> {
    let said = object.pointer("/metadata/annotations").and_then(|it| it.get(keys::WITHDRAW)?.as_str());
    let is_withdrawn = said.is_some() && binding.is_some_and(|it| it.metadata.uid.as_deref() == said);
    if object.pointer("/metadata/deletionTimestamp").is_none_or(Value::is_null) && !is_withdrawn {
        return Err(Error::Refused(format!(
            "{} {} is neither being deleted nor withdrawn: do that first, and clusters that answer are waited for",
            named.kind.kind, named.name
        )));
    }
    Ok(json!({ "metadata": { "annotations": { (keys::FORCE_DETACH): "true" } } }))
}

async fn found(hub: &Hub, named: &Named) -> Result<Value, Error> {
    let Named { kind, name } = named;
    let missing = || Error::NotFound(format!("there is no {} {name} in {}", kind.kind, hub.namespace));
    read::object(hub, kind, &hub.namespace, name).await?.ok_or_else(missing)
}

async fn binding(hub: &Hub, named: &Named, object: &Value) -> Result<Option<FleetBinding>, Error> {
    let uid = object.pointer("/metadata/uid").and_then(Value::as_str).unwrap_or_default();
    let (place, name) = names::binding(&named.kind.reference(&hub.namespace, &named.name, uid));
    let binding = call("get the binding", hub.within::<FleetBinding>(&place).get_opt(&name)).await?;
    Ok(binding.filter(|it| it.spec.object.uid == uid))
}

#[cfg(test)]
mod tests {
    use kruise_core::api::fleet::binding::PolicyRef;

    use super::*;
    use crate::Exit;

    fn named() -> Named {
        "cloneset/web".parse().unwrap()
    }

    fn bound(policy: Option<&str>) -> FleetBinding {
        let mut binding = FleetBinding::new("cloneset.web", Default::default());
        binding.metadata.uid = Some("b-1".to_owned());
        binding.spec.policy = policy.map(|name| PolicyRef {
            kind: "PlacementPolicy".to_owned(),
            name: name.to_owned(),
            ..PolicyRef::default()
        });
        binding
    }

    #[test]
    fn del_5_only_what_no_policy_places_is_withdrawn_and_only_what_is_bound_now() {
        let refused = withdrawal(&named(), &bound(Some("web"))).unwrap_err();
        assert_eq!(refused.exit(), Exit::Refused);
        assert!(refused.told().contains("PlacementPolicy/web"), "{}", refused.told());
        let note = withdrawal(&named(), &bound(None)).unwrap();
        assert_eq!(note["metadata"]["annotations"]["fleet.kruise.io/withdraw"], "b-1");
    }

    #[test]
    fn del_2_only_an_end_that_is_under_way_can_go_on_without_silent_clusters() {
        let running = json!({"metadata": {"name": "web"}});
        assert_eq!(detachment(&named(), &running, Some(&bound(None))).unwrap_err().exit(), Exit::Refused);
        let ending = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}});
        let note = detachment(&named(), &ending, None).unwrap();
        assert_eq!(note["metadata"]["annotations"]["fleet.kruise.io/force-detach"], "true");
        let withdrawn = json!({"metadata": {"annotations": {"fleet.kruise.io/withdraw": "b-1"}}});
        assert!(detachment(&named(), &withdrawn, Some(&bound(None))).is_ok());
        assert!(detachment(&named(), &withdrawn, None).is_err(), "the word was about another binding");
    }
}
