//! Identity and token rows.

use rand_core::OsRng;
use reticulum_rs::core::crypt::fernet::{FERNET_MAX_PADDING_SIZE, FERNET_OVERHEAD_SIZE};
use reticulum_rs::core::identity::{lxmf_sign, lxmf_verify, PrivateIdentity, PUBLIC_KEY_LENGTH};
use reticulum_rs::core::ratchets::{decrypt_with_identity_into, encrypt_for_public_key_into};
use reticulum_rs::transport::crypt::fernet::{CachedFernet, PlainText, Token};

use crate::fixtures::{array, bytes, identity_keys, message, COUNT};
use crate::harness::{ensure, failed, fingerprint, operation, same, Prepared, Row};

const TOKEN_SIZE: usize = 464;
const OVERHEAD: usize = FERNET_OVERHEAD_SIZE + FERNET_MAX_PADDING_SIZE;
const SEALED_SIZE: usize = PUBLIC_KEY_LENGTH + 2048 + OVERHEAD;

pub fn rows() -> Vec<Row> {
    vec![
        Row::new(
            "identity.sign",
            "core::identity::lxmf_sign of 2048 bytes, one identity, 64 messages",
            sign,
        ),
        Row::new(
            "identity.verify",
            "core::identity::lxmf_verify of 2048 bytes, one identity whose point is already \
             decoded, 64 messages; ed25519-dalek `verify_strict`",
            verify,
        ),
        Row::new(
            "identity.encrypt",
            "core::ratchets::encrypt_for_public_key_into: 2048 bytes into a given buffer (2144 \
             bytes come out), without ratchet: new ephemeral key and IV from the system's random \
             source, X25519, HKDF, AES-256-CBC, HMAC",
            encrypt,
        ),
        Row::new(
            "identity.decrypt",
            "core::ratchets::decrypt_with_identity_into: 2144 bytes into a given buffer, without \
             ratchet",
            decrypt,
        ),
        Row::new(
            "token.encrypt.464",
            "transport::crypt::fernet::CachedFernet::encrypt of 464 bytes into a given buffer \
             (528 bytes come out); the key schedules are redone by the call, IV from the system's \
             random source",
            token_encrypt,
        ),
        Row::new(
            "token.decrypt.464",
            "CachedFernet::verify and decrypt of 528 bytes into a given buffer; the key schedules \
             are redone by the calls",
            token_decrypt,
        ),
    ]
}

/// The identity of the identity and message rows.
pub fn identity() -> PrivateIdentity {
    PrivateIdentity::from_private_key_bytes(&identity_keys("identity", 0)).expect("64 bytes")
}

fn messages() -> Vec<Vec<u8>> {
    (0..COUNT).map(message).collect()
}

fn sign() -> Prepared {
    operation(
        (identity(), messages()),
        COUNT,
        |(identity, messages), index| lxmf_sign(identity, &messages[index]),
        |(identity, messages), index, signature| {
            let valid = lxmf_verify(identity.as_identity(), &messages[index], &signature);
            ensure(valid, "the signature is not valid")?;
            Ok(fingerprint(&signature))
        },
    )
}

fn verify() -> Prepared {
    let signer = identity();
    let verifier = *signer.as_identity();
    let signed: Vec<(Vec<u8>, [u8; 64])> = messages()
        .into_iter()
        .map(|text| {
            let signature = lxmf_sign(&signer, &text);
            (text, signature)
        })
        .collect();
    let mut forged = signed[0].1;
    forged[40] ^= 1;
    ensure(!lxmf_verify(&verifier, &signed[0].0, &forged), "a forged signature was accepted")?;
    operation(
        (verifier, signed),
        COUNT,
        |(verifier, signed), index| {
            let (text, signature) = &signed[index];
            assert!(lxmf_verify(verifier, text, signature), "a valid signature was refused");
        },
        |(_, signed), index, ()| Ok(fingerprint(&signed[index].1)),
    )
}

/// Encrypts for the identity into `out`; gives the number of bytes.
fn seal(identity: &PrivateIdentity, text: &[u8], out: &mut [u8]) -> usize {
    let public = identity.as_identity();
    let salt = public.address_hash.as_slice();
    encrypt_for_public_key_into(&public.public_key, salt, text, out, OsRng)
        .expect("a buffer that is large enough")
        .len()
}

/// Decrypts into `out`; gives the number of bytes.
fn open(identity: &PrivateIdentity, sealed: &[u8], out: &mut [u8]) -> Result<usize, String> {
    let salt = identity.as_identity().address_hash.as_slice();
    let plain =
        decrypt_with_identity_into(identity, salt, sealed, out).map_err(failed("decrypt"))?;
    Ok(plain.len())
}

fn encrypt() -> Prepared {
    operation(
        (identity(), messages(), vec![0; SEALED_SIZE]),
        COUNT,
        |(identity, messages, out), index| seal(identity, &messages[index], out),
        |(identity, messages, out), index, length| {
            ensure(length == 2144, "ciphertext length")?;
            let mut plain = vec![0; SEALED_SIZE];
            let opened = open(identity, &out[..length], &mut plain)?;
            same("decrypted message", &plain[..opened], &messages[index])
        },
    )
}

fn decrypt() -> Prepared {
    let identity = identity();
    let sealed: Vec<Vec<u8>> = messages()
        .iter()
        .map(|text| {
            let mut out = vec![0; SEALED_SIZE];
            let length = seal(&identity, text, &mut out);
            out.truncate(length);
            out
        })
        .collect();
    operation(
        (identity, sealed, messages(), vec![0; SEALED_SIZE]),
        COUNT,
        |(identity, sealed, _, out), index| {
            open(identity, &sealed[index], out).expect("a valid message")
        },
        |(_, _, messages, out), index, length| {
            same("decrypted message", &out[..length], &messages[index])
        },
    )
}

fn fernet() -> CachedFernet {
    let key: [u8; 64] = array("token.key", 0);
    CachedFernet::new_from_slices(&key[..32], &key[32..])
}

fn plaintexts() -> Vec<Vec<u8>> {
    (0..COUNT).map(|number| bytes("token.plaintext", number, TOKEN_SIZE)).collect()
}

fn token_seal(fernet: &CachedFernet, text: &[u8], out: &mut [u8]) -> usize {
    fernet.encrypt(OsRng, PlainText::from(text), out).expect("a buffer that is large enough").len()
}

fn token_open(fernet: &CachedFernet, sealed: &[u8], out: &mut [u8]) -> Result<usize, String> {
    let verified = fernet.verify(Token::from(sealed)).map_err(failed("verify"))?;
    let plain = fernet.decrypt(verified, out).map_err(failed("decrypt"))?;
    Ok(plain.as_bytes().len())
}

fn token_encrypt() -> Prepared {
    operation(
        (fernet(), plaintexts(), vec![0; TOKEN_SIZE + OVERHEAD]),
        COUNT,
        |(fernet, plaintexts, out), index| token_seal(fernet, &plaintexts[index], out),
        |(fernet, plaintexts, out), index, length| {
            let mut plain = vec![0; out.len()];
            let opened = token_open(fernet, &out[..length], &mut plain)?;
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
            let length = token_seal(&fernet, text, &mut out);
            out.truncate(length);
            out
        })
        .collect();
    let mut scratch = vec![0; TOKEN_SIZE + OVERHEAD];
    let mut forged = sealed[0].clone();
    forged[20] ^= 1;
    ensure(token_open(&fernet, &forged, &mut scratch).is_err(), "a forged token was accepted")?;
    operation(
        (fernet, sealed, texts, scratch),
        COUNT,
        |(fernet, sealed, _, out), index| {
            token_open(fernet, &sealed[index], out).expect("a valid token")
        },
        |(_, _, texts, out), index, length| same("decrypted token", &out[..length], &texts[index]),
    )
}
