//! The network half: one kept HTTP/1.1 connection to the server, and the calls of its API.

mod admin;
mod api;
mod blobs;
mod body;
mod credentials;
mod events;
mod history;
mod sharing;
mod silence;
mod transfers;
mod transport;
mod url;

pub use admin::{Admin, OnServerProgress};
pub(crate) use api::pack;
pub use api::{Answers, Api, HeldState, ModuleDescription, MountDescription, OTHER_HISTORY, ServerInfo, WorkspaceInfo};
pub use body::{BodyReader, RequestBody};
pub(crate) use credentials::state_folder;
pub use credentials::{admin_token_for, has_joined, is_token_set, keep_token, prepare_token, token_for};
pub use events::{Event, Events};
pub use history::{Changes, OperationOfVersion, VersionHashes, VersionInfo};
pub use sharing::{InviteInfo, Joined, NewInvite, OriginInfo, join};
pub(crate) use transfers::{DocumentName, documents_body};
pub use transport::{Counter, Transport};
pub use url::ServerUrl;
