//! Fuzz targets: functions of the bytes that fuzzing makes. What must hold is asserted; nothing else may stop them.

use opship_record::Hash;
use opship_residual::parity::{Code, Parity};
use opship_residual::{Residual, ResidualError, Signature, apply, delta};
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

/// A residual from outside: read in one form only; each repair makes a content within its bounds, or is refused.
pub(crate) fn residual(data: &[u8]) {
    let Ok(residual) = Residual::decode(data) else { return };
    assert!(residual.encode() == data);
    for item in residual.items() {
        let replayed = vec![7; 1 << 10];
        let mut made = Vec::new();
        if let Ok(length) = item.repair.apply((&Hash::of(&replayed), &replayed.as_slice()), LIMIT, &mut made) {
            assert!(length <= LIMIT && made.len() as u64 == length);
        }
    }
}

/// A parity from outside: what it makes has this parity, or it says that it cannot.
pub(crate) fn parity(data: &[u8]) {
    let Some(([symbols, length, high], bytes)) = data.split_first_chunk() else { return };
    let length = u64::from(u16::from_le_bytes([*length, *high]));
    let Ok(code) = Code::new(u16::from(*symbols), length) else { return };
    let replayed: Vec<u8> = (0..length).map(|at| (at * at % 251) as u8).collect();
    let own = Parity::of(replayed.as_slice(), code).unwrap();
    // What is given is laid over the parity of the content itself, so that few bytes make few differences.
    let sent = own.as_bytes().iter().enumerate().map(|(at, byte)| byte ^ bytes.get(at).unwrap_or(&0)).collect();
    let sent = Parity::from_bytes(code, sent).unwrap();
    match sent.difference(&own) {
        Ok(difference) => {
            let mut made = Vec::new();
            assert!(difference.apply(replayed.as_slice(), &mut made).unwrap() == length);
            assert!(Parity::of(made.as_slice(), code).unwrap() == sent);
        }
        Err(error) => assert!(matches!(error, ResidualError::Unrepairable)),
    }
}
