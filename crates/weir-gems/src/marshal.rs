//! Writes Ruby's Marshal format, version 4.8, as far as old clients need it. Marshal input is never
//! read.
//!
//! The format follows Ruby's `marshal.c` and its documentation "Marshal Format".

mod gemspec;
mod specs;

pub use self::gemspec::gemspec_rz;
pub use self::specs::{SpecList, SpecListError, write_specs};

/// Header of every document.
const HEADER: [u8; 2] = [4, 8];

/// Writes a document from the outside in. After announcing a number of parts, the caller must write
/// exactly that many.
#[derive(Debug)]
pub(crate) struct Writer {
    out: Vec<u8>,
    /// Symbols written so far: each is written in full once, then by its index. A document has a
    /// few dozen at most.
    symbols: Vec<&'static str>,
}

impl Writer {
    pub(crate) fn new() -> Self {
        Self { out: HEADER.to_vec(), symbols: Vec::new() }
    }

    pub(crate) fn finish(self) -> Vec<u8> {
        self.out
    }

    /// Returns the number of bytes that are written and not taken yet.
    pub(crate) fn len(&self) -> usize {
        self.out.len()
    }

    /// Takes the bytes written so far. Symbols stay known.
    pub(crate) fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.out)
    }

    /// Writes bytes that [`Writer::part`] returned.
    pub(crate) fn raw(&mut self, part: &[u8]) {
        self.out.extend_from_slice(part);
    }

    /// Returns the bytes that `write` writes, to be repeated with [`Writer::raw`]. All symbols in
    /// them must already be known.
    pub(crate) fn part(&mut self, write: impl FnOnce(&mut Self)) -> Vec<u8> {
        let before = std::mem::take(&mut self.out);
        let known = self.symbols.len();
        write(self);
        debug_assert_eq!(known, self.symbols.len(), "a part that is repeated can't define symbols");
        std::mem::replace(&mut self.out, before)
    }

    pub(crate) fn nil(&mut self) {
        self.out.push(b'0');
    }

    fn boolean(&mut self, value: bool) {
        self.out.push(if value { b'T' } else { b'F' });
    }

    fn integer(&mut self, value: u32) {
        self.out.push(b'i');
        self.long(value as usize);
    }

    pub(crate) fn array(&mut self, length: usize) {
        self.out.push(b'[');
        self.long(length);
    }

    /// Begins a hash; `length` pairs of key and value must follow.
    pub(crate) fn hash(&mut self, length: usize) {
        self.out.push(b'{');
        self.long(length);
    }

    /// Writes a string in UTF-8.
    pub(crate) fn string(&mut self, text: &str) {
        self.out.push(b'I');
        self.out.push(b'"');
        self.bytes(text.as_bytes());
        self.long(1);
        self.symbol("E");
        self.boolean(true);
    }

    pub(crate) fn symbol(&mut self, name: &'static str) {
        match self.symbols.iter().position(|known| *known == name) {
            Some(place) => {
                self.out.push(b';');
                self.long(place);
            }
            None => {
                self.symbols.push(name);
                self.out.push(b':');
                self.bytes(name.as_bytes());
            }
        }
    }

    /// Begins an object whose class has `marshal_dump`; the dumped value must follow.
    fn user_marshal(&mut self, class: &'static str) {
        self.out.push(b'U');
        self.symbol(class);
    }

    /// Writes an object whose class has `_dump`, with its dumped bytes.
    fn user_defined(&mut self, class: &'static str, dumped: &[u8]) {
        self.out.push(b'u');
        self.symbol(class);
        self.bytes(dumped);
    }

    /// Begins an object; `variables` pairs of variable name and value must follow.
    fn object(&mut self, class: &'static str, variables: usize) {
        self.out.push(b'o');
        self.symbol(class);
        self.long(variables);
    }

    /// Writes a `Gem::Version`.
    pub(crate) fn version(&mut self, version: &str) {
        self.user_marshal("Gem::Version");
        self.array(1);
        self.string(version);
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.long(bytes.len());
        self.out.extend_from_slice(bytes);
    }

    /// Writes a non-negative integer as `w_long` does. Lengths above four bytes don't occur.
    fn long(&mut self, value: usize) {
        let [first, second, third, fourth, ..] = value.to_le_bytes();
        debug_assert!(u32::try_from(value).is_ok(), "a length of more than 4 GiB");
        match value {
            0 => self.out.push(0),
            1..=122 => self.out.push(first + 5),
            123..=0xff => self.out.extend([1, first]),
            0x100..=0xffff => self.out.extend([2, first, second]),
            0x1_0000..=0xff_ffff => self.out.extend([3, first, second, third]),
            _ => self.out.extend([4, first, second, third, fourth]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(write: impl FnOnce(&mut Writer)) -> Vec<u8> {
        let mut writer = Writer::new();
        write(&mut writer);
        writer.finish()
    }

    #[test]
    fn values_are_written_as_ruby_writes_them() {
        // Expected bytes are those of `ruby -e 'p Marshal.dump(..)'`.
        assert_eq!(written(|it| it.array(0)), b"\x04\x08[\x00");
        assert_eq!(written(|it| it.string("a")), b"\x04\x08I\"\x06a\x06:\x06ET");
        let version = written(|it| it.version("1.0"));
        assert_eq!(version, b"\x04\x08U:\x11Gem::Version[\x06I\"\x081.0\x06:\x06ET");
        let twice = written(|it| {
            it.array(2);
            it.string("a");
            it.string("b");
        });
        assert_eq!(twice, b"\x04\x08[\x07I\"\x06a\x06:\x06ETI\"\x06b\x06;\x00T");
    }

    #[test]
    fn lengths_are_written_as_ruby_writes_them() {
        for (length, expected) in [
            (0, &b"\x00"[..]),
            (1, b"\x06"),
            (122, b"\x7f"),
            (123, b"\x01\x7b"),
            (255, b"\x01\xff"),
            (256, b"\x02\x00\x01"),
            (65_536, b"\x03\x00\x00\x01"),
            (16_777_216, b"\x04\x00\x00\x00\x01"),
        ] {
            assert_eq!(&written(|it| it.array(length))[3..], expected, "{length}");
        }
    }
}
