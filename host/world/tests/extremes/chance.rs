//! Random bytes.

use crate::*;

#[test]
fn any_number_of_random_bytes_up_to_the_limit() {
    let mut guest = guest();
    guest.memory.resize(limits::RANDOM as usize + 8, 0);
    let end = guest.memory.len() as u32;
    let table = [
        (0, 0, Ok(())),
        (end - 1, 1, Ok(())),
        (4, limits::RANDOM, Ok(())),
        (end - limits::RANDOM + 1, limits::RANDOM, Err(Errno::Fault)),
        (end, 1, Err(Errno::Fault)),
        (u32::MAX, 1, Err(Errno::Fault)),
        (0, limits::RANDOM + 1, Err(Errno::Inval)),
        (u32::MAX, u32::MAX, Err(Errno::Inval)),
    ];
    for (at, length, expected) in table {
        let Guest { world, memory } = &mut guest;
        assert_eq!(errno(world.random_get(memory, at, length)), expected, "{at} {length}");
    }
    assert_eq!(guest.memory[..4], [0; 4], "nothing is written before the buffer");
}

#[test]
fn a_refused_call_takes_nothing_from_the_stream() {
    let draw = |refused: &[(u32, u32)]| {
        let mut guest = guest();
        for (at, length) in refused {
            let Guest { world, memory } = &mut guest;
            assert!(errno(world.random_get(memory, *at, *length)).is_err());
        }
        guest.world.random_get(&mut guest.memory, DATA, 32).unwrap();
        guest.memory[DATA as usize..][..32].to_vec()
    };
    assert_eq!(draw(&[]), draw(&[(u32::MAX, 5), (0, u32::MAX), (5 << 20, 1)]));
}
