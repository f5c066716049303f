//! Flags of OpenKruise's programs that mean nothing here. They are accepted, so that existing manifests start, and
//! reported, so that nobody relies on them.

use std::marker::PhantomData;

use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches, parser::ValueSource};

/// Why klog's flags have no effect.
pub(crate) const LOGS: &str = "logs always go to standard error";
/// Why those about profiling have none.
pub(crate) const PPROF: &str = "there is no profiling endpoint";
/// Why those about the rate of requests have none.
pub(crate) const RATE: &str = "the API server's own refusals set the pace";

/// The flags of one program, each with the reason why it has no effect.
pub(crate) trait FlagList {
    /// The flags.
    const FLAGS: &'static [(&'static str, &'static str)];
}

/// Those of the flags that were given, with the reason why they have no effect.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct WithoutEffect<L> {
    pub(crate) given: Vec<(&'static str, &'static str)>,
    of: PhantomData<L>,
}

impl<L: FlagList> FromArgMatches for WithoutEffect<L> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut this = Self { given: Vec::new(), of: PhantomData };
        this.update_from_arg_matches(matches)?;
        Ok(this)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        let was_given = |name: &str| matches.value_source(name) == Some(ValueSource::CommandLine);
        self.given = L::FLAGS.iter().copied().filter(|(name, _)| was_given(name)).collect();
        Ok(())
    }
}

impl<L: FlagList> Args for WithoutEffect<L> {
    fn augment_args(command: Command) -> Command {
        L::FLAGS.iter().fold(command, |command, (name, reason)| {
            let arg = Arg::new(*name)
                .long(*name)
                .num_args(0..=1)
                .value_name("VALUE")
                .action(ArgAction::Append)
                .help_heading("Accepted for compatibility, without effect")
                .hide_short_help(true)
                .help(*reason);
            command.arg(arg)
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}
