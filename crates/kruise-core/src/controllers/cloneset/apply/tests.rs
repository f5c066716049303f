use super::*;

fn error(code: u16) -> Error {
    let status = kube::core::Status::failure("pods \"web-abc4d\" is forbidden: quota web-quota", "Forbidden");
    Error::Api { call: "create a pod", source: kube::Error::Api(status.with_code(code).boxed()) }
}

fn outcome(done: Vec<Done>, failed: Vec<Failed>) -> Outcome {
    let newborn = ["web-abc4d".to_owned()];
    Outcome::of(Report { done, failed, skipped: 0, wait: None }, false, &newborn)
}

#[test]
fn a_trouble_does_not_name_the_pod_that_was_tried() {
    let trouble = outcome(Vec::new(), vec![Failed::adding(error(403))]).trouble;
    let told = "create a pod failed: pods \"(a new pod)\" is forbidden: quota web-quota";
    assert_eq!(trouble, Trouble::Told(told.into()));
}

/// A busy server must not make a trouble look as if it were over.
#[test]
fn what_was_not_tried_tells_nothing() {
    let of = |done, skipped| {
        let report = Report { done, failed: Vec::new(), skipped, wait: Some(OVERTAKEN) };
        Outcome::of(report, false, &[]).trouble
    };
    assert_eq!(of(Vec::new(), 3), Trouble::Untried);
    assert_eq!(of(vec![Done::AsAsked], 3), Trouble::None);
    assert_eq!(of(Vec::new(), 0), Trouble::None);
}

/// Only if nothing is felt may the pass go on to take pods down for an update: its counts are from before.
#[test]
fn what_may_have_taken_a_pod_down_is_told_from_what_has_not() {
    let is_felt = |done, failed| outcome(done, failed).is_felt;
    assert!(!is_felt(Vec::new(), vec![Failed::adding(error(500))]));
    assert!(!is_felt(Vec::new(), vec![Failed::at_once(error(403))]), "a refusal is none");
    assert!(is_felt(Vec::new(), vec![Failed::at_once(error(500))]), "the pod may be gone");
    assert!(is_felt(Vec::new(), vec![Failed::midway(error(403))]), "the pod is gone, its claim is not");
    assert!(is_felt(vec![Done::AsAsked], Vec::new()) && is_felt(vec![Done::Overtaken], Vec::new()));
    assert!(!is_felt(vec![Done::Outdated], Vec::new()), "it was refused");
}
