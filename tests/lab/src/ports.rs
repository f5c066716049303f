//! Ports of one machine shared by many clusters.
//!
//! Ports are taken from a range below the one the kernel gives to outgoing connections, so that none is taken away
//! between the choice and its use; what other clusters have written down is left alone.

use std::{
    collections::BTreeSet,
    net::{Ipv4Addr, TcpListener},
};

use anyhow::{Result, bail};

/// The first port of our range; [`crate::node`] derives pod networks from the distance to it.
pub const FIRST: u16 = 20_000;
const LAST: u16 = 31_999;

/// `count` free ports that are not in `taken`.
pub fn choose(count: usize, taken: &BTreeSet<u16>) -> Result<Vec<u16>> {
    // Starting points differ by process, so that two fresh users of the range seldom try the same ports.
    let span = u32::from(LAST - FIRST) + 1;
    let start = std::process::id().wrapping_mul(97) % span;
    let ports: Vec<u16> = (0..span)
        .filter_map(|step| u16::try_from(u32::from(FIRST) + (start + step) % span).ok())
        .filter(|it| !taken.contains(it) && is_free(*it))
        .take(count)
        .collect();
    if ports.len() < count {
        bail!(
            "fewer than {count} free ports between {FIRST} and {LAST}; take clusters down that are not needed"
        );
    }
    Ok(ports)
}

fn is_free(port: u16) -> bool {
    TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_in_use_or_written_down_are_not_given_out() {
        let first = choose(3, &BTreeSet::new()).unwrap();
        let _listener = TcpListener::bind((Ipv4Addr::LOCALHOST, first[0])).unwrap();
        let second = choose(3, &BTreeSet::from([first[1]])).unwrap();
        assert!(!second.contains(&first[0]), "in use");
        assert!(!second.contains(&first[1]), "written down");
    }
}
