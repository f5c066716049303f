//! What a simulated cluster cannot do, it says.

use crate::desk::Desk;

#[test]
fn logs_and_exec_are_refused_with_the_reason() {
    let desk = Desk::open();
    desk.get(&["run", "web", "--image=web:1"]);
    desk.until(&["get", "pod", "web"], |it| it.contains("Running"));
    for arguments in [&["logs", "web"][..], &["exec", "web", "--", "true"], &["attach", "web"]] {
        let complaint = desk.refused(arguments);
        assert!(complaint.contains("simulated pods run no programs"), "{}: {complaint}", arguments[0]);
    }
    let complaint = desk.refused(&["port-forward", "web", "18080:80"]);
    assert!(complaint.contains("simulated pods run no programs"), "{complaint}");
}

#[test]
fn bodies_that_are_not_json_are_refused_with_a_way_around() {
    let desk = Desk::open();
    let arguments = ["create", "configmap", "settings", "--from-literal=a=1"];
    let complaint = desk.refused(&arguments);
    assert!(complaint.contains("--dry-run=client -o json | kubectl apply -f -"), "{complaint}");
    let manifest = desk.get(&[&arguments[..], &["--dry-run=client", "-o", "json"]].concat());
    let said = desk.apply(&serde_json::from_str(&manifest).unwrap(), &[]);
    assert_eq!(said.out, "configmap/settings created\n", "{}", said.err);
}

#[test]
fn nobody_gets_in_without_the_token() {
    let desk = Desk::open();
    let server = format!("https://{}", desk.served().address());
    let mut config = desk.served().kubeconfig();
    config["users"][0]["user"]["token"] = "guessed".into();
    let other = desk.manifest("other.kubeconfig", &config);
    let complaint = desk.refused(&["--kubeconfig", &other, "--server", &server, "get", "pods"]);
    assert!(complaint.contains("Unauthorized") || complaint.contains("must be logged in"), "{complaint}");
    assert!(desk.folder().join("kubeconfig").exists());
}
