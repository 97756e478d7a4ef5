//! Identity and token rows.

use rns_crypto::identity::Identity;
use rns_crypto::token::Token;
use rns_crypto::OsRng;

use crate::fixtures::{array, bytes, identity_keys, message, COUNT};
use crate::harness::{ensure, failed, fingerprint, operation, same, Prepared, Row};

const TOKEN_SIZE: usize = 464;

pub fn rows() -> Vec<Row> {
    vec![
        Row::new("identity.sign", "Identity::sign of 2048 bytes, one identity, 64 messages", sign),
        Row::new(
            "identity.verify",
            "Identity::verify of 2048 bytes, one identity whose point is already decoded, 64 \
             messages; ed25519-dalek `verify` (not `verify_strict`)",
            verify,
        ),
        Row::new(
            "identity.encrypt",
            "Identity::encrypt of 2048 bytes into a new vector of 2144 bytes, without ratchet: \
             new ephemeral key from /dev/urandom, X25519, HKDF, AES-256-CBC, HMAC",
            encrypt,
        ),
        Row::new(
            "identity.decrypt",
            "Identity::decrypt of 2144 bytes into a new vector, without ratchet",
            decrypt,
        ),
        Row::new(
            "token.encrypt.464",
            "Token::encrypt of 464 bytes with a prepared key into a new vector of 528 bytes; IV \
             from /dev/urandom",
            token_encrypt,
        ),
        Row::new(
            "token.decrypt.464",
            "Token::decrypt of 528 bytes with a prepared key: HMAC check, then AES into a new \
             vector",
            token_decrypt,
        ),
    ]
}

fn identity() -> Identity {
    Identity::from_private_key(&identity_keys("identity", 0))
}

fn messages() -> Vec<Vec<u8>> {
    (0..COUNT).map(message).collect()
}

fn sign() -> Prepared {
    operation(
        (identity(), messages()),
        COUNT,
        |(identity, messages), index| identity.sign(&messages[index]).expect("a private key"),
        |(identity, messages), index, signature| {
            ensure(identity.verify(&signature, &messages[index]), "the signature is not valid")?;
            Ok(fingerprint(&signature))
        },
    )
}

fn verify() -> Prepared {
    let signer = identity();
    let public = signer.get_public_key().ok_or("no public key")?;
    let verifier = Identity::from_public_key(&public).map_err(failed("public key"))?;
    let mut signed = Vec::new();
    for text in messages() {
        let signature = signer.sign(&text).map_err(failed("sign"))?;
        signed.push((text, signature));
    }
    let mut forged = signed[0].1;
    forged[40] ^= 1;
    ensure(!verifier.verify(&forged, &signed[0].0), "a forged signature was accepted")?;
    operation(
        (verifier, signed),
        COUNT,
        |(verifier, signed), index| {
            let (text, signature) = &signed[index];
            assert!(verifier.verify(signature, text), "a valid signature was refused");
        },
        |(_, signed), index, ()| Ok(fingerprint(&signed[index].1)),
    )
}

fn encrypt() -> Prepared {
    operation(
        (identity(), messages()),
        COUNT,
        |(identity, messages), index| {
            identity.encrypt(&messages[index], &mut OsRng).expect("a public key")
        },
        |(identity, messages), index, sealed| {
            ensure(sealed.len() == 2144, "ciphertext length")?;
            let opened = identity.decrypt(&sealed).map_err(failed("decrypt"))?;
            same("decrypted message", &opened, &messages[index])
        },
    )
}

fn decrypt() -> Prepared {
    let identity = identity();
    let mut sealed = Vec::new();
    for text in messages() {
        sealed.push(identity.encrypt(&text, &mut OsRng).map_err(failed("encrypt"))?);
    }
    operation(
        (identity, sealed, messages()),
        COUNT,
        |(identity, sealed, _), index| identity.decrypt(&sealed[index]).expect("a valid message"),
        |(_, _, messages), index, opened| same("decrypted message", &opened, &messages[index]),
    )
}

fn token() -> Result<Token, String> {
    Token::new(&array::<64>("token.key", 0)).map_err(failed("token key"))
}

fn plaintexts() -> Vec<Vec<u8>> {
    (0..COUNT).map(|number| bytes("token.plaintext", number, TOKEN_SIZE)).collect()
}

fn token_encrypt() -> Prepared {
    operation(
        (token()?, plaintexts()),
        COUNT,
        |(token, plaintexts), index| token.encrypt(&plaintexts[index], &mut OsRng),
        |(token, plaintexts), index, sealed| {
            let opened = token.decrypt(&sealed).map_err(failed("decrypt"))?;
            same("decrypted token", &opened, &plaintexts[index])
        },
    )
}

fn token_decrypt() -> Prepared {
    let token = token()?;
    let texts = plaintexts();
    let sealed: Vec<Vec<u8>> = texts.iter().map(|text| token.encrypt(text, &mut OsRng)).collect();
    let mut forged = sealed[0].clone();
    forged[20] ^= 1;
    ensure(token.decrypt(&forged).is_err(), "a forged token was accepted")?;
    operation(
        (token, sealed, texts),
        COUNT,
        |(token, sealed, _), index| token.decrypt(&sealed[index]).expect("a valid token"),
        |(_, _, texts), index, opened| same("decrypted token", &opened, &texts[index]),
    )
}
