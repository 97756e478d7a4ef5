//! LXMF messages as fixtures: built here byte by byte, so that what the crate
//! encodes and decodes is compared with something that the crate did not make.

use crate::fixtures::{array, bytes};

/// One LXMF message in its parts and as the wire image that they make.
#[derive(Clone)]
pub struct Lxmf {
    pub destination: [u8; 16],
    pub source: [u8; 16],
    pub signature: [u8; 64],
    pub timestamp: f64,
    pub title: Vec<u8>,
    pub content: Vec<u8>,
    /// MessagePack `[float64, bin, bin, {}]`.
    pub payload: Vec<u8>,
}

impl Lxmf {
    /// Content size of 21, 2048 or 16384 bytes with the titles of the
    /// published report (wire sizes 143, 2177 and 16516 bytes). The signature
    /// is a constant that fits no key.
    pub fn new(number: usize, size: usize) -> Self {
        let title: &[u8] = match size {
            0..=255 => b"bench-title",
            256..=4095 => b"bench-large-title",
            _ => b"bench-resource-title",
        };
        let timestamp = 1_700_000_000.5 + number as f64;
        let content = bytes("lxmf.content", number, size);
        let payload = payload(timestamp, title, &content);
        Self {
            destination: array("lxmf.destination", number),
            source: array("lxmf.source", number),
            signature: array("lxmf.signature", number),
            timestamp,
            title: title.to_vec(),
            content,
            payload,
        }
    }

    /// Destination, source, signature and payload.
    pub fn wire(&self) -> Vec<u8> {
        let parts: [&[u8]; 4] = [&self.destination, &self.source, &self.signature, &self.payload];
        parts.concat()
    }

    /// Destination, source and payload: what the message id hashes.
    pub fn hashed(&self) -> Vec<u8> {
        let parts: [&[u8]; 3] = [&self.destination, &self.source, &self.payload];
        parts.concat()
    }
}

fn payload(timestamp: f64, title: &[u8], content: &[u8]) -> Vec<u8> {
    let mut out = vec![0x94, 0xcb];
    out.extend_from_slice(&timestamp.to_be_bytes());
    for field in [title, content] {
        match u8::try_from(field.len()) {
            Ok(length) => out.extend_from_slice(&[0xc4, length]),
            Err(_) => {
                let length = u16::try_from(field.len()).expect("content below 64 KiB");
                out.push(0xc5);
                out.extend_from_slice(&length.to_be_bytes());
            }
        }
        out.extend_from_slice(field);
    }
    out.push(0x80);
    out
}
