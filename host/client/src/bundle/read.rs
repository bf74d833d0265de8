//! Reading a bundle: all of it is checked before anything is done with it.

use super::format::{BundledEntry, FORMAT, Head, Kind, MAGIC, MAX_ENTRY, MAX_PAGE, MAX_PATHS, State, bad};
use opship_record::effect::{Before, Change};
use opship_record::entry::ClientId;
use opship_record::limits::MAX_RECORD;
use opship_record::node::{Kind as NodeKind, Node};
use opship_record::{Hash, Hasher, codec, tree};
use opship_residual::packed::decoder;
use std::collections::{BTreeSet, HashMap};
use std::io::{self, Read};
use std::ops::DerefMut;

/// Bytes of a section's kind and length.
const HEADER: u64 = 5;

/// Where everything is in a bundle that is whole and agrees with itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Contents {
    pub head: Head,
    /// All states of the version, sorted by path.
    pub states: Vec<State>,
    /// Where the sections of entries start, in the order in which they are shipped.
    pub entries: Vec<u64>,
    /// Where the sections of mounts' tree nodes start.
    pub nodes: HashMap<Hash, u64>,
    /// Where the first piece of each content starts, and the content's length.
    pub contents: HashMap<Hash, (u64, u64)>,
}

/// Reads a bundle to its end and checks it. Takes memory for the states, and some bytes for each section; never more than
/// a few times what was read, and for states what [`MAX_PATHS`] allows.
///
/// # Errors
/// [`io::ErrorKind::InvalidData`] and [`io::ErrorKind::UnexpectedEof`] for what is no whole bundle; others from reading.
pub(crate) fn scan(from: impl Read) -> io::Result<Contents> {
    let mut sections = Sections { from, at: 0, hasher: Some(Hasher::new()), next: None };
    let mut magic = [0; MAGIC.len()];
    sections.fill(&mut magic)?;
    if magic != MAGIC {
        let ours = magic.starts_with(&MAGIC[..14]);
        return Err(bad(if ours { "a newer opship made it; update this one" } else { "it is no bundle of opship" }));
    }
    let head: Head = codec::decode(&sections.expect(Kind::Head)?, "head of a bundle").map_err(bad)?;
    check_head(&head)?;
    let mut found =
        Contents { head, states: Vec::new(), entries: Vec::new(), nodes: HashMap::new(), contents: HashMap::new() };
    let mut keys = BTreeSet::new();
    let mut last = Kind::Head;
    loop {
        let (kind, _) = sections.peek()?;
        let at = sections.at - HEADER;
        if kind < last || kind == Kind::Head || kind == Kind::Piece {
            return Err(bad("a section stands at the wrong place"));
        }
        last = kind;
        match kind {
            Kind::States => take_states(&sections.expect(kind)?, &mut found.states)?,
            Kind::Entry => take_entry(&sections.expect(kind)?, at, &mut keys, &mut found.entries)?,
            Kind::Node => take_node(&sections.expect(kind)?, at, &mut found.nodes)?,
            Kind::Content => take_content(&mut sections, &mut found.contents)?,
            Kind::End => break,
            Kind::Head | Kind::Piece => {}
        }
    }
    sections.end()?;
    let head = &found.head;
    let counts = [found.states.len(), found.entries.len(), found.contents.len()].map(|count| count as u64);
    if counts != [head.paths, head.entries, head.contents] {
        return Err(bad("it holds more or less than it says"));
    }
    check_tree(&found)?;
    Ok(found)
}

fn check_head(head: &Head) -> io::Result<()> {
    if head.format != FORMAT {
        return Err(bad("a newer opship made it; update this one"));
    }
    if head.paths > MAX_PATHS {
        return Err(bad(format!("it holds {} paths; {MAX_PATHS} at most are taken", head.paths)));
    }
    let number = head.version.as_ref().map(|version| version.number);
    if number.is_none() && (head.paths > 0 || head.since.is_some()) || head.since > number {
        return Err(bad("what it says of its version contradicts itself"));
    }
    Ok(())
}

/// Takes a page of states: sorted, behind those before.
fn take_states(packed: &[u8], states: &mut Vec<State>) -> io::Result<()> {
    let page: Vec<State> = codec::decode(&unpack(packed, MAX_PAGE)?, "page of states").map_err(bad)?;
    if page.is_empty() || states.len() + page.len() > MAX_PATHS as usize {
        return Err(bad("a page of states is empty or beyond what may be"));
    }
    for (path, node) in page {
        let follows = states.last().is_none_or(|(last, _)| *last < path);
        if !follows || path.is_root() || node.as_ref().is_some_and(|node| !node.is_valid()) {
            return Err(bad(format!("no tree may hold what it says of '{path}'")));
        }
        states.push((path, node));
    }
    Ok(())
}

fn take_entry(packed: &[u8], at: u64, keys: &mut BTreeSet<(ClientId, u64)>, entries: &mut Vec<u64>) -> io::Result<()> {
    let entry = decode_entry(packed)?;
    if entry.command.len() > MAX_RECORD {
        return Err(bad("the name of an entry is too long"));
    }
    entry.check()?;
    if !keys.insert((entry.client, entry.sequence)) {
        return Err(bad("it holds an entry twice"));
    }
    entries.push(at);
    Ok(())
}

/// The entry of a section.
pub(super) fn decode_entry(packed: &[u8]) -> io::Result<BundledEntry> {
    codec::decode(&unpack(packed, MAX_ENTRY)?, "entry of a bundle").map_err(bad)
}

fn take_node(bytes: &[u8], at: u64, nodes: &mut HashMap<Hash, u64>) -> io::Result<()> {
    tree::references(bytes).map_err(bad)?;
    match nodes.insert(tree::hash_of(bytes), at) {
        None => Ok(()),
        Some(_) => Err(bad("it holds a tree node twice")),
    }
}

fn take_content(sections: &mut Sections<impl Read>, contents: &mut HashMap<Hash, (u64, u64)>) -> io::Result<()> {
    let section = sections.expect(Kind::Content)?;
    let (Some((hash, length)), 40) = (section.split_first_chunk::<32>(), section.len()) else {
        return Err(bad("the section of a content is too short"));
    };
    let length = length.iter().fold(0, |length, byte| length << 8 | u64::from(*byte));
    let (hash, at) = (Hash::from_bytes(*hash), sections.at);
    let (mut hasher, mut read, mut buffer) = (Hasher::new(), 0, vec![0; 64 << 10]);
    let mut content = unpacked(&mut *sections, length)?;
    loop {
        let count = content.read(&mut buffer).map_err(unpacking)?;
        if count == 0 {
            break;
        }
        hasher.update(&buffer[..count]);
        read += count as u64;
    }
    drop(content);
    if read != length || hasher.finish() != hash {
        return Err(bad(format!("the content {} has other bytes", hash.short())));
    }
    match contents.insert(hash, (at, length)) {
        None => Ok(()),
        Some(_) => Err(bad("it holds a content twice")),
    }
}

/// The bytes of the content whose pieces stand next, of `length` bytes; one more shows that it has more.
pub(super) fn unpacked<P, R>(sections: P, length: u64) -> io::Result<impl Read + use<P, R>>
where
    P: DerefMut<Target = Sections<R>>,
    R: Read,
{
    Ok(decoder(Pieces { sections, piece: io::Cursor::new(Vec::new()) })?.take(length.saturating_add(1)))
}

/// Decompresses at most `longest` bytes.
fn unpack(packed: &[u8], longest: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    decoder(packed)?.take(longest as u64 + 1).read_to_end(&mut bytes).map_err(unpacking)?;
    if bytes.len() > longest {
        return Err(bad("a section is too long"));
    }
    Ok(bytes)
}

/// The library tells all that is wrong with what it reads as one kind of error.
fn unpacking(error: io::Error) -> io::Error {
    if error.kind() == io::ErrorKind::Other { bad(error) } else { error }
}

/// The states are a tree, and the one that the head names.
fn check_tree(found: &Contents) -> io::Result<()> {
    for (path, node) in &found.states {
        if let Some(Node::File { hash, length, .. }) = node
            && found.contents.get(hash).is_some_and(|(_, actual)| actual != length)
        {
            return Err(bad(format!("the length of '{path}' is not that of its content")));
        }
    }
    let Some(claim) = &found.head.version else { return Ok(()) };
    let Some(root) = claim.root else { return Ok(()) };
    let is_root = root_of(&found.states)? == Some(root);
    if is_root { Ok(()) } else { Err(bad("the states of its paths are not the tree that it names")) }
}

/// Hash of the tree of these states; `None` if one of them is not known.
///
/// # Errors
/// [`io::ErrorKind::InvalidData`] if they are no tree.
pub(super) fn root_of(states: &[State]) -> io::Result<Option<Hash>> {
    let change = |(path, node): &State| {
        let before = Before::Absent { missing: path.clone(), above: NodeKind::Directory };
        Some(Change { path: path.clone(), before, after: crate::values::after(node.as_ref()?) })
    };
    let Some(changes) = states.iter().map(change).collect::<Option<Vec<Change>>>() else { return Ok(None) };
    let mut nodes: HashMap<Hash, Vec<u8>> = HashMap::new();
    tree::apply(&mut nodes, &tree::empty(), &changes).map(Some).map_err(bad)
}

/// Reads sections one after the other.
pub(super) struct Sections<R> {
    from: R,
    /// Where the next section starts, or the rest of this one.
    at: u64,
    /// Of what was read, while all is read.
    hasher: Option<Hasher>,
    /// The header of the next section, if it was read already.
    next: Option<(Kind, usize)>,
}

impl<R: Read> Sections<R> {
    /// At a section, which starts at `at`.
    pub(super) fn at(from: R, at: u64) -> Sections<R> {
        Sections { from, at, hasher: None, next: None }
    }

    fn fill(&mut self, bytes: &mut [u8]) -> io::Result<()> {
        self.from.read_exact(bytes)?;
        self.at += bytes.len() as u64;
        if let Some(hasher) = &mut self.hasher {
            hasher.update(bytes);
        }
        Ok(())
    }

    /// The kind and length of the next section.
    fn peek(&mut self) -> io::Result<(Kind, usize)> {
        if let Some(next) = self.next {
            return Ok(next);
        }
        let mut header = [0; 5];
        self.fill(&mut header)?;
        let [kind, length @ ..] = header;
        let (kind, length) = (Kind::of(kind)?, u32::from_be_bytes(length) as usize);
        if length > kind.longest() {
            return Err(bad("a section is too long"));
        }
        self.next = Some((kind, length));
        Ok((kind, length))
    }

    /// The payload of the next section, which must be of this kind. Takes memory as it reads.
    pub(super) fn expect(&mut self, wanted: Kind) -> io::Result<Vec<u8>> {
        let (kind, length) = self.peek()?;
        if kind != wanted {
            return Err(bad("a section stands at the wrong place"));
        }
        self.next = None;
        let mut payload = Vec::new();
        self.from.by_ref().take(length as u64).read_to_end(&mut payload)?;
        if payload.len() < length {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.at += length as u64;
        if let Some(hasher) = &mut self.hasher {
            hasher.update(&payload);
        }
        Ok(payload)
    }

    /// The last section, which hashes all before it, and nothing behind it.
    fn end(mut self) -> io::Result<()> {
        let mut stated = [0; 32];
        if self.peek()? != (Kind::End, stated.len()) {
            return Err(bad("its last section has another length"));
        }
        self.from.read_exact(&mut stated)?;
        if self.hasher.is_none_or(|hasher| *hasher.finish().as_bytes() != stated) {
            return Err(bad("its checksum is not that of its bytes"));
        }
        match self.from.read(&mut [0])? {
            0 => Ok(()),
            _ => Err(bad("something follows its end")),
        }
    }
}

/// The pieces of a content, as the stream that they are cut from.
struct Pieces<P> {
    sections: P,
    piece: io::Cursor<Vec<u8>>,
}

impl<P: DerefMut<Target = Sections<R>>, R: Read> Read for Pieces<P> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.piece.read(buffer)?;
        if count > 0 || buffer.is_empty() {
            return Ok(count);
        }
        match self.sections.peek()? {
            (Kind::Piece, 0) => Err(bad("a piece of a content is empty")),
            (Kind::Piece, _) => {
                self.piece = io::Cursor::new(self.sections.expect(Kind::Piece)?);
                self.piece.read(buffer)
            }
            _ => Ok(0),
        }
    }
}
