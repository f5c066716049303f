//! Plugins are real programs here: small scripts in a folder of each test.

use std::os::unix::fs::PermissionsExt;

use jiff::Timestamp;

use super::*;

/// Plugins with one program, which counts how often it is asked.
struct Setting {
    folder: PathBuf,
    plugins: Plugins,
}

fn setting(test: &str, script: &str) -> Setting {
    let folder = std::env::temp_dir().join(format!("kruise-plugins-{test}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let program = folder.join("helper");
    let count = folder.join("count");
    std::fs::write(&program, format!("#!/bin/sh\ncat >> {0}\necho >> {0}\n{script}\n", count.display()))
        .unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let config = folder.join("config.yaml");
    let text = "apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\nproviders:\n\
        - name: helper\n  matchImages: ['*.cloud.test']\n  defaultCacheDuration: '1h'\n  \
        apiVersion: credentialprovider.kubelet.k8s.io/v1\n  env: [{name: WHO, value: someone}]\n";
    std::fs::write(&config, text).unwrap();
    let plugins = Plugins::load(&config, &folder, Clock::following(Timestamp::UNIX_EPOCH)).unwrap();
    Setting { folder, plugins }
}

impl Setting {
    async fn users(&self, image: &str) -> Vec<String> {
        let found = self.plugins.credentials(&Reference::parse(image).unwrap()).await;
        found.into_iter().map(|it| it.username).collect()
    }

    fn asked(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.folder.join("count")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }
}

impl Drop for Setting {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

const ANSWER: &str = r#"echo '{"cacheKeyType":"Registry","auth":{"eu.cloud.test":{"username":"'$WHO'","password":"topsecret"}}}'"#;

#[tokio::test]
async fn a_plugin_is_asked_for_its_registries_and_its_answer_is_kept() {
    let it = setting("kept", ANSWER);
    assert!(it.users("other.test/a").await.is_empty());
    assert!(it.asked().is_empty());
    assert_eq!(it.users("eu.cloud.test/a").await, ["someone"]);
    assert_eq!(it.users("eu.cloud.test/b").await, ["someone"], "kept for the registry");
    let asked = it.asked();
    assert_eq!(asked.len(), 1, "{asked:?}");
    assert!(asked[0].contains(r#""image":"eu.cloud.test/a""#), "{asked:?}");
    assert!(!format!("{:?}", it.plugins).contains("topsecret"));
}

#[tokio::test]
async fn a_plugin_that_fails_gives_nothing_and_is_asked_again() {
    let it = setting("fails", "echo topsecret; exit 1");
    assert!(it.users("eu.cloud.test/a").await.is_empty());
    assert!(it.users("eu.cloud.test/a").await.is_empty());
    assert_eq!(it.asked().len(), 2);
}

#[tokio::test]
async fn a_plugin_that_does_not_listen_may_answer_all_the_same() {
    let it = setting("deaf", "");
    let answer = it.folder.join("answer");
    std::fs::write(&answer, r#"{"auth":{"eu.cloud.test":{"username":"u","password":"p"}}}"#).unwrap();
    let script = format!("#!/bin/sh\nexec cat {}\n", answer.display());
    std::fs::write(it.folder.join("helper"), script).unwrap();
    assert_eq!(it.users("eu.cloud.test/a").await, ["u"]);
}

/// A worker that is stopped drops what it waits for.
#[tokio::test]
async fn a_plugin_that_nobody_waits_for_any_more_is_killed_and_leaves_no_zombie() {
    let it = setting(
        "hangs",
        "echo $$ > \"$(dirname \"$0\")/pid.new\"; cd \"$(dirname \"$0\")\" && mv pid.new pid; exec sleep 600",
    );
    let file = it.folder.join("pid");
    let started = async {
        while !file.exists() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::select! {
        found = it.users("eu.cloud.test/a") => panic!("it never answers, but: {found:?}"),
        () = started => {}
    }
    let pid: u32 = std::fs::read_to_string(&file).unwrap().trim().parse().unwrap();
    // A zombie would stay in the list of processes for as long as this one lives.
    let process = PathBuf::from(format!("/proc/{pid}"));
    let gone = async {
        while process.exists() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), gone).await.expect("the plugin is gone");
}

#[test]
fn without_a_file_there_are_no_plugins_and_a_malformed_one_is_an_error() {
    let clock = Clock::system();
    let none = Plugins::load(Path::new("/nonexistent/x.yaml"), Path::new("/"), clock.clone()).unwrap();
    assert!(none.providers.is_empty());
    let file = std::env::temp_dir().join(format!("kruise-plugins-bad-{}", std::process::id()));
    std::fs::write(&file, "providers: 3").unwrap();
    assert!(Plugins::load(&file, Path::new("/"), clock).is_err());
    let _ = std::fs::remove_file(&file);
}

#[test]
fn what_stands_beside_a_fault_is_not_told() {
    let file = std::env::temp_dir().join(format!("kruise-plugins-secret-{}", std::process::id()));
    let text = "providers:\n- name: helper\n  env: [{name: TOKEN, value: topsecret}]\n  matchImages: 3\n  \
        apiVersion: credentialprovider.kubelet.k8s.io/v1\n";
    std::fs::write(&file, text).unwrap();
    let error = Plugins::load(&file, Path::new("/"), Clock::system()).unwrap_err();
    let _ = std::fs::remove_file(&file);
    assert!(!error.to_string().contains("topsecret"), "{error}");
    assert!(!format!("{error:?}").contains("topsecret"), "{error:?}");
}

#[test]
fn durations_are_read_as_go_writes_them() {
    for (text, seconds) in [("12h", 43_200), ("6h0m0s", 21_600), ("1m30s", 90), ("1.5h", 5_400), ("", 0)] {
        assert_eq!(go_duration(text), Some(Duration::from_secs(seconds)), "{text}");
    }
    for bad in ["x", "5", "5d", "-1h"] {
        assert_eq!(go_duration(bad), None, "{bad}");
    }
}
