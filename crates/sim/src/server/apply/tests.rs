use serde_json::{Value, json};

use super::*;

fn applier(name: &str) -> Writer {
    let (name, api_version) = (name.to_owned(), "v1".to_owned());
    Writer { name, operation: Operation::Apply, api_version, subresource: String::new() }
}

fn updater(name: &str) -> Writer {
    Writer { operation: Operation::Update, ..applier(name) }
}

fn apply_as(
    name: &str,
    live: &Value,
    managers: &Managers,
    object: Value,
) -> Result<(Value, Managers), Failure> {
    apply(Shape::root(None), live, &object, managers, &applier(name), Conflicts { now: "now", force: false })
}

#[test]
fn what_an_applier_no_longer_names_goes_away() {
    let none = Managers::default();
    let (live, managers) = apply_as("a", &json!({}), &none, json!({"data": {"x": "1", "y": "2"}})).unwrap();
    assert_eq!(live, json!({"data": {"x": "1", "y": "2"}}));

    let (live, managers) = apply_as("a", &live, &managers, json!({"data": {"x": "1"}})).unwrap();
    assert_eq!(live, json!({"data": {"x": "1"}}));
    let fields = &managers.write()[0]["fieldsV1"];
    assert_eq!(*fields, json!({"f:data": {"f:x": {}}}));
}

#[test]
fn what_another_manager_owns_stays_when_one_lets_go() {
    let none = Managers::default();
    let (live, managers) = apply_as("a", &json!({}), &none, json!({"data": {"x": "1"}})).unwrap();
    let (live, managers) = apply_as("b", &live, &managers, json!({"data": {"x": "1", "z": "3"}})).unwrap();
    let (live, managers) = apply_as("a", &live, &managers, json!({"data": {}})).unwrap();
    assert_eq!(live, json!({"data": {"x": "1", "z": "3"}}));
    let (live, _) = apply_as("b", &live, &managers, json!({"data": {"z": "3"}})).unwrap();
    assert_eq!(live, json!({"data": {"z": "3"}}));
}

#[test]
fn changing_what_another_owns_is_a_conflict_unless_forced() {
    let none = Managers::default();
    let (live, managers) = apply_as("a", &json!({}), &none, json!({"data": {"x": "1"}})).unwrap();
    let failure = apply_as("b", &live, &managers, json!({"data": {"x": "2"}})).unwrap_err();
    assert_eq!(failure.message, "Apply failed with 1 conflict: conflict with \"a\": .data.x");
    assert_eq!(failure.details["causes"][0]["field"], ".data.x");

    let forced = json!({"data": {"x": "2"}});
    let (live, managers) = apply(
        Shape::root(None),
        &live,
        &forced,
        &managers,
        &applier("b"),
        Conflicts { now: "now", force: true },
    )
    .unwrap();
    assert_eq!(live["data"]["x"], "2");
    let rows = managers.write();
    assert_eq!(rows.as_array().map(Vec::len), Some(1), "a owns nothing any more: {rows}");
}

#[test]
fn an_update_takes_ownership_and_makes_the_next_apply_conflict() {
    let none = Managers::default();
    let (live, managers) = apply_as("a", &json!({}), &none, json!({"data": {"x": "1"}})).unwrap();
    let new = json!({"data": {"x": "9"}});
    let managers = track(Shape::root(None), &live, &new, &managers, &updater("kubectl"), "now");
    let failure = apply_as("a", &new, &managers, json!({"data": {"x": "1"}})).unwrap_err();
    assert_eq!(failure.reason, "Conflict");
    assert!(
        apply_as("a", &new, &managers, json!({"data": {"x": "9"}})).is_ok(),
        "the same value is no conflict"
    );
}

#[test]
fn list_items_belong_to_whoever_named_them() {
    let none = Managers::default();
    let container = |name: &str, image: &str| json!({"name": name, "image": image});
    let first = json!({"spec": {"containers": [container("a", "1"), container("b", "1")]}});
    let (live, managers) = apply_as("one", &json!({}), &none, first).unwrap();
    let second = json!({"spec": {"containers": [container("c", "1")]}});
    let (live, managers) = apply_as("two", &live, &managers, second).unwrap();
    assert_eq!(live["spec"]["containers"].as_array().map(Vec::len), Some(3));

    let third = json!({"spec": {"containers": [container("a", "1")]}});
    let (live, _) = apply_as("one", &live, &managers, third).unwrap();
    let names: Vec<&Value> =
        live["spec"]["containers"].as_array().unwrap().iter().map(|it| &it["name"]).collect();
    assert_eq!(names, ["a", "c"]);
}

#[test]
fn a_custom_schema_says_which_lists_are_keyed() {
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
        "rows": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["id"],
                 "items": {"type": "object", "properties": {"id": {"type": "string"}, "n": {"type": "integer"}}}},
        "plain": {"type": "array", "items": {"type": "string"}},
    }}}});
    let shape = Shape::root(Some(&schema));
    let live = json!({"spec": {"rows": [{"id": "a", "n": 1}], "plain": ["x"]}});
    let applied = json!({"spec": {"rows": [{"id": "b", "n": 2}], "plain": ["y"]}});
    let (merged, _) = apply(
        shape,
        &live,
        &applied,
        &Managers::default(),
        &applier("m"),
        Conflicts { now: "now", force: false },
    )
    .unwrap();
    let expected = json!({"spec": {"rows": [{"id": "a", "n": 1}, {"id": "b", "n": 2}], "plain": ["y"]}});
    assert_eq!(merged, expected);
}

#[test]
fn whoever_made_a_map_owns_it_after_an_applier_took_its_last_entry_away() {
    let small = json!({"spec": {"size": "small"}});
    let marked = |value: &str| json!({"spec": {"size": "small", "marks": {"app": value}}});
    let none = Managers::default();
    let managers =
        track(Shape::root(None), &json!({}), &marked("x"), &none, &updater("u"), "2030-01-01T00:00:00Z");
    let force = Conflicts { now: "now", force: true };
    let (live, managers) =
        apply(Shape::root(None), &marked("x"), &marked("y"), &managers, &applier("a"), force).unwrap();
    let (live, managers) = apply(Shape::root(None), &live, &small, &managers, &applier("a"), force).unwrap();
    assert_eq!(live, small);
    let rows = managers.write();
    let of_updater = rows.as_array().into_iter().flatten().find(|it| it["manager"] == "u");
    let fields = of_updater.map(|it| &it["fieldsV1"]["f:spec"]["f:marks"]);
    assert_eq!(fields, Some(&json!({})), "{rows}");
}

#[test]
fn a_scale_that_changes_nothing_takes_the_count_out_of_its_updaters_entry() {
    let object = json!({"spec": {"replicas": 1, "size": "small"}});
    let none = Managers::default();
    let mut managers =
        track(Shape::root(None), &json!({}), &object, &none, &updater("u"), "2030-01-01T00:00:00Z");
    managers.pass_through_scale(&["spec", "replicas"]);
    let rows = managers.write();
    assert_eq!(rows[0]["fieldsV1"], json!({"f:spec": {"f:replicas": {}}}), "{rows}");
    assert_eq!(rows[0]["time"], Value::Null);
    assert_eq!(rows[1]["fieldsV1"], json!({"f:spec": {".": {}, "f:size": {}}}), "{rows}");

    // The next write reads two entries of one manager, and the later one counts.
    let read = Managers::read(&json!({"metadata": {"managedFields": rows}}));
    assert!(!read.has_owner(&["spec", "replicas"]));
    assert!(read.has_owner(&["spec", "size"]));
}

#[test]
fn an_item_that_only_the_live_list_has_comes_right_after_the_shared_one_before_it() {
    let owners = |uids: &[&str]| {
        let owners: Vec<Value> = uids.iter().map(|it| json!({"uid": it})).collect();
        json!({"metadata": {"ownerReferences": owners}})
    };
    let live = owners(&["shared", "live"]);
    let (merged, _) = apply_as("a", &live, &Managers::default(), owners(&["shared", "new"])).unwrap();
    assert_eq!(merged, owners(&["shared", "live", "new"]));
}
