//! One look at the hub each: as somebody who asks to join, and as a member that renews its credential.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Namespace;
use kruise_core::{
    api::fleet::join_request::JoinRequestSpec,
    runtime::client::{Error, User, call},
};
use kube::{Api, Client};
use tracing::{debug, info};

use super::{
    super::{
        IDENTIFYING_NAMESPACE,
        ask::{self, Made},
        joining::{self, Waiting},
        kept::{Kept, Signing},
        renewing,
        teller::{Notice, reasons},
    },
    Failure, Keeper, Then,
};
use crate::link::standing::Standing;

/// A CertificateSigningRequest that waits for a decision is sent again as often as this: API servers forget old ones.
const SIGN_AGAIN: SignedDuration = SignedDuration::from_hours(1);

impl Keeper {
    /// One look at our request to join, with the token.
    pub(super) async fn join(&mut self, kept: &Kept, version: &str) -> Result<Then, Failure> {
        let expired = kept.held.as_ref().map(|it| it.credential.clone());
        if expired.is_some() {
            let help = "it asks to join again with the same key, for which it needs a token in the file of --hub-token-file";
            let message =
                format!("the hub does not take the credential of {} any more; {help}", kept.cluster);
            // Once: what comes of it is told next.
            if self.asked.is_none() && self.failures == 0 {
                self.teller.tell(Notice::bad(reasons::EXPIRED, message));
            }
        }
        let Some(token) = self.token() else { return Ok(Then::Late) };
        let id = token.split('.').next().unwrap_or_default().to_owned();
        let hub = (self.open)(&User::Token(token))?;
        let seen = match ask::look(&hub, &kept.cluster).await {
            Ok(seen) => seen,
            Err(error) => return self.unheard(error),
        };
        let asked = self.asked.map(|it| self.clock.since(it));
        match joining::next(kept, &seen, asked, self.refused.as_ref().or(expired.as_ref())) {
            joining::Move::Ask => self.ask(&hub, kept, version, &id).await,
            joining::Move::Take { credential, membership } => {
                let kept = Kept {
                    next: Some(credential),
                    membership: Some(membership),
                    request: None,
                    ..kept.clone()
                };
                self.vault.put(&kept, version).await?;
                Ok(Then::Go)
            }
            joining::Move::Wait(waiting) => self.wait(&hub, kept, version, &seen, &waiting).await,
        }
    }

    async fn wait(
        &mut self,
        hub: &Client,
        kept: &Kept,
        version: &str,
        seen: &joining::Seen,
        waiting: &Waiting,
    ) -> Result<Then, Failure> {
        if let Some(notice) = Notice::waiting(&kept.cluster, waiting) {
            self.teller.tell(notice);
        }
        let named = match seen {
            joining::Seen::There(request) => request.spec.signing_request.clone(),
            _ => None,
        };
        if waiting.needs_signing()
            && let Some(name) = named
        {
            self.sign(hub, kept, &name).await?;
        }
        // What was denied is not asked for again under the same name.
        if waiting.is_stuck() && kept.request.is_some() {
            self.vault.put(&Kept { request: None, ..kept.clone() }, version).await?;
        }
        Ok(if waiting.is_stuck() { Then::Late } else { Then::Soon })
    }

    /// Sends both requests. The name of the first is kept before it is sent, so that a restart sends no second one.
    async fn ask(&mut self, hub: &Client, kept: &Kept, version: &str, token: &str) -> Result<Then, Failure> {
        let Some(request) = kept.request_by(Some(token)) else {
            let request = Some(self.make_up(Some(token)));
            self.vault.put(&Kept { request, ..kept.clone() }, version).await?;
            return Ok(Then::Go);
        };
        let namespaces: Api<Namespace> = Api::all(self.member.clone());
        let own = call("read the UID of this cluster", namespaces.get(IDENTIFYING_NAMESPACE)).await?;
        let wish = self.settings.wish.clone();
        let spec = JoinRequestSpec {
            cluster_uid: own.metadata.uid.unwrap_or_default(),
            public_key: kept.key.public_key(),
            labels: wish.labels,
            region: wish.region,
            zone: wish.zone,
            provider: wish.provider,
            signing_request: Some(request.name.clone()),
            agent_version: Some(env!("CARGO_PKG_VERSION").to_owned()),
        };
        self.sent = None;
        match self.sign(hub, kept, &request.name).await {
            Err(Failure::Api(error)) => return self.unheard(error),
            other => other?,
        }
        match ask::join(hub, &kept.cluster, spec).await {
            Ok(made) => {
                info!(
                    cluster = kept.cluster,
                    signing_request = request.name,
                    "asked the hub to let this cluster join"
                );
                // The first time that may be our own, from before a restart.
                if self.asked.replace(self.clock.instant()).is_some() && made == Made::Before {
                    self.teller.tell(Notice::closed(&kept.cluster));
                }
                Ok(Then::Soon)
            }
            Err(error) => self.unheard(error),
        }
    }

    /// One look at what the hub has signed for us, as ourselves.
    pub(super) async fn renew(&mut self, kept: &Kept, version: &str) -> Result<Then, Failure> {
        let Some(held) = &kept.held else { return Ok(Then::Soon) };
        let hub = self.as_agent(kept, &held.credential)?;
        let answer = ask::renewed(&hub, &kept.cluster).await;
        if let Err(error) = &answer
            && error.code() == Some(401)
        {
            self.standings.set(Standing::Unrecognized);
            return Ok(Then::Go);
        }
        let (offered, now) = (answer?, self.clock.now());
        let sent = self.sent.as_ref().map(|it| it.0.as_str());
        let hub_uid = kept.membership.as_ref().map_or("", |it| it.hub_uid.as_str());
        // What is not ours is no offer.
        let offers: Vec<_> = offered.read(&kept.key, &kept.cluster, hub_uid).into_iter().flatten().collect();
        match renewing::next(kept, &offers, sent, self.refused.as_ref(), now) {
            renewing::Move::Take(credential) => {
                self.vault.put(&Kept { next: Some(credential), ..kept.clone() }, version).await?;
                Ok(Then::Go)
            }
            renewing::Move::Ask => {
                self.vault.put(&Kept { request: Some(self.make_up(None)), ..kept.clone() }, version).await?;
                Ok(Then::Go)
            }
            renewing::Move::Send(name) => {
                self.sign(&hub, kept, &name).await?;
                debug!(signing_request = name, "asked for a newer credential");
                Ok(Then::Soon)
            }
            renewing::Move::Wait => Ok(Then::Soon),
        }
    }

    /// Sends a CertificateSigningRequest, unless that was done a moment ago.
    async fn sign(&mut self, hub: &Client, kept: &Kept, name: &str) -> Result<(), Failure> {
        let now = self.clock.now();
        let is_fresh =
            |(sent, at): &(String, Timestamp)| sent == name && now.duration_since(*at) < SIGN_AGAIN;
        if self.sent.as_ref().is_some_and(is_fresh) {
            return Ok(());
        }
        ask::sign(hub, name, &kept.key.signing_request(&kept.cluster)?).await?;
        self.sent = Some((name.to_owned(), now));
        Ok(())
    }

    /// What it means that the hub did not do what was asked with the token.
    fn unheard(&mut self, error: Error) -> Result<Then, Failure> {
        match error.code() {
            Some(401) => self.teller.tell(Notice::unknown_token()),
            // In the hub's own words: which name the token is for, or that it is used up.
            Some(403) => self.teller.tell(Notice::bad(reasons::TOKEN_REJECTED, error.told())),
            _ => return Err(error.into()),
        }
        Ok(Then::Late)
    }

    /// The token, read anew each time: somebody may have put another one there.
    fn token(&mut self) -> Option<String> {
        let read = match &self.settings.token {
            None => Err("there is no --hub-token-file".to_owned()),
            Some(path) => std::fs::read_to_string(path).map_err(|it| format!("{}: {it}", path.display())),
        };
        match read.map(|it| it.trim().to_owned()) {
            Ok(token) if !token.is_empty() => Some(token),
            other => {
                let why = other.err().unwrap_or_else(|| "the file of --hub-token-file is empty".to_owned());
                let help = "joining needs what `kubectl fleet token create` prints";
                self.teller.tell(Notice::bad(reasons::TOKEN_REJECTED, format!("{help}: {why}")));
                None
            }
        }
    }

    fn make_up(&self, token: Option<&str>) -> Signing {
        let name = format!("fleet-agent-{:016x}{:016x}", self.chance.draw(), self.chance.draw());
        Signing { name, since: self.clock.now(), by: token.map(str::to_owned) }
    }
}
