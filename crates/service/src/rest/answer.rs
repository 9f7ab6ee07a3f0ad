//! How is a request read, and how is it refused?

use axum::Json;
use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// Why a request is not fulfilled.
#[derive(Debug)]
pub(super) struct Refused {
    status: StatusCode,
    why: String,
}

/// What is wrong, and what to do.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(super) struct Error {
    pub(super) error: String,
}

impl Refused {
    pub(super) fn new(status: StatusCode, why: impl Into<String>) -> Self {
        Self { status, why: why.into() }
    }

    pub(super) fn bad(why: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, why)
    }

    /// The crawl is about to end.
    pub(super) fn closing() -> Self {
        let why = "the frontier is closing; ask again when it is back";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, why)
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        (self.status, Json(Error { error: self.why })).into_response()
    }
}

/// What a handler is given where a body is expected.
pub(super) type Body = Result<Bytes, BytesRejection>;

/// The body of a request. `shape` shows what it should look like.
pub(super) fn read<T: DeserializeOwned>(body: Body, shape: &str) -> Result<T, Refused> {
    let bytes = body.map_err(|rejection| match rejection.status() {
        StatusCode::PAYLOAD_TOO_LARGE => {
            let bytes_max = super::BODY_BYTES_MAX;
            let why = format!("at most {bytes_max} bytes in one request: send it in parts");
            Refused::new(StatusCode::PAYLOAD_TOO_LARGE, why)
        }
        status => Refused::new(status, rejection.body_text()),
    })?;
    serde_json::from_slice(&bytes).map_err(|error| {
        let status = match error.is_data() {
            true => StatusCode::UNPROCESSABLE_ENTITY,
            false => StatusCode::BAD_REQUEST,
        };
        Refused::new(status, format!("{error}; send JSON such as {shape}"))
    })
}
