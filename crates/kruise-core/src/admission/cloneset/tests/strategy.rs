use serde_json::{Value, json};

use super::{BOTH, Version, assert_fault, assert_good, cloneset, faults, path, policy, rolling, with};

const ALPHA: Version = Version::V1Alpha1;
const BETA: Version = Version::V1Beta1;

/// Sets one field of a rolling update in both versions and expects one fault there.
#[track_caller]
fn refused_rolling(field: &str, value: Value, text: &str) {
    for version in BOTH {
        let pointer = rolling(version, field);
        let it = with(cloneset(version), &pointer, value.clone());
        assert_fault(&it, None, version, &path(&pointer), text);
    }
}

#[test]
fn types_and_policies_are_words_from_a_list() {
    assert_fault(
        &with(cloneset(ALPHA), &policy(ALPHA), json!("")),
        None,
        ALPHA,
        "spec.updateStrategy.type",
        "OnDelete",
    );
    assert_fault(
        &with(cloneset(ALPHA), &policy(ALPHA), json!("Slow")),
        None,
        ALPHA,
        "spec.updateStrategy.type",
        "Slow",
    );
    let kind = "/spec/updateStrategy/type";
    assert_fault(
        &with(cloneset(BETA), kind, json!("ReCreate")),
        None,
        BETA,
        &path(kind),
        "RollingUpdate, OnDelete",
    );
    assert_fault(
        &with(cloneset(BETA), &policy(BETA), json!("OnDelete")),
        None,
        BETA,
        &path(&policy(BETA)),
        "InPlaceOnly",
    );
    assert_good(&with(cloneset(BETA), kind, json!("")), None, BETA);
    assert_good(&with(cloneset(BETA), &policy(BETA), json!("")), None, BETA);
    for word in ["ReCreate", "InPlaceIfPossible", "InPlaceOnly"] {
        for version in BOTH {
            assert_good(&with(cloneset(version), &policy(version), json!(word)), None, version);
        }
    }
}

#[test]
fn on_delete_is_accepted_whatever_its_numbers_are() {
    let kind = "/spec/updateStrategy/type";
    for version in BOTH {
        let it = with(cloneset(version), kind, json!("OnDelete"));
        assert_good(&it, None, version);
        let it = with(it, &rolling(version, "partition"), Value::Null);
        assert_good(&with(it, &rolling(version, "maxUnavailable"), json!(0)), None, version);
    }
    assert_good(&with(cloneset(BETA), "/spec/updateStrategy", json!({"type": "OnDelete"})), None, BETA);
}

#[test]
fn a_partition_is_needed_and_not_below_zero() {
    refused_rolling("partition", json!(-1), "must not be negative");
    refused_rolling("partition", json!("5"), "percent such as `30%`");
    refused_rolling("partition", Value::Null, "0 updates every pod");
    for version in BOTH {
        assert_good(&with(cloneset(version), &rolling(version, "partition"), json!("99.9%")), None, version);
        assert_good(&with(cloneset(version), &rolling(version, "partition"), json!(100)), None, version);
    }
}

#[test]
fn an_update_must_be_able_to_move() {
    refused_rolling("maxUnavailable", json!(0), "should not both be less than 1");
    refused_rolling("maxUnavailable", json!("0%"), "should not both be less than 1");
    refused_rolling("maxUnavailable", Value::Null, "should not both be less than 1");
    for version in BOTH {
        let still = with(cloneset(version), &rolling(version, "maxUnavailable"), json!(0));
        assert_good(&with(still.clone(), &rolling(version, "maxSurge"), json!(1)), None, version);
        assert_good(&with(still.clone(), "/spec/replicas", json!(0)), None, version);
        assert_good(
            &with(cloneset(version), &rolling(version, "maxUnavailable"), json!("120%")),
            None,
            version,
        );
        // Rounded up, so that a small percentage of a few pods is one.
        assert_good(
            &with(cloneset(version), &rolling(version, "maxUnavailable"), json!("1%")),
            None,
            version,
        );
    }
}

#[test]
fn a_bare_number_as_text_is_no_limit() {
    refused_rolling("maxSurge", json!("5"), "percent such as `30%`");
    for version in BOTH {
        let pointer = rolling(version, "maxUnavailable");
        let it = with(cloneset(version), &pointer, json!("5"));
        let found = faults(&with(it, &rolling(version, "maxSurge"), json!(1)), None, version);
        assert_eq!(found.iter().map(|it| it.path.as_str()).collect::<Vec<_>>(), [path(&pointer)]);
    }
}

#[test]
fn in_place_only_has_no_surge() {
    for version in BOTH {
        let it = with(cloneset(version), &policy(version), json!("InPlaceOnly"));
        assert_good(&with(it.clone(), &rolling(version, "maxSurge"), json!(0)), None, version);
        let surging = with(it, &rolling(version, "maxSurge"), json!("1%"));
        assert_fault(
            &surging,
            None,
            version,
            &path(&rolling(version, "maxSurge")),
            "must be 0 with InPlaceOnly",
        );
    }
}

#[test]
fn a_priority_has_weights_or_an_order_and_each_is_complete() {
    let weight = |weight: i32, selector: Value| json!({"weightPriority": [{"weight": weight, "matchSelector": selector}]});
    let good = json!({"matchLabels": {"a": "b"}});
    let both = with(weight(1, good.clone()), "/orderPriority", json!([{"orderedKey": "a"}]));
    for (value, text) in [
        (both, "only one of"),
        (weight(-1, good.clone()), "from 0 to 100"),
        (weight(101, good.clone()), "from 0 to 100"),
        (weight(1, json!({})), "must not be empty"),
        (weight(1, json!({"matchLabels": {"a b": "c"}})), "invalid selector"),
        (json!({"orderPriority": [{"orderedKey": "a"}, {"orderedKey": ""}]}), "orderedKey must not be empty"),
    ] {
        refused_rolling("priorityStrategy", value, text);
    }
    for version in BOTH {
        for value in [weight(100, good.clone()), json!({"orderPriority": [{"orderedKey": "a"}]}), json!({})] {
            assert_good(
                &with(cloneset(version), &rolling(version, "priorityStrategy"), value),
                None,
                version,
            );
        }
    }
}

#[test]
fn scatter_terms_have_a_key_and_are_given_once() {
    let term = |key: &str, value: &str| json!({"key": key, "value": value});
    refused_rolling("scatterStrategy", json!([term("", "x")]), "key must not be empty");
    refused_rolling("scatterStrategy", json!([term("a", "x"), term("a", "x")]), "a:x is given twice");
    for version in BOTH {
        let terms = json!([term("a", "x"), term("a", "y"), term("b", "")]);
        assert_good(&with(cloneset(version), &rolling(version, "scatterStrategy"), terms), None, version);
    }
}

#[test]
fn downloads_ahead_are_counted_in_whole_numbers() {
    let field = |name: &str| rolling(BETA, &format!("inPlaceUpdateStrategy/{name}"));
    let parallelism = field("imagePreDownloadParallelism");
    for bad in [json!("50%"), json!("many"), json!(-1), json!("-1")] {
        assert_fault(
            &with(cloneset(BETA), &parallelism, bad),
            None,
            BETA,
            &path(&parallelism),
            "not a percentage",
        );
    }
    for good in [json!(3), json!("50")] {
        assert_good(&with(cloneset(BETA), &parallelism, good), None, BETA);
    }
    for name in
        ["imagePreDownloadTimeoutSeconds", "imagePreDownloadMinUpdatedReadyPods", "gracePeriodSeconds"]
    {
        let it = with(cloneset(BETA), &field(name), json!(-1));
        assert_fault(&it, None, BETA, &path(&field(name)), "greater than or equal to 0");
    }
}
