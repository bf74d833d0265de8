//! Tells clients of the same user where a server on loopback keeps its admin token.

use crate::ServerError;
use serde_json::json;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::net::SocketAddr;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The file that says so, as long as the server runs.
pub(crate) struct Registration(PathBuf);

impl Registration {
    /// Writes `<folder>/<ip>_<port>`.
    ///
    /// # Errors
    /// [`ServerError::Folder`].
    pub(crate) fn write(
        folder: &Path,
        address: SocketAddr,
        token: &Path,
        data: &Path,
    ) -> Result<Registration, ServerError> {
        let path = folder.join(format!("{}_{}", address.ip(), address.port()));
        let text = json!({
            "token_file": absolute(token),
            "pid": std::process::id(),
            "data": absolute(data),
        });
        let written = DirBuilder::new().recursive(true).mode(0o700).create(folder);
        written
            .and_then(|()| replace(&path, text.to_string().as_bytes()))
            .map_err(|source| ServerError::Folder { path: path.clone(), source })?;
        Ok(Registration(path))
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        // Another server may have taken the address meanwhile; its file says its own process id.
        let own = format!("\"pid\":{}", std::process::id());
        if fs::read_to_string(&self.0).is_ok_and(|text| text.contains(&own)) {
            let _ = fs::remove_file(&self.0);
        }
    }
}

fn absolute(path: &Path) -> String {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned()).to_string_lossy().into_owned()
}

/// Writes a new file beside the old one and puts it in its place, so that a reader sees the one or the other.
fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let new = path.with_extension(format!("new-{}", std::process::id()));
    let _ = fs::remove_file(&new);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
    file.write_all(bytes)?;
    fs::rename(&new, path)
}
