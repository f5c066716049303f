//! What the store should hold.

use rustls::pki_types::CertificateDer;

use super::{
    Authority, CA_KEY, Contents, Fault, Judgement, KeySet, Retired, Terms, issue, issue_with_new_authority,
    judge::{authority, judge},
    pem,
};

/// However often authorities change, no more than this many former ones are trusted.
const MOST_RETIRED: usize = 3;

/// What to do with the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// What it holds is good.
    Keep(KeySet),
    /// It must hold this instead.
    Write {
        /// The new set.
        keys: KeySet,
        /// Why it is written.
        reason: Reason,
    },
}

/// Why a set is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Reason {
    /// The certificate cannot be served, or not for long.
    #[error("new certificate: {0}")]
    Reissued(Fault),
    /// The store trusts another authority than the one this replica serves under.
    #[error("the authority in use is still trusted for a while")]
    Retired,
    /// Every replica has had time to leave the retired authorities.
    #[error("retired authorities are no longer trusted")]
    RetiredDropped,
}

/// Why no certificate could be made.
#[derive(Debug, thiserror::Error)]
pub enum IssueError {
    /// It could not be signed.
    #[error("the certificate could not be signed")]
    Unsigned(#[from] rcgen::Error),
    /// It would not be accepted. Storing it would only make the next round try again, and so for ever.
    #[error("a new certificate would not be accepted either")]
    Unacceptable(#[source] Fault),
}

/// Decides what the store should hold, given what was found there and what this replica `serving` presents now.
///
/// An authority that a replica serves under never leaves the set at once: it stays trusted as a retired one for
/// [`Terms::overlap`], also when somebody has deleted or replaced the Secret.
pub fn decide(
    found: Option<&Contents>,
    serving: Option<&KeySet>,
    terms: &Terms<'_>,
) -> Result<Decision, IssueError> {
    let (mut keys, reason) = match judge(found, terms) {
        Judgement::Reissue { authority: choice, fault } => {
            let keys = reissue(found, choice, terms)?;
            if let Judgement::Reissue { fault, .. } = judge(Some(&keys.contents()), terms) {
                return Err(IssueError::Unacceptable(fault));
            }
            (keys, Some(Reason::Reissued(fault)))
        }
        Judgement::DropRetired => {
            let keys = read(found)?;
            (KeySet { retired: None, ..keys }, Some(Reason::RetiredDropped))
        }
        Judgement::Keep => (read(found)?, None),
    };

    let mut reason = reason;
    let in_use = serving.and_then(|it| pem::certificates(&it.ca_cert)).unwrap_or_default();
    if retire(&mut keys, &in_use, terms) && reason.is_none() {
        reason = Some(Reason::Retired);
    }
    Ok(match reason {
        None => Decision::Keep(keys),
        Some(reason) => Decision::Write { keys, reason },
    })
}

fn read(found: Option<&Contents>) -> Result<KeySet, rcgen::Error> {
    // Only judged sets come here, so this cannot fail; saying so with an error is cheaper than a panic.
    found.and_then(|it| KeySet::read(it).ok()).ok_or(rcgen::Error::CouldNotParseCertificate)
}

fn reissue(found: Option<&Contents>, choice: Authority, terms: &Terms<'_>) -> Result<KeySet, rcgen::Error> {
    let none = Contents::new();
    let found = found.unwrap_or(&none);
    let stored = authority(found, terms).filter(|_| choice == Authority::Reuse);
    // Should the stored authority prove unable to sign after all, a new one takes its place.
    let mut keys = match stored.and_then(|(cert, key)| issue(terms, &cert, &key).ok()) {
        Some(keys) => KeySet { ca_key: found.get(CA_KEY).cloned().unwrap_or_default(), ..keys },
        None => issue_with_new_authority(terms)?,
    };

    keys.retired = Retired::read(found).filter(|it| terms.now < super::judge::later(it.at, terms.overlap));
    let stored = found.get(super::CA_CERT).and_then(|it| pem::certificates(it)).unwrap_or_default();
    retire(&mut keys, &stored, terms);
    Ok(keys)
}

/// Keeps `former` trusted beside the authority of `keys`; says whether that changed anything. Expired ones are of no use.
fn retire(keys: &mut KeySet, former: &[CertificateDer<'static>], terms: &Terms<'_>) -> bool {
    let trusted = pem::certificates(&keys.trust_bundle()).unwrap_or_default();
    let lost = former.iter().filter(|it| !trusted.contains(it)).filter(|it| {
        pem::validity(it).is_some_and(|(_, to)| to > terms.now) && pem::parse(it).is_some_and(|it| it.is_ca())
    });
    let mut retired: Vec<_> = lost.cloned().collect();
    if retired.is_empty() {
        return false;
    }
    retired.extend(keys.retired.iter().filter_map(|it| pem::certificates(&it.certs)).flatten());
    retired.truncate(MOST_RETIRED);
    keys.retired = Some(Retired { certs: pem::encode(&retired), at: terms.now });
    true
}
