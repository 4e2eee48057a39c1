//! The codec, in memory: what one read or one write costs before and after the system call.
//!
//! `decode` takes a read buffer of 16 KiB full of masked text frames of 100 bytes, or one masked
//! frame of 64 KiB; copying the input back to its masked form is part of each round, and measured
//! alone as `copy`. `encode` is one event of 220 bytes for a server, and for a client.

#![allow(missing_docs, reason = "Criterion's macros write functions without docs")]

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use weir_realtime::websocket::{
    Decoder, FrameHeader, MaskKey, Message, Opcode, Role, WebsocketLimits,
};

const READ_BYTES: usize = 16 << 10;
const KEY: MaskKey = MaskKey::new([0x37, 0xfa, 0x21, 0x3d]);

fn masked_texts(payload_bytes: usize, input_bytes: usize) -> (Vec<u8>, u64) {
    let payload = "x".repeat(payload_bytes);
    let mut input = Vec::new();
    let mut messages = 0;
    while messages == 0 || input.len() + payload_bytes + 14 <= input_bytes {
        Message::Text(&payload).encode(&mut input, Some(KEY));
        messages += 1;
    }
    (input, messages)
}

fn decode(criterion: &mut Criterion) {
    let limits = WebsocketLimits::default();
    for (name, payload_bytes) in [("100_bytes_in_16_kib", 100), ("64_kib", 64 << 10)] {
        let (masked, messages) = masked_texts(payload_bytes, READ_BYTES);
        let mut input = masked.clone();
        let mut decoder = Decoder::default();
        let mut group = criterion.benchmark_group(format!("websocket/{name}"));
        group.throughput(Throughput::Elements(messages));
        group.bench_function("decode", |bencher| {
            bencher.iter(|| {
                input.copy_from_slice(&masked);
                let mut read = decoder.messages(&mut input, Role::Server, &limits);
                let mut seen = 0;
                while let Some(message) = read.next().expect("valid") {
                    black_box(message);
                    seen += 1;
                }
                assert_eq!(seen, messages);
            });
        });
        group.bench_function("copy", |bencher| {
            bencher.iter(|| black_box(&mut input).copy_from_slice(black_box(&masked)));
        });
        group.finish();
    }
}

fn unmask(criterion: &mut Criterion) {
    let mut payload = vec![b'x'; 64 << 10];
    let mut group = criterion.benchmark_group("websocket/unmask");
    group.throughput(Throughput::Bytes(payload.len() as u64));
    group.bench_function("64_kib", |bencher| {
        bencher.iter(|| KEY.clone().apply(black_box(&mut payload)));
    });
    group.finish();
}

fn encode(criterion: &mut Criterion) {
    let payload = "x".repeat(220);
    let mut output = Vec::with_capacity(1 << 10);
    let mut group = criterion.benchmark_group("websocket/encode_220_bytes");
    group.throughput(Throughput::Elements(1));
    for (name, mask) in [("server", None), ("client", Some(KEY))] {
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                output.clear();
                Message::Text(black_box(&payload)).encode(black_box(&mut output), mask);
            });
        });
    }
    group.bench_function("header_alone", |bencher| {
        let header =
            FrameHeader { is_final: true, opcode: Opcode::Text, payload_bytes: 220, mask: None };
        bencher.iter(|| black_box(black_box(&header).encode()));
    });
    group.finish();
}

criterion_group!(benches, decode, unmask, encode);
criterion_main!(benches);
