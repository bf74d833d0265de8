//! Entries: ship, ask, list.

use super::versions::same_history;
use crate::auth::{Reader, Writer};
use crate::body::{binary, decode, json, query, read};
use crate::inflight::{Key, answered};
use crate::json;
use crate::problem::Problem;
use crate::ship::{Arrived, problem_answer, take};
use crate::state::{State as Shared, blocking};
use axum::body::Body;
use axum::extract::{Path, State};
use axum::response::Response;
use bytes::Bytes;
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Uri, header};
use opship_record::answer::{Answer, Status, Verdict};
use opship_record::entry::{ClientId, Entry};
use opship_record::limits::MAX_REQUEST;
use opship_record::{Error, Hash, codec};
use opship_storage::{EntryFilter, Scope};
use serde::Deserialize;
use serde_json::json;
use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

/// Longest long poll, in seconds.
const MAX_WAIT: u64 = 30;
/// Most entries of which the state can be asked at once.
const MAX_STATES: usize = 10_000;
const DEFAULT_PAGE: usize = 100;
const MAX_PAGE: usize = 1000;

/// The principal's own name, in the answer to a request that names its client.
const AUTHOR: HeaderName = HeaderName::from_static("opship-author");

#[derive(Deserialize)]
struct Naming {
    /// What the principal calls the client from which the entries come.
    name: Option<String>,
    /// What the client stands on.
    is: Option<String>,
}

/// Takes entries and answers each as soon as it ends.
pub(super) async fn ship(
    State(state): State<Arc<Shared>>,
    Writer(scope): Writer,
    uri: Uri,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let naming: Naming = query(&uri)?;
    let read = read(&state, &headers, body, MAX_REQUEST).await?;
    let (mut entries, malformed) = entries(&read.bytes);
    for (_, bytes) in &mut entries {
        *bytes = share(*bytes, read.wire, read.bytes.len() as u64);
    }
    if entries.is_empty() {
        let nothing = || Problem::malformed("the request holds no entry; send at least one");
        return Err(malformed.map(Problem::from).unwrap_or_else(nothing));
    }
    if let Some(is) = naming.is {
        let (own, own_scope) = (Arc::clone(&state), Arc::clone(&scope));
        blocking(move || same_history(&own, &own_scope, Some(&is))).await??;
    }
    let author = match naming.name {
        Some(name) => Some(name_clients(&state, &scope, &entries, name).await?),
        None => None,
    };
    let place = format!("/v1/workspaces/{}/entries", scope.workspace());
    let named = entries.iter().map(|(entry, _)| entry.envelope.client).collect::<Vec<_>>();
    let arrived = take(&state, &scope, entries, read.memory);
    let mut answers: FuturesUnordered<_> = arrived
        .into_iter()
        .zip(named)
        .map(|(arrived, client)| answer(arrived, state.answer_within, format!("{place}/{client}")))
        .collect();
    let last = malformed.map(|error| problem_answer(&Problem::from(error)));
    let mut response = if answers.len() == 1 && last.is_none() {
        // A body of a known length takes fewer bytes than one that comes bit by bit.
        binary(answers.next().await.map(|answer| answer.encode()).unwrap_or_default())
    } else {
        let all = answers.chain(futures::stream::iter(last));
        binary(Body::from_stream(all.map(|answer| Ok::<_, Infallible>(Bytes::from(answer.encode())))))
    };
    // A name that no header can hold is told where a client is named alone.
    if let Some(author) = author.and_then(|author| HeaderValue::from_bytes(author.as_bytes()).ok()) {
        response.headers_mut().insert(AUTHOR, author);
    }
    Ok(response)
}

/// Gives the clients of these entries a name; gives the principal's own.
async fn name_clients(
    state: &Arc<Shared>,
    scope: &Arc<Scope>,
    entries: &[(Entry, u64)],
    name: String,
) -> Result<String, Problem> {
    let clients: BTreeSet<ClientId> = entries.iter().map(|(entry, _)| entry.envelope.client).collect();
    let (state, scope) = (Arc::clone(state), Arc::clone(scope));
    let naming = move || {
        clients.iter().try_fold(String::new(), |_, client| Ok(state.store.name_client(&scope, client, &name)?))
    };
    blocking(naming).await?
}

/// The entries of a request with the bytes that each takes, up to the first malformed one.
fn entries(mut bytes: &[u8]) -> (Vec<(Entry, u64)>, Option<Error>) {
    let mut entries = Vec::new();
    while !bytes.is_empty() {
        let before = bytes.len();
        match Entry::decode_next(&mut bytes) {
            Ok(entry) => entries.push((entry, (before - bytes.len()) as u64)),
            Err(error) => return (entries, Some(error)),
        }
    }
    (entries, None)
}

/// What an entry took of a body's bytes on the wire.
fn share(bytes: u64, wire: u64, decoded: u64) -> u64 {
    let share = u128::from(bytes) * u128::from(wire) / u128::from(decoded.max(1));
    u64::try_from(share).unwrap_or(bytes)
}

async fn answer(arrived: Arrived, within: Duration, place: String) -> Answer {
    let (sequence, waiting) = match arrived {
        Arrived::Answered(answer) => return answer,
        Arrived::Waiting(sequence, waiting) => (sequence, waiting),
    };
    match tokio::time::timeout(within, answered(waiting)).await {
        Ok(Some(answer)) => Arc::unwrap_or_clone(answer),
        Ok(None) => broken_off(sequence),
        Err(_) => accepted(sequence, format!("{place}/{sequence}")),
    }
}

fn accepted(sequence: u64, location: String) -> Answer {
    Answer { location: Some(location), ..Answer::new(sequence, Status::Accepted) }
}

fn broken_off(sequence: u64) -> Answer {
    let detail = "the server broke off its work on this entry; send it again";
    Answer { detail: Some(detail.to_owned()), ..Answer::new(sequence, Status::Failed) }
}

#[derive(Deserialize)]
struct Poll {
    wait: Option<u64>,
}

/// One entry: as JSON with all that is kept of it, or, for `Accept: application/cbor`, its answer, waited for.
pub(super) async fn show(
    State(state): State<Arc<Shared>>,
    Reader(scope): Reader,
    Path((_, client, sequence)): Path<(String, String, String)>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let missing = || Problem::not_found("entry", &format!("{client}/{sequence}"));
    let (id, number) = (client_id(&client).ok_or_else(missing)?, sequence.parse::<u64>().map_err(|_| missing())?);
    let key: Key = (scope.workspace_id(), id, number);
    let poll: Poll = query(&uri)?;
    let as_cbor = headers.get(header::ACCEPT).is_some_and(|accept| accept.as_bytes().starts_with(b"application/cbor"));
    if as_cbor && let Some((_, waiting)) = state.inflight.running(&key) {
        let wait = Duration::from_secs(poll.wait.unwrap_or(0).min(MAX_WAIT));
        let answer = match tokio::time::timeout(wait, answered(waiting)).await {
            Ok(Some(answer)) => Arc::unwrap_or_clone(answer),
            Ok(None) => broken_off(number),
            Err(_) => accepted(number, uri.path().to_owned()),
        };
        return Ok(binary(answer.encode()));
    }
    let own = Arc::clone(&state);
    let detail = blocking(move || {
        let Some(entry) = own.store.entry(&scope, &id, number)? else { return Ok(None) };
        if as_cbor {
            Ok(Some((entry, None)))
        } else {
            let author = own.store.authors(&scope, &[(id, number)])?.pop().flatten();
            Ok(Some((entry.clone(), own.store.entry_by_id(&scope, entry.id)?.map(|detail| (detail, author)))))
        }
    });
    let found = detail.await?.map_err(|error: opship_storage::StorageError| Problem::from(error))?;
    match found {
        Some((entry, _)) if as_cbor => Ok(binary(entry.answer().encode())),
        Some((_, Some((detail, author)))) => {
            Ok(json(StatusCode::OK, json::authored(json::detail(&detail), author.as_ref())))
        }
        Some((entry, None)) => Ok(json(StatusCode::OK, json::entry(&entry))),
        None => match state.inflight.last(&key) {
            Some(answer) if as_cbor => Ok(binary(answer.encode())),
            Some(answer) => Ok(json(StatusCode::OK, json::answer(&answer))),
            None => Err(missing()),
        },
    }
}

#[derive(Deserialize)]
struct Filter {
    before: Option<i64>,
    limit: Option<usize>,
    verdict: Option<String>,
    client: Option<String>,
}

/// Those that ended, newest first.
pub(super) async fn list(
    State(state): State<Arc<Shared>>,
    Reader(scope): Reader,
    uri: Uri,
) -> Result<Response, Problem> {
    let filter: Filter = query(&uri)?;
    let verdict = match &filter.verdict {
        None => None,
        Some(name) => Some(Verdict::ALL.into_iter().find(|v| v.name() == name).ok_or_else(|| {
            let known: Vec<_> = Verdict::ALL.iter().map(|v| v.name()).collect();
            Problem::malformed(format!("unknown verdict; use one of {}", known.join(", ")))
        })?),
    };
    let client = match &filter.client {
        None => None,
        Some(text) => Some(client_id(text).ok_or_else(|| Problem::malformed("a client is 32 hexadecimal digits"))?),
    };
    let limit = filter.limit.unwrap_or(DEFAULT_PAGE).clamp(1, MAX_PAGE);
    let filter = EntryFilter { before: filter.before, limit, verdict, client };
    let found = blocking(move || {
        let entries = state.store.entries(&scope, &filter)?;
        let keys: Vec<_> = entries.iter().map(|entry| (entry.client, entry.sequence)).collect();
        let authors = state.store.authors(&scope, &keys)?;
        Ok::<_, Problem>(entries.into_iter().zip(authors).collect::<Vec<_>>())
    });
    let shown: Vec<_> =
        found.await??.iter().map(|(entry, author)| json::authored(json::entry(entry), author.as_ref())).collect();
    Ok(json(StatusCode::OK, json!({ "entries": shown })))
}

/// What is held of the numbers that a client asks for: 0 nothing, 1 this body, 2 another.
pub(super) async fn state(
    State(state): State<Arc<Shared>>,
    Reader(scope): Reader,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let read = read(&state, &headers, body, MAX_STATES * 64).await?;
    let asked: Vec<(ClientId, u64, Hash)> = decode(&read.bytes)?;
    if asked.len() > MAX_STATES {
        return Err(Problem::malformed(format!("more than {MAX_STATES} entries; ask for fewer at once")));
    }
    let states = blocking(move || {
        let held = |(client, sequence, body): (ClientId, u64, Hash)| {
            let running = state.inflight.running(&(scope.workspace_id(), client, sequence)).map(|(body, _)| body);
            let held = match running {
                Some(body) => Some(body),
                None => state.store.entry(&scope, &client, sequence)?.map(|entry| entry.body),
            };
            Ok::<u8, Problem>(held.map_or(0, |held| if held == body { 1 } else { 2 }))
        };
        asked.into_iter().map(held).collect::<Result<Vec<u8>, _>>()
    });
    Ok(binary(codec::encode(&states.await??)))
}

/// Takes note that nothing is left to decide of entries that ended `conflicted` or `rebased`.
pub(super) async fn resolve(
    State(state): State<Arc<Shared>>,
    Writer(scope): Writer,
    headers: HeaderMap,
    body: Body,
) -> Result<StatusCode, Problem> {
    let read = read(&state, &headers, body, MAX_STATES * 16).await?;
    let (client, sequences): (ClientId, Vec<u64>) = decode(&read.bytes)?;
    if sequences.len() > MAX_STATES {
        return Err(Problem::malformed(format!("more than {MAX_STATES} entries; tell fewer at once")));
    }
    blocking(move || state.store.resolve_entries(&scope, &client, sequences)).await??;
    Ok(StatusCode::NO_CONTENT)
}

/// A client's id of 32 hexadecimal digits.
pub(super) fn client_id(text: &str) -> Option<ClientId> {
    if text.len() != 32 || !text.is_ascii() {
        return None;
    }
    let mut bytes = [0; 16];
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(text.get(2 * at..2 * at + 2)?, 16).ok()?;
    }
    Some(ClientId::from_bytes(bytes))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn client_ids_round_trip_as_text() {
        let id = ClientId::from_bytes(*b"\x00\x01\xff3456789abcdef");
        assert_eq!(client_id(&id.to_string()).unwrap(), id);
        for bad in ["", "00", &"g".repeat(32), &"é".repeat(16)] {
            assert!(client_id(bad).is_none(), "{bad}");
        }
    }
}
