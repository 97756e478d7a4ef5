//! Inputs that every adapter shares. They are pseudo-random but reproducible:
//! the byte string of a label and a number is the output of splitmix64 whose
//! state starts at FNV-1a-64(label) XOR number, eight bytes little endian at a
//! time. Two adapters, or a program in another language, can so compute the
//! same message, packet or key and compare the `check` values of their blocks.

/// Distinct inputs of a row, unless the row says otherwise.
pub const COUNT: usize = 64;

/// Identities behind the rows that validate announces for the first time.
pub const COLD: usize = 4096;

/// Announces that one call of `announce.validate.batch64` validates.
pub const BATCH: usize = 64;

/// Application data of an announce, 22 bytes.
pub const APP_DATA: &[u8] = b"netmesh-announce-data!";

/// Name of the destination that the announce rows announce.
pub const APP_NAME: &str = "example_utilities";
pub const ASPECTS: [&str; 2] = ["announcesample", "fruits"];

const FNV_BASIS: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0000_0100_0000_01b3;

/// FNV-1a with 64 bits: names streams and fingerprints outputs. Not a
/// cryptographic hash, and nothing here needs one.
pub fn fnv(data: &[u8]) -> u64 {
    let mut hash = FNV_BASIS;
    for byte in data {
        hash = (hash ^ u64::from(*byte)).wrapping_mul(FNV_PRIME);
    }
    hash
}

/// `length` bytes of the stream with this label and number.
pub fn bytes(label: &str, number: usize, length: usize) -> Vec<u8> {
    let mut state = fnv(label.as_bytes()) ^ number as u64;
    let mut out = Vec::with_capacity(length + 8);
    while out.len() < length {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = state;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        out.extend_from_slice(&(word ^ (word >> 31)).to_le_bytes());
    }
    out.truncate(length);
    out
}

/// The same as an array.
pub fn array<const N: usize>(label: &str, number: usize) -> [u8; N] {
    bytes(label, number, N).try_into().expect("length was N")
}

/// Private keys of a numbered identity: 32 bytes X25519, 32 bytes Ed25519 seed.
pub fn identity_keys(label: &str, number: usize) -> [u8; 64] {
    array(label, number)
}

/// A 2048-byte message of the identity rows.
pub fn message(number: usize) -> Vec<u8> {
    bytes("identity.message", number, 2048)
}

/// One data packet with a 128-byte payload, in its parts and as wire bytes.
#[derive(Clone)]
pub struct Packet {
    pub flags: u8,
    pub hops: u8,
    pub transport: Option<[u8; 16]>,
    pub destination: [u8; 16],
    pub context: u8,
    pub data: Vec<u8>,
    pub raw: Vec<u8>,
}

impl Packet {
    /// HEADER_1 (147 bytes) without, HEADER_2 (163 bytes) with a transport id.
    pub fn new(number: usize, header_2: bool) -> Self {
        let transport = header_2.then(|| array("packet.transport", number));
        let flags = if header_2 { 0x50 } else { 0x00 };
        let hops = (number % 16) as u8;
        let destination: [u8; 16] = array("packet.destination", number);
        let data = bytes("packet.data", number, 128);
        let mut raw = vec![flags, hops];
        if let Some(id) = &transport {
            raw.extend_from_slice(id);
        }
        raw.extend_from_slice(&destination);
        raw.push(0);
        raw.extend_from_slice(&data);
        Self { flags, hops, transport, destination, context: 0, data, raw }
    }

    /// What the packet hash is taken over: the low half of the flags, then
    /// everything behind the transport id.
    pub fn hashable(&self) -> Vec<u8> {
        let mut out = vec![self.flags & 0x0f];
        out.extend_from_slice(&self.destination);
        out.push(self.context);
        out.extend_from_slice(&self.data);
        out
    }
}
