//! get, get -w, -o yaml and wide, describe.

use serde_json::{Value, json};

use crate::desk::{Desk, words};

#[test]
fn get_shows_pods_as_the_server_words_them() {
    let desk = Desk::open();
    desk.get(&["run", "web", "--image=web:1", "--labels=app=web"]);
    let table = desk.until(&["get", "pods"], |it| it.contains("Running"));
    let lines: Vec<&str> = table.lines().collect();
    assert_eq!(words(lines[0]), ["NAME", "READY", "STATUS", "RESTARTS", "AGE"]);
    assert_eq!(words(lines[1])[..4], ["web", "1/1", "Running", "0"]);

    let wide = desk.get(&["get", "pods", "-o", "wide", "-l", "app=web"]);
    let row = words(wide.lines().nth(1).unwrap()).join(" ");
    assert!(wide.contains("NOMINATED NODE") && row.contains(" node-") && row.contains(" 10."), "{wide}");

    let everywhere = desk.get(&["get", "pods", "-A", "--no-headers"]);
    assert_eq!(words(&everywhere)[..2], ["default", "web"]);
    assert!(desk.get(&["get", "all"]).contains("pod/web"));
}

#[test]
fn get_prints_whole_objects() {
    let desk = Desk::open();
    desk.apply(
        &json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {"a": "1"},
        }),
        &[],
    );
    let yaml = desk.get(&["get", "cm", "settings", "-o", "yaml"]);
    assert!(yaml.contains("kind: ConfigMap") && yaml.contains("a: \"1\""), "{yaml}");
    let text = desk.get(&["get", "cm", "settings", "-o", "json"]);
    let object: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(object["data"], json!({"a": "1"}));
    let names = desk.get(&["get", "ns", "-o", "name"]);
    assert!(names.contains("namespace/default") && names.contains("namespace/kube-system"), "{names}");
}

#[test]
fn other_kinds_have_the_columns_people_know() {
    let desk = Desk::open();
    let head = |arguments: &[&str]| -> String {
        let table = desk.get(arguments);
        words(table.lines().next().unwrap()).join(" ")
    };
    assert_eq!(head(&["get", "nodes"]), "NAME STATUS ROLES AGE VERSION");
    assert!(head(&["get", "nodes", "-o", "wide"]).ends_with("CONTAINER-RUNTIME"));
    assert_eq!(head(&["get", "namespaces"]), "NAME STATUS AGE");
    let labels = json!({"app": "web"});
    desk.apply(
        &json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
            "spec": {"selector": {"matchLabels": labels}, "template": {
                "metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "web:1"}]},
            }},
        }),
        &[],
    );
    assert_eq!(head(&["get", "deploy"]), "NAME READY UP-TO-DATE AVAILABLE AGE");
    assert_eq!(
        head(&["get", "deploy", "-o", "wide"]),
        "NAME READY UP-TO-DATE AVAILABLE AGE CONTAINERS IMAGES SELECTOR"
    );
    desk.apply(&json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}, "spec": {"ports": [{"port": 80}]},
    }), &[]);
    assert_eq!(head(&["get", "svc"]), "NAME TYPE CLUSTER-IP EXTERNAL-IP PORT(S) AGE");
}

#[test]
fn a_watch_prints_what_happens() {
    let desk = Desk::open();
    desk.get(&["run", "first", "--image=web:1"]);
    desk.until(&["get", "pod", "first"], |it| it.contains("Running"));
    let mut watch = desk.follow(&["get", "pods", "--watch"]);
    watch.until(|it| words(it)[..3] == ["first", "1/1", "Running"]);
    desk.get(&["run", "second", "--image=web:1"]);
    watch.until(|it| words(it)[..3] == ["second", "0/1", "Pending"]);
    watch.until(|it| words(it)[..3] == ["second", "1/1", "Running"]);
    desk.get(&["delete", "pod", "first", "--wait=false"]);
    watch.until(|it| words(it)[..3] == ["first", "1/1", "Terminating"]);
}

#[test]
fn describe_tells_about_pods_and_nodes() {
    let desk = Desk::open();
    desk.get(&["run", "web", "--image=web:1"]);
    desk.until(&["get", "pod", "web"], |it| it.contains("Running"));
    let pod = desk.get(&["describe", "pod", "web"]);
    assert!(pod.contains("Image:") && pod.contains("web:1") && pod.contains("Ready:          True"), "{pod}");
    let nodes = desk.get(&["describe", "nodes"]);
    assert!(nodes.contains("node-1") && nodes.contains("Non-terminated Pods:"), "{nodes}");
}
