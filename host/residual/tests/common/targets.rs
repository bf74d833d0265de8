//! Fuzz targets: functions of the bytes that fuzzing makes. What must hold is asserted; nothing else may stop them.

use opship_record::Hash;
use opship_residual::{Signature, apply, delta};
use std::io;

/// Whatever is asked for is here.
struct Here<'a>(&'a [u8]);

impl<'a> apply::Sources for Here<'a> {
    type Base = &'a [u8];

    fn base(&self, _: &Hash) -> io::Result<Option<&'a [u8]>> {
        Ok(Some(self.0))
    }

    fn chunk(&self, _: &Hash) -> io::Result<Option<Vec<u8>>> {
        Ok(Some(self.0[..1000].to_vec()))
    }
}

/// Most bytes that a document may make here.
const LIMIT: u64 = 1 << 20;

/// A document from outside: applied within its bounds, to as many bytes as it says, or refused.
pub(crate) fn document(data: &[u8]) {
    let base: Vec<u8> = (0..5000u32).map(|i| (i.wrapping_mul(i) >> 3) as u8).collect();
    let here = Here(&base);
    let mut made = Vec::new();
    if let Ok(length) = apply::apply(data, LIMIT, &here, &mut made) {
        assert!(length <= LIMIT && made.len() as u64 == length);
        // What it made can be said again.
        let again = delta::make(made.as_slice(), length, Some((&Hash::of(&base), &Signature::of(&base))), Vec::new());
        let mut same = Vec::new();
        apply::apply(again.unwrap().as_slice(), LIMIT, &here, &mut same).unwrap();
        assert!(same == made);
    }
}

/// A signature from outside: read in one form only, and of use or of none, never of harm.
pub(crate) fn signature(data: &[u8]) {
    let Ok(signature) = Signature::decode(data) else { return };
    assert!(signature.encode() == data);
    let content: Vec<u8> = data.iter().cycle().take(data.len().min(1 << 12) * 3).copied().collect();
    delta::make(content.as_slice(), content.len() as u64, Some((&Hash::of_empty(), &signature)), Vec::new()).unwrap();
}
