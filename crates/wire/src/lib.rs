//! What goes over the wire, made from the files in `proto/` when it is built.

/// Our own: workers and their frontier.
pub mod lycosa {
    tonic::include_proto!("lycosa.v1");
}

/// The public URLFrontier API.
pub mod urlfrontier {
    tonic::include_proto!("urlfrontier");
}

/// All services as they describe themselves to whoever asks by reflection.
pub const SERVICES: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/services.bin"));
