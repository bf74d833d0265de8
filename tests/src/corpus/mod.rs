//! The replay corpus: records of runs, with the modules that they ran, kept for each engine profile.
//!
//! `tests/corpus/profile-N` holds all that a replay needs: `modules` (compressed), `trees` (described), `cases` (a record
//! with its full lists each). What is there never changes; `cargo run -p opship-tests --bin corpus` adds what
//! [`cases::cases`] has and the folder has not.

pub mod cases;
mod record;
mod replay;
mod tree;

pub use record::Recorder;
pub use replay::{Replayed, Replayer, World};

use minicbor::bytes::ByteVec;
use minicbor::{Decode, Encode};
use opship_record::plan::PROFILE;
use opship_record::record::{Lists, Record, decode_streams, encode_streams};
use opship_record::{Hash, codec, effect, observation};
use opship_world::MemoryTree;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// What to do about a case that comes out otherwise.
pub const ADVICE: &str = "A change of engine or world that alters a byte needs a new engine profile, since servers replay \
    what is recorded already: raise opship_record::plan::PROFILE, keep replaying the old one, and write the new one's \
    corpus with 'cargo run -p opship-tests --bin corpus'.";

/// A case as it is stored: canonical CBOR.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Case {
    /// Name of the tree that it runs on.
    #[n(0)]
    pub tree: String,
    /// Bytes of its standard input, where that is a blob.
    #[n(1)]
    pub stdin: Option<ByteVec>,
    /// The record.
    #[n(2)]
    record: ByteVec,
    /// The full lists behind the record's digests, to tell what differs.
    #[n(3)]
    observations: ByteVec,
    #[n(4)]
    changes: ByteVec,
    #[n(5)]
    streams: ByteVec,
}

impl Case {
    /// A case that gave these lists.
    pub fn new(tree: &str, stdin: Option<Vec<u8>>, record: &Record, lists: &Lists) -> Case {
        Case {
            tree: tree.to_owned(),
            stdin: stdin.map(ByteVec::from),
            record: record.encode().into(),
            observations: observation::encode_list(&lists.observations).into(),
            changes: effect::encode_list(&lists.changes).into(),
            streams: encode_streams(&lists.streams).into(),
        }
    }

    /// The record, read as one that comes from outside.
    pub fn record(&self) -> Record {
        Record::decode(&self.record).unwrap()
    }

    /// The lists.
    pub fn lists(&self) -> Lists {
        let record = self.record();
        let exits = record.exits.unwrap_or_else(|| vec![0; record.plan.steps.len()]);
        Lists {
            observations: observation::decode_list(&self.observations).unwrap(),
            changes: effect::decode_list(&self.changes).unwrap(),
            streams: decode_streams(&self.streams).unwrap(),
            exits,
        }
    }

    /// The same case with another record.
    pub fn with_record(&self, record: &Record) -> Case {
        Case { record: record.encode().into(), ..self.clone() }
    }
}

/// The corpus of one profile.
#[derive(Debug)]
pub struct Corpus {
    folder: PathBuf,
}

impl Corpus {
    /// The folder of all corpora.
    pub fn root() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus")
    }

    /// The corpus of the profile that this build records under.
    pub fn current() -> Corpus {
        Corpus { folder: Corpus::root().join(format!("profile-{PROFILE}")) }
    }

    /// Those of all profiles, oldest first.
    pub fn all() -> Vec<Corpus> {
        (1..=PROFILE).map(|profile| Corpus { folder: Corpus::root().join(format!("profile-{profile}")) }).collect()
    }

    /// Its name, such as `profile-1`.
    pub fn name(&self) -> String {
        self.folder.file_name().unwrap().to_string_lossy().into_owned()
    }

    /// All cases by name.
    pub fn cases(&self) -> BTreeMap<String, Case> {
        let read = |(name, bytes): (String, Vec<u8>)| (name, codec::decode(&bytes, "case").unwrap());
        self.files("cases", ".cbor").into_iter().map(read).collect()
    }

    /// All modules by hash.
    pub fn modules(&self) -> BTreeMap<Hash, Vec<u8>> {
        let unpack = |(_, packed): (String, Vec<u8>)| {
            let bytes = zstd::decode_all(packed.as_slice()).unwrap();
            (Hash::of(&bytes), bytes)
        };
        self.files("modules", ".wasm.zst").into_iter().map(unpack).collect()
    }

    /// All trees by name.
    pub fn trees(&self) -> BTreeMap<String, MemoryTree> {
        let read = |(name, text): (String, Vec<u8>)| (name, tree::tree(&String::from_utf8(text).unwrap()));
        self.files("trees", ".json").into_iter().map(read).collect()
    }

    /// Adds a case. One that is there stays as it is.
    pub fn add_case(&self, name: &str, case: &Case) {
        self.add("cases", &format!("{name}.cbor"), &codec::encode(case));
    }

    /// Adds a module, unless its bytes are there.
    pub fn add_module(&self, name: &str, bytes: &[u8]) {
        const LEVEL: i32 = 19;
        let file = format!("{name}-{}.wasm.zst", Hash::of(bytes).short());
        if !self.folder.join("modules").join(&file).exists() {
            self.add("modules", &file, &zstd::encode_all(bytes, LEVEL).unwrap());
        }
    }

    fn add(&self, part: &str, file: &str, bytes: &[u8]) {
        let folder = self.folder.join(part);
        fs::create_dir_all(&folder).unwrap();
        let mut options = fs::OpenOptions::new();
        let file = options.write(true).create_new(true).open(folder.join(file));
        std::io::Write::write_all(&mut file.unwrap(), bytes).unwrap();
    }

    /// Names, without the ending, and bytes of a part's files.
    fn files(&self, part: &str, ending: &str) -> BTreeMap<String, Vec<u8>> {
        let Ok(entries) = fs::read_dir(self.folder.join(part)) else { return BTreeMap::new() };
        let paths = entries.map(|entry| entry.unwrap().path());
        paths
            .map(|path| {
                let name = path.file_name().unwrap().to_str().unwrap();
                let stem = name.strip_suffix(ending).unwrap_or_else(|| panic!("what is {}?", path.display()));
                (stem.to_owned(), fs::read(&path).unwrap())
            })
            .collect()
    }
}
