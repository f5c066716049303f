//! Subresources: status, scale, and what only pods, namespaces and service accounts have.

mod evict;
mod pod;
mod scale;
mod token;

use http::Method;

use super::{
    Answer,
    object::{remove, set},
    status::Failure,
    verbs::{Call, Endpoint, check_name, patch, patched, update_object},
};

pub(super) fn dispatch(call: &mut Call<'_>) -> Result<Answer, Failure> {
    let resource = call.resource.clone();
    match call.request.path.subresource.as_str() {
        "status" if resource.traits.status => status(call),
        // What may be written there is of the status; who may write it is not simulated.
        "approval" if resource.plural == "certificatesigningrequests" => status(call),
        "scale" if resource.scale.is_some() => scale::scale(call),
        "binding" if resource.is_core("pods") => pod::bind(call),
        "eviction" if resource.is_core("pods") => evict::evict(call),
        "resize" if resource.is_core("pods") => pod::resize(call),
        "token" if resource.is_core("serviceaccounts") => token::issue(call),
        "finalize" if resource.is_core("namespaces") => finalize(call),
        "log" | "exec" | "attach" | "portforward" if resource.is_core("pods") => {
            let message = "simulated pods run no programs: there are no logs and nothing to attach to";
            Err(Failure::plain(501, "NotImplemented", message))
        }
        _ => Err(Failure::unknown_path()),
    }
}

fn status(call: &mut Call<'_>) -> Result<Answer, Failure> {
    match call.request.method {
        Method::GET => {
            let object = call.state.in_version(&call.resource, &*call.existing()?)?;
            Ok(call.respond(200, object))
        }
        Method::PUT => {
            let object = call.body()?;
            check_name(call, &object)?;
            let existing = call.existing()?;
            let object = update_object(call, &existing, object, Endpoint::Status, None)?;
            Ok(call.respond(200, object))
        }
        Method::PATCH => patch(call, Endpoint::Status),
        _ => Err(Failure::method_not_allowed()),
    }
}

/// The namespace controller's door: it takes off what keeps a namespace.
fn finalize(call: &mut Call<'_>) -> Result<Answer, Failure> {
    let wanted = match call.request.method {
        Method::PUT => call.body()?,
        Method::PATCH => patched(call, &call.existing()?.value())?,
        _ => return Err(Failure::method_not_allowed()),
    };
    let existing = call.existing()?;
    let mut object = existing.value();
    let finalizers = wanted["spec"]["finalizers"].clone();
    if finalizers.as_array().is_none_or(Vec::is_empty) {
        remove(&mut object, &["spec", "finalizers"]);
    } else {
        set(&mut object, &["spec", "finalizers"], finalizers);
    }
    let object = update_object(call, &existing, object, Endpoint::Prepared, None)?;
    Ok(call.respond(200, object))
}
