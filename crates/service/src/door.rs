//! Who may speak to us?
//!
//! Whoever knows the token, if there is one; and there must be one where others than this machine
//! could come. All that listens asks here: gRPC, REST, the metrics of a crawl.

use std::net::SocketAddr;

use tonic::{Request, Status};

/// What somebody is told who does not know the token.
pub const KNOCK: &str = "send the token: `Authorization: Bearer TOKEN`";

/// Lets those in who know the token.
#[derive(Clone, Default)]
pub struct Door {
    expected: Option<Vec<u8>>,
}

/// A header cannot hold this token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the token has characters that cannot be sent in a header")]
pub struct BadToken;

impl Door {
    /// # Errors
    /// [`BadToken`].
    pub fn new(token: Option<&str>) -> Result<Self, BadToken> {
        let sendable = |token: &str| token.bytes().all(|byte| matches!(byte, 0x20..0x7f));
        if token.is_some_and(|token| !sendable(token)) {
            return Err(BadToken);
        }
        Ok(Self { expected: token.map(|token| format!("Bearer {token}").into_bytes()) })
    }

    /// `sent` is the header `Authorization`.
    pub fn admits(&self, sent: Option<&[u8]>) -> bool {
        match &self.expected {
            Some(expected) => sent.is_some_and(|sent| same(sent, expected)),
            None => true,
        }
    }
}

impl std::fmt::Debug for Door {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Door").field("token", &self.expected.is_some()).finish()
    }
}

impl tonic::service::Interceptor for Door {
    fn call(&mut self, request: Request<()>) -> Result<Request<()>, Status> {
        let sent = request.metadata().get("authorization");
        match self.admits(sent.map(|sent| sent.as_bytes())) {
            true => Ok(request),
            false => Err(Status::unauthenticated(KNOCK)),
        }
    }
}

/// Compares in a time that does not tell how much was right.
fn same(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |differs, (a, b)| differs | (a ^ b)) == 0
}

/// Why we do not listen there without a token, if that is so.
pub fn closed(address: SocketAddr, token: Option<&str>) -> Option<String> {
    (!address.ip().is_loopback() && token.is_none()).then(|| {
        format!("{address} can be reached by others: set api.token as well, or listen on 127.0.0.1")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_whole_token_opens_the_door() {
        let door = Door::new(Some("secret")).unwrap();
        for sent in [None, Some("secret"), Some("Bearer secre"), Some("Bearer secrets"), Some("")] {
            assert!(!door.admits(sent.map(str::as_bytes)), "{sent:?}");
        }
        assert!(door.admits(Some(b"Bearer secret")));
        assert!(Door::default().admits(None));
        assert_eq!(Door::new(Some("a\nb")).unwrap_err(), BadToken);
    }

    #[test]
    fn only_loopback_needs_no_token() {
        let closed = |address: &str, token| closed(address.parse().unwrap(), token).is_some();
        assert!(!closed("127.0.0.1:1", None) && !closed("[::1]:1", None));
        assert!(closed("0.0.0.0:1", None) && closed("[::]:1", None) && closed("10.0.0.1:1", None));
        assert!(!closed("0.0.0.0:1", Some("x")));
    }
}
