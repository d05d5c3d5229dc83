//! Addresses that a rule matches.

use super::tokens::Line;
use ipnet::IpNet;
use nix::ifaddrs::getifaddrs;
use nix::sys::socket::SockaddrStorage;
use std::net::IpAddr;

/// Client addresses that a rule matches.
#[derive(Debug)]
pub(super) enum Hosts {
    /// Every address.
    All,
    /// This machine, by its loopback addresses.
    Loopback,
    /// This machine, by any of its addresses.
    SameHost,
    /// Addresses of this machine's networks.
    SameNet,
    /// Addresses of a network.
    Net(IpNet),
}

impl Hosts {
    /// Reads the address of a rule: one field, or two if the second is the mask.
    pub(super) fn read(line: &mut Line) -> Result<Hosts, String> {
        let word = line.word("IP address")?;
        for (keyword, hosts) in
            [("all", Hosts::All), ("samehost", Hosts::SameHost), ("samenet", Hosts::SameNet)]
        {
            if word.is(keyword) {
                return Ok(hosts);
            }
        }
        let text = word.text;
        let (address, length) = text.split_once('/').map_or((text.as_str(), None), |(a, l)| (a, Some(l)));
        let address: IpAddr = address.parse().map_err(|_| {
            format!(
                "\"{text}\" is not an IP address; host names are not supported, write addresses or networks"
            )
        })?;
        let net = match length {
            Some(length) => {
                let length = length.parse().ok();
                length
                    .and_then(|length| IpNet::new(address, length).ok())
                    .ok_or_else(|| format!("invalid CIDR mask in address \"{text}\""))?
            }
            None => {
                let mask = line.word("netmask")?.text;
                let invalid = |why: &str| format!("invalid IP mask \"{mask}\": {why}");
                let mask: IpAddr = mask.parse().map_err(|_| invalid("not an IP address"))?;
                if mask.is_ipv4() != address.is_ipv4() {
                    return Err("IP address and mask do not match".to_owned());
                }
                IpNet::with_netmask(address, mask).map_err(|_| invalid("mask bits are not contiguous"))?
            }
        };
        Ok(Hosts::Net(net))
    }

    /// Returns true if the address is one of them.
    pub(super) fn have(&self, address: IpAddr) -> bool {
        match self {
            Hosts::All => true,
            Hosts::Loopback => address.is_loopback(),
            Hosts::Net(net) => net.contains(&address),
            Hosts::SameHost => interfaces().any(|(own, _)| own == address),
            Hosts::SameNet => interfaces().any(|(own, mask)| {
                mask.and_then(|mask| IpNet::with_netmask(own, mask).ok())
                    .is_some_and(|net| net.contains(&address))
            }),
        }
    }
}

/// Addresses of this machine with their masks; none if the system does not report them.
fn interfaces() -> impl Iterator<Item = (IpAddr, Option<IpAddr>)> {
    let found = getifaddrs().inspect_err(|error| tracing::warn!(%error, "cannot list network interfaces"));
    found.into_iter().flatten().filter_map(|interface| {
        Some((address(interface.address.as_ref()?)?, interface.netmask.as_ref().and_then(address)))
    })
}

fn address(from: &SockaddrStorage) -> Option<IpAddr> {
    from.as_sockaddr_in()
        .map(|four| IpAddr::V4(four.ip()))
        .or_else(|| from.as_sockaddr_in6().map(|six| IpAddr::V6(six.ip())))
}
