//! The slots of Redis Cluster, and which of them a command needs.
//!
//! CRC16 is that of XMODEM, as the specification of Redis Cluster says.

use redis::{Arg, Cmd};

/// The number of slots.
pub const SLOTS: u16 = 16_384;
/// Commands without keys.
const KEYLESS: [&[u8]; 5] = [b"TIME", b"INFO", b"SCRIPT", b"CLUSTER", b"PING"];

/// Returns the slot of a key: that of its hash tag, if it has one.
#[must_use]
pub fn slot_of(key: &[u8]) -> u16 {
    crc16(tag_of(key).unwrap_or(key)) % SLOTS
}

/// Returns the text between the first `{` and the next `}`, if it is not empty.
fn tag_of(key: &[u8]) -> Option<&[u8]> {
    let start = key.iter().position(|byte| *byte == b'{')? + 1;
    let length = key[start..].iter().position(|byte| *byte == b'}')?;
    (length > 0).then(|| &key[start..start + length])
}

/// Returns the slot of the first key of a command. `None`: any server may run it.
#[must_use]
pub fn slot_of_command(command: &Cmd) -> Option<u16> {
    let mut arguments = command.args_iter().map(|argument| match argument {
        Arg::Simple(text) => text,
        _ => &[],
    });
    let name = arguments.next()?.to_ascii_uppercase();
    if KEYLESS.contains(&name.as_slice()) {
        return None;
    }
    let key = match name.as_slice() {
        b"EVALSHA" | b"EVAL" => {
            arguments.next();
            arguments.next().filter(|count| *count != b"0")?;
            arguments.next()?
        }
        _ => arguments.next()?,
    };
    Some(slot_of(key))
}

fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, byte| {
        (0..8).fold(crc ^ (u16::from(*byte) << 8), |crc, _| {
            if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 }
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_the_specification() {
        assert_eq!(crc16(b"123456789"), 0x31c3);
        // As CLUSTER KEYSLOT replies.
        for (key, slot) in [("foo", 12_182), ("123456789", 12_739), ("", 0)] {
            assert_eq!(slot_of(key.as_bytes()), slot, "{key}");
        }
        assert_eq!(slot_of(b"a{foo}b"), slot_of(b"foo"));
        assert_eq!(slot_of(b"a{}{foo}"), crc16(b"a{}{foo}") % SLOTS);
        assert_eq!(slot_of(b"a{foo"), crc16(b"a{foo") % SLOTS);
        assert_eq!(slot_of(b"{{foo}}"), crc16(b"{foo") % SLOTS);
    }

    #[test]
    fn the_first_key_decides() {
        let command = |words: &[&str]| {
            let mut command = redis::cmd(words[0]);
            command.arg(&words[1..]);
            slot_of_command(&command)
        };
        let foo = Some(slot_of(b"foo"));
        assert_eq!(command(&["GET", "foo"]), foo);
        assert_eq!(command(&["evalsha", "hash", "2", "foo", "bar", "x"]), foo);
        assert_eq!(command(&["EVALSHA", "hash", "0", "x"]), None);
        assert_eq!(command(&["SCRIPT", "LOAD", "return 1"]), None);
        assert_eq!(command(&["INFO", "memory"]), None);
    }
}
