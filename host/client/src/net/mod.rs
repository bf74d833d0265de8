//! The network half: one kept HTTP/1.1 connection to the server, and the calls of its API.

mod api;
mod body;
mod credentials;
mod transport;
mod url;

pub use api::{Answers, Api, Changes, HeldState, ModuleDescription, MountDescription, ServerInfo};
pub use api::{OperationOfVersion, VersionInfo, WorkspaceInfo};
pub use body::{BodyReader, RequestBody};
pub use credentials::token_for;
pub use transport::{Counter, Transport};
pub use url::ServerUrl;
