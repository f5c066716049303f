//! Tokens of service accounts.

use k8s_openapi::api::{authentication::v1::TokenRequest, core::v1::ServiceAccount};
use kube::{Api, api::PostParams};
use serde_json::json;

use crate::kit::*;

fn asked(seconds: u64) -> TokenRequest {
    from(json!({"spec": {"audiences": [], "expirationSeconds": seconds}}))
}

#[test]
fn a_token_lasts_as_long_as_was_asked_for_and_says_whose_it_is() {
    bare(async |world| {
        let accounts: Api<ServiceAccount> = Api::namespaced(client(&world), "default");
        let params = PostParams::default();
        let missing = accounts.create_token_request("a", &params, &asked(3_600)).await.unwrap_err();
        assert_eq!(status(&missing)["code"], 404);
        accounts.create(&params, &from(json!({"metadata": {"name": "a"}}))).await.unwrap();
        let short = accounts.create_token_request("a", &params, &asked(599)).await.unwrap_err();
        assert_eq!(status(&short)["code"], 422);
        let issued =
            accounts.create_token_request("a", &params, &asked(86_400)).await.unwrap().status.unwrap();
        let life = issued.expiration_timestamp.0.duration_since(world.now()).as_secs();
        assert!((86_399..=86_400).contains(&life), "{life}");
        assert_eq!(issued.token.split('.').count(), 3);
        world.pass(secs(1)).await;
        let again =
            accounts.create_token_request("a", &params, &asked(86_400)).await.unwrap().status.unwrap();
        assert_ne!(issued.token, again.token);
    });
}
