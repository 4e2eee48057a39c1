//! Parses arbitrary bytes as the response of a collector: no panic.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|response: &[u8]| {
    let _ = weir_traces::otlp::rejected_spans(response);
});
