//! What the roles of this program have in common on the command line and in the environment.

pub(crate) mod without_effect;

pub(crate) use kruise_core::runtime::flags::{self as go, Listen, source};
pub use kruise_core::runtime::flags::{Environment, Log};

pub(crate) use without_effect::{FlagList, WithoutEffect};
