//! Identity and token rows.

use rand_core::OsRng;
use reticulum::crypt::fernet::{Fernet, PlainText, Token};
use reticulum::identity::PrivateIdentity;

use crate::fixtures::{array, bytes, identity_keys, message, COUNT};
use crate::harness::{ensure, failed, fingerprint, operation, same, Prepared, Row};

const TOKEN_SIZE: usize = 464;
const OVERHEAD: usize = 64;

pub fn rows() -> Vec<Row> {
    vec![
        Row::new(
            "identity.sign",
            "PrivateIdentity::sign of 2048 bytes, one identity, 64 messages",
            sign,
        ),
        Row::new(
            "identity.verify",
            "Identity::verify of 2048 bytes, one identity whose point is already decoded, 64 \
             messages, signatures already parsed; ed25519-dalek `verify_strict`",
            verify,
        ),
        Row::new(
            "token.encrypt.464",
            "Fernet::encrypt of 464 bytes with a kept Fernet into a given buffer (528 bytes come \
             out); the key schedules are redone by the call, IV from the system's random source",
            token_encrypt,
        ),
        Row::new(
            "token.decrypt.464",
            "Fernet::verify and decrypt of 528 bytes with a kept Fernet into a given buffer; the \
             key schedules are redone by the calls",
            token_decrypt,
        ),
    ]
}

/// An identity with given keys: the crate reads them only as text.
pub fn identity(label: &str, number: usize) -> PrivateIdentity {
    let keys = identity_keys(label, number);
    let hex: String = keys.iter().map(|byte| format!("{byte:02x}")).collect();
    PrivateIdentity::new_from_hex_string(&hex).expect("128 digits")
}

fn messages() -> Vec<Vec<u8>> {
    (0..COUNT).map(message).collect()
}

fn sign() -> Prepared {
    operation(
        (identity("identity", 0), messages()),
        COUNT,
        |(identity, messages), index| identity.sign(&messages[index]),
        |(identity, messages), index, signature| {
            identity.verify(&messages[index], &signature).map_err(failed("verify"))?;
            Ok(fingerprint(&signature.to_bytes()))
        },
    )
}

fn verify() -> Prepared {
    let signer = identity("identity", 0);
    let verifier = *signer.as_identity();
    let signed: Vec<_> = messages()
        .into_iter()
        .map(|text| {
            let signature = signer.sign(&text);
            (text, signature)
        })
        .collect();
    let crossed = verifier.verify(&signed[0].0, &signed[1].1);
    ensure(crossed.is_err(), "a signature of another message was accepted")?;
    operation(
        (verifier, signed),
        COUNT,
        |(verifier, signed), index| {
            let (text, signature) = &signed[index];
            verifier.verify(text, signature).expect("a valid signature");
        },
        |(_, signed), index, ()| Ok(fingerprint(&signed[index].1.to_bytes())),
    )
}

fn fernet() -> Fernet<OsRng> {
    let key: [u8; 64] = array("token.key", 0);
    Fernet::new_from_slices(&key[..32], &key[32..], OsRng)
}

fn plaintexts() -> Vec<Vec<u8>> {
    (0..COUNT).map(|number| bytes("token.plaintext", number, TOKEN_SIZE)).collect()
}

fn seal(fernet: &Fernet<OsRng>, text: &[u8], out: &mut [u8]) -> usize {
    fernet.encrypt(PlainText::from(text), out).expect("a buffer that is large enough").len()
}

fn open(fernet: &Fernet<OsRng>, sealed: &[u8], out: &mut [u8]) -> Result<usize, String> {
    let verified = fernet.verify(Token::from(sealed)).map_err(failed("verify"))?;
    let plain = fernet.decrypt(verified, out).map_err(failed("decrypt"))?;
    Ok(plain.as_slice().len())
}

fn token_encrypt() -> Prepared {
    operation(
        (fernet(), plaintexts(), vec![0; TOKEN_SIZE + OVERHEAD]),
        COUNT,
        |(fernet, plaintexts, out), index| seal(fernet, &plaintexts[index], out),
        |(fernet, plaintexts, out), index, length| {
            let mut plain = vec![0; out.len()];
            let opened = open(fernet, &out[..length], &mut plain)?;
            same("decrypted token", &plain[..opened], &plaintexts[index])
        },
    )
}

fn token_decrypt() -> Prepared {
    let fernet = fernet();
    let texts = plaintexts();
    let sealed: Vec<Vec<u8>> = texts
        .iter()
        .map(|text| {
            let mut out = vec![0; TOKEN_SIZE + OVERHEAD];
            let length = seal(&fernet, text, &mut out);
            out.truncate(length);
            out
        })
        .collect();
    let mut scratch = vec![0; TOKEN_SIZE + OVERHEAD];
    let mut forged = sealed[0].clone();
    forged[20] ^= 1;
    ensure(open(&fernet, &forged, &mut scratch).is_err(), "a forged token was accepted")?;
    operation(
        (fernet, sealed, texts, scratch),
        COUNT,
        |(fernet, sealed, _, out), index| open(fernet, &sealed[index], out).expect("a valid token"),
        |(_, _, texts, out), index, length| same("decrypted token", &out[..length], &texts[index]),
    )
}
