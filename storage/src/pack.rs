//! Lists of an entry, packed for keeping.

use crate::StorageError;
use opship_record::codec;
use opship_record::effect::Change;
use opship_record::observation::Observation;
use opship_record::record::{Lists, StepStreams};

/// Below this many bytes compression gains nothing.
const WORTH_COMPRESSING: usize = 512;
/// zstd's fastest ordinary level: the lists are read rarely.
const LEVEL: i32 = 1;

const PLAIN: u8 = 0;
const COMPRESSED: u8 = 1;

/// One byte that says how, then the canonical CBOR of the lists.
pub(crate) fn pack_lists(lists: &Lists) -> Result<Vec<u8>, StorageError> {
    let bytes = codec::encode(&(&lists.observations, &lists.changes, &lists.streams, &lists.exits));
    let (how, bytes) = if bytes.len() < WORTH_COMPRESSING {
        (PLAIN, bytes)
    } else {
        let packed = zstd::bulk::compress(&bytes, LEVEL).map_err(StorageError::io("compressing lists"))?;
        (COMPRESSED, packed)
    };
    Ok([&[how], bytes.as_slice()].concat())
}

/// The lists again.
pub(crate) fn unpack_lists(packed: &[u8]) -> Result<Lists, StorageError> {
    let bytes = match packed.split_first() {
        Some((&PLAIN, bytes)) => bytes.to_vec(),
        Some((&COMPRESSED, bytes)) => zstd::stream::decode_all(bytes).map_err(StorageError::damaged)?,
        _ => return Err(StorageError::damaged("packed lists of an unknown form")),
    };
    let (observations, changes, streams, exits): (Vec<Observation>, Vec<Change>, Vec<StepStreams>, Vec<u32>) =
        codec::decode(&bytes, "lists").map_err(StorageError::damaged)?;
    Ok(Lists { observations, changes, streams, exits })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use opship_record::{Hash, TreePath};

    #[test]
    fn small_and_large_lists_come_back() {
        for count in [0, 1, 1000] {
            let path = |n: i32| TreePath::new(format!("d/{n}")).unwrap();
            let observations =
                (0..count).map(|n| Observation::Content { path: path(n), hash: Hash::of(b"x") }).collect();
            let lists = Lists { observations, exits: vec![0, 7], ..Lists::default() };
            let packed = pack_lists(&lists).unwrap();
            assert_eq!(unpack_lists(&packed).unwrap(), lists);
        }
        assert!(unpack_lists(&[]).is_err());
        assert!(unpack_lists(&[9, 0]).is_err());
    }
}
