//! An error and what caused it, in one line.

use std::{error::Error, fmt};

/// Prints `error` and every cause of it, with `: ` between them. A cause that an error has told already, as those of many
/// libraries do, is not told again.
///
/// For messages that people read elsewhere than in the log; a log line that gets `error = &error as &dyn Error` prints
/// causes by itself.
pub fn with_causes(error: &(dyn Error + 'static)) -> impl fmt::Display {
    WithCauses(error)
}

struct WithCauses<'a>(&'a (dyn Error + 'static));

impl fmt::Display for WithCauses<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut told = self.0.to_string();
        f.write_str(&told)?;
        let mut cause = self.0.source();
        while let Some(it) = cause {
            let text = it.to_string();
            if !told.ends_with(&text) {
                write!(f, ": {text}")?;
            }
            told = text;
            cause = it.source();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{0}")]
    struct Step(&'static str, #[source] Option<Box<Step>>);

    #[test]
    fn causes_follow_their_error_in_order() {
        let alone = Step("alone", None);
        assert_eq!(with_causes(&alone).to_string(), "alone");
        let deepest = Step("refused", None);
        let middle = Step("no connection", Some(Box::new(deepest)));
        let error = Step("reconcile failed", Some(Box::new(middle)));
        assert_eq!(with_causes(&error).to_string(), "reconcile failed: no connection: refused");
    }

    #[test]
    fn what_an_error_has_told_already_is_not_told_again() {
        let deepest = Step("refused", None);
        let middle = Step("no connection: refused", Some(Box::new(deepest)));
        let error = Step("reconcile failed", Some(Box::new(middle)));
        assert_eq!(with_causes(&error).to_string(), "reconcile failed: no connection: refused");
    }
}
