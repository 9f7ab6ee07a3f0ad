//! Makes Rust of the .proto files, without any tool of the system.

use std::error::Error;
use std::path::PathBuf;
use std::{env, fs};

use prost::Message as _;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=proto");
    let files = protox::compile(["lycosa.proto", "urlfrontier.proto"], ["proto"])?;
    let out = PathBuf::from(env::var("OUT_DIR")?);
    // Whoever asks by reflection is told this.
    fs::write(out.join("services.bin"), files.encode_to_vec())?;
    tonic_prost_build::configure().build_transport(false).compile_fds(files)?;
    Ok(())
}
