//! The selection of a socket as a program for the kernel. It runs at the SYN of a connection and
//! returns the index of a socket in its group; an index out of range leaves the selection to the
//! kernel's hash. Pure: this module only generates programs.

use std::net::{IpAddr, SocketAddr};
use std::os::fd::RawFd;

use super::busy::{
    CLAIMED, HEADER, PROBE, RECORD_BYTES, SOCKET, STATE, TARGET, TURN, TURN_SINCE, last_bytes,
};
use crate::system::{ClassicInstruction, Instruction};

/// An index out of range.
const NO_SOCKET: u32 = u32::MAX;

/// Offsets of the source in a packet, from the network header. IPv4 options and IPv6 extension
/// headers are not supported: probes have none.
#[derive(Clone, Copy)]
struct PacketLayout {
    /// The last four bytes of the source address.
    address_at: u32,
    port_at: u32,
}

const IPV4: PacketLayout = PacketLayout { address_at: 12, port_at: 20 };
const IPV6: PacketLayout = PacketLayout { address_at: 20, port_at: 40 };

fn layout(address: IpAddr) -> PacketLayout {
    if address.is_ipv4() { IPV4 } else { IPV6 }
}

/// The part of a program for packets that are not a probe's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Classic {
    Hash,
    /// One of this many sockets.
    Random(u32),
}

/// Generates a classic program. Connections from the address in `probe` go to its socket.
pub(crate) fn classic(
    choice: Classic,
    probe: Option<(SocketAddr, u32)>,
) -> Vec<ClassicInstruction> {
    // Bases of offsets: the network header, and the kernel's ancillary data (linux/filter.h).
    const NETWORK: u32 = 0xfff0_0000;
    const RANDOM: u32 = 0xffff_f000 + 56;
    let load_word = |operand| step(0x20, operand);
    let load_half = |operand| step(0x28, operand);
    let select = |number| step(0x06, number);
    let skip_unless = |operand, if_false| ClassicInstruction { if_false, ..step(0x15, operand) };
    let mut program = Vec::new();
    if let Some((source, socket)) = probe {
        let PacketLayout { address_at, port_at } = layout(source.ip());
        program.extend([
            load_word(NETWORK + address_at),
            skip_unless(u32::from_be_bytes(last_bytes(source.ip())), 3),
            load_half(NETWORK + port_at),
            skip_unless(u32::from(source.port()), 1),
            select(socket),
        ]);
    }
    match choice {
        Classic::Hash => program.push(select(NO_SOCKET)),
        // Modulo; return the accumulator.
        Classic::Random(count) => {
            program.extend([load_word(RANDOM), step(0x94, count), step(0x16, 0)]);
        }
    }
    program
}

fn step(code: u16, operand: u32) -> ClassicInstruction {
    ClassicInstruction { code, if_true: 0, if_false: 0, operand }
}

/// An extended program that selects the next worker that may be chosen, from the search position
/// on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NextWorker {
    /// The map of the [records](super::busy).
    pub(crate) map: RawFd,
    /// The number of records to examine: a power of two.
    pub(crate) records: u32,
    pub(crate) is_ipv6: bool,
    /// Whether to select only idle workers, and to claim the selected one.
    pub(crate) must_be_idle: bool,
    /// The result if there is none.
    pub(crate) otherwise: Option<u32>,
    /// How long searches begin at the same record, which prefers the workers after it. 0: each
    /// search begins after the last selected worker.
    pub(crate) stay_ns: u32,
}

// Registers: the result and the arguments of calls, then those that calls preserve.
const R0: u8 = 0;
const R1: u8 = 1;
const R2: u8 = 2;
const R3: u8 = 3;
const R4: u8 = 4;
const R5: u8 = 5;
const PACKET: u8 = 6;
const MAP: u8 = 7;
const EXAMINED: u8 = 8;
const POSITION: u8 = 9;
const STACK: u8 = 10;

// linux/bpf.h; all arithmetic is 64-bit.
const MOVE: u8 = 0xb7;
const ADD: u8 = 0x07;
const AND: u8 = 0x57;
const SUBTRACT: u8 = 0x17;
const OR: u8 = 0x47;
const SHIFT_LEFT: u8 = 0x67;
/// The second operand is a register, not an immediate.
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
/// A flag of `LOAD_ADDRESS`: the address of a map's only value.
const OF_MAP_VALUE: u8 = 2;
/// `bpf_skb_load_bytes_relative`, and its flag for the network layer.
const READ_PACKET: i32 = 68;
const FROM_NETWORK_LAYER: i32 = 1;
/// `bpf_ktime_get_ns`.
const MONOTONIC_NS: i32 = 5;

/// Stack offset of the buffer for the start of the packet.
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
        let prologue = [
            registers(MOVE, PACKET, R1),
            // The first half of the address is the map, the second an offset.
            instruction(LOAD_ADDRESS, MAP | (OF_MAP_VALUE << 4), 0, self.map),
            instruction(0, 0, 0, 0),
        ];
        prologue.into_iter().chain(probe).chain(choose).collect()
    }

    /// Selects the target socket if the packet is the probe's.
    fn probe(&self) -> Vec<Instruction> {
        let PacketLayout { address_at, port_at } = if self.is_ipv6 { IPV6 } else { IPV4 };
        let port = HEAD_AT + small(port_at - address_at);
        let bytes = i32::from(small(port_at - address_at)) + 4;
        let select = vec![load(LOAD_WORD, R0, MAP, offset(0, TARGET)), exit()];
        let compare = vec![
            load(LOAD_FOUR_BYTES, R1, STACK, HEAD_AT),
            number(SHIFT_LEFT, R1, 16),
            load(LOAD_TWO_BYTES, R2, STACK, port),
            registers(OR, R1, R2),
            jump(JUMP_IF_DIFFERENT | BY_REGISTER, R1, EXAMINED, jump_over(&select)),
        ];
        let compare = [compare, select].concat();
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
            load(LOAD_WORD, EXAMINED, MAP, offset(0, PROBE)),
            jump(JUMP_IF_EQUAL, EXAMINED, 0, jump_over(&read)),
        ];
        [is_there, read].concat()
    }

    /// Examines one record after the other.
    fn choose(&self) -> Vec<Instruction> {
        let examine = self.examine();
        let prologue =
            vec![load(LOAD_WORD, POSITION, MAP, offset(0, TURN)), number(MOVE, EXAMINED, 0)];
        let backward = -jump_over(&examine) - 2;
        let turn = vec![jump_if(JUMP_IF_AT_LEAST, EXAMINED, self.records, jump_over(&examine) + 1)];
        let end = vec![
            jump(JUMP, 0, 0, backward),
            // Extended to 64 bits; the lower half is the result.
            number(MOVE, R0, self.otherwise.unwrap_or(NO_SOCKET).cast_signed()),
            exit(),
        ];
        [prologue, turn, examine, end].concat()
    }

    /// Selects the worker of this record, or continues with the next one.
    fn examine(&self) -> Vec<Instruction> {
        let select = self.select();
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
                jump(JUMP_IF_DIFFERENT, R0, 0, jump_over(&select)),
            ];
            [idle_to_claimed, select].concat()
        } else {
            select
        };
        let find = vec![
            // Bounds the position for the verifier.
            number(AND, POSITION, self.records.cast_signed() - 1),
            registers(MOVE, R2, POSITION),
            number(SHIFT_LEFT, R2, RECORD_BYTES.trailing_zeros().cast_signed()),
            registers(MOVE, R3, MAP),
            registers(ADD, R3, R2),
            load(LOAD_WORD, R4, R3, offset(HEADER, SOCKET)),
            jump(JUMP_IF_EQUAL, R4, 0, jump_over(&claim)),
        ];
        let next = vec![number(ADD, POSITION, 1), number(ADD, EXAMINED, 1)];
        [find, claim, next].concat()
    }

    /// Returns the selected worker's socket. Once `stay_ns` have passed, the next search begins
    /// after it.
    fn select(&self) -> Vec<Instruction> {
        let advance = vec![number(ADD, POSITION, 1), store(MAP, POSITION, offset(0, TURN))];
        let advance = if self.stay_ns == 0 {
            advance
        } else {
            let advance = [vec![store(MAP, R0, offset(0, TURN_SINCE))], advance].concat();
            let is_stay_over = vec![
                // The call clobbers R4.
                registers(MOVE, EXAMINED, R4),
                instruction(CALL, 0, 0, MONOTONIC_NS),
                load(LOAD_WORD, R2, MAP, offset(0, TURN_SINCE)),
                registers(MOVE, R1, R0),
                registers(SUBTRACT, R1, R2),
                jump_if(JUMP_IF_LESS, R1, self.stay_ns, jump_over(&advance)),
            ];
            [is_stay_over, advance, vec![registers(MOVE, R4, EXAMINED)]].concat()
        };
        let select = vec![registers(MOVE, R0, R4), number(ADD, R0, -1), exit()];
        [advance, select].concat()
    }
}

fn small(number: u32) -> i16 {
    i16::try_from(number).unwrap_or(i16::MAX)
}

/// Returns a jump's offset, which counts from the next instruction.
fn jump_over(instructions: &[Instruction]) -> i16 {
    i16::try_from(instructions.len()).unwrap_or(i16::MAX)
}

fn instruction(code: u8, registers: u8, offset: i16, immediate: i32) -> Instruction {
    // The order of the two half bytes depends on the byte order of the machine.
    let registers = if cfg!(target_endian = "big") { registers.rotate_left(4) } else { registers };
    Instruction { code, registers, offset, immediate }
}

fn number(code: u8, target: u8, number: i32) -> Instruction {
    instruction(code, target, 0, number)
}

fn registers(code: u8, target: u8, from: u8) -> Instruction {
    instruction(code | BY_REGISTER, target | (from << 4), 0, 0)
}

fn load(code: u8, target: u8, from: u8, offset: i16) -> Instruction {
    instruction(code, target | (from << 4), offset, 0)
}

fn store(target: u8, from: u8, offset: i16) -> Instruction {
    instruction(STORE_WORD, target | (from << 4), offset, 0)
}

/// Compares with 0, or with the register `with`.
fn jump(code: u8, register: u8, with: u8, offset: i16) -> Instruction {
    instruction(code, register | (with << 4), offset, 0)
}

/// Compares with a number.
fn jump_if(code: u8, register: u8, number: u32, offset: i16) -> Instruction {
    instruction(code, register, offset, number.cast_signed())
}

fn exit() -> Instruction {
    instruction(EXIT, 0, 0, 0)
}
