//! A worker's answer, whatever it is: no panic, and the same however it is cut into pieces.

#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_front::measure::read_answer;

fuzz_target!(|input: (bool, u8, &[u8])| {
    let (is_head, piece, bytes) = input;
    let at_once = read_answer(bytes, is_head, usize::MAX);
    let in_pieces = read_answer(bytes, is_head, usize::from(piece));
    assert_eq!(at_once, in_pieces);
    if let Some(answer) = at_once {
        assert!(answer.body.len() <= bytes.len());
    }
});
