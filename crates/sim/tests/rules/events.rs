//! Events: one table with two faces.

use http::Method;
use serde_json::{Value, json};

use crate::kit::*;

const OLD: &str = "/api/v1/namespaces/default/events";
const NEW: &str = "/apis/events.k8s.io/v1/namespaces/default/events";

fn event(name: &str, pod: &str) -> Value {
    json!({
        "apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": name},
        "regarding": {"kind": "Pod", "name": pod}, "reason": "Started", "note": "it runs", "type": "Normal",
        "action": "Start", "reportingController": "kubelet", "reportingInstance": "node-1",
        "eventTime": "2030-01-01T00:00:00.000000Z",
    })
}

#[test]
fn an_event_is_read_and_changed_through_either_group() {
    bare(async |world| {
        write(&world, Method::POST, NEW, event("a", "p"));
        let old = read(&world, &format!("{OLD}/a"));
        assert_eq!(old["apiVersion"], "v1");
        assert_eq!(old["involvedObject"]["name"], "p");
        assert_eq!(old["message"], "it runs");
        assert_eq!(old["reportingComponent"], "kubelet");
        assert!(old.get("regarding").is_none() && old.get("note").is_none(), "{old}");

        write(&world, Method::PATCH, &format!("{OLD}/a"), json!({"message": "it still runs", "count": 2}));
        let new = read(&world, &format!("{NEW}/a"));
        assert_eq!(new["apiVersion"], "events.k8s.io/v1");
        assert_eq!((&new["note"], &new["deprecatedCount"]), (&json!("it still runs"), &json!(2)));
        assert_eq!(world.cluster("member-1").server().count("events"), 1);

        let taken = world.write("member-1", Method::POST, NEW, &event("a", "p")).unwrap_err();
        assert_eq!((taken.code, taken.message.as_str()), (409, "events.events.k8s.io \"a\" already exists"));
        write(&world, Method::DELETE, &format!("{NEW}/a"), Value::Null);
        assert_eq!(world.cluster("member-1").server().count("events"), 0);
    });
}

#[test]
fn lists_and_selectors_of_either_group_find_the_same_events() {
    bare(async |world| {
        write(&world, Method::POST, NEW, event("a", "p"));
        write(&world, Method::POST, NEW, event("b", "q"));
        let names = |path: String| -> Vec<String> {
            let list = read(&world, &path);
            let items = list["items"].as_array().unwrap().iter();
            items.map(|it| it["metadata"]["name"].as_str().unwrap().to_owned()).collect()
        };
        assert_eq!(names(OLD.to_owned()), ["a", "b"]);
        assert_eq!(names(NEW.to_owned()), ["a", "b"]);
        assert_eq!(names(format!("{OLD}?fieldSelector=involvedObject.name%3Dq")), ["b"]);
        assert_eq!(names(format!("{NEW}?fieldSelector=regarding.name%3Dq")), ["b"]);
        let shown = read(&world, NEW)["items"][0].clone();
        assert_eq!((&shown["note"], &shown["message"]), (&json!("it runs"), &Value::Null));
    });
}

#[test]
fn each_group_has_the_field_selectors_of_its_own_face() {
    bare(async |world| {
        write(&world, Method::POST, NEW, event("a", "p"));
        let other = json!({
            "apiVersion": "v1", "kind": "Event", "metadata": {"name": "b"}, "type": "Warning", "reason": "BackOff",
            "involvedObject": {"kind": "Pod", "name": "q", "fieldPath": "spec.containers{main}", "uid": "7"},
            "source": {"component": "scheduler"},
        });
        write(&world, Method::POST, OLD, other);
        let names = |face: &str, selector: &str| -> Vec<String> {
            let list = read(&world, &format!("{face}?fieldSelector={}", selector.replace('=', "%3D")));
            let items = list["items"].as_array().unwrap().iter();
            items.map(|it| it["metadata"]["name"].as_str().unwrap().to_owned()).collect()
        };
        for selector in
            ["reason=BackOff", "type=Warning", "involvedObject.uid=7", "source=scheduler", "type!=Normal"]
        {
            assert_eq!(names(OLD, selector), ["b"], "{selector}");
        }
        assert_eq!(names(OLD, "source=kubelet"), ["a"], "the newer name counts where there is no older");
        assert_eq!(names(OLD, "reportingComponent=kubelet"), ["a"]);
        assert_eq!(names(OLD, "involvedObject.kind=Pod,reason=Started"), ["a"]);
        assert_eq!(names(NEW, "reportingController=kubelet"), ["a"]);
        assert_eq!(names(NEW, "regarding.uid=7,type=Warning"), ["b"]);
        for (face, selector) in
            [(OLD, "regarding.name%3Dp"), (NEW, "involvedObject.name%3Dp"), (NEW, "source%3Dx")]
        {
            let path = format!("{face}?fieldSelector={selector}");
            assert_eq!(world.write("member-1", Method::GET, &path, &Value::Null).unwrap_err().code, 400);
        }
    });
}
