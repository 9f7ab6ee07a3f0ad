//! Which protocol does an open connection speak?
//!
//! HTTP/1.1 or HTTP/2, as the server chose when it was opened. Whoever uses one need not know.

use bytes::Bytes;
use http_body_util::Empty;
use types::Timestamp;

use crate::budget::Hold;
use crate::exchange::{Driven, Recorded, Terms};
use crate::{exchange, http2};

/// An open connection.
pub(crate) enum Connection {
    Http1(Box<exchange::Connection>),
    Http2(Box<http2::Connection>),
}

impl Connection {
    pub(crate) fn tls(&self) -> Option<&'static str> {
        match self {
            Self::Http1(connection) => connection.tls,
            Self::Http2(connection) => connection.tls,
        }
    }

    /// Sends the request and takes the answer, as far as the terms go.
    pub(crate) async fn exchange(
        &mut self,
        request: http::Request<Empty<Bytes>>,
        terms: &mut Terms<'_>,
        hold: &mut Hold,
        sent: &mut (dyn FnMut(Timestamp) + Send),
    ) -> Driven {
        match self {
            Self::Http1(connection) => connection.exchange(request, terms, hold, sent).await,
            Self::Http2(connection) => connection.exchange(request, terms, hold, sent).await,
        }
    }

    /// What was recorded; the connection may serve again afterwards.
    pub(crate) fn take_record(&mut self) -> Recorded {
        match self {
            Self::Http1(connection) => connection.take_record(),
            Self::Http2(connection) => connection.take_record(),
        }
    }

    /// Whether this host is better asked in HTTP/1.1 from now on.
    pub(crate) fn wants_http1(&self) -> bool {
        match self {
            Self::Http1(_) => false,
            Self::Http2(connection) => connection.wants_http1(),
        }
    }
}
