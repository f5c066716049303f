//! The hub of this cluster: joined by hand with a kubeconfig, or asked by the cluster itself (ADR 9).

use std::{path::PathBuf, time::Duration};

use crate::{
    flags::go,
    link::credential::{self, Wish},
};

/// The flags about a hub.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct HubArguments {
    /// Carry out what a hub has planned for this cluster, which joins by itself: where the hub is, such as https://hub:6443
    #[arg(long, value_name = "URL")]
    hub_server: Option<String>,
    /// The authority of the hub, PEM
    #[arg(long, value_name = "FILE")]
    hub_ca_file: Option<PathBuf>,
    /// SHA-256 of the first certificate in that file, DER; another one is refused
    #[arg(long, value_name = "sha256:HEX")]
    hub_ca_hash: Option<String>,
    /// The bootstrap token; needed until the cluster has joined, and when its certificate has expired
    #[arg(long, value_name = "FILE")]
    hub_token_file: Option<PathBuf>,
    /// The name of this cluster in the fleet; with --hub-kubeconfig by default what follows `fleet-` in the name of its
    /// namespace there
    #[arg(long, value_name = "NAME")]
    hub_cluster: Option<String>,
    /// A label that the cluster proposes for itself; any number of them
    #[arg(long, value_name = "KEY=VALUE")]
    hub_label: Vec<String>,
    /// The region that it proposes for itself
    #[arg(long, value_name = "REGION")]
    hub_region: Option<String>,
    /// The zone that it proposes for itself
    #[arg(long, value_name = "ZONE")]
    hub_zone: Option<String>,
    /// Who runs its machines
    #[arg(long, value_name = "PROVIDER")]
    hub_provider: Option<String>,
    /// How long after it was taken up the certificate for the hub is renewed; by default after 60% of its life, or up to a
    /// tenth of it earlier
    #[arg(long, value_name = "DURATION", value_parser = go::duration)]
    hub_renew_after: Option<Duration>,

    /// Carry out what a hub has planned for this cluster, which was joined by hand: the kubeconfig file for the hub, whose
    /// context names this cluster's namespace there
    #[arg(long, value_name = "FILE")]
    hub_kubeconfig: Option<PathBuf>,
    /// With --hub-kubeconfig: the UID of the hub, by which its objects are known
    #[arg(long, value_name = "UID")]
    hub_uid: Option<String>,
}

/// A hub.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hub {
    /// Somebody has joined this cluster by hand.
    ByHand {
        /// The kubeconfig file for the hub.
        kubeconfig: PathBuf,
        /// The UID of the hub.
        uid: String,
        /// The name of this cluster there; by default what its namespace there says.
        cluster: Option<String>,
    },
    /// The cluster joins by itself.
    Joining {
        /// Where the hub is.
        server: String,
        /// The file with its authority.
        ca_file: PathBuf,
        /// The hash of that authority.
        ca_hash: Option<String>,
        /// What it asks for, and how.
        credential: credential::Settings,
    },
}

/// Flags about a hub that make no sense together.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// Both ways at once.
    #[error(
        "--{0} and --hub-kubeconfig exclude each other: --hub-server, --hub-ca-file and --hub-cluster are for a cluster that joins by \
         itself, --hub-kubeconfig and --hub-uid for one that was joined by hand; take one of them away"
    )]
    BothWays(&'static str),
    /// One flag needs another.
    #[error("--{flag} needs --{needs}: {why}")]
    Needs {
        /// The flag that is there.
        flag: &'static str,
        /// The one that is not.
        needs: &'static str,
        /// What it is for.
        why: &'static str,
    },
    /// A name that no cluster can have.
    #[error(
        "--hub-cluster is {0:?}: it must be small letters, digits, - and ., with a letter or digit at both ends"
    )]
    Name(String),
    /// No label.
    #[error("--hub-label is {0:?}: it must be KEY=VALUE")]
    Label(String),
}

impl HubArguments {
    /// The hub that they tell, if any.
    pub(super) fn read(self) -> Result<Option<Hub>, Fault> {
        let joining = self.of_joining();
        match (&self.hub_kubeconfig, &self.hub_server, joining) {
            (Some(_), _, Some(flag)) => Err(Fault::BothWays(flag)),
            (Some(_), ..) => self.by_hand().map(Some),
            (None, Some(_), _) => self.joining().map(Some),
            (None, None, Some(flag)) => Err(needs(flag, "hub-server", "where the hub is")),
            (None, None, None) => match (&self.hub_uid, &self.hub_cluster) {
                (Some(_), _) => Err(needs("hub-uid", "hub-kubeconfig", "the way to the hub")),
                (None, Some(_)) => Err(needs("hub-cluster", "hub-server", "where the hub is")),
                (None, None) => Ok(None),
            },
        }
    }

    /// The first flag that is only for a cluster which joins by itself.
    fn of_joining(&self) -> Option<&'static str> {
        let given = [
            ("hub-server", self.hub_server.is_some()),
            ("hub-ca-file", self.hub_ca_file.is_some()),
            ("hub-ca-hash", self.hub_ca_hash.is_some()),
            ("hub-token-file", self.hub_token_file.is_some()),
            ("hub-label", !self.hub_label.is_empty()),
            ("hub-region", self.hub_region.is_some()),
            ("hub-zone", self.hub_zone.is_some()),
            ("hub-provider", self.hub_provider.is_some()),
            ("hub-renew-after", self.hub_renew_after.is_some()),
        ];
        given.into_iter().find(|it| it.1).map(|it| it.0)
    }

    fn by_hand(self) -> Result<Hub, Fault> {
        let missing = needs("hub-kubeconfig", "hub-uid", "the UID of the hub's kube-system namespace");
        let (kubeconfig, uid) = self.hub_kubeconfig.zip(self.hub_uid).ok_or(missing)?;
        Ok(Hub::ByHand { kubeconfig, uid, cluster: self.hub_cluster })
    }

    fn joining(self) -> Result<Hub, Fault> {
        let missing = |flag, why| needs("hub-server", flag, why);
        if self.hub_uid.is_some() {
            return Err(needs(
                "hub-uid",
                "hub-kubeconfig",
                "a hub that is joined by the cluster itself tells its UID",
            ));
        }
        let server = self.hub_server.ok_or_else(|| missing("hub-server", "where the hub is"))?;
        let ca_file = self.hub_ca_file.ok_or_else(|| missing("hub-ca-file", "the authority of the hub"))?;
        let cluster =
            self.hub_cluster.ok_or_else(|| missing("hub-cluster", "the name that this cluster asks for"))?;
        if !is_name(&cluster) {
            return Err(Fault::Name(cluster));
        }
        let wish = Wish {
            cluster,
            labels: self.hub_label.iter().map(|it| label(it)).collect::<Result<_, _>>()?,
            region: self.hub_region,
            zone: self.hub_zone,
            provider: self.hub_provider,
        };
        let credential =
            credential::Settings { wish, token: self.hub_token_file, renew_after: self.hub_renew_after };
        Ok(Hub::Joining { server, ca_file, ca_hash: self.hub_ca_hash, credential })
    }
}

fn needs(flag: &'static str, needs: &'static str, why: &'static str) -> Fault {
    Fault::Needs { flag, needs, why }
}

fn is_name(name: &str) -> bool {
    let is_fine = |it: u8| it.is_ascii_lowercase() || it.is_ascii_digit() || b"-.".contains(&it);
    let ends = |it: &str| it.starts_with(['-', '.']) || it.ends_with(['-', '.']);
    !name.is_empty() && name.len() <= 253 && name.bytes().all(is_fine) && !ends(name)
}

fn label(text: &str) -> Result<(String, String), Fault> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err(Fault::Label(text.to_owned())),
    }
}
