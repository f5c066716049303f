//! May this cluster join? (JOIN-1, 2, 6, API-3)

use std::{collections::BTreeSet, fmt};

use jiff::Timestamp;
use kruise_core::api::fleet::{
    join_request::{JoinDecision, JoinRequestSpec},
    keys::reasons,
};
use scheduling::numbers::MAX_CLUSTERS;

use crate::names::RESERVED_CLUSTERS;

/// A bootstrap token as the hub knows it: never its secret part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    /// The public part.
    pub id: String,
    /// The name that a cluster may ask for, or a pattern with `*` and `?`.
    pub pattern: String,
    /// When it ends.
    pub expires: Timestamp,
    /// How many requests may be made with it.
    pub uses: u32,
    /// UIDs of the requests that were.
    pub used_by: BTreeSet<String>,
}

impl Token {
    /// Why the token does not stand for this request, if it does not.
    pub fn fault(&self, cluster: &str, request_uid: &str, now: Timestamp) -> Option<TokenFault> {
        if !matches_pattern(&self.pattern, cluster) {
            return Some(TokenFault::OtherName(self.pattern.clone()));
        }
        if self.expires <= now {
            return Some(TokenFault::Expired);
        }
        // Looking twice at one request is one use.
        let used_up = self.used_by.len() >= self.uses as usize && !self.used_by.contains(request_uid);
        used_up.then_some(TokenFault::UsedUp)
    }
}

/// What is wrong with a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TokenFault {
    /// The request was not made with one, or with one that does not exist.
    Unknown,
    /// It is for other names.
    OtherName(String),
    /// Its time is over.
    Expired,
    /// It was used as often as it may be.
    UsedUp,
}

impl fmt::Display for TokenFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown => f.write_str("the request was not made with a known token"),
            Self::OtherName(pattern) => write!(f, "the token is for {pattern}"),
            Self::Expired => f.write_str("the token has expired"),
            Self::UsedUp => f.write_str("the token is used up"),
        }
    }
}

/// A cluster that is a member already.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Known {
    /// Its name.
    pub name: String,
    /// UID of its `kube-system` namespace.
    pub cluster_uid: String,
    /// The key pinned when it joined.
    pub public_key: String,
    /// Whether it still may take part.
    pub is_accepted: bool,
}

/// A rule by which requests are approved without a person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AutoApprove {
    /// The names, as a pattern with `*` and `?`.
    pub names: String,
    /// Labels that the request must propose.
    pub labels: Vec<(String, String)>,
}

/// What an administrator says to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ByHand {
    /// Yes.
    Approve,
    /// No.
    Deny,
}

/// One request.
#[derive(Debug, Clone)]
pub struct Asked<'a> {
    /// The name that the cluster wants.
    pub name: &'a str,
    /// UID of the JoinRequest.
    pub uid: &'a str,
    /// What it says about itself.
    pub spec: &'a JoinRequestSpec,
    /// The token it was made with, as admission wrote it down.
    pub token: Option<&'a str>,
    /// What an administrator says, if one did.
    pub by_hand: Option<ByHand>,
}

/// What the request is judged by.
#[derive(Debug, Clone, Copy)]
pub struct Fleet<'a> {
    /// UID of the hub's own `kube-system` namespace.
    pub hub_uid: &'a str,
    /// The members.
    pub members: &'a [Known],
    /// The tokens.
    pub tokens: &'a [Token],
    /// The rules.
    pub rules: &'a [AutoApprove],
}

/// The answer, with its reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// Whether the cluster may join.
    pub decision: JoinDecision,
    /// One word for why, from the fixed list.
    pub reason: &'static str,
    /// Details for a person to read.
    pub message: String,
    /// The token that the request uses up, if it was let through by one.
    pub uses: Option<String>,
}

/// Judges a request.
pub fn decide(asked: &Asked<'_>, fleet: &Fleet<'_>, now: Timestamp) -> Answer {
    if let Some(refusal) = identity_refusal(asked, fleet) {
        return refusal;
    }
    if asked.by_hand == Some(ByHand::Deny) {
        return denied(reasons::DENIED_BY_HAND, "an administrator denied the request");
    }
    let token = asked.token.and_then(|id| fleet.tokens.iter().find(|it| it.id == id));
    let fault = match token {
        None => Some(TokenFault::Unknown),
        Some(token) => token.fault(asked.name, asked.uid, now),
    };
    if let Some(fault) = fault {
        return denied(reasons::TOKEN_REJECTED, fault.to_string());
    }
    let uses = token.map(|it| it.id.clone());
    let approved = |reason, message: String| Answer {
        decision: JoinDecision::Approved,
        reason,
        message,
        uses: uses.clone(),
    };
    if asked.by_hand == Some(ByHand::Approve) {
        return approved(reasons::APPROVED_BY_HAND, "an administrator approved the request".to_owned());
    }
    if let Some(rule) = fleet.rules.iter().find(|it| it.covers(asked)) {
        return approved(reasons::APPROVED_BY_RULE, format!("the rule for {} covers it", rule.names));
    }
    Answer {
        decision: JoinDecision::Pending,
        reason: reasons::APPROVAL_NEEDED,
        message: format!("waits for `kubectl fleet approve {}`", asked.name),
        uses,
    }
}

/// Who can never join, whatever anybody says.
fn identity_refusal(asked: &Asked<'_>, fleet: &Fleet<'_>) -> Option<Answer> {
    let JoinRequestSpec { cluster_uid, public_key, .. } = asked.spec;
    if cluster_uid == fleet.hub_uid {
        let words = "the cluster is the hub's own; a hub cannot be its own member";
        return Some(denied(reasons::HUB_CANNOT_BE_MEMBER, words));
    }
    if RESERVED_CLUSTERS.contains(&asked.name) {
        let words = format!("the name {} is kept for the fleet itself; choose another", asked.name);
        return Some(denied(reasons::NAME_RESERVED, words));
    }
    let by_name = fleet.members.iter().find(|it| it.name == asked.name);
    let by_uid = fleet.members.iter().find(|it| it.cluster_uid == *cluster_uid);
    let words = match (by_name, by_uid) {
        (Some(member), _) if member.cluster_uid != *cluster_uid => {
            format!("the name {} belongs to another cluster", asked.name)
        }
        (_, Some(member)) if member.public_key != *public_key => {
            format!("the cluster is the member {}, whose key is another one", member.name)
        }
        (None, Some(member)) => format!("the cluster is a member already, as {}", member.name),
        (Some(member), _) if !member.is_accepted => {
            let words = format!(
                "the cluster was revoked; `kubectl fleet revoke {} --undo` takes that back",
                asked.name
            );
            return Some(denied(reasons::REVOKED, words));
        }
        (Some(_), _) => return None,
        (None, None) if fleet.members.len() >= MAX_CLUSTERS => {
            let words = format!("the fleet has {MAX_CLUSTERS} clusters, which is the most it may have");
            return Some(denied(reasons::TOO_MANY_CLUSTERS, words));
        }
        (None, None) => return None,
    };
    Some(denied(reasons::IDENTITY_MISMATCH, words))
}

fn denied(reason: &'static str, message: impl Into<String>) -> Answer {
    Answer { decision: JoinDecision::Denied, reason, message: message.into(), uses: None }
}

impl std::str::FromStr for AutoApprove {
    type Err = String;

    /// `PATTERN[,KEY=VALUE...]`
    fn from_str(text: &str) -> Result<Self, String> {
        let mut parts = text.split(',').map(str::trim);
        let names = parts.next().filter(|it| !it.is_empty()).ok_or("begins with no pattern of names")?;
        let label = |it: &str| match it.split_once('=') {
            Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
            _ => Err(format!("{it:?} is no label such as env=prod")),
        };
        if names.contains('=') {
            return Err(format!("{names:?} is no pattern of names such as eu-*"));
        }
        Ok(Self { names: names.to_owned(), labels: parts.map(label).collect::<Result<_, _>>()? })
    }
}

impl AutoApprove {
    fn covers(&self, asked: &Asked<'_>) -> bool {
        let has = |(key, value): &(String, String)| asked.spec.labels.get(key) == Some(value);
        matches_pattern(&self.names, asked.name) && self.labels.iter().all(has)
    }
}

/// Whether a name matches a pattern in which `*` stands for any text and `?` for one character.
pub fn matches_pattern(pattern: &str, name: &str) -> bool {
    let (pattern, name) = (pattern.as_bytes(), name.as_bytes());
    let (mut at, mut read) = (0, 0);
    // Where to go back to when the text after the last star does not fit.
    let mut star: Option<(usize, usize)> = None;
    while read < name.len() {
        match pattern.get(at) {
            Some(b'*') => {
                star = Some((at, read));
                at += 1;
            }
            Some(it) if *it == b'?' || *it == name[read] => {
                at += 1;
                read += 1;
            }
            _ => match &mut star {
                Some((from, taken)) => {
                    *taken += 1;
                    at = *from + 1;
                    read = *taken;
                }
                None => return false,
            },
        }
    }
    pattern[at..].iter().all(|it| *it == b'*')
}

#[cfg(test)]
mod tests;
