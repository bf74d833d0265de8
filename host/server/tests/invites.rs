//! Invites over HTTP: who has no token yet is told little and slowed down; names of authors in answers.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::{Reply, TestServer, WS, client, created, value};
use http::{Method, StatusCode};
use serde_json::json;

async fn invite(server: &TestServer, name: &str, role: &str) -> String {
    let body = json!({ "name": name, "role": role, "expires": 3600 }).to_string();
    let made = server.post(&format!("{WS}/invites"), body.into_bytes()).await;
    assert_eq!(made.status, StatusCode::CREATED, "{made:?}");
    made.json()["secret"].as_str().unwrap().to_owned()
}

async fn join(server: &TestServer, secret: &str, token: &str) -> Reply {
    let body = json!({ "workspace": "w", "secret": secret, "token": token }).to_string();
    let length = body.len().to_string();
    server
        .request(Method::POST, "/v1/join", &[("authorization", ""), ("content-length", &length)], body.into_bytes())
        .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_joins_gets_in_with_the_token_that_he_brought() {
    let server = TestServer::start().await;
    let secret = invite(&server, "eva", "read").await;
    let token = "a".repeat(64);
    for weak in ["", "abc", &"a".repeat(26), &"a".repeat(65), &"+".repeat(32)] {
        assert_eq!(join(&server, &secret, weak).await.problem(), "malformed");
    }
    let joined = join(&server, &secret, &token).await;
    assert_eq!(joined.json(), json!({ "workspace": "w", "name": "eva", "role": "read" }));
    assert_eq!(join(&server, &secret, &"b".repeat(64)).await.problem(), "invite");
    let reply = server.by(&token, Method::GET, WS, Vec::new()).await;
    assert_eq!(reply.status, StatusCode::OK);
    for (method, path) in [(Method::GET, "invites"), (Method::POST, "invites"), (Method::DELETE, "invites/1")] {
        let body = json!({ "name": "x", "role": "read", "expires": 1 }).to_string().into_bytes();
        let refused = server.by(&token, method, &format!("{WS}/{path}"), body).await;
        assert_eq!((refused.status, refused.problem().as_str()), (StatusCode::FORBIDDEN, "forbidden"), "{path}");
    }
    let listed = server.get(&format!("{WS}/invites")).await;
    assert_eq!(listed.json()["invites"][0]["state"], "used");
    assert!(!String::from_utf8_lossy(&listed.body).contains(&secret));
    server.by(&server.token, Method::DELETE, &format!("{WS}/invites/1"), Vec::new()).await;
    assert_eq!(server.by(&token, Method::GET, WS, Vec::new()).await.problem(), "bad-token");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn guessing_is_refused_after_a_few_failures_also_for_a_right_guess() {
    let server = TestServer::start().await;
    let secret = invite(&server, "eva", "write").await;
    for n in 0..10 {
        let refused = join(&server, &format!("{n:040}"), &"a".repeat(64)).await;
        assert_eq!((refused.status, refused.problem().as_str()), (StatusCode::FORBIDDEN, "invite"));
    }
    let refused = join(&server, &secret, &"a".repeat(64)).await;
    assert_eq!((refused.status, refused.problem().as_str()), (StatusCode::TOO_MANY_REQUESTS, "too-many-failures"));
    // What others do goes on.
    assert_eq!(server.get(WS).await.status, StatusCode::OK);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_without_a_token_is_short() {
    let server = TestServer::start().await;
    let long = vec![b' '; 5000];
    let refused = server.request(Method::POST, "/v1/join", &[("authorization", "")], long).await;
    assert_eq!(refused.problem(), "malformed");
    assert_eq!(server.get("/v1/join").await.problem(), "method");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn versions_and_entries_carry_the_names_of_their_authors() {
    let (server, eva) = TestServer::with_writer(|_| {}).await;
    let name = json!({ "name": "laptop" }).to_string().into_bytes();
    let at = format!("{WS}/clients/{}", client(1));
    let named = server.by(&eva, Method::PUT, &at, name).await;
    assert_eq!(named.json(), json!({ "author_name": "eva" }));
    let mut body = Vec::new();
    value(client(1), 1, vec![created("f", b"x")], [b"x".as_slice()]).encode_into(&mut body);
    let shipped = server.by(&eva, Method::POST, &format!("{WS}/entries"), body).await;
    assert_eq!(shipped.answers()[0].version, Some(1));
    for path in ["versions/1", "versions/head", &format!("entries/{}/1", client(1))] {
        let shown = server.get(&format!("{WS}/{path}")).await.json();
        assert_eq!((&shown["author_name"], &shown["client_name"]), (&json!("eva"), &json!("laptop")), "{path}");
    }
    let versions = server.get(&format!("{WS}/versions")).await.json();
    assert_eq!(
        (&versions["versions"][0]["author_name"], &versions["versions"][1]["author_name"]),
        (&json!("eva"), &json!(null))
    );
    let entries = server.get(&format!("{WS}/entries")).await.json();
    assert_eq!(entries["entries"][0]["client_name"], "laptop");
    // Named with its entries, and the answer to one entry has a length.
    let mut body = Vec::new();
    value(client(2), 1, vec![created("g", b"x")], [b"x".as_slice()]).encode_into(&mut body);
    let shipped = server.by(&eva, Method::POST, &format!("{WS}/entries?name=old%20desk"), body.clone()).await;
    assert_eq!((shipped.answers()[0].version, &shipped.headers["opship-author"]), (Some(2), &"eva".parse().unwrap()));
    assert_eq!(shipped.headers["content-length"], shipped.body.len().to_string());
    let shown = server.get(&format!("{WS}/entries/{}/1", client(2))).await.json();
    assert_eq!((&shown["author_name"], &shown["client_name"]), (&json!("eva"), &json!("old desk")));
    let refused = server.by(&eva, Method::POST, &format!("{WS}/entries?name=a%0Ab"), body).await;
    assert_eq!(refused.problem(), "name");
    let bad = server.by(&eva, Method::PUT, &at, br#"{"name":"a\nb"}"#.to_vec()).await;
    assert_eq!(bad.problem(), "name");
}
