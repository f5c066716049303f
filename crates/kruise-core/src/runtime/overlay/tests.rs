mod lag;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{OwnerReference, Time};
use kube::runtime::watcher::Event;

use super::*;
use crate::runtime::{
    cache::{pod::PodLite, store::Store},
    clock::Clock,
};

/// A pod of the owner `owner` in namespace `n`.
pub(super) fn pod(name: &str, uid: &str, version: impl ToString) -> PodLite {
    let mut pod = PodLite::default();
    pod.metadata.namespace = Some("n".into());
    pod.metadata.name = Some(name.into());
    pod.metadata.uid = Some(uid.into());
    pod.metadata.resource_version = Some(version.to_string());
    pod.metadata.owner_references = Some(vec![OwnerReference {
        uid: "owner".into(),
        controller: Some(true),
        ..OwnerReference::default()
    }]);
    pod
}

pub(super) fn terminating(mut pod: PodLite) -> PodLite {
    pod.metadata.deletion_timestamp = Some(Time("2026-01-01T00:00:00Z".parse().unwrap()));
    pod
}

struct Bench {
    store: Store<PodLite>,
    now: Instant,
}

impl Bench {
    fn new(listed: &[PodLite]) -> Self {
        let store = Store::new(Overlay::new(10));
        let mut bench = Self { store, now: Clock::system().instant() };
        bench.list(listed);
        bench
    }

    fn list(&mut self, listed: &[PodLite]) {
        self.store.watched(Event::Init);
        self.end_list(listed);
    }

    fn end_list(&mut self, listed: &[PodLite]) {
        for it in listed {
            self.store.watched(Event::InitApply(it.clone()));
        }
        self.store.watched(Event::InitDone);
    }

    fn wrote(&mut self, pod: PodLite) {
        self.store.wrote(Arc::new(pod), self.now);
    }

    fn deleted(&mut self, name: &str, uid: &str) {
        self.store.deleted(&Key::new("n", name), uid, self.now);
    }

    fn shows(&mut self, pod: PodLite) -> usize {
        self.store.watched(Event::Apply(pod)).len()
    }

    fn shows_deleted(&mut self, pod: PodLite) {
        self.store.watched(Event::Delete(pod));
    }

    /// What a reader sees: names, versions, and `-` for those that are being deleted.
    fn view(&self) -> Vec<String> {
        let line = |it: &Arc<PodLite>| {
            let mark = if it.is_terminating() { "-" } else { "" };
            format!("{}@{}{mark}", it.metadata.name.as_deref().unwrap(), version(&**it))
        };
        self.store.owned_by("owner").iter().map(line).collect()
    }

    fn look_up(&mut self, found: Option<PodLite>) {
        let tickets = self.store.overdue(Duration::ZERO, self.now);
        assert_eq!(tickets.len(), 1);
        self.store.looked_up(&tickets[0], found.map(Arc::new), self.now);
    }

    fn open(&self) -> usize {
        self.store.overlay().len()
    }
}

#[test]
fn a_created_pod_is_there_before_the_watch_shows_it() {
    let mut bench = Bench::new(&[]);
    bench.wrote(pod("a", "1", 10));
    assert_eq!(bench.view(), ["a@10"]);
    assert_eq!(bench.shows(pod("a", "1", 10)), 1, "the watch showing our own write still triggers");
    assert_eq!((bench.view(), bench.open()), (vec!["a@10".to_owned()], 0));
}

#[test]
fn an_older_event_does_not_undo_our_update_and_a_newer_one_replaces_it() {
    let mut bench = Bench::new(&[pod("a", "1", 10)]);
    bench.wrote(pod("a", "1", 15));
    bench.shows(pod("a", "1", 12));
    assert_eq!((bench.view(), bench.open()), (vec!["a@15".to_owned()], 1));
    bench.shows(pod("a", "1", 17));
    assert_eq!((bench.view(), bench.open()), (vec!["a@17".to_owned()], 0));
}

#[test]
fn a_late_answer_does_not_bring_back_what_the_watch_has_shown_deleted() {
    let mut bench = Bench::new(&[]);
    bench.shows(pod("a", "1", 10));
    bench.shows_deleted(pod("a", "1", 11));
    bench.wrote(pod("a", "1", 10));
    assert_eq!((bench.view().len(), bench.open()), (0, 0));

    bench.wrote(pod("b", "2", 12));
    bench.shows(pod("b", "2", 12));
    bench.shows_deleted(pod("b", "2", 13));
    assert_eq!((bench.view().len(), bench.open()), (0, 0));
}

#[test]
fn any_later_event_of_the_kind_ends_an_entry() {
    let mut bench = Bench::new(&[]);
    bench.wrote(pod("a", "1", 10));
    let changes = bench.store.watched(Event::Apply(pod("b", "2", 11)));
    assert_eq!(
        (bench.view(), bench.open()),
        (vec!["b@11".to_owned()], 0),
        "others deleted a between two watches"
    );
    let told: Vec<_> = changes.iter().map(|it| (it.key().to_string(), it.after.is_some())).collect();
    assert_eq!(told, [("n/b".to_owned(), true), ("n/a".to_owned(), false)]);
}

#[test]
fn a_graceful_deletion_shows_the_pod_terminating_and_an_immediate_one_removes_it() {
    let mut bench = Bench::new(&[pod("a", "1", 10), pod("b", "2", 11)]);
    bench.wrote(terminating(pod("a", "1", 12)));
    bench.deleted("b", "2");
    assert_eq!(bench.view(), ["a@12-"]);
    bench.shows(pod("b", "2", 11));
    assert_eq!(bench.view(), ["a@12-"], "an old event does not bring b back");
    bench.shows_deleted(pod("b", "2", 13));
    bench.shows_deleted(pod("a", "1", 14));
    assert_eq!((bench.view().len(), bench.open()), (0, 0));
}

#[test]
fn a_pod_created_and_deleted_before_the_watch_shows_either_stays_away() {
    let mut bench = Bench::new(&[]);
    bench.wrote(pod("a", "1", 10));
    bench.deleted("a", "1");
    assert_eq!(bench.view().len(), 0);
    bench.shows(pod("a", "1", 10));
    assert_eq!(bench.view().len(), 0);
    bench.shows_deleted(pod("a", "1", 11));
    assert_eq!((bench.view().len(), bench.open()), (0, 0));
}

#[test]
fn a_new_pod_of_an_old_name_is_not_mistaken_for_the_old_one() {
    let mut bench = Bench::new(&[pod("a", "1", 10)]);
    bench.deleted("a", "1");
    bench.wrote(pod("a", "2", 13));
    assert_eq!(bench.view(), ["a@13"]);
    bench.shows(pod("a", "1", 11));
    bench.shows_deleted(pod("a", "1", 12));
    assert_eq!(bench.view(), ["a@13"], "events of the old pod do not concern the new one");
    bench.deleted("a", "2");
    bench.shows(pod("a", "3", 20));
    assert_eq!((bench.view(), bench.open()), (vec!["a@20".to_owned()], 0), "a stranger took the name since");
}

#[test]
fn a_list_that_began_after_the_write_is_the_truth() {
    let mut bench = Bench::new(&[pod("a", "1", 10)]);
    bench.wrote(pod("b", "2", 11));
    bench.deleted("a", "1");
    bench.list(&[]);
    assert_eq!((bench.view().len(), bench.open()), (0, 0), "others deleted b; it must not live for ever");
}

#[test]
fn a_list_that_began_before_the_write_does_not_undo_it() {
    let mut bench = Bench::new(&[pod("a", "1", 10), pod("b", "2", 11)]);
    bench.store.watched(Event::Init);
    bench.wrote(pod("c", "3", 12));
    bench.wrote(pod("a", "1", 13));
    bench.deleted("b", "2");
    bench.end_list(&[pod("a", "1", 10), pod("b", "2", 11)]);
    assert_eq!(bench.view(), ["a@13", "c@12"]);
    bench.shows_deleted(pod("b", "2", 14));
    assert_eq!((bench.view(), bench.open()), (vec!["a@10".to_owned()], 0), "the watch is past 12 and 13 now");
}

#[test]
fn answers_of_two_writers_may_come_in_any_order() {
    let mut bench = Bench::new(&[pod("a", "1", 10)]);
    bench.wrote(pod("a", "1", 15));
    bench.wrote(pod("a", "1", 12));
    assert_eq!(bench.view(), ["a@15"]);
    bench.deleted("a", "1");
    bench.wrote(pod("a", "1", 16));
    assert_eq!(bench.view().len(), 0, "a UID never comes back");
}

#[test]
fn versions_that_are_no_numbers_end_by_equality_deletion_or_list() {
    let mut bench = Bench::new(&[pod("a", "1", "x")]);
    bench.wrote(pod("a", "1", "y"));
    bench.shows(pod("a", "1", "w"));
    assert_eq!(bench.view(), ["a@y"], "cannot be compared: our own write stands");
    bench.shows(pod("a", "1", "y"));
    assert_eq!(bench.open(), 0);
    bench.wrote(pod("b", "2", "z"));
    bench.shows_deleted(pod("b", "2", "q"));
    assert_eq!((bench.view(), bench.open()), (vec!["a@y".to_owned()], 0));
    bench.wrote(pod("c", "3", "z"));
    bench.list(&[]);
    assert_eq!((bench.view().len(), bench.open()), (0, 0));
}

#[test]
fn a_write_in_doubt_is_kept_until_something_settles_it() {
    let doubt = |name: &str, uid: Option<&str>, intent| Doubt {
        key: Key::new("n", name),
        uid: uid.map(str::to_owned),
        owner: Some("owner".into()),
        intent,
    };
    let mut bench = Bench::new(&[pod("b", "2", 10)]);
    let now = bench.now;
    bench.store.doubted(doubt("a", None, Intent::Create), now);
    bench.store.doubted(doubt("b", Some("2"), Intent::Delete), now);
    let names = |bench: &Bench| -> Vec<String> {
        bench.store.overlay().doubts_of("owner").iter().map(|it| it.key.name.to_string()).collect()
    };
    assert_eq!(names(&bench), ["a", "b"]);
    bench.list(&[pod("b", "2", 10)]);
    bench.shows(pod("b", "2", 11));
    assert_eq!(names(&bench), ["a", "b"], "both requests may still arrive");
    bench.wrote(pod("a", "1", 12));
    assert_eq!(names(&bench), ["b"], "the repeated create was answered");
    bench.shows(terminating(pod("b", "2", 13)));
    assert_eq!((names(&bench).len(), bench.open()), (0, 0));
}

#[test]
fn what_may_happen_longest_is_remembered() {
    let mut bench = Bench::new(&[pod("a", "1", 10)]);
    let intent = |bench: &Bench| bench.store.overlay().doubts_of("owner")[0].intent;
    let as_seen = Intent::DeleteAsSeen(Some(10));
    for (asked, remembered) in [
        (as_seen, as_seen),
        (Intent::Update, Intent::Update),
        (as_seen, Intent::Update),
        (Intent::Delete, Intent::Delete),
        (Intent::Update, Intent::Delete),
        (as_seen, Intent::Delete),
    ] {
        let (uid, owner) = (Some("1".into()), Some("owner".into()));
        bench.store.doubted(Doubt { key: Key::new("n", "a"), uid, owner, intent: asked }, bench.now);
        assert_eq!(intent(&bench), remembered, "{asked:?}");
    }
}

#[test]
fn a_delete_of_one_version_is_over_when_there_is_a_later_one() {
    let shown: [fn(&mut Bench); 3] = [
        |bench| {
            bench.shows(pod("a", "1", 11));
        },
        |bench| bench.wrote(pod("a", "1", 11)),
        |bench| bench.list(&[pod("a", "1", 11)]),
    ];
    for show in shown {
        let mut bench = Bench::new(&[pod("a", "1", 10)]);
        let (uid, owner) = (Some("1".into()), Some("owner".into()));
        let doubt = Doubt { key: Key::new("n", "a"), uid, owner, intent: Intent::DeleteAsSeen(Some(10)) };
        bench.store.doubted(doubt, bench.now);
        bench.shows(pod("a", "1", 10));
        assert_eq!(bench.store.overlay().doubts_of("owner").len(), 1, "it may still arrive");
        show(&mut bench);
        assert_eq!(bench.store.overlay().doubts_of("owner").len(), 0);
    }
}

#[test]
fn a_look_up_ends_ghosts_and_covers_what_is_gone() {
    let mut bench = Bench::new(&[]);
    bench.wrote(pod("a", "1", 10));
    bench.look_up(Some(pod("a", "1", 12)));
    assert_eq!(bench.view(), ["a@12"]);
    bench.look_up(None);
    assert_eq!(bench.view().len(), 0);
    bench.shows(pod("a", "1", 10));
    assert_eq!(bench.view().len(), 0, "the watch is late, and still about to show the deletion");
    bench.shows_deleted(pod("a", "1", 13));
    assert_eq!(bench.open(), 0);

    let mut bench = Bench::new(&[pod("a", "1", 10)]);
    bench.wrote(pod("a", "1", 15));
    bench.look_up(None);
    assert_eq!((bench.view().len(), bench.open()), (0, 1), "the watch still shows it");
    bench.store.expire(Duration::ZERO, bench.now);
    assert_eq!((bench.view().len(), bench.open()), (0, 1));
    bench.shows_deleted(pod("a", "1", 16));
    assert_eq!(bench.open(), 0);
}

#[test]
fn a_deletion_that_did_not_happen_is_found_out() {
    let mut bench = Bench::new(&[pod("a", "1", 10)]);
    bench.deleted("a", "1");
    assert_eq!(bench.view().len(), 0);
    bench.look_up(Some(pod("a", "1", 10)));
    assert_eq!((bench.view(), bench.open()), (vec!["a@10".to_owned()], 0));
}

#[test]
fn a_deletion_that_the_list_knew_of_is_forgotten_in_time() {
    let mut bench = Bench::new(&[pod("a", "1", 10)]);
    bench.store.watched(Event::Init);
    bench.deleted("a", "1");
    bench.end_list(&[]);
    assert_eq!(bench.open(), 1, "the list may also have been older");
    let hour = Duration::from_secs(3600);
    let later = bench.now + hour;
    bench.store.expire(hour, bench.now);
    assert_eq!(bench.open(), 1);
    bench.store.expire(hour, later);
    assert_eq!(bench.open(), 0);
}

#[test]
fn a_look_up_that_was_overtaken_is_ignored() {
    let mut bench = Bench::new(&[]);
    bench.wrote(pod("a", "1", 10));
    let ticket = bench.store.overdue(Duration::ZERO, bench.now).remove(0);
    bench.deleted("a", "1");
    bench.wrote(pod("a", "2", 12));
    let now = bench.now;
    bench.store.looked_up(&ticket, None, now);
    assert_eq!(bench.view(), ["a@12"]);
}

#[test]
fn writers_are_asked_to_pause_when_too_much_is_unseen_and_nothing_is_kept_in_the_end() {
    let mut bench = Bench::new(&[]);
    for it in 1..=10 {
        assert!(!bench.store.overlay().is_full());
        bench.wrote(pod(&format!("p{it}"), &it.to_string(), it));
    }
    assert!(bench.store.overlay().is_full());
    bench.shows(pod("x", "x", 100));
    bench.shows_deleted(pod("x", "x", 101));

    for it in 0..1_000 {
        let (name, uid) = (format!("q{it}"), format!("u{it}"));
        let version = 200 + it * 3;
        bench.wrote(pod(&name, &uid, version));
        bench.shows(pod(&name, &uid, version));
        bench.deleted(&name, &uid);
        bench.shows_deleted(pod(&name, &uid, version + 1));
    }
    assert_eq!(bench.store.weight(), 0);
}
