//! Modules by name: what a name means here (pinned), and where the bytes are.

use crate::ClientError;
use crate::layout::make_inside;
use crate::mounts::{Closure, MountStore};
use crate::net::{Api, ModuleDescription, MountDescription};
use opship_engine::ModuleLimits;
use opship_record::{Hash, TreePath};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

/// A module that can be run: which bytes, called by which name, with which mounts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModuleChoice {
    /// The name that people know it by.
    pub name: String,
    /// Hash of its bytes.
    pub hash: Hash,
    /// The first argument that it sees.
    pub argv0: String,
    /// Its mounts: where, and which tree. Sorted by path.
    pub mounts: Vec<(TreePath, Hash)>,
}

/// The names known to a working copy and the bytes kept in it. Names are pinned: a name means the same bytes until
/// `module add` or `module remove` says otherwise; only standard operations follow the server's build of them.
#[derive(Debug)]
pub struct ModuleBook {
    folder: PathBuf,
    standard: &'static [(&'static str, &'static [u8])],
    pins: BTreeMap<String, ModuleDescription>,
}

impl ModuleBook {
    /// Opens the book of a working copy. `standard`: the operations that this build carries.
    ///
    /// # Errors
    /// [`ClientError::Read`] if the book is damaged.
    pub fn open(
        own_folder: &Path,
        standard: &'static [(&'static str, &'static [u8])],
    ) -> Result<ModuleBook, ClientError> {
        let file = own_folder.join("modules.json");
        let pins = match fs::read(&file) {
            Ok(bytes) => serde_json::from_slice(&bytes).map_err(|e| read_failed(&file, &e))?,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => BTreeMap::new(),
            Err(error) => return Err(read_failed(&file, &error)),
        };
        Ok(ModuleBook { folder: own_folder.to_owned(), standard, pins })
    }

    /// Where mounts are kept.
    pub fn mounts(&self) -> MountStore {
        MountStore::new(&self.folder)
    }

    fn module_path(&self, hash: &Hash) -> PathBuf {
        self.folder.join("modules").join(format!("{hash}.wasm"))
    }

    fn save(&self) -> Result<(), ClientError> {
        let text = serde_json::to_vec_pretty(&self.pins).map_err(|e| write_failed(&self.folder, &e))?;
        write_durably(&self.folder.join("modules.json"), &text)
    }

    /// Keeps a module's bytes, as long as an entry may need them.
    ///
    /// # Errors
    /// [`ClientError::Write`].
    pub fn keep(&self, bytes: &[u8]) -> Result<Hash, ClientError> {
        let hash = Hash::of(bytes);
        let file = self.module_path(&hash);
        if !file.exists() {
            make_inside(&self.folder, "modules")?;
            write_durably(&file, bytes)?;
        }
        Ok(hash)
    }

    /// A module's bytes if they are here: kept, or a standard operation of this build.
    ///
    /// # Errors
    /// [`ClientError::Read`] if they cannot be read.
    pub fn bytes(&self, hash: &Hash) -> Result<Option<Vec<u8>>, ClientError> {
        if let Some((_, bytes)) = self.standard.iter().find(|(_, bytes)| Hash::of(bytes) == *hash) {
            return Ok(Some(bytes.to_vec()));
        }
        let file = self.module_path(hash);
        match fs::read(&file) {
            Ok(bytes) if Hash::of(&bytes) == *hash => Ok(Some(bytes)),
            Ok(_) => Err(read_failed(&file, &"its bytes are damaged; register the module again")),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(read_failed(&file, &error)),
        }
    }

    /// Does this build carry the module, or has this working copy given it a name?
    pub fn is_trusted(&self, hash: &Hash) -> bool {
        let pinned = || self.pins.values().any(|pin| pin.hash == hash.to_string());
        self.standard.iter().any(|(_, bytes)| Hash::of(bytes) == *hash) || pinned()
    }

    /// The hashes of the modules that this build carries.
    pub(crate) fn standard_hashes(&self) -> BTreeSet<Hash> {
        self.standard.iter().map(|(_, bytes)| Hash::of(bytes)).collect()
    }

    /// The length of a module that is kept here; 0 if it is not.
    pub(crate) fn length(&self, hash: &Hash) -> Result<u64, ClientError> {
        let path = self.module_path(hash);
        match std::fs::metadata(&path) {
            Ok(metadata) => Ok(metadata.len()),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(0),
            Err(error) => Err(read_failed(&path, &error)),
        }
    }

    /// What a name means without asking the server. `std/NAME` always means the standard operation.
    pub fn pinned(&self, name: &str) -> Option<ModuleChoice> {
        let pin = self.pins.get(name).or_else(|| self.pins.get(name.strip_prefix("std/")?).filter(|pin| pin.standard));
        pin.and_then(choice)
    }

    /// The standard operation of this build by a name, for working without the server.
    pub fn embedded(&self, name: &str) -> Option<ModuleChoice> {
        let name = name.strip_prefix("std/").unwrap_or(name);
        let (_, bytes) = self.standard.iter().find(|(known, _)| *known == name)?;
        let name = name.to_owned();
        Some(ModuleChoice { hash: Hash::of(bytes), argv0: name.clone(), name, mounts: Vec::new() })
    }

    /// All names that mean something here.
    pub fn known(&self) -> Vec<ModuleDescription> {
        let embedded = self.standard.iter().filter(|(name, _)| !self.pins.contains_key(*name)).map(|(name, bytes)| {
            ModuleDescription {
                name: (*name).to_owned(),
                hash: Hash::of(bytes).to_string(),
                length: bytes.len() as u64,
                mounts: Vec::new(),
                argv0: None,
                standard: true,
                registered: true,
            }
        });
        let mut all: Vec<_> = self.pins.values().cloned().chain(embedded).collect();
        all.sort_by(|a, b| a.name.cmp(&b.name));
        all
    }

    /// Pins a module of this working copy.
    ///
    /// # Errors
    /// [`ClientError::Write`]; [`ClientError::Refused`] for a name that none may have.
    pub fn pin(&mut self, module: ModuleDescription) -> Result<(), ClientError> {
        check_name(&module.name)?;
        self.pins.insert(module.name.clone(), module);
        self.save()
    }

    /// Forgets a name. `false`: it meant nothing here.
    ///
    /// # Errors
    /// [`ClientError::Write`].
    pub fn unpin(&mut self, name: &str) -> Result<bool, ClientError> {
        let known = self.pins.remove(name).is_some();
        if known {
            self.save()?;
        }
        Ok(known)
    }

    /// Takes over what the server knows: new names, and its builds of standard operations. Names pinned to other bytes
    /// are left alone and returned.
    ///
    /// # Errors
    /// [`ClientError::Write`].
    pub fn learn(&mut self, modules: Vec<ModuleDescription>) -> Result<Vec<String>, ClientError> {
        let (mut differing, before) = (Vec::new(), self.pins.clone());
        for mut module in modules {
            if module.standard {
                module.name = module.name.trim_start_matches("std/").to_owned();
            }
            module.registered = true;
            match self.pins.get(&module.name) {
                Some(pin) if pin.hash != module.hash && !(pin.standard && module.standard) => {
                    differing.push(module.name)
                }
                _ => drop(self.pins.insert(module.name.clone(), module)),
            }
        }
        if self.pins != before {
            self.save()?;
        }
        Ok(differing)
    }

    /// The modules that were added here and that the server has not been told of.
    pub fn unregistered(&self) -> Vec<ModuleDescription> {
        self.pins.values().filter(|pin| !pin.registered && !pin.standard).cloned().collect()
    }

    /// Notes that the server knows a module.
    ///
    /// # Errors
    /// [`ClientError::Write`].
    pub fn mark_registered(&mut self, name: &str) -> Result<(), ClientError> {
        if let Some(pin) = self.pins.get_mut(name) {
            pin.registered = true;
        }
        self.save()
    }

    /// Sends a module that was added here and that the server does not know yet.
    ///
    /// # Errors
    /// [`ClientError`] from the network, the server or the disk.
    pub async fn register(&self, api: &mut Api, module: &ModuleDescription) -> Result<(), ClientError> {
        let Some(pin) = choice(module) else { return Err(damaged_pin(&module.name)) };
        self.upload_module(api, &pin.hash).await?;
        for (_, tree) in &pin.mounts {
            self.upload_tree(api, tree).await?;
        }
        api.register_module(module).await
    }

    /// Uploads a module's bytes if the workspace lacks them.
    ///
    /// # Errors
    /// [`ClientError`] from the network, the server or the disk.
    pub async fn upload_module(&self, api: &mut Api, hash: &Hash) -> Result<(), ClientError> {
        if api.missing_blobs(&[*hash]).await?.is_empty() {
            return Ok(());
        }
        let bytes = self.bytes(hash)?.ok_or_else(|| {
            read_failed(
                &self.module_path(hash),
                &"the module's bytes are gone; register it again with 'opship module add'",
            )
        })?;
        api.put_blob(hash, std::io::Cursor::new(bytes)).await
    }

    /// Uploads a mount's tree with all that it holds and the workspace lacks.
    ///
    /// # Errors
    /// [`ClientError`] from the network, the server or the disk.
    pub async fn upload_tree(&self, api: &mut Api, root: &Hash) -> Result<(), ClientError> {
        let store = self.mounts();
        let Closure { nodes, blobs } = store.closure(root)?;
        let hashes: Vec<Hash> = blobs.iter().map(|(hash, _)| *hash).collect();
        for hash in api.missing_blobs(&hashes).await? {
            let path = store.blob_path(&hash);
            api.put_blob(&hash, fs::File::open(&path).map_err(|e| read_failed(&path, &e))?).await?;
        }
        api.put_tree(&nodes).await
    }

    /// Downloads what a choice needs and is not here: the module's bytes, its mounts.
    ///
    /// # Errors
    /// [`ClientError`] from the network, the server or the disk.
    pub async fn download(&self, api: &mut Api, choice: &ModuleChoice) -> Result<(), ClientError> {
        if self.bytes(&choice.hash)?.is_none() {
            let mut bytes = Vec::new();
            api.get_blob(&choice.hash, ModuleLimits::default().module_bytes, &mut bytes).await?;
            self.keep(&bytes)?;
        }
        let mut store = self.mounts();
        for (_, tree) in &choice.mounts {
            if store.closure(tree).is_err() {
                download_tree(api, &mut store, tree).await?;
            }
        }
        Ok(())
    }

    /// Is all here that a choice needs?
    ///
    /// # Errors
    /// [`ClientError::Read`] if the module's bytes cannot be read.
    pub fn is_complete(&self, choice: &ModuleChoice) -> Result<bool, ClientError> {
        let store = self.mounts();
        Ok(self.bytes(&choice.hash)?.is_some() && choice.mounts.iter().all(|(_, tree)| store.closure(tree).is_ok()))
    }
}

async fn download_tree(api: &mut Api, store: &mut MountStore, root: &Hash) -> Result<(), ClientError> {
    api.get_tree(root, store).await?;
    for (hash, length) in store.closure(root)?.blobs {
        let path = store.blob_path(&hash);
        if path.exists() {
            continue;
        }
        let mut file = store.blob_sink()?;
        api.get_blob(&hash, length, file.as_file_mut()).await?;
        file.persist(&path).map_err(|e| write_failed(&path, &e.error))?;
    }
    Ok(())
}

/// A pin in the types of a run; `None` if it is damaged.
fn choice(module: &ModuleDescription) -> Option<ModuleChoice> {
    let mounts = module.mounts.iter().map(|mount| Some((mount.path.parse().ok()?, mount.tree.parse().ok()?)));
    let mut mounts = mounts.collect::<Option<Vec<(TreePath, Hash)>>>()?;
    mounts.sort();
    Some(ModuleChoice {
        name: module.name.clone(),
        hash: module.hash.parse().ok()?,
        argv0: module.argv0.clone().unwrap_or_else(|| module.name.clone()),
        mounts,
    })
}

impl From<&ModuleChoice> for ModuleDescription {
    fn from(choice: &ModuleChoice) -> ModuleDescription {
        let mounts = choice.mounts.iter();
        ModuleDescription {
            name: choice.name.clone(),
            hash: choice.hash.to_string(),
            length: 0,
            mounts: mounts
                .map(|(path, tree)| MountDescription { path: path.to_string(), tree: tree.to_string() })
                .collect(),
            argv0: (choice.argv0 != choice.name).then(|| choice.argv0.clone()),
            standard: false,
            registered: false,
        }
    }
}

/// Can a module be called so? Names are like those of workspaces, so that they are safe in paths and addresses.
pub fn is_module_name(name: &str) -> bool {
    let valid = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "._-".contains(c);
    !name.is_empty() && name.len() <= 63 && name.chars().all(valid) && !name.starts_with(['.', '-', '_'])
}

fn check_name(name: &str) -> Result<(), ClientError> {
    if !is_module_name(name) {
        return Err(ClientError::Refused(format!(
            "'{name}' cannot name a module: use a to z, 0 to 9, '.', '_' and '-', at most 63"
        )));
    }
    Ok(())
}

fn write_durably(file: &Path, bytes: &[u8]) -> Result<(), ClientError> {
    let folder = file.parent().unwrap_or(Path::new("."));
    let write = || {
        let mut temporary = tempfile::NamedTempFile::new_in(folder)?;
        temporary.write_all(bytes)?;
        temporary.as_file().sync_all()?;
        temporary.persist(file).map_err(|error| error.error)?;
        fs::File::open(folder)?.sync_all()
    };
    write().map_err(|error| write_failed(file, &error))
}

fn damaged_pin(name: &str) -> ClientError {
    ClientError::Refused(format!("the registration of '{name}' is damaged; run 'opship module add' again"))
}

fn read_failed(path: &Path, detail: &dyn std::fmt::Display) -> ClientError {
    ClientError::Read { path: path.display().to_string(), detail: detail.to_string() }
}

fn write_failed(path: &Path, detail: &dyn std::fmt::Display) -> ClientError {
    ClientError::Write { path: path.display().to_string(), detail: detail.to_string() }
}
