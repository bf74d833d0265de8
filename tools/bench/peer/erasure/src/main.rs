//! Repairs contents by hashes of their blocks, which tell the blocks that differ, and by erasure coding with
//! reed-solomon-erasure, which makes those anew. Arguments: how many differences, how many trials. Prints the bytes sent, how
//! many trials were repaired, and the median nanoseconds of processor time of making what is sent and of repairing.
#![forbid(unsafe_code)]

#[path = "../../../src/residual/trial.rs"]
mod trial;

use reed_solomon_erasure::galois_8::ReedSolomon;
use std::error::Error;
use std::time::Duration;

/// Blocks of data and of parity: with more than 256 the library needs GF(2^16), and a matrix that takes minutes to make.
const DATA: usize = 224;
const PARITY: usize = 32;
/// Bytes of a block's hash.
const HASH: usize = 8;

fn main() -> Result<(), Box<dyn Error>> {
    let numbers: Vec<usize> = std::env::args().skip(1).map(|number| number.parse()).collect::<Result<_, _>>()?;
    let [count, trials] = numbers[..] else { return Err("which number of differences, how many trials?".into()) };
    let code = ReedSolomon::new(DATA, PARITY)?;
    let recorded = trial::content(trial::LENGTH);
    let (mut making, mut repairing, mut repaired) = (Vec::new(), Vec::new(), 0);
    let mut sent = 0;
    for trial in 0..trials {
        let replayed = trial::differing(&recorded, count, trial);
        let start = processor_time();
        let (hashes, parity) = make(&code, &recorded)?;
        making.push(processor_time().saturating_sub(start));
        sent = hashes.len() * HASH + parity.iter().map(Vec::len).sum::<usize>();
        let start = processor_time();
        let made = repair(&code, &replayed, &hashes, parity)?;
        repairing.push(processor_time().saturating_sub(start));
        repaired += usize::from(made.is_some_and(|made| made == recorded));
    }
    println!("{sent} {repaired} {} {}", median(making), median(repairing));
    Ok(())
}

type Hashes = Vec<[u8; HASH]>;

fn blocks(content: &[u8]) -> Vec<Vec<u8>> {
    let length = content.len().div_ceil(DATA);
    let mut blocks: Vec<Vec<u8>> = content.chunks(length).map(<[u8]>::to_vec).collect();
    blocks.resize(DATA, Vec::new());
    blocks.iter_mut().for_each(|block| block.resize(length, 0));
    blocks
}

fn hash(block: &[u8]) -> [u8; HASH] {
    let mut hash = [0; HASH];
    hash.copy_from_slice(&blake3::hash(block).as_bytes()[..HASH]);
    hash
}

fn make(code: &ReedSolomon, recorded: &[u8]) -> Result<(Hashes, Vec<Vec<u8>>), Box<dyn Error>> {
    let data = blocks(recorded);
    let mut parity = vec![vec![0; data[0].len()]; PARITY];
    code.encode_sep(&data, &mut parity)?;
    Ok((data.iter().map(|block| hash(block)).collect(), parity))
}

fn repair(
    code: &ReedSolomon,
    replayed: &[u8],
    hashes: &Hashes,
    parity: Vec<Vec<u8>>,
) -> Result<Option<Vec<u8>>, Box<dyn Error>> {
    let data = blocks(replayed).into_iter().zip(hashes);
    let mut shards: Vec<Option<Vec<u8>>> =
        data.map(|(block, known)| (hash(&block) == *known).then_some(block)).collect();
    if shards.iter().filter(|shard| shard.is_none()).count() > PARITY {
        return Ok(None);
    }
    shards.extend(parity.into_iter().map(Some));
    code.reconstruct_data(&mut shards)?;
    let mut made: Vec<u8> = shards.into_iter().take(DATA).flatten().flatten().collect();
    made.truncate(replayed.len());
    Ok(Some(made))
}

fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

fn median(mut times: Vec<Duration>) -> u128 {
    times.sort_unstable();
    times.get(times.len() / 2).map_or(0, Duration::as_nanos)
}
