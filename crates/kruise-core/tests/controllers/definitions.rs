//! Our definitions in simulated clusters.

use kruise_core::api;
use serde_json::json;
use sim::server::schema::unchecked;

#[test]
fn no_rule_of_our_definitions_is_left_unchecked() {
    let mut rules = 0;
    for crd in api::crds() {
        for version in &crd.spec.versions {
            let schema = version.schema.as_ref().and_then(|it| it.open_api_v3_schema.as_ref());
            let schema = json!(schema);
            rules += schema.to_string().matches("\"rule\":").count();
            let name = crd.metadata.name.as_deref().unwrap_or_default();
            assert_eq!(unchecked(&schema), Vec::<String>::new(), "{name} {}", version.name);
        }
    }
    assert!(rules > 20, "{rules} rules are fewer than there were");
}
