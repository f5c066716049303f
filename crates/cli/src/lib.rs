//! What does a person want to know of a fleet, or tell it?
//!
//! [`arguments`] is the command line; [`run`] carries out one command and comes to an [`Answer`]. Each command is one
//! folder or file: [`tokens`] and [`joining`] let clusters in, [`leaving`] takes them out, [`clusters`] shows and drains them, [`objects`] says where an
//! object runs and why, or would run, [`recover`] goes on after the hub was restored from an older copy. They read with [`connection`], decide with plain functions, and print with [`table`].
//! Where objects run is decided by the hub's own planner (ADR 10).

pub mod answer;
pub mod arguments;
pub mod clusters;
pub mod connection;
pub mod joining;
pub mod leaving;
pub mod objects;
pub mod recover;
pub mod table;
pub mod tokens;

pub use answer::{Answer, Error, Exit, Format};
pub use arguments::Arguments;

use arguments::{Command, TokenCommand};
use connection::Hub;

/// Carries out one command.
pub async fn run(arguments: Arguments) -> Result<Answer, Error> {
    let Arguments { kubeconfig, context, namespace, output: _, command } = arguments;
    let hub = Hub::connect(kubeconfig, context, namespace).await?;
    match command {
        Command::Token(TokenCommand::Create(wish)) => tokens::create(&hub, &wish).await,
        Command::Token(TokenCommand::List) => tokens::list(&hub).await,
        Command::Token(TokenCommand::Revoke { id }) => tokens::revoke(&hub, &id).await,
        Command::Join(wish) => joining::join(&hub, &wish).await,
        Command::Approve(it) => joining::answer(&hub, &it, joining::Word::Approve).await,
        Command::Deny(it) => joining::answer(&hub, &it, joining::Word::Deny).await,
        Command::Revoke { cluster, undo } => joining::accept(&hub, &cluster, undo).await,
        Command::Get { what: arguments::Listed::Clusters } => clusters::list(&hub).await,
        Command::Cordon { cluster } => clusters::mark(&hub, &cluster, clusters::Mark::Cordon).await,
        Command::Uncordon { cluster } => clusters::mark(&hub, &cluster, clusters::Mark::Uncordon).await,
        Command::Drain { cluster, move_stateful, timeout } => {
            clusters::drain(&hub, &cluster, clusters::Mark::Drain { move_stateful }, timeout).await
        }
        Command::Remove(wish) => leaving::remove(&hub, &wish).await,
        Command::Withdraw { object } => objects::withdraw(&hub, &object).await,
        Command::Detach { object, force_detach: _ } => objects::detach(&hub, &object).await,
        Command::Status { object } => objects::status(&hub, &object).await,
        Command::Explain { object } => objects::explain(&hub, &object).await,
        Command::Plan { file } => objects::plan(&hub, &file).await,
        Command::Recover { yes } => recover::recover(&hub, yes).await,
    }
}
