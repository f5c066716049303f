//! What a command comes to: something to print, and an exit code.

use kruise_core::runtime::client;
use serde_json::Value;

/// How an answer is printed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// For people.
    #[default]
    Table,
    /// For programs.
    Json,
}

/// How a command ended. The numbers are part of the interface (section 21).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// It is done.
    Done,
    /// Something went wrong.
    Failed,
    /// Pods would move, or something waits for an answer.
    Pending,
    /// The hub, or a rule of it, says no.
    Refused,
    /// It took too long.
    TimedOut,
}

impl Exit {
    /// The exit code of the process.
    pub fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Failed => 1,
            Self::Pending => 2,
            Self::Refused => 3,
            Self::TimedOut => 4,
        }
    }
}

/// What a command comes to.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// For people.
    pub text: String,
    /// For programs.
    pub value: Value,
    /// How it ended.
    pub exit: Exit,
}

impl Answer {
    /// Done, and this is what there is to say.
    pub fn done(text: impl Into<String>, value: Value) -> Self {
        Self { text: text.into(), value, exit: Exit::Done }
    }

    /// As it is printed, with a line end.
    pub fn printed(&self, format: Format) -> String {
        match format {
            Format::Table => format!("{}\n", self.text.trim_end()),
            Format::Json => format!("{:#}\n", self.value),
        }
    }
}

/// Why a command did not come to an answer.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no way to the hub.
    #[error("no way to the hub: check --kubeconfig and --context, or KUBECONFIG")]
    Connect(#[source] client::ConnectError),
    /// The hub refused or did not answer.
    #[error(transparent)]
    Call(#[from] client::Error),
    /// What was asked for is not there.
    #[error("{0}")]
    NotFound(String),
    /// An argument, or a field of a file, cannot be used.
    #[error("{field}: {fault}")]
    Input {
        /// The flag or field.
        field: String,
        /// What is wrong, and what would do.
        fault: String,
    },
    /// A rule says no.
    #[error("refused: {0}")]
    Refused(String),
    /// It took too long.
    #[error("{0}")]
    TimedOut(String),
    /// A file cannot be read.
    #[error("--filename {path}: it cannot be read")]
    File {
        /// The file.
        path: String,
        /// The reason.
        source: std::io::Error,
    },
}

impl Error {
    /// An argument or field that cannot be used.
    pub fn input(field: impl Into<String>, fault: impl Into<String>) -> Self {
        Self::Input { field: field.into(), fault: fault.into() }
    }

    /// The exit code.
    pub fn exit(&self) -> Exit {
        match self {
            Self::Refused(_) => Exit::Refused,
            // Forbidden by roles or admission, or invalid by the schema.
            Self::Call(call) if matches!(call.code(), Some(403 | 422)) => Exit::Refused,
            Self::Call(client::Error::Timeout { .. }) | Self::TimedOut(_) => Exit::TimedOut,
            _ => Exit::Failed,
        }
    }

    /// The error in one line, causes included.
    pub fn told(&self) -> String {
        if let Self::Call(call) = self {
            return call.told();
        }
        let mut text = self.to_string();
        let mut cause = std::error::Error::source(self);
        while let Some(it) = cause {
            text = format!("{text}: {it}");
            cause = it.source();
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::*;

    fn refused(code: u16) -> Error {
        let status =
            serde_json::from_value(json!({"code": code, "message": "no", "reason": "Forbidden"})).unwrap();
        Error::Call(client::Error::Api { call: "get", source: kube::Error::Api(status) })
    }

    #[test]
    fn exit_codes_are_those_of_the_specification() {
        let exits = [Exit::Done, Exit::Failed, Exit::Pending, Exit::Refused, Exit::TimedOut];
        assert_eq!(exits.map(Exit::code), [0, 1, 2, 3, 4]);
        assert_eq!(
            (refused(403).exit(), refused(422).exit(), refused(500).exit()),
            (Exit::Refused, Exit::Refused, Exit::Failed)
        );
        let late = client::Error::Timeout { call: "get", after: Duration::from_secs(30) };
        assert_eq!(Error::Call(late).exit(), Exit::TimedOut);
    }

    #[test]
    fn an_answer_is_one_text_for_people_and_one_for_programs() {
        let answer = Answer::done("ab\n\n", json!({"a": 1}));
        assert_eq!(answer.printed(Format::Table), "ab\n");
        assert_eq!(answer.printed(Format::Json), "{\n  \"a\": 1\n}\n");
    }
}
