//! What a principal may not see looks as if it did not exist.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::*;
use opship_record::plan::Mount;
use opship_record::{Hash, tree};
use opship_storage::{Committed, ModuleInfo, Rebase, Role, Setting, Settings, StorageError, Store};
use std::os::unix::fs::PermissionsExt;

#[test]
fn the_data_directory_and_the_token_are_private_and_the_token_stays() {
    let parent = tempfile::tempdir().unwrap();
    let data = parent.path().join("data");
    let store = Store::open(&data).unwrap();
    let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&data), mode(&store.admin_token_file())), (0o700, 0o600));
    let token = std::fs::read_to_string(store.admin_token_file()).unwrap();
    assert_eq!(token.trim().len(), 27);
    assert!(admin(&store).is_admin());
    assert_eq!(store.authenticate("0").unwrap(), None);
    drop(store);

    let store = Store::open(&data).unwrap();
    assert_eq!(std::fs::read_to_string(store.admin_token_file()).unwrap(), token);
    std::fs::remove_file(store.admin_token_file()).unwrap();
    drop(store);
    let store = Store::open(&data).unwrap();
    assert_eq!(store.authenticate(token.trim()).unwrap(), None, "a removed token is valid no longer");
    assert!(admin(&store).is_admin());
    let database = std::fs::read(data.join("metadata.db")).unwrap();
    let secret = std::fs::read(store.admin_token_file()).unwrap();
    let secret = secret.trim_ascii();
    assert!(!database.windows(secret.len()).any(|window| window == secret), "tokens are stored hashed");
}

#[test]
fn an_admin_token_of_an_earlier_build_goes_on_being_valid() {
    let parent = tempfile::tempdir().unwrap();
    let data = parent.path().join("data");
    let file = Store::open(&data).unwrap().admin_token_file();
    let token = "0123456789abcdef".repeat(4);
    std::fs::write(&file, format!("{token}\n")).unwrap();
    let store = Store::open(&data).unwrap();
    assert!(store.authenticate(&token).unwrap().unwrap().is_admin());
    assert_eq!(std::fs::read_to_string(file).unwrap().trim(), token);
}

#[test]
fn roles_and_foreign_workspaces() {
    let data = tempfile::tempdir().unwrap();
    let (store, work) = open(data.path());
    let admin = admin(&store);
    store.create_workspace(&admin, "other").unwrap();
    assert!(matches!(store.create_workspace(&admin, "work"), Err(StorageError::Exists { .. })));
    assert!(matches!(store.create_workspace(&admin, "No"), Err(StorageError::Name { .. })));
    let token = store.create_token(&admin, "eva", None).unwrap();
    store.grant(&work, "eva", Some(Role::Read)).unwrap();
    let eva = store.authenticate(&token).unwrap().unwrap();

    let names: Vec<String> = store.workspaces(&eva).unwrap().into_iter().map(|w| w.name).collect();
    assert_eq!(names, ["work"]);
    let hidden = store.scope(&eva, "other", Role::Read).unwrap_err().to_string();
    let absent = store.scope(&eva, "nowhere", Role::Read).unwrap_err().to_string();
    assert_eq!(hidden.replace("other", "NAME"), absent.replace("nowhere", "NAME"));
    assert!(matches!(store.scope(&eva, "work", Role::Write), Err(StorageError::Forbidden { .. })));
    assert!(matches!(store.create_workspace(&eva, "hers"), Err(StorageError::AdminOnly)));
    assert!(matches!(store.create_token(&eva, "x", None), Err(StorageError::AdminOnly)));

    // A scope that was made for reading does not write, whatever is called.
    let reading = store.scope(&eva, "work", Role::Read).unwrap();
    let forbidden = |result: Result<(), StorageError>| assert!(matches!(result, Err(StorageError::Forbidden { .. })));
    forbidden(store.put_blob_bytes(&reading, b"x").map(|_| ()));
    forbidden(store.put_tree(&reading, vec![tree::empty_node()]).map(|_| ()));
    forbidden(store.commit(&reading, commit(1, vec![], &[])).map(|_| ()));
    forbidden(store.register_module(&reading, &ModuleInfo::new("m", Hash::of(b"x"), 1)));
    forbidden(store.remove_module(&reading, "m").map(|_| ()));
    forbidden(store.set_setting(&reading, Setting::Rebase(Rebase::Forbid)));
    forbidden(store.grant(&reading, "eva", Some(Role::Admin)));

    store.grant(&work, "eva", None).unwrap();
    let eva = store.authenticate(&token).unwrap().unwrap();
    assert!(matches!(store.scope(&eva, "work", Role::Read), Err(StorageError::NotFound { .. })));
    let expired = store.create_token(&admin, "eva", Some(1)).unwrap();
    assert_eq!(store.authenticate(&expired).unwrap(), None);
}

#[test]
fn settings_belong_to_a_workspace_and_last() {
    let data = tempfile::tempdir().unwrap();
    let (store, a) = open(data.path());
    let b = store.create_workspace(&admin(&store), "b").unwrap();
    let set = Settings { rebase: Rebase::Forbid, retention_daily_days: 9, ..Settings::default() };
    for days in [8, 9] {
        store.set_settings(&a, &[Setting::Rebase(Rebase::Forbid), Setting::RetentionDailyDays(days)]).unwrap();
    }
    assert_eq!((store.settings(&a).unwrap(), store.settings(&b).unwrap()), (set, Settings::default()));
    drop(store);
    let (store, a) = open(data.path());
    assert_eq!(store.settings(&a).unwrap(), set);
}

#[test]
fn nothing_of_one_workspace_is_in_another() {
    let data = tempfile::tempdir().unwrap();
    let (store, a) = open(data.path());
    let b = store.create_workspace(&admin(&store), "b").unwrap();
    let large = vec![7; 100_000];
    for bytes in [b"secret".as_slice(), &large] {
        let hash = store.put_blob_bytes(&a, bytes).unwrap();
        assert!(store.open_blob(&b, &hash).unwrap().is_none());
        assert_eq!(store.blob_length(&b, &hash).unwrap(), None);
        assert_eq!(store.missing_blobs(&b, &[hash]).unwrap(), [hash]);
        assert!(store.module_content(&b, &hash).unwrap().is_none());
        // A hash is no capability: neither a change, nor a pin, nor a module or tree gets at the bytes.
        let mut stolen = commit(1, vec![create("stolen", bytes)], &[]);
        assert!(matches!(store.commit(&b, stolen.clone()), Err(StorageError::Incomplete { .. })));
        stolen.lists.changes.clear();
        let mut stolen = commit(1, vec![], &[]);
        stolen.pinned = vec![hash];
        assert!(matches!(store.commit(&b, stolen), Err(StorageError::Incomplete { .. })));
        let module = ModuleInfo::new("m", hash, bytes.len() as u64);
        assert!(matches!(store.register_module(&b, &module), Err(StorageError::Incomplete { .. })));
        // The bytes themselves are.
        assert_eq!(store.put_blob_bytes(&b, bytes).unwrap(), hash);
        assert_eq!(read(&store.open_blob(&b, &hash).unwrap().unwrap()), bytes);
    }
    store.commit(&a, commit(1, vec![create("f", b"secret")], &[])).unwrap();
    let root = store.head(&a).unwrap();
    assert!(store.tree(&b, &root.root).unwrap().is_none());
    assert_eq!(store.version_by_id(&b, &root.id()).unwrap(), None);
    assert_eq!(store.entry(&b, &client(1), 1).unwrap(), None);
    assert!(store.entry_by_id(&b, 1).unwrap().is_none());
    assert!(store.events(&b, 0, 10).unwrap().is_empty());
    // The same key in another workspace is another entry.
    assert!(matches!(store.commit(&b, commit(1, vec![], &[])).unwrap(), Committed::Done { .. }));
}

#[test]
fn trees_need_all_that_they_name_in_the_workspace() {
    let data = tempfile::tempdir().unwrap();
    let (store, a) = open(data.path());
    let b = store.create_workspace(&admin(&store), "b").unwrap();
    store.commit(&a, commit(1, vec![create("f", b"x")], &[b"x"])).unwrap();
    let root = store.head(&a).unwrap().root;
    assert!(!store.has_tree(&a, &root).unwrap(), "a version's tree was not uploaded");

    let nodes = common_nodes(b"x");
    let wanted = tree::hash_of(nodes.last().unwrap());
    let refused = store.put_tree(&b, nodes.clone()).unwrap_err();
    assert!(matches!(refused, StorageError::Incomplete { blobs, .. } if blobs == [Hash::of(b"x")]));
    store.put_blob_bytes(&b, b"x").unwrap();
    let refused = store.put_tree(&b, nodes[1..].to_vec()).unwrap_err();
    assert!(matches!(refused, StorageError::Incomplete { nodes: n, .. } if n == [tree::hash_of(&nodes[0])]));
    assert_eq!(store.put_tree(&b, nodes.clone()).unwrap(), wanted);
    assert!(store.has_tree(&b, &wanted).unwrap() && !store.has_tree(&a, &wanted).unwrap());
    assert_eq!(store.put_tree(&b, nodes[1..].to_vec()).unwrap(), wanted, "what came before need not come again");
    let view = store.tree(&b, &wanted).unwrap().unwrap();
    assert!(walk(&view).contains_key(&path("d/f")));
    assert!(matches!(store.put_tree(&b, vec![b"no node".to_vec()]), Err(StorageError::Unfit { .. })));
}

/// A directory `d` with a file `f`, as nodes.
fn common_nodes(content: &[u8]) -> Vec<Vec<u8>> {
    #[derive(Default)]
    struct Kept(Vec<(Hash, Vec<u8>)>);
    impl tree::NodeStore for Kept {
        type Error = std::convert::Infallible;
        fn node(&self, hash: &Hash) -> Result<Option<Vec<u8>>, Self::Error> {
            Ok(self.0.iter().find(|(h, _)| h == hash).map(|(_, bytes)| bytes.clone()))
        }
        fn keep(&mut self, hash: Hash, bytes: Vec<u8>) -> Result<(), Self::Error> {
            self.0.push((hash, bytes));
            Ok(())
        }
    }
    use opship_record::effect::{After, Before, Change};
    use opship_record::node::Kind;
    let before = |name: &str| Before::Absent { missing: path(name), above: Kind::Directory };
    let changes = [
        Change { path: path("d"), before: before("d"), after: After::Directory { mode: None } },
        Change { path: path("d/f"), before: before("d"), after: file(content) },
    ];
    let mut kept = Kept::default();
    let root = tree::apply(&mut kept, &tree::empty(), &changes).unwrap();
    assert_eq!(kept.0.last().unwrap().0, root);
    kept.0.into_iter().map(|(_, bytes)| bytes).collect()
}

#[test]
fn modules_of_the_server_and_of_a_workspace() {
    let data = tempfile::tempdir().unwrap();
    let (store, a) = open(data.path());
    let b = store.create_workspace(&admin(&store), "b").unwrap();
    let gzip = store.install_standard("gzip", b"standard gzip").unwrap();
    let own = store.put_blob_bytes(&a, b"own module").unwrap();
    let mut module = ModuleInfo::new("mine", own, 10);
    module.mounts = vec![Mount { path: path("share"), tree: Hash::of(b"lacking") }];
    assert!(
        matches!(store.register_module(&a, &module), Err(StorageError::Incomplete { nodes, .. }) if nodes.len() == 1)
    );
    module.mounts[0].tree = tree::empty();
    module.argv0 = Some("my".to_owned());
    store.register_module(&a, &module).unwrap();
    assert_eq!(store.resolve_module(&a, "mine").unwrap(), Some(module));
    assert_eq!(store.resolve_module(&b, "mine").unwrap(), None);

    for scope in [&a, &b] {
        for name in ["gzip", "std/gzip"] {
            let found = store.resolve_module(scope, name).unwrap().unwrap();
            assert_eq!((found.hash, found.standard), (gzip, true));
        }
        assert_eq!(read(&store.module_content(scope, &gzip).unwrap().unwrap()), b"standard gzip");
        assert!(store.open_blob(scope, &gzip).unwrap().is_none(), "it is no file of the workspace");
    }
    let shadow = store.register_module(&a, &ModuleInfo::new("gzip", own, 10));
    assert!(matches!(shadow, Err(StorageError::Exists { .. })));
    let reserved = store.register_module(&a, &ModuleInfo::new("std/x", own, 10));
    assert!(matches!(reserved, Err(StorageError::Name { .. })));

    // A newer build takes the name; the older one stays for the records that name it.
    let newer = store.install_standard("gzip", b"newer gzip").unwrap();
    assert_eq!(store.resolve_module(&a, "gzip").unwrap().unwrap().hash, newer);
    assert!(store.module_content(&a, &gzip).unwrap().is_some());
    assert_eq!(store.modules(&a).unwrap().len(), 2);
    assert!(store.remove_module(&a, "mine").unwrap() && !store.remove_module(&a, "mine").unwrap());
    assert!(store.module_content(&b, &own).unwrap().is_none());
}

#[test]
fn a_module_is_vouched_for_by_the_server_or_an_administrator() {
    let data = tempfile::tempdir().unwrap();
    let (store, work) = open(data.path());
    let admin = admin(&store);
    let other = store.create_workspace(&admin, "other").unwrap();
    let token = store.create_token(&admin, "eva", None).unwrap();
    for scope in [&work, &other] {
        store.grant(scope, "eva", Some(Role::Write)).unwrap();
    }
    let eva = store.authenticate(&token).unwrap().unwrap();
    let eva = store.scope(&eva, "work", Role::Write).unwrap();

    let hash = store.put_blob_bytes(&work, b"a module").unwrap();
    let module = ModuleInfo::new("m", hash, 8);
    assert!(!store.is_vouched_for(&work, &hash).unwrap());
    store.register_module(&eva, &module).unwrap();
    assert!(!store.is_vouched_for(&work, &hash).unwrap());
    store.register_module(&work, &module).unwrap();
    assert!(store.is_vouched_for(&eva, &hash).unwrap());
    assert!(!store.is_vouched_for(&other, &hash).unwrap());
    // The same bytes again by another change nothing; other bytes do.
    store.register_module(&eva, &module).unwrap();
    assert!(store.is_vouched_for(&work, &hash).unwrap());
    let another = store.put_blob_bytes(&work, b"another").unwrap();
    store.register_module(&eva, &ModuleInfo::new("m", another, 7)).unwrap();
    assert!(!store.is_vouched_for(&work, &hash).unwrap() && !store.is_vouched_for(&work, &another).unwrap());

    let standard = store.install_standard("gzip", b"standard gzip").unwrap();
    assert!(store.is_vouched_for(&other, &standard).unwrap());
}
