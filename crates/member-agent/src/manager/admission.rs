//! What is asked at which path. To add a kind, add its endpoints to `server` and its rows to [`registrations`].

use std::{fmt, sync::Arc};

use futures::future::BoxFuture;
use kruise_core::{
    admission::{cloneset, container_recreate_request, image_pull_job, node_image, pod},
    api,
    runtime::{
        clock::Seed,
        gates::Gate,
        key::{Key, controller_uid},
        webhook::{self, AdmissionRequest, Event, Registration, Server, Verdict},
    },
};

use super::{Context, settings::Webhook};

/// Answers the reviews of one path.
type Review = Box<dyn Fn(Arc<AdmissionRequest>) -> BoxFuture<'static, Verdict> + Send + Sync>;

/// One path and who answers there.
struct Endpoint {
    path: &'static str,
    review: Review,
}

/// Every row of every webhook that this build can serve, whatever the gates say.
pub fn registrations() -> Vec<Registration> {
    [
        pod::REGISTRATIONS,
        cloneset::REGISTRATIONS,
        node_image::REGISTRATIONS,
        image_pull_job::REGISTRATIONS,
        container_recreate_request::REGISTRATIONS,
    ]
    .concat()
}

/// The paths that are served with these gates.
fn endpoints(context: &Context) -> Vec<Endpoint> {
    let mut endpoints = Vec::new();
    if context.gates.is_on(Gate::PodWebhook) {
        let (gates, seed) = (context.gates, Seed::from_system());
        endpoints.push(Endpoint::plain(pod::MUTATE, move |it| pod::mutate(it, gates, seed.draw())));
    }
    endpoints.extend(node_duties(context));
    endpoints
}

/// Served whatever the gates say: with theirs off, requests are refused for that reason.
fn node_duties(context: &Context) -> [Endpoint; 7] {
    let (gates, clock, client) = (context.gates, context.clock.clone(), context.client.clone());
    [
        Endpoint::plain(node_image::MUTATE, move |it| node_image::mutating(it, clock.now())),
        Endpoint::plain(node_image::VALIDATE, node_image::validating),
        Endpoint::plain(image_pull_job::MUTATE, move |it| image_pull_job::mutating(it, gates)),
        Endpoint::plain(image_pull_job::VALIDATE, move |it| image_pull_job::validating(it, gates)),
        Endpoint::plain(image_pull_job::MUTATE_LIST, move |it| image_pull_job::mutating_list(it, gates)),
        Endpoint::plain(image_pull_job::VALIDATE_LIST, move |it| image_pull_job::validating_list(it, gates)),
        Endpoint {
            path: container_recreate_request::MUTATE,
            review: Box::new(move |request| {
                let client = client.clone();
                Box::pin(async move { container_recreate_request::review(&request, &client, gates).await })
            }),
        },
    ]
}

/// The webhook server, bound to its port.
pub(super) fn server(
    settings: &Webhook,
    context: &Context,
    observer: impl Fn(&Event<'_>) + Send + Sync + 'static,
) -> Result<Server, webhook::Error> {
    let clock = context.clock.clone();
    let builder = settings
        .clone()
        .builder()
        .clock(move || clock.now())
        .observer(observer)
        .registrations(&registrations())
        .conversion(api::converted_crds(), |object, version| {
            api::convert(object, version).map_err(|it| it.to_string())
        });
    let builder = cloneset::serve(builder, cloneset_setup(context));
    let endpoints = endpoints(context).into_iter();
    endpoints.fold(builder, |it, Endpoint { path, review }| it.review_async(path, review)).bind()
}

fn cloneset_setup(context: &Context) -> cloneset::Setup {
    let pods = context.caches.pods.clone();
    let find = move |namespace: &str, name: &str| {
        let pod = pods.get(&Key::new(namespace, name))?;
        let controller = controller_uid(&*pod).map(str::to_owned);
        Some(cloneset::PodFacts { is_terminating: pod.is_terminating(), controller })
    };
    cloneset::Setup { gates: context.gates, client: context.client.clone(), pods: Some(Arc::new(find)) }
}

impl Endpoint {
    /// An endpoint whose answer needs nothing but the question.
    fn plain(
        path: &'static str,
        review: impl Fn(&AdmissionRequest) -> Verdict + Send + Sync + 'static,
    ) -> Self {
        let review = Arc::new(review);
        let review = move |request: Arc<AdmissionRequest>| -> BoxFuture<'static, Verdict> {
            let review = Arc::clone(&review);
            Box::pin(async move { review(&request) })
        };
        Self { path, review: Box::new(review) }
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Endpoint").field(&self.path).finish()
    }
}

#[cfg(test)]
mod tests {
    use kruise_core::runtime::webhook::registration;

    use super::*;

    #[test]
    fn the_table_of_webhooks_has_no_fault() {
        assert_eq!(registration::check(&registrations()), Vec::<String>::new());
    }
}
