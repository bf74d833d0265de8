//! Invites: once, in time, for one workspace and role, and for nobody's name but a new one.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::{admin, client, commit, create, open};
use opship_storage::{InviteState, Principal, Role, Scope, StorageError, Store};

const LATER: u64 = u64::MAX / 4;

fn token(n: u32) -> String {
    format!("{n:064x}")
}

/// Somebody with a role in `work` and none elsewhere.
fn member(store: &Store, work: &Scope, name: &str, role: Role) -> Principal {
    let token = store.create_token(&admin(store), name, None).unwrap();
    store.grant(work, name, Some(role)).unwrap();
    store.authenticate(&token).unwrap().unwrap()
}

fn invalid<T: std::fmt::Debug>(result: Result<T, StorageError>) {
    assert!(matches!(result, Err(StorageError::Invite)), "{result:?}");
}

#[test]
fn of_many_that_use_an_invite_at_once_one_gets_in() {
    let data = tempfile::tempdir().unwrap();
    let (store, work) = open(data.path());
    let (_, secret) = store.create_invite(&work, "eva", Role::Write, LATER).unwrap();
    let won: Vec<u32> = std::thread::scope(|threads| {
        let all: Vec<_> = (0..10)
            .map(|n| {
                let (store, secret) = (&store, &secret);
                threads.spawn(move || store.accept_invite("work", secret, &token(n)).is_ok().then_some(n))
            })
            .collect();
        all.into_iter().filter_map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(won.len(), 1, "{won:?}");
    for n in 0..10 {
        assert_eq!(store.authenticate(&token(n)).unwrap().is_some(), n == won[0]);
    }
    // Whose reply was lost asks again and gets in.
    assert_eq!(store.accept_invite("work", &secret, &token(won[0])).unwrap().name, "eva");
    let eva = store.authenticate(&token(won[0])).unwrap().unwrap();
    assert_eq!(store.scope(&eva, "work", Role::Read).unwrap().role(), Role::Write);
    let database = std::fs::read(data.path().join("metadata.db")).unwrap();
    let log = std::fs::read(data.path().join("metadata.db-wal")).unwrap_or_default();
    let holds = |bytes: &[u8]| bytes.windows(40).any(|window| window == secret.as_bytes());
    assert!(!holds(&database) && !holds(&log), "the secret is stored nowhere");
}

#[test]
fn an_invite_is_for_its_workspace_role_and_time_and_can_be_revoked() {
    let data = tempfile::tempdir().unwrap();
    let (store, work) = open(data.path());
    let other = store.create_workspace(&admin(&store), "other").unwrap();
    let (id, secret) = store.create_invite(&work, "eva", Role::Read, LATER).unwrap();
    invalid(store.accept_invite("other", &secret, &token(1)));
    invalid(store.accept_invite("nowhere", &secret, &token(1)));
    invalid(store.accept_invite("work", "0123", &token(1)));
    assert!(matches!(store.revoke_invite(&other, id), Err(StorageError::NotFound { .. })));
    assert_eq!(store.invites(&other).unwrap(), []);

    store.accept_invite("work", &secret, &token(1)).unwrap();
    let eva = store.authenticate(&token(1)).unwrap().unwrap();
    assert_eq!(store.workspaces(&eva).unwrap().len(), 1);
    assert!(matches!(store.scope(&eva, "work", Role::Write), Err(StorageError::Forbidden { .. })));
    assert!(store.revoke_invite(&work, id).unwrap(), "there was a token");
    assert_eq!(store.authenticate(&token(1)).unwrap(), None, "the token went with the invite");

    let (unused, secret) = store.create_invite(&work, "max", Role::Read, LATER).unwrap();
    assert!(!store.revoke_invite(&work, unused).unwrap());
    invalid(store.accept_invite("work", &secret, &token(2)));
    let (_, late) = store.create_invite(&work, "kim", Role::Read, 1).unwrap();
    invalid(store.accept_invite("work", &late, &token(3)));
    let states: Vec<InviteState> = store.invites(&work).unwrap().into_iter().map(|invite| invite.state).collect();
    assert_eq!(states, [InviteState::Expired, InviteState::Revoked, InviteState::Revoked]);
}

#[test]
fn no_invite_gives_more_than_whoever_made_it_has() {
    let data = tempfile::tempdir().unwrap();
    let (store, work) = open(data.path());
    let own = member(&store, &work, "own", Role::Admin);
    let scope = store.scope(&own, "work", Role::Admin).unwrap();
    let writer = member(&store, &work, "eva", Role::Write);
    let writing = store.scope(&writer, "work", Role::Write).unwrap();
    assert!(matches!(store.create_invite(&writing, "x", Role::Read, LATER), Err(StorageError::Forbidden { .. })));
    assert!(matches!(store.invites(&writing), Err(StorageError::Forbidden { .. })));
    assert!(matches!(store.revoke_invite(&writing, 1), Err(StorageError::Forbidden { .. })));
    // A token for a known name would be that person's.
    for taken in ["admin", "eva", "own"] {
        let refused = store.create_invite(&scope, taken, Role::Read, LATER);
        assert!(matches!(refused, Err(StorageError::Exists { .. })), "{taken}: {refused:?}");
    }
    assert!(matches!(store.create_invite(&work, "admin", Role::Read, LATER), Err(StorageError::Exists { .. })));
    assert!(matches!(store.create_invite(&scope, "No Name", Role::Read, LATER), Err(StorageError::Name { .. })));
    // The name is taken only after the invite was made.
    let (_, secret) = store.create_invite(&scope, "kim", Role::Read, LATER).unwrap();
    member(&store, &work, "kim", Role::Write);
    assert!(matches!(store.accept_invite("work", &secret, &token(1)), Err(StorageError::Exists { .. })));
    // Somebody else's token is not taken over.
    let (_, secret) = store.create_invite(&scope, "new", Role::Read, LATER).unwrap();
    let admins = std::fs::read_to_string(store.admin_token_file()).unwrap();
    invalid(store.accept_invite("work", &secret, admins.trim()));
    // Who is no administrator any more invites nobody.
    store.grant(&work, "own", Some(Role::Write)).unwrap();
    invalid(store.accept_invite("work", &secret, &token(2)));
}

#[test]
fn a_second_device_of_a_person_gets_the_higher_role() {
    let data = tempfile::tempdir().unwrap();
    let (store, work) = open(data.path());
    member(&store, &work, "eva", Role::Admin);
    let (_, secret) = store.create_invite(&work, "eva", Role::Read, LATER).unwrap();
    store.accept_invite("work", &secret, &token(1)).unwrap();
    let eva = store.authenticate(&token(1)).unwrap().unwrap();
    assert!(store.scope(&eva, "work", Role::Admin).is_ok());
}

#[test]
fn a_clients_name_counts_for_the_entries_of_whoever_gave_it() {
    let data = tempfile::tempdir().unwrap();
    let (store, work) = open(data.path());
    let eva = member(&store, &work, "eva", Role::Write);
    let eva = store.scope(&eva, "work", Role::Write).unwrap();
    let key = (client(1), 1);
    store.commit(&eva, commit(1, vec![create("f", b"x")], &[b"x"])).unwrap();
    assert_eq!(store.name_client(&eva, &key.0, "laptop").unwrap(), "eva");
    store.name_client(&work, &key.0, "mine now").unwrap();
    let author = store.authors(&work, &[key]).unwrap().remove(0).unwrap();
    assert_eq!((author.principal.as_str(), author.client.as_deref()), ("eva", Some("laptop")));
    store.name_client(&eva, &key.0, "desk").unwrap();
    assert_eq!(store.authors(&work, &[key]).unwrap()[0].as_ref().unwrap().client.as_deref(), Some("desk"));
    assert_eq!(store.authors(&work, &[(key.0, 2)]).unwrap(), [None]);
    assert!(matches!(store.name_client(&eva, &key.0, "a\nb"), Err(StorageError::Name { .. })));
}
