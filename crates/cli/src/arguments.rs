//! The command line.

use std::{path::PathBuf, time::Duration};

use clap::{Args, Parser, Subcommand, ValueEnum};
use kruise_core::runtime::flags;

use crate::{Format, objects::Named};

const EXIT_CODES: &str = "\
Exit codes:
  0  done
  1  an error
  2  a change is pending: pods would move, or an answer is waited for
  3  refused, by a role, by admission or by a rule
  4  it took too long

Examples:
  kubectl fleet token create --for 'eu-*' --uses 3
  kubectl fleet join eu-1 --print > eu-1.yaml
  kubectl fleet get clusters
  kubectl fleet explain cloneset/web -n shop
  kubectl fleet plan -f web.yaml || echo 'pods would move'";

/// `kubectl fleet`.
#[derive(Debug, Parser)]
#[command(name = "kubectl-fleet", bin_name = "kubectl fleet", version, about = "What runs where in a fleet, and why",
          after_help = EXIT_CODES)]
pub struct Arguments {
    /// The kubeconfig file for the hub; without it KUBECONFIG, then ~/.kube/config
    #[arg(long, value_name = "FILE", global = true)]
    pub kubeconfig: Option<PathBuf>,
    /// The context in the kubeconfig
    #[arg(long, global = true)]
    pub context: Option<String>,
    /// The namespace of objects and policies; that of the context by default
    #[arg(long, short, global = true)]
    pub namespace: Option<String>,
    /// How the answer is printed
    #[arg(long, short, value_enum, default_value_t, global = true)]
    pub output: Format,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Bootstrap tokens, with which clusters ask to join
    #[command(subcommand)]
    Token(TokenCommand),
    /// Print what to apply in a cluster that is to join, and the flags of its agent
    #[command(
        after_help = "Example:\n  kubectl fleet join eu-1 --print --label env=prod | kubectl --context eu-1 apply -f -"
    )]
    Join(Join),
    /// Let a cluster in that asks to join
    #[command(after_help = "Example:\n  kubectl fleet approve eu-1")]
    Approve(Decision),
    /// Turn a cluster away that asks to join
    #[command(after_help = "Example:\n  kubectl fleet deny eu-1")]
    Deny(Decision),
    /// Take a cluster's rights on the hub away; what runs there goes on
    #[command(after_help = "Example:\n  kubectl fleet revoke eu-1\n  kubectl fleet revoke eu-1 --undo")]
    Revoke {
        /// The name of the cluster
        cluster: String,
        /// Give them back
        #[arg(long)]
        undo: bool,
    },
    /// List things of the fleet
    #[command(after_help = "Example:\n  kubectl fleet get clusters -o json")]
    Get {
        /// What to list
        #[arg(value_enum)]
        what: Listed,
    },
    /// Give a cluster no further replicas; those it has stay
    #[command(after_help = "Example:\n  kubectl fleet cordon eu-1")]
    Cordon {
        /// The name of the cluster
        cluster: String,
    },
    /// Use a cluster again that was cordoned or drained
    #[command(after_help = "Example:\n  kubectl fleet uncordon eu-1")]
    Uncordon {
        /// The name of the cluster
        cluster: String,
    },
    /// Move everything away from a cluster, but for pods that have volumes of their own
    #[command(after_help = "Example:\n  kubectl fleet drain eu-1 --timeout 30m")]
    Drain {
        /// The name of the cluster
        cluster: String,
        /// Move pods that have volumes of their own too: the volumes stay behind, and the pods begin with empty ones elsewhere
        #[arg(long)]
        move_stateful: bool,
        /// How long to wait until the cluster is empty; 0 not to wait
        #[arg(long, value_name = "DURATION", default_value = "0", value_parser = flags::duration)]
        timeout: Duration,
    },
    /// Take a cluster out of the fleet: it is drained first, and its rights go last
    #[command(
        after_help = "Example:\n  kubectl fleet remove eu-1 --timeout 30m\n  kubectl fleet remove eu-1 --orphan\n  kubectl fleet remove eu-1 --force"
    )]
    Remove(Removal),
    /// Take an object that no policy places any more back from all clusters; it stays on the hub
    #[command(after_help = "Example:\n  kubectl fleet withdraw cloneset/web -n shop")]
    Withdraw {
        /// KIND/NAME
        object: Named,
    },
    /// Finish the deletion of an object although clusters that are not heard have not answered
    #[command(after_help = "Example:\n  kubectl fleet detach cloneset/web -n shop --force-detach")]
    Detach {
        /// KIND/NAME
        object: Named,
        /// They are told when they are back; until then what they run goes on
        #[arg(long, required = true)]
        force_detach: bool,
    },
    /// How an object stands in each cluster
    #[command(after_help = "Example:\n  kubectl fleet status cloneset/web -n shop")]
    Status {
        /// KIND/NAME
        object: Named,
    },
    /// Why an object runs where it runs: policies, clusters, and what holds it up
    #[command(after_help = "Example:\n  kubectl fleet explain cloneset/web -n shop")]
    Explain {
        /// KIND/NAME
        object: Named,
    },
    /// Where objects would run if a file were applied; writes nothing, exit code 2 if pods would move
    #[command(
        after_help = "Example:\n  kubectl fleet plan -f web.yaml\n  kubectl get pp web -o yaml | kubectl fleet plan -f -"
    )]
    Plan {
        /// Objects, policies and clusters as they would be; `-` for standard input
        #[arg(long = "filename", short = 'f', value_name = "FILE")]
        file: String,
    },
    /// After the hub was restored from an older copy: which clusters carry out newer plans, and going on from there
    #[command(after_help = "Example:\n  kubectl fleet recover\n  kubectl fleet recover --yes")]
    Recover {
        /// Go on from what the clusters have; without it nothing is written, and the exit code is 2 if there are such clusters
        #[arg(long)]
        yes: bool,
    },
}

/// What `get` lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Listed {
    /// The clusters of the fleet
    #[value(alias = "cluster", alias = "mc")]
    Clusters,
}

/// `token ...`
#[derive(Debug, Subcommand)]
pub enum TokenCommand {
    /// Make a token
    #[command(
        after_help = "Example:\n  kubectl fleet token create --for eu-1\n  kubectl fleet token create --for 'eu-*' --ttl 24h --uses 10"
    )]
    Create(TokenWish),
    /// List tokens, without their secrets
    #[command(after_help = "Example:\n  kubectl fleet token list")]
    List,
    /// Make a token useless. Clusters that have joined with it stay
    #[command(after_help = "Example:\n  kubectl fleet token revoke abcdef")]
    Revoke {
        /// The first part of the token, before the dot
        id: String,
    },
}

/// A token that somebody wants.
#[derive(Debug, Clone, Args)]
pub struct TokenWish {
    /// The name that a cluster may ask for, or a pattern with * and ?
    #[arg(long = "for", value_name = "NAME")]
    pub pattern: String,
    /// How long it is good for
    #[arg(long, value_name = "DURATION", default_value = "1h", value_parser = flags::duration)]
    pub ttl: Duration,
    /// How many clusters may join with it
    #[arg(long, value_name = "COUNT", default_value = "1", value_parser = clap::value_parser!(u32).range(1..))]
    pub uses: u32,
}

/// `join`
#[derive(Debug, Clone, Args)]
pub struct Join {
    /// The name that the cluster gets in the fleet
    pub cluster: String,
    /// Print what to do; nothing is done in the cluster
    #[arg(long, required = true)]
    pub print: bool,
    /// The token; one for this cluster alone, good for an hour, is made without it
    #[arg(long)]
    pub token: Option<String>,
    /// Where the cluster reaches the hub, if not as this kubeconfig does
    #[arg(long, value_name = "URL")]
    pub server: Option<String>,
    /// The namespace of the agent in the cluster
    #[arg(long, value_name = "NAMESPACE", default_value = "kruise-system")]
    pub agent_namespace: String,
    /// A label that the cluster proposes for itself; may be given several times
    #[arg(long = "label", value_name = "KEY=VALUE")]
    pub labels: Vec<String>,
    /// The region the cluster is in
    #[arg(long)]
    pub region: Option<String>,
    /// The zone the cluster is in
    #[arg(long)]
    pub zone: Option<String>,
    /// Who runs the machines
    #[arg(long)]
    pub provider: Option<String>,
}

/// `remove`
#[derive(Debug, Clone, Args)]
pub struct Removal {
    /// The name of the cluster
    pub cluster: String,
    /// Leave what runs there; it goes on by itself, and the fleet replaces it elsewhere
    #[arg(long)]
    pub orphan: bool,
    /// Do not wait for replacements, nor for a cluster that is not heard
    #[arg(long)]
    pub force: bool,
    /// How long to wait until the cluster has left; 0 not to wait
    #[arg(long, value_name = "DURATION", default_value = "0", value_parser = flags::duration)]
    pub timeout: Duration,
}

/// `approve` and `deny`
#[derive(Debug, Clone, Args)]
pub struct Decision {
    /// The name of the cluster, which is that of its JoinRequest
    pub cluster: String,
    /// How long to wait for the hub's answer; 0 not to wait
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = flags::duration)]
    pub timeout: Duration,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    /// Every command that does something, with all of its words.
    fn commands(of: &clap::Command, words: &str) -> Vec<(String, clap::Command)> {
        let below = of.get_subcommands().filter(|it| it.get_name() != "help");
        let named = below.flat_map(|it| commands(it, &format!("{words} {}", it.get_name())));
        let named: Vec<_> = named.collect();
        if named.is_empty() { vec![(words.to_owned(), of.clone())] } else { named }
    }

    #[test]
    fn section_21_every_command_has_an_example_and_can_answer_in_json() {
        let mut command = Arguments::command();
        command.clone().debug_assert();
        command.build();
        let all = commands(&command, "kubectl fleet");
        assert_eq!(all.len(), 18, "{:?}", all.iter().map(|it| &it.0).collect::<Vec<_>>());
        for (words, it) in all {
            let help = it.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(help.contains(&words), "{words}");
            assert!(it.get_arguments().any(|it| it.get_short() == Some('o')), "{words}");
        }
    }

    #[test]
    fn every_command_is_in_the_page_about_them() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/cli.md");
        let page = std::fs::read_to_string(page).unwrap();
        for it in Arguments::command().get_subcommands() {
            assert!(page.contains(&format!("`{} ", it.get_name())), "{}", it.get_name());
        }
    }

    #[test]
    fn what_cannot_be_used_is_named() {
        let wrong = |it: &[&str]| {
            Arguments::try_parse_from([&["kubectl-fleet"], it].concat()).unwrap_err().to_string()
        };
        assert!(
            wrong(&["token", "create", "--for", "a", "--ttl", "5"]).contains("is no duration such as 60s")
        );
        assert!(wrong(&["token", "create", "--for", "a", "--uses", "0"]).contains("0 is not in 1.."));
        assert!(wrong(&["status", "web"]).contains("KIND/NAME"));
        assert!(wrong(&["status", "pod/web"]).contains("cloneset"));
        assert!(wrong(&["join", "eu-1"]).contains("--print"));
    }
}
