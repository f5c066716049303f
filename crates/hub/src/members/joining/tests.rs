use proptest::prelude::*;

use super::*;

fn now() -> Timestamp {
    Timestamp::from_second(1_000_000).unwrap()
}

fn token() -> Token {
    Token {
        id: "abc".to_owned(),
        pattern: "eu-*".to_owned(),
        expires: Timestamp::from_second(1_003_600).unwrap(),
        uses: 1,
        used_by: BTreeSet::new(),
    }
}

fn spec() -> JoinRequestSpec {
    JoinRequestSpec { cluster_uid: "uid-1".to_owned(), public_key: "key-1".to_owned(), ..Default::default() }
}

fn known(name: &str, uid: &str, key: &str) -> Known {
    Known {
        name: name.to_owned(),
        cluster_uid: uid.to_owned(),
        public_key: key.to_owned(),
        is_accepted: true,
    }
}

struct Case {
    name: &'static str,
    spec: JoinRequestSpec,
    token: Option<&'static str>,
    by_hand: Option<ByHand>,
    members: Vec<Known>,
    tokens: Vec<Token>,
    rules: Vec<AutoApprove>,
}

impl Case {
    fn good() -> Self {
        Self {
            name: "eu-1",
            spec: spec(),
            token: Some("abc"),
            by_hand: None,
            members: vec![known("us-1", "uid-9", "key-9")],
            tokens: vec![token()],
            rules: vec![AutoApprove { names: "eu-?".to_owned(), labels: Vec::new() }],
        }
    }

    fn answer(&self) -> Answer {
        let Self { name, spec, token, by_hand, members, tokens, rules } = self;
        let asked = Asked { name, uid: "request-1", spec, token: *token, by_hand: *by_hand };
        decide(&asked, &Fleet { hub_uid: "hub", members, tokens, rules }, now())
    }

    fn outcome(&self) -> (JoinDecision, &'static str) {
        let Answer { decision, reason, .. } = self.answer();
        (decision, reason)
    }
}

#[test]
fn join_2_a_free_name_with_a_good_token_and_a_rule_is_approved() {
    let answer = Case::good().answer();
    assert_eq!((answer.decision, answer.reason), (JoinDecision::Approved, "ApprovedByRule"));
    assert_eq!(answer.uses.as_deref(), Some("abc"));
}

#[test]
fn join_2_without_a_rule_a_person_decides() {
    let mut case = Case { rules: Vec::new(), ..Case::good() };
    assert_eq!(case.outcome(), (JoinDecision::Pending, "ApprovalNeeded"));
    assert_eq!(case.answer().message, "waits for `kubectl fleet approve eu-1`");
    case.by_hand = Some(ByHand::Approve);
    assert_eq!(case.outcome(), (JoinDecision::Approved, "ApprovedByHand"));
    case.by_hand = Some(ByHand::Deny);
    assert_eq!(case.outcome(), (JoinDecision::Denied, "DeniedByHand"));
}

#[test]
fn join_2_a_rule_may_ask_for_labels() {
    let rule = AutoApprove { names: "*".to_owned(), labels: vec![("env".to_owned(), "prod".to_owned())] };
    let mut case = Case { rules: vec![rule], ..Case::good() };
    assert_eq!(case.outcome().0, JoinDecision::Pending);
    case.spec.labels.insert("env".to_owned(), "prod".to_owned());
    assert_eq!(case.outcome().0, JoinDecision::Approved);
}

#[test]
fn join_1_a_token_is_for_its_names_its_time_and_its_uses() {
    let rejected = (JoinDecision::Denied, "TokenRejected");
    let mut other_name = Case::good();
    other_name.tokens[0].pattern = "us-*".to_owned();
    assert_eq!(other_name.outcome(), rejected);
    assert_eq!(other_name.answer().message, "the token is for us-*");
    let mut expired = Case::good();
    expired.tokens[0].expires = now();
    assert_eq!(expired.outcome(), rejected);
    assert_eq!(Case { token: None, ..Case::good() }.outcome(), rejected);
    assert_eq!(Case { token: Some("other"), ..Case::good() }.outcome(), rejected);
    // An administrator's word does not replace the token.
    expired.by_hand = Some(ByHand::Approve);
    assert_eq!(expired.outcome(), rejected);
}

#[test]
fn token_single_use() {
    let mut case = Case::good();
    case.tokens[0].used_by.insert("request-0".to_owned());
    assert_eq!(case.outcome(), (JoinDecision::Denied, "TokenRejected"));
    assert_eq!(case.answer().message, "the token is used up");
    // The request that used it is judged the same again.
    case.tokens[0].used_by = BTreeSet::from(["request-1".to_owned()]);
    assert_eq!(case.outcome().0, JoinDecision::Approved);
    case.tokens[0].uses = 2;
    case.tokens[0].used_by = BTreeSet::from(["request-0".to_owned()]);
    assert_eq!(case.outcome().0, JoinDecision::Approved);
}

#[test]
fn identity_mismatch_denied() {
    let mismatch = (JoinDecision::Denied, "IdentityMismatch");
    for members in [
        vec![known("eu-1", "uid-2", "key-1")],
        vec![known("eu-1", "uid-1", "key-2")],
        vec![known("eu-2", "uid-1", "key-2")],
        vec![known("eu-2", "uid-1", "key-1")],
    ] {
        let case = Case { members, by_hand: Some(ByHand::Approve), ..Case::good() };
        assert_eq!(case.outcome(), mismatch, "{:?}", case.members);
        assert_eq!(case.answer().uses, None, "a refused request uses nothing up");
    }
}

#[test]
fn join_2_the_same_cluster_with_the_same_key_may_join_again() {
    let case = Case { members: vec![known("eu-1", "uid-1", "key-1")], ..Case::good() };
    assert_eq!(case.outcome().0, JoinDecision::Approved);
    let by_hand = Case { rules: Vec::new(), ..case };
    assert_eq!(by_hand.outcome().0, JoinDecision::Pending);
}

#[test]
fn join_5_a_revoked_cluster_does_not_come_back_by_asking() {
    let members = vec![Known { is_accepted: false, ..known("eu-1", "uid-1", "key-1") }];
    let case = Case { members, by_hand: Some(ByHand::Approve), ..Case::good() };
    assert_eq!(case.outcome(), (JoinDecision::Denied, "Revoked"));
}

#[test]
fn rules_are_read_as_they_are_written() {
    let rule: AutoApprove = "eu-*,env=prod,tier=".parse().unwrap();
    let labels = [("env", "prod"), ("tier", "")].map(|(key, value)| (key.to_owned(), value.to_owned()));
    assert_eq!(rule, AutoApprove { names: "eu-*".to_owned(), labels: labels.to_vec() });
    for (wrong, words) in [
        ("", "no pattern"),
        (",env=prod", "no pattern"),
        ("env=prod", "no pattern"),
        ("eu-*,env", "no label"),
    ] {
        assert!(wrong.parse::<AutoApprove>().unwrap_err().contains(words), "{wrong}");
    }
}

#[test]
fn api_3_the_hub_cannot_be_its_own_member() {
    let mut case = Case::good();
    case.spec.cluster_uid = "hub".to_owned();
    assert_eq!(case.outcome(), (JoinDecision::Denied, "HubCannotBeMember"));
}

#[test]
fn names_whose_namespace_is_the_fleets_own_are_refused() {
    for name in ["system", "content"] {
        let mut case = Case { name, ..Case::good() };
        case.tokens[0].pattern = "*".to_owned();
        assert_eq!(case.outcome(), (JoinDecision::Denied, "NameReserved"));
    }
}

#[test]
fn bad_input_7_the_limit_of_clusters_is_named() {
    let members = (0..MAX_CLUSTERS).map(|it| known(&format!("m-{it}"), &format!("u-{it}"), "k")).collect();
    let case = Case { members, ..Case::good() };
    assert_eq!(case.outcome(), (JoinDecision::Denied, "TooManyClusters"));
    assert!(case.answer().message.contains("5000"));
}

#[test]
fn patterns_match_as_in_a_shell() {
    for (pattern, name, expected) in [
        ("eu-1", "eu-1", true),
        ("eu-1", "eu-10", false),
        ("eu-*", "eu-", true),
        ("*-prod", "eu-1-prod", true),
        ("*-prod", "eu-1-prod-2", false),
        ("e?-*-p*", "eu-1-2-prod", true),
        ("", "", true),
        ("", "a", false),
        ("*", "anything", true),
        ("a*b*c", "abbc", true),
        ("a*b*c", "acb", false),
    ] {
        assert_eq!(matches_pattern(pattern, name), expected, "{pattern} {name}");
    }
}

proptest! {
    #[test]
    fn a_pattern_made_from_a_name_matches_it(name in "[a-z0-9-]{0,20}", from in 0usize..20, to in 0usize..20) {
        let (from, to) = (from.min(name.len()), to.min(name.len()));
        let (from, to) = (from.min(to), from.max(to));
        let pattern = format!("{}*{}", &name[..from], &name[to..]);
        prop_assert!(matches_pattern(&pattern, &name));
    }

    #[test]
    fn nobody_is_approved_without_a_token(name in "[a-z]{1,5}", by_hand in any::<bool>()) {
        let spec = spec();
        let asked = Asked {
            name: &name, uid: "r", spec: &spec, token: None, by_hand: by_hand.then_some(ByHand::Approve),
        };
        let rules = [AutoApprove { names: "*".to_owned(), labels: Vec::new() }];
        let fleet = Fleet { hub_uid: "hub", members: &[], tokens: &[token()], rules: &rules };
        prop_assert_ne!(decide(&asked, &fleet, now()).decision, JoinDecision::Approved);
    }
}

#[test]
fn join_7_a_report_of_an_older_start_of_the_agent_is_dropped() {
    use scheduling::{
        ledger::{Report, Revision, Row, Taken},
        names::ClusterName,
    };
    let mut row = Row::new(ClusterName::from("eu-1"));
    let report = |incarnation, number| Report { incarnation, number, ..Report::default() };
    assert_ne!(row.take(report(2, 1), Revision(1)), Taken::NotNewer);
    assert_eq!(row.take(report(1, 9), Revision(1)), Taken::NotNewer);
    assert_ne!(row.take(report(3, 1), Revision(1)), Taken::NotNewer);
}
