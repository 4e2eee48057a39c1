//! Parses arbitrary bytes as `traceparent`: no panic, and what is accepted is written as it was read.

#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_traces::TraceContext;

fuzz_target!(|text: &[u8]| {
    if let Some(context) = TraceContext::parse(text) {
        let written = context.to_traceparent();
        assert_eq!(TraceContext::parse(&written), Some(context));
        assert_eq!(&written[2..53], &text[2..53]);
        assert_ne!(context.new_child().span_id(), [0; 8]);
    }
});
