//! Masking: a client combines what it sends with a key (RFC 6455, 5.3).

/// The four bytes that are combined with a frame's payload. Masking twice restores the payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MaskKey([u8; 4]);

impl MaskKey {
    /// Returns a key. A client must use an unpredictable one for each frame.
    #[must_use]
    pub const fn new(key: [u8; 4]) -> Self {
        Self(key)
    }

    /// Returns the key's bytes as sent.
    #[must_use]
    pub const fn bytes(self) -> [u8; 4] {
        self.0
    }

    /// Masks or unmasks the next bytes of the payload, and rotates the key to the byte that
    /// follows.
    #[inline]
    pub fn apply(&mut self, payload: &mut [u8]) {
        let [a, b, c, d] = self.0;
        let wide = u64::from_ne_bytes([a, b, c, d, a, b, c, d]);
        let (words, rest) = payload.as_chunks_mut::<8>();
        for word in words {
            *word = (u64::from_ne_bytes(*word) ^ wide).to_ne_bytes();
        }
        for (byte, key) in rest.iter_mut().zip(self.0.iter().cycle()) {
            *byte ^= key;
        }
        self.0.rotate_left(payload.len() % 4);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_masked_example_of_the_standard_is_unmasked() {
        let mut payload = [0x7f, 0x9f, 0x4d, 0x51, 0x58];
        MaskKey::new([0x37, 0xfa, 0x21, 0x3d]).apply(&mut payload);
        assert_eq!(&payload, b"Hello");
    }

    proptest! {
        /// Byte i of the payload is combined with byte i modulo 4 of the key, however the payload
        /// is split.
        #[test]
        fn masking_in_any_pieces_matches_the_formula(
            key: [u8; 4],
            payload in proptest::collection::vec(any::<u8>(), 0..200),
            cuts in proptest::collection::vec(0_usize..40, 0..20),
        ) {
            let expected: Vec<u8> =
                payload.iter().enumerate().map(|(at, byte)| byte ^ key[at % 4]).collect();
            let mut masked = payload.clone();
            let mut mask = MaskKey::new(key);
            let mut rest = masked.as_mut_slice();
            for cut in cuts {
                let (now, later) = rest.split_at_mut(cut.min(rest.len()));
                mask.apply(now);
                rest = later;
            }
            mask.apply(rest);
            prop_assert_eq!(masked, expected);
        }
    }
}
