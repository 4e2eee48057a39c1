//! Reads arbitrary `.gem` files. There must be no panic, memory must stay within the limits, and
//! accepted gems must be writable to the index. The input is a whole file, or a specification in an
//! otherwise valid file, which reaches deeper code.

#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_gems::package::sample::{gzip, pack, tar};
use weir_gems::package::{PackageLimits, read};

fuzz_target!(|input: (bool, &[u8])| {
    let (is_whole, bytes) = input;
    let limits = PackageLimits {
        unpacked_bytes_max: 16 << 20,
        metadata_bytes_max: 1 << 20,
        ..PackageLimits::default()
    };
    let packed;
    let file = if is_whole {
        bytes
    } else {
        packed = pack(&gzip(bytes), &gzip(&tar(&[("lib/a.rb", Vec::new())])));
        &packed
    };
    let Ok(package) = read(file, &limits) else { return };
    let specification = package.specification;
    for word in [specification.version.as_str(), specification.platform.as_str()] {
        assert!(!word.is_empty() && !word.contains(['\n', ' ', ',', '|', '/']), "{word:?}");
    }
    assert!(!specification.version.as_str().contains('-'));
    assert!(!specification.name.as_str().contains(['\n', ' ', '/']));
});
