//! A residual's canonical encoding.

use super::{Delta, Item, MAX_ITEMS, MAX_RESIDUAL, Repair, Residual};
use crate::ResidualError;
use crate::parity::{Code, Parity};
use minicbor::bytes::ByteVec;
use minicbor::decode::Error as DecodeError;
use minicbor::{Decode, Decoder, Encode};
use opship_record::{Error, FORMAT_VERSION, codec};

#[derive(Encode, Decode)]
#[cbor(map)]
struct Whole {
    #[n(0)]
    format: u8,
    #[cbor(n(1), decode_with = "some")]
    items: Vec<One>,
}

#[derive(Encode, Decode)]
struct One {
    #[n(0)]
    index: u32,
    #[n(1)]
    repair: How,
}

#[derive(Encode, Decode)]
#[cbor(flat)]
enum How {
    #[n(0)]
    Delta {
        #[n(0)]
        document: ByteVec,
    },
    #[n(1)]
    Parity {
        #[n(0)]
        symbols: u16,
        #[n(1)]
        length: u64,
        #[n(2)]
        parity: ByteVec,
    },
}

pub(super) fn encode(residual: &Residual) -> Vec<u8> {
    codec::encode(&Whole { format: FORMAT_VERSION, items: residual.items.iter().map(One::of).collect() })
}

pub(super) fn decode(bytes: &[u8]) -> Result<Residual, ResidualError> {
    if bytes.len() > MAX_RESIDUAL {
        let (actual, limit) = (bytes.len() as u64, MAX_RESIDUAL as u64);
        return Err(Error::TooLarge { what: "residual", actual, limit }.into());
    }
    let whole: Whole = codec::decode(bytes, "residual")?;
    if whole.format != FORMAT_VERSION {
        return Err(Error::FormatVersion { found: whole.format }.into());
    }
    Residual::new(whole.items.into_iter().map(One::into_item).collect::<Result<_, _>>()?)
}

/// An array of at most so many items: their number is bounded before room is made for them.
fn some<'b, C>(decoder: &mut Decoder<'b>, context: &mut C) -> Result<Vec<One>, DecodeError> {
    match decoder.probe().array()? {
        Some(count) if count <= MAX_ITEMS as u64 => decoder.decode_with(context),
        _ => Err(DecodeError::message("too many items, or not told how many")),
    }
}

impl One {
    fn of(item: &Item) -> One {
        let repair = match &item.repair {
            Repair::Delta(delta) => How::Delta { document: delta.packed.clone().into() },
            Repair::Parity(parity) => How::Parity {
                symbols: parity.code().symbols(),
                length: parity.code().length(),
                parity: parity.as_bytes().to_vec().into(),
            },
        };
        One { index: item.index, repair }
    }

    fn into_item(self) -> Result<Item, ResidualError> {
        let repair = match self.repair {
            How::Delta { document } => Repair::Delta(Delta { packed: document.into() }),
            How::Parity { symbols, length, parity } => {
                Repair::Parity(Parity::from_bytes(Code::new(symbols, length)?, parity.into())?)
            }
        };
        Ok(Item { index: self.index, repair })
    }
}
