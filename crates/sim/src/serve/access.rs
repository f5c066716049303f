//! Who may talk to a served cluster: whoever holds its token.

use std::{fmt, sync::Arc};

use axum::extract::Request;
use ring::rand::{SecureRandom, SystemRandom};

use super::Error;

/// The token of one served cluster.
#[derive(Clone)]
pub(super) struct Access {
    token: Arc<str>,
}

impl Access {
    /// A new token. It is no draw of the seed: others on this machine must not guess it.
    pub(super) fn create() -> Result<Self, Error> {
        let mut bytes = [0_u8; 24];
        SystemRandom::new().fill(&mut bytes).map_err(|_| Error::Random)?;
        let token: String = bytes.iter().map(|it| format!("{it:02x}")).collect();
        Ok(Self { token: token.into() })
    }

    pub(super) fn token(&self) -> &str {
        &self.token
    }

    pub(super) fn allows(&self, request: &Request) -> bool {
        let header = request.headers().get(http::header::AUTHORIZATION);
        let given = header.and_then(|it| it.to_str().ok()).and_then(|it| it.strip_prefix("Bearer "));
        given == Some(&self.token)
    }
}

impl fmt::Debug for Access {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Access").finish_non_exhaustive()
    }
}
