//! The shell around the credential: asks for it, keeps it, renews it, and lets the link begin once there is one.

mod rounds;

use std::time::Duration;

use jiff::Timestamp;
use kruise_core::{
    backoff::Doubling,
    runtime::{
        client::{ConnectError, Error, Swap},
        clock::{Clock, Seed},
        events::Recorder,
    },
};
use kube::Client;
use tokio::{sync::oneshot, time::Instant};
use tracing::{debug, info, warn};

use super::{
    Open, Settings, ask,
    held::Credential,
    identity::Key,
    kept::{Kept, Membership},
    plan::{self, Proof, Step},
    teller::{Notice, Teller, reasons},
    vault::{Found, Vault},
};
use crate::link::standing::{Standing, Standings};

/// How soon something is looked at again that the hub, or our own cluster, does in a moment.
const SOON: Doubling = Doubling { first: Duration::from_secs(1), ceiling: Duration::from_secs(15) };
/// And something for which a person is needed.
const LATE: Doubling = Doubling { first: Duration::from_secs(10), ceiling: Duration::from_secs(60) };

/// What a keeper is made from.
pub struct Parts {
    /// What it is told.
    pub settings: Settings,
    /// Opens the hub.
    pub open: Open,
    /// The member cluster.
    pub member: Client,
    /// The agent's own namespace there.
    pub namespace: String,
    /// What the hub thinks of us.
    pub standings: Standings,
    /// Tells people.
    pub events: Recorder,
    /// Time.
    pub clock: Clock,
    /// Chance, for names.
    pub chance: Seed,
}

/// What the link begins with.
pub struct Joined {
    /// The hub, whoever we are there at the moment.
    pub hub: Client,
    /// Where the cluster belongs.
    pub membership: Membership,
}

/// Keeps the credential of one cluster.
pub struct Keeper {
    settings: Settings,
    open: Open,
    member: Client,
    vault: Vault,
    standings: Standings,
    teller: Teller,
    clock: Clock,
    chance: Seed,
    /// The client that the link uses, once there is one.
    swap: Option<Swap>,
    /// A credential that the hub does not take.
    refused: Option<Credential>,
    asked: Option<Instant>,
    sent: Option<(String, Timestamp)>,
    failures: u32,
}

/// What comes after a step.
enum Then {
    /// Look again at once.
    Go,
    /// Something is about to happen.
    Soon,
    /// A person has to act.
    Late,
}

/// Why a step was not done.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error(transparent)]
    Api(#[from] Error),
    #[error("no client can be built with our credential")]
    Connect(#[from] ConnectError),
    #[error("no key can be made")]
    Key(#[from] rcgen::Error),
}

impl Keeper {
    /// A keeper that has not looked at anything yet.
    pub fn new(parts: Parts) -> Self {
        let Parts { settings, open, member, namespace, standings, events, clock, chance } = parts;
        Self {
            vault: Vault::new(member.clone(), &namespace),
            teller: Teller::new(events, &namespace),
            settings,
            open,
            member,
            standings,
            clock,
            chance,
            swap: None,
            refused: None,
            asked: None,
            sent: None,
            failures: 0,
        }
    }

    /// Keeps the credential for ever, and hands over the hub as soon as there is one to show: at once where the cluster has
    /// joined before, whether the hub is there or not (PROTO-6).
    pub async fn run(mut self, begin: oneshot::Sender<Joined>) {
        let mut begin = Some(begin);
        loop {
            let then = match self.step(&mut begin).await {
                Ok(then) => then,
                Err(failure) => {
                    warn!(
                        error = &failure as &dyn std::error::Error,
                        "the credential for the hub has to wait"
                    );
                    Then::Soon
                }
            };
            self.pause(then).await;
        }
    }

    async fn step(&mut self, begin: &mut Option<oneshot::Sender<Joined>>) -> Result<Then, Failure> {
        // Before it is looked at, so that no change is missed.
        let mut standing = self.standings.subscribe();
        let found = match self.vault.load().await? {
            Found::Unusable(what) => {
                let message = format!(
                    "the Secret fleet-hub-credential has no usable {what}; put it back, or delete the Secret and its MemberCluster to join anew"
                );
                self.teller.tell(Notice::bad(reasons::UNUSABLE, message));
                return Ok(Then::Late);
            }
            Found::Nothing => None,
            Found::Kept(kept, version) => Some((kept, version)),
        };
        if let Some((kept, version)) = &found {
            self.begin(kept, begin)?;
            let heard = self.standings.get();
            let meant = plan::meant(kept, heard, self.clock.now());
            if meant != heard {
                self.standings.set(meant);
            }
            if let Some(kept) = kept.standing(self.standings.get()) {
                self.vault.put(&kept, version).await?;
                return Ok(Then::Go);
            }
        }
        let (cluster, renew_after) = (&self.settings.wish.cluster, self.settings.renew_after);
        let known = found.as_ref().map(|it| &*it.0);
        let step = plan::next(known, cluster, self.standings.get(), renew_after, self.clock.now());
        debug!(?step, "the credential");
        match (step, found) {
            (Step::Rest(wait), _) => {
                let _ = tokio::time::timeout(wait, standing.changed()).await;
                Ok(Then::Go)
            }
            (Step::Rename, Some((kept, version))) => {
                let kept = Kept { cluster: cluster.clone(), request: None, ..*kept };
                self.vault.put(&kept, &version).await?;
                Ok(Then::Go)
            }
            (Step::Refuse, Some((kept, _))) => {
                let message = format!(
                    "this cluster has joined as {}: say --hub-cluster={}, or delete the Secret fleet-hub-credential and the MemberCluster {} to join as {cluster}",
                    kept.cluster, kept.cluster, kept.cluster
                );
                self.teller.tell(Notice::bad(reasons::UNUSABLE, message));
                Ok(Then::Late)
            }
            (Step::Prove, Some((kept, version))) => self.prove(&kept, &version).await,
            (Step::Join, Some((kept, version))) => self.join(&kept, &version).await,
            (Step::Renew, Some((kept, version))) => self.renew(&kept, &version).await,
            (_, None) | (Step::MakeKey, _) => {
                self.vault.create(&Kept::new(cluster, Key::generate()?)).await?;
                info!("a key for the hub was made; it stays in this cluster");
                Ok(Then::Go)
            }
        }
    }

    /// Lets the link begin with what is kept.
    fn begin(&mut self, kept: &Kept, begin: &mut Option<oneshot::Sender<Joined>>) -> Result<(), Failure> {
        let (Some(held), Some(membership)) = (&kept.held, &kept.membership) else { return Ok(()) };
        if begin.is_none() {
            return Ok(());
        }
        if kept.is_revoked {
            self.standings.set(Standing::Revoked);
        }
        let client = self.as_agent(kept, &held.credential)?;
        let swap = Swap::new(client);
        let hub = swap.client(&membership.namespace);
        self.swap = Some(swap);
        if let Some(begin) = begin.take() {
            // Nobody listens any more when the process ends.
            let _ = begin.send(Joined { hub, membership: membership.clone() });
        }
        Ok(())
    }

    /// Uses the credential that has come, and only then forgets the one before (JOIN-4).
    async fn prove(&mut self, kept: &Kept, version: &str) -> Result<Then, Failure> {
        let Some(next) = &kept.next else { return Ok(Then::Go) };
        let client = match self.as_agent(kept, next) {
            Ok(client) => client,
            Err(failure) => return self.reject(kept, version, &failure.to_string()).await,
        };
        let answer = ask::renewed(&client, &kept.cluster).await;
        match plan::proof(answer.as_ref().map(drop).map_err(Error::code)) {
            Proof::Unknown => {
                answer?;
                Ok(Then::Soon)
            }
            Proof::Bad => self.reject(kept, version, "the hub does not take it").await,
            Proof::Good => {
                let is_first = kept.held.is_none();
                self.vault.put(&kept.taken_up(self.clock.now()), version).await?;
                if let Some(swap) = &self.swap {
                    swap.set(client);
                }
                (self.asked, self.refused, self.sent) = (None, None, None);
                if self.standings.get().is_forgotten() {
                    // What it says of us now counts, and that it knows us is not yet that it accepts us.
                    self.standings.hear(&answer);
                }
                self.teller.tell(Notice::taken_up(&kept.cluster, is_first, next.ends()));
                Ok(Then::Go)
            }
        }
    }

    async fn reject(&mut self, kept: &Kept, version: &str, why: &str) -> Result<Then, Failure> {
        let message = format!("the credential that came from the hub cannot be used: {why}");
        self.teller.tell(Notice::bad(reasons::UNUSABLE, message));
        self.refused = kept.next.clone();
        self.vault.put(&Kept { next: None, request: None, ..kept.clone() }, version).await?;
        Ok(Then::Late)
    }

    fn as_agent(&self, kept: &Kept, credential: &Credential) -> Result<Client, ConnectError> {
        (self.open)(&credential.user(&kept.key))
    }

    async fn pause(&mut self, then: Then) {
        let wait = match then {
            Then::Go => {
                self.failures = 0;
                return;
            }
            Then::Soon => SOON,
            Then::Late => LATE,
        };
        self.failures = self.failures.saturating_add(1);
        tokio::time::sleep(wait.delay(self.failures)).await;
    }
}

impl std::fmt::Debug for Parts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Parts").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Joined {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Joined").field("membership", &self.membership).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Keeper {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Keeper").field("settings", &self.settings).finish_non_exhaustive()
    }
}
