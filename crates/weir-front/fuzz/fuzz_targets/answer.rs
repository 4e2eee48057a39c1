//! Parses arbitrary bytes as a worker's response: no panic, and the same result whatever the
//! pieces.

#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_front::measure::read_response;

fuzz_target!(|input: (bool, u8, &[u8])| {
    let (is_head, piece, bytes) = input;
    let at_once = read_response(bytes, is_head, usize::MAX);
    let in_pieces = read_response(bytes, is_head, usize::from(piece));
    assert_eq!(at_once, in_pieces);
    if let Some(response) = at_once {
        assert!(response.body.len() <= bytes.len());
    }
});
