//! Made-up personal data: plainly synthetic, and a function of the row's id, so that nothing else is drawn.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use uuid::{Builder, Uuid};

/// Long enough to make rows as wide as real ones.
const AGENTS: [&str; 4] = [
    "SyntheticBrowser/1.0 (desktop; seeded row; no person behind it)",
    "SyntheticBrowser/1.0 (phone; seeded row; no person behind it) SyntheticEngine/20260101 Mobile/1A",
    "SyntheticBrowser/2.7 (tablet; seeded row; no person behind it) SyntheticEngine/20260101 (like no other) Build/42",
    "synthetic-cli/0.9",
];

/// A random id, shaped as version 4.
pub fn id(rng: &mut ChaCha8Rng) -> Uuid {
    Builder::from_random_bytes(rng.random()).into_uuid()
}

/// 32 bytes that differ where ids differ, in an order of their own.
pub fn hash(id: Uuid) -> [u8; 32] {
    let mut hash = [0; 32];
    hash[..16].copy_from_slice(id.as_bytes());
    hash[16..].copy_from_slice(id.as_bytes());
    hash.reverse();
    hash
}

/// An agent, or none for one row in eight.
pub fn agent(id: Uuid) -> Option<&'static str> {
    let [.., byte] = id.into_bytes();
    (!byte.is_multiple_of(8)).then_some(AGENTS[usize::from(byte >> 3) % AGENTS.len()])
}

/// An address from the ranges kept for documentation, or none for one row in eight.
pub fn address(id: Uuid) -> Option<IpAddr> {
    let [.., host, byte] = id.into_bytes();
    match byte % 8 {
        0 => None,
        1 | 2 => Some(IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, byte.into(), host.into()))),
        _ => Some(IpAddr::V4(Ipv4Addr::new(192, 0, 2, host))),
    }
}

/// A number in a country code that is assigned to nobody.
pub fn phone(id: Uuid) -> String {
    format!("+999{:010}", id.as_u128() % 10_000_000_000)
}
