"""Which addresses a webhook may be sent to: public ones, whatever form they are written in."""

from functools import lru_cache
from ipaddress import IPv6Address, ip_address, ip_network

# From IANA's special-purpose registries, where `is_global` differs between Python releases or allows addresses that
# lead elsewhere: multicast and reserved space, and IPv6 forms of IPv4 addresses, which gateways translate back (6to4,
# Teredo and the other protocol assignments of 2001::/23).
_REFUSED = [
    ip_network(network)
    for network in (
        "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24",
        "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24",
        "224.0.0.0/3",
        "168.63.129.16/32",  # in public space, but on every machine at Azure it is the host
        "2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20",
    )
]  # fmt: skip
# All that is assigned for the public internet. Outside are loopback, IPv4-mapped and -compatible forms, NAT64, unique
# local, link-local, site-local, segment routing, dummy prefixes and multicast.
_GLOBAL_UNICAST = ip_network("2000::/3")


@lru_cache(maxsize=10_000)
def is_public(address: str) -> bool:
    """Whether `address`, as the socket has it, is on the public internet. Text that is no address is not."""
    try:
        ip = ip_address(address)
    except ValueError:
        return False
    if isinstance(ip, IPv6Address) and (ip.scope_id or ip not in _GLOBAL_UNICAST):
        return False
    return ip.is_global and not any(ip in network for network in _REFUSED if network.version == ip.version)
