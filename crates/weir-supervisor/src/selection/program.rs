//! The choice of a socket as a program for the kernel. It runs when a connection is asked for (at
//! its SYN) and answers with the number of a socket in its group; a number that there isn't leaves
//! the choice to the kernel's hash. Pure: here programs are written, not loaded.

use std::net::{IpAddr, SocketAddr};
use std::os::fd::RawFd;

use super::busy::{
    CLAIMED, DOOR, HEADER, PROBE, RECORD_BYTES, STATE, TARGET, TURN, TURN_SINCE, last_bytes,
};
use crate::system::{ClassicInstruction, Instruction};

/// No socket's number.
const NO_SOCKET: u32 = u32::MAX;

/// Where a packet says who sent it, counted from the head of its network layer. Options of IPv4 and
/// further heads of IPv6 are not reckoned with: a probe has none.
#[derive(Clone, Copy)]
struct PacketLayout {
    /// The last four bytes of the source's address.
    address_at: u32,
    port_at: u32,
}

const IPV4: PacketLayout = PacketLayout { address_at: 12, port_at: 20 };
const IPV6: PacketLayout = PacketLayout { address_at: 20, port_at: 40 };

fn layout(address: IpAddr) -> PacketLayout {
    if address.is_ipv4() { IPV4 } else { IPV6 }
}

/// The rest of a program for packets that are not a probe's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Classic {
    Hash,
    /// One of so many.
    Random(u32),
}

/// A classic program. A probe: its connections get to that socket.
pub(crate) fn classic(
    choice: Classic,
    probe: Option<(SocketAddr, u32)>,
) -> Vec<ClassicInstruction> {
    // Offsets from here on are those of the network layer, and of the kernel's own data
    // (linux/filter.h).
    const NETWORK: u32 = 0xfff0_0000;
    const RANDOM: u32 = 0xffff_f000 + 56;
    let load_word = |operand| step(0x20, operand);
    let load_half = |operand| step(0x28, operand);
    let answer = |number| step(0x06, number);
    let skip_unless = |operand, if_false| ClassicInstruction { if_false, ..step(0x15, operand) };
    let mut program = Vec::new();
    if let Some((source, socket)) = probe {
        let PacketLayout { address_at, port_at } = layout(source.ip());
        program.extend([
            load_word(NETWORK + address_at),
            skip_unless(u32::from_be_bytes(last_bytes(source.ip())), 3),
            load_half(NETWORK + port_at),
            skip_unless(u32::from(source.port()), 1),
            answer(socket),
        ]);
    }
    match choice {
        Classic::Hash => program.push(answer(NO_SOCKET)),
        // Modulo, and the accumulator as the answer.
        Classic::Random(count) => {
            program.extend([load_word(RANDOM), step(0x94, count), step(0x16, 0)]);
        }
    }
    program
}

fn step(code: u16, operand: u32) -> ClassicInstruction {
    ClassicInstruction { code, if_true: 0, if_false: 0, operand }
}

/// An extended program: the next worker with a door, from where the search begins.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NextWorker {
    /// The map of the [records](super::busy).
    pub(crate) map: RawFd,
    /// How many of them are examined: a power of two.
    pub(crate) records: u32,
    pub(crate) is_ipv6: bool,
    /// Only one that is idle, and it is no more.
    pub(crate) must_be_idle: bool,
    /// The answer if there is none.
    pub(crate) otherwise: Option<u32>,
    /// How long the search begins at the same record, so that the workers after it get connections
    /// again as soon as they are idle. 0: each search begins behind the worker that was chosen last.
    pub(crate) stay_ns: u32,
}

// Registers: the answer and arguments of calls, then those that calls leave alone.
const R0: u8 = 0;
const R1: u8 = 1;
const R2: u8 = 2;
const R3: u8 = 3;
const R4: u8 = 4;
const R5: u8 = 5;
const PACKET: u8 = 6;
const MAP: u8 = 7;
const LOOKED_AT: u8 = 8;
const POSITION: u8 = 9;
const STACK: u8 = 10;

// linux/bpf.h; all arithmetic is of 64 bits.
const MOVE: u8 = 0xb7;
const ADD: u8 = 0x07;
const AND: u8 = 0x57;
const SUBTRACT: u8 = 0x17;
const OR: u8 = 0x47;
const SHIFT_LEFT: u8 = 0x67;
/// The other operand is a register, not a number.
const BY_REGISTER: u8 = 0x08;
const LOAD_WORD: u8 = 0x79;
const LOAD_FOUR_BYTES: u8 = 0x61;
const LOAD_TWO_BYTES: u8 = 0x69;
const STORE_WORD: u8 = 0x7b;
const ATOMIC_WORD: u8 = 0xdb;
const COMPARE_AND_EXCHANGE: i32 = 0xf1;
const JUMP: u8 = 0x05;
const JUMP_IF_EQUAL: u8 = 0x15;
const JUMP_IF_DIFFERENT: u8 = 0x55;
const JUMP_IF_AT_LEAST: u8 = 0x35;
const JUMP_IF_LESS: u8 = 0xa5;
const CALL: u8 = 0x85;
const EXIT: u8 = 0x95;
const LOAD_ADDRESS: u8 = 0x18;
/// Of `LOAD_ADDRESS`: that of a map's only value.
const OF_MAP_VALUE: u8 = 2;
/// `bpf_skb_load_bytes_relative`, and its flag for the network layer.
const READ_PACKET: i32 = 68;
const FROM_NETWORK_LAYER: i32 = 1;
/// `bpf_ktime_get_ns`.
const MONOTONIC_NS: i32 = 5;

/// Where the start of the packet is read to, below the top of the stack.
const HEAD_AT: i16 = -32;
const WORD_BYTES: usize = size_of::<u64>();

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    reason = "records are 32 bytes, and far fewer than i16 can count are skipped"
)]
const fn offset(record: usize, word: usize) -> i16 {
    (record * RECORD_BYTES + word * WORD_BYTES) as i16
}

impl NextWorker {
    pub(crate) fn program(&self) -> Vec<Instruction> {
        let choose = self.choose();
        let probe = self.probe();
        let begin = [
            registers(MOVE, PACKET, R1),
            // The first half of the address is the map, the second an offset.
            instruction(LOAD_ADDRESS, MAP | (OF_MAP_VALUE << 4), 0, self.map),
            instruction(0, 0, 0, 0),
        ];
        begin.into_iter().chain(probe).chain(choose).collect()
    }

    /// Answers for the probe, if the packet is its own.
    fn probe(&self) -> Vec<Instruction> {
        let PacketLayout { address_at, port_at } = if self.is_ipv6 { IPV6 } else { IPV4 };
        let port = HEAD_AT + small(port_at - address_at);
        let bytes = i32::from(small(port_at - address_at)) + 4;
        let answer = vec![load(LOAD_WORD, R0, MAP, offset(0, TARGET)), exit()];
        let compare = vec![
            load(LOAD_FOUR_BYTES, R1, STACK, HEAD_AT),
            number(SHIFT_LEFT, R1, 16),
            load(LOAD_TWO_BYTES, R2, STACK, port),
            registers(OR, R1, R2),
            jump(JUMP_IF_DIFFERENT | BY_REGISTER, R1, LOOKED_AT, jump_over(&answer)),
        ];
        let compare = [compare, answer].concat();
        let read = vec![
            registers(MOVE, R1, PACKET),
            number(MOVE, R2, i32::from(small(address_at))),
            registers(MOVE, R3, STACK),
            number(ADD, R3, i32::from(HEAD_AT)),
            number(MOVE, R4, bytes),
            number(MOVE, R5, FROM_NETWORK_LAYER),
            instruction(CALL, 0, 0, READ_PACKET),
            jump(JUMP_IF_DIFFERENT, R0, 0, jump_over(&compare)),
        ];
        let read = [read, compare].concat();
        let is_there = vec![
            load(LOAD_WORD, LOOKED_AT, MAP, offset(0, PROBE)),
            jump(JUMP_IF_EQUAL, LOOKED_AT, 0, jump_over(&read)),
        ];
        [is_there, read].concat()
    }

    /// Looks at one record after the other.
    fn choose(&self) -> Vec<Instruction> {
        let look = self.look();
        let begin =
            vec![load(LOAD_WORD, POSITION, MAP, offset(0, TURN)), number(MOVE, LOOKED_AT, 0)];
        let back = -jump_over(&look) - 2;
        let turn = vec![jump_if(JUMP_IF_AT_LEAST, LOOKED_AT, self.records, jump_over(&look) + 1)];
        let end = vec![
            jump(JUMP, 0, 0, back),
            // As a number of 64 bits, whose lower half is the answer.
            number(MOVE, R0, self.otherwise.unwrap_or(NO_SOCKET).cast_signed()),
            exit(),
        ];
        [begin, turn, look, end].concat()
    }

    /// Selects the worker of this record, or continues with the next one.
    fn look(&self) -> Vec<Instruction> {
        let answer = self.answer();
        let claim = if self.must_be_idle {
            let idle_to_claimed = vec![
                number(MOVE, R0, 0),
                number(MOVE, R1, i32::from(small(u32::try_from(CLAIMED).unwrap_or(1)))),
                instruction(
                    ATOMIC_WORD,
                    R3 | (R1 << 4),
                    offset(HEADER, STATE),
                    COMPARE_AND_EXCHANGE,
                ),
                jump(JUMP_IF_DIFFERENT, R0, 0, jump_over(&answer)),
            ];
            [idle_to_claimed, answer].concat()
        } else {
            answer
        };
        let find = vec![
            // So the verifier sees that it stays within the map.
            number(AND, POSITION, self.records.cast_signed() - 1),
            registers(MOVE, R2, POSITION),
            number(SHIFT_LEFT, R2, RECORD_BYTES.trailing_zeros().cast_signed()),
            registers(MOVE, R3, MAP),
            registers(ADD, R3, R2),
            load(LOAD_WORD, R4, R3, offset(HEADER, DOOR)),
            jump(JUMP_IF_EQUAL, R4, 0, jump_over(&claim)),
        ];
        let next = vec![number(ADD, POSITION, 1), number(ADD, LOOKED_AT, 1)];
        [find, claim, next].concat()
    }

    /// Answers with the worker that was found. Once `stay_ns` are over, the next search begins behind it.
    fn answer(&self) -> Vec<Instruction> {
        let move_on = vec![number(ADD, POSITION, 1), store(MAP, POSITION, offset(0, TURN))];
        let move_on = if self.stay_ns == 0 {
            move_on
        } else {
            let move_on = [vec![store(MAP, R0, offset(0, TURN_SINCE))], move_on].concat();
            let is_over = vec![
                // The call forgets R4.
                registers(MOVE, LOOKED_AT, R4),
                instruction(CALL, 0, 0, MONOTONIC_NS),
                load(LOAD_WORD, R2, MAP, offset(0, TURN_SINCE)),
                registers(MOVE, R1, R0),
                registers(SUBTRACT, R1, R2),
                jump_if(JUMP_IF_LESS, R1, self.stay_ns, jump_over(&move_on)),
            ];
            [is_over, move_on, vec![registers(MOVE, R4, LOOKED_AT)]].concat()
        };
        let answer = vec![registers(MOVE, R0, R4), number(ADD, R0, -1), exit()];
        [move_on, answer].concat()
    }
}

fn small(number: u32) -> i16 {
    i16::try_from(number).unwrap_or(i16::MAX)
}

/// A jump counts from the instruction after it.
fn jump_over(instructions: &[Instruction]) -> i16 {
    i16::try_from(instructions.len()).unwrap_or(i16::MAX)
}

fn instruction(code: u8, registers: u8, offset: i16, immediate: i32) -> Instruction {
    // Where the first register is the upper half of the byte, a machine is big-endian.
    let registers = if cfg!(target_endian = "big") { registers.rotate_left(4) } else { registers };
    Instruction { code, registers, offset, immediate }
}

fn number(code: u8, to: u8, number: i32) -> Instruction {
    instruction(code, to, 0, number)
}

fn registers(code: u8, to: u8, from: u8) -> Instruction {
    instruction(code | BY_REGISTER, to | (from << 4), 0, 0)
}

fn load(code: u8, to: u8, from: u8, offset: i16) -> Instruction {
    instruction(code, to | (from << 4), offset, 0)
}

fn store(to: u8, from: u8, offset: i16) -> Instruction {
    instruction(STORE_WORD, to | (from << 4), offset, 0)
}

/// Compares with 0, or with the register `with`.
fn jump(code: u8, register: u8, with: u8, over: i16) -> Instruction {
    instruction(code, register | (with << 4), over, 0)
}

/// Compares with a number.
fn jump_if(code: u8, register: u8, number: u32, over: i16) -> Instruction {
    instruction(code, register, over, number.cast_signed())
}

fn exit() -> Instruction {
    instruction(EXIT, 0, 0, 0)
}
