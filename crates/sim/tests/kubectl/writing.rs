//! apply in both ways, patch, scale, label, delete.

use serde_json::{Value, json};

use crate::desk::Desk;

fn deployment(image: &str, replicas: u32) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {
            "replicas": replicas, "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "main", "image": image}, {"name": "side", "image": "side:1"}]},
            },
        },
    })
}

fn read(desk: &Desk, arguments: &[&str]) -> Value {
    let text = desk.get(&[&["get", "-o", "json"], arguments].concat());
    serde_json::from_str(&text).unwrap()
}

#[test]
fn apply_creates_changes_and_takes_back_what_was_applied() {
    let desk = Desk::open();
    let said = desk.apply(&deployment("web:1", 2), &[]);
    assert_eq!(said.out, "deployment.apps/web created\n", "{}", said.err);
    desk.get(&["annotate", "deployment", "web", "other=kept"]);

    let mut second = deployment("web:2", 2);
    second["spec"].as_object_mut().unwrap().remove("replicas");
    second["spec"]["template"]["spec"]["containers"].as_array_mut().unwrap().pop();
    let said = desk.apply(&second, &[]);
    assert_eq!(said.out, "deployment.apps/web configured\n", "{}", said.err);
    assert_eq!(said.err, "");
    let now = read(&desk, &["deployment", "web"]);
    assert_eq!(now["spec"]["template"]["spec"]["containers"][0]["image"], "web:2");
    assert_eq!(now["spec"]["template"]["spec"]["containers"].as_array().unwrap().len(), 1);
    assert_eq!(now["spec"]["replicas"], 1);
    assert_eq!(now["metadata"]["annotations"]["other"], "kept");
    assert_eq!(desk.apply(&second, &[]).out, "deployment.apps/web unchanged\n");
}

#[test]
fn apply_on_the_server_knows_who_owns_a_field() {
    let desk = Desk::open();
    let said = desk.apply(&deployment("web:1", 2), &["--server-side"]);
    assert_eq!(said.out, "deployment.apps/web serverside-applied\n", "{}", said.err);
    let other = desk.apply(&deployment("web:2", 2), &["--server-side", "--field-manager=other"]);
    assert!(!other.good && other.err.contains("conflict with \"kubectl\""), "{}", other.err);
    let forced =
        desk.apply(&deployment("web:2", 2), &["--server-side", "--field-manager=other", "--force-conflicts"]);
    assert!(forced.good, "{}", forced.err);
}

#[test]
fn a_misspelt_field_is_refused_before_it_is_stored() {
    let desk = Desk::open();
    let mut wrong = deployment("web:1", 2);
    wrong["spec"]["replcas"] = json!(3);
    let said = desk.apply(&wrong, &[]);
    assert!(!said.good && said.err.contains("unknown field \"spec.replcas\""), "{}", said.err);
    assert!(desk.apply(&wrong, &["--validate=false"]).good);
}

#[test]
fn three_kinds_of_patches_change_an_object() {
    let desk = Desk::open();
    desk.apply(&deployment("web:1", 2), &[]);
    let patch = |kind: &str, text: &str| desk.get(&["patch", "deployment", "web", kind, "-p", text]);
    patch("--type=merge", r#"{"spec": {"replicas": 3}}"#);
    patch("--type=json", r#"[{"op": "add", "path": "/metadata/labels", "value": {"tier": "front"}}]"#);
    let strategic =
        r#"{"spec": {"template": {"spec": {"containers": [{"name": "side", "image": "side:2"}]}}}}"#;
    patch("--type=strategic", strategic);
    let now = read(&desk, &["deployment", "web"]);
    assert_eq!(now["spec"]["replicas"], 3);
    assert_eq!(now["metadata"]["labels"]["tier"], "front");
    let images: Vec<&Value> = now["spec"]["template"]["spec"]["containers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| &it["image"])
        .collect();
    assert_eq!(images, ["web:1", "side:2"]);
}

#[test]
fn scale_label_and_delete_do_what_they_say() {
    let desk = Desk::open();
    desk.apply(&deployment("web:1", 2), &[]);
    assert_eq!(desk.get(&["scale", "deployment", "web", "--replicas=5"]), "deployment.apps/web scaled\n");
    assert_eq!(read(&desk, &["deployment", "web"])["spec"]["replicas"], 5);
    let lost = desk.refused(&["scale", "deployment", "web", "--replicas=1", "--current-replicas=4"]);
    assert!(lost.contains("Expected replicas to be 4, was 5"), "{lost}");

    desk.get(&["label", "deployment", "web", "tier=front"]);
    assert!(desk.get(&["get", "deploy", "-l", "tier=front", "-o", "name"]).contains("web"));
    desk.get(&["label", "deployment", "web", "tier-"]);
    assert_eq!(desk.get(&["get", "deploy", "-l", "tier=front", "-o", "name"]), "");

    desk.get(&["run", "one", "--image=web:1"]);
    desk.until(&["get", "pod", "one"], |it| it.contains("Running"));
    // kubectl waits with a watch until the kubelet has let the pod go.
    desk.get(&["delete", "deployment/web", "pod/one", "--grace-period=1"]);
    assert_eq!(desk.get(&["get", "deployments,pods", "-o", "name"]), "");
}
