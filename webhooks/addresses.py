"""Which addresses a webhook may be sent to: public ones, whatever form they are written in."""

from functools import lru_cache
from ipaddress import IPv6Address, ip_address, ip_network

# What `is_global` lets through although it leads elsewhere: multicast, and IPv6 forms that carry an IPv4 address
# (NAT64, 6to4, Teredo, IPv4-compatible), which gateways turn into that address. IANA's special-purpose registries.
_REFUSED = [
    ip_network(network)
    for network in (
        "0.0.0.0/8", "100.64.0.0/10", "192.0.0.0/24", "192.88.99.0/24", "198.18.0.0/15", "224.0.0.0/3",
        "::/96", "::ffff:0:0/96", "::ffff:0:0:0/96", "64:ff9b::/96", "64:ff9b:1::/48", "100::/64", "2001::/23",
        "2001:db8::/32", "2002::/16", "3fff::/20", "5f00::/16", "fc00::/7", "fe80::/10", "fec0::/10", "ff00::/8",
    )
]  # fmt: skip


@lru_cache(maxsize=10_000)
def is_public(address: str) -> bool:
    """Whether `address`, as the socket has it, is one of the public internet. A text that is no address is not."""
    try:
        ip = ip_address(address)
    except ValueError:
        return False
    if isinstance(ip, IPv6Address) and ip.scope_id:
        return False
    return ip.is_global and not any(ip in network for network in _REFUSED if network.version == ip.version)
