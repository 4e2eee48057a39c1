//! Encodes the fields of records: little-endian base-128 integers (LEB128) and length-prefixed
//! text.

/// The bytes end early or contain an impossible value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("malformed record")]
pub(crate) struct Malformed;

pub(crate) fn put(into: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        into.push(low_byte(value) | 0x80);
        value >>= 7;
    }
    into.push(low_byte(value));
}

/// Appends a zigzag number, so that small negative numbers take few bytes.
pub(crate) fn put_signed(into: &mut Vec<u8>, value: i64) {
    put(into, (value.cast_unsigned() << 1) ^ (value >> 63).cast_unsigned());
}

pub(crate) fn put_text(into: &mut Vec<u8>, text: &str) {
    put(into, text.len() as u64);
    into.extend_from_slice(text.as_bytes());
}

const fn low_byte(value: u64) -> u8 {
    (value & 0x7F) as u8
}

/// Reads one field after another.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FieldReader<'a>(pub(crate) &'a [u8]);

impl<'a> FieldReader<'a> {
    pub(crate) fn byte(&mut self) -> Result<u8, Malformed> {
        let (first, rest) = self.0.split_first().ok_or(Malformed)?;
        self.0 = rest;
        Ok(*first)
    }

    pub(crate) fn bytes(&mut self, count: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(Malformed)?;
        self.0 = rest;
        Ok(taken)
    }

    pub(crate) fn number(&mut self) -> Result<u64, Malformed> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7F) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(Malformed)
    }

    /// Reads a number that must fit into `T`.
    pub(crate) fn narrow<T: TryFrom<u64>>(&mut self) -> Result<T, Malformed> {
        T::try_from(self.number()?).map_err(|_| Malformed)
    }

    pub(crate) fn signed(&mut self) -> Result<i64, Malformed> {
        let value = self.number()?;
        Ok((value >> 1).cast_signed() ^ -((value & 1).cast_signed()))
    }

    pub(crate) fn text(&mut self) -> Result<&'a str, Malformed> {
        let length = self.narrow::<usize>()?;
        std::str::from_utf8(self.bytes(length)?).map_err(|_| Malformed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn numbers_and_text_come_back(number: u64, signed: i64, text: String) {
            let mut bytes = Vec::new();
            put(&mut bytes, number);
            put_signed(&mut bytes, signed);
            put_text(&mut bytes, &text);
            let mut fields = FieldReader(&bytes);
            prop_assert_eq!(fields.number(), Ok(number));
            prop_assert_eq!(fields.signed(), Ok(signed));
            prop_assert_eq!(fields.text(), Ok(text.as_str()));
            prop_assert!(fields.0.is_empty());
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes: Vec<u8>) {
            let mut fields = FieldReader(&bytes);
            while fields.text().is_ok() && !fields.0.is_empty() {}
            let mut fields = FieldReader(&bytes);
            while fields.signed().is_ok() && !fields.0.is_empty() {}
        }
    }
}
