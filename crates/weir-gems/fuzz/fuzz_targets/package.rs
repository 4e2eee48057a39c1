//! A `.gem` file, whatever it is: no panic, no more memory than the limits say, and what is taken
//! can be written into the index. The input is a whole file, or a specification in a file that is
//! otherwise in order, which gets deeper.

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
