//! `opship record-api`.

use super::{here, wait};
use crate::native::recorder::record;
use crate::output;
use opship_client::ClientError;
use opship_client::native::serve_records;
use serde_json::json;
use std::sync::Arc;

pub(super) fn serve(as_json: bool) -> Result<(), ClientError> {
    let copy = here()?;
    let socket = copy.own_folder().join("record.sock");
    let ready = || match as_json {
        true => output::json(&json!({ "socket": socket })),
        false => output::line(&format!("programs may log their operations at {}", socket.display())),
    };
    wait(serve_records(&copy, Arc::new(record), ready))
}
