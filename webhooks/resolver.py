"""What the machine's resolver says of a name."""

import re
import socket
from collections import Counter

KEPT = 60.0  # seconds that an answer is valid
MOST_ADDRESSES = 32  # of a name, half of them of each family; no real receiver has more, but an answer can hold 6 000
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*", re.IGNORECASE)  # as the last part of an IPv4 address


def absolute(name: str) -> str:
    """Return `name` with a final dot, so that it is looked up in the public DNS only.

    Without the dot the resolver would also try it inside our own domains, and its answer would tell a merchant which
    machines and services we have. A name that ends in a number is an address in some spelling and is left as it is."""
    bare = name.removesuffix(".")
    return name if _NUMBER.fullmatch(bare.rpartition(".")[2]) else f"{bare}."


def addresses_of(name: str) -> list[str]:
    """Return the first addresses that the machine's resolver finds, however long it takes; none if it finds none.

    At most MOST_ADDRESSES, in the resolver's order. Nobody checks the others, and nobody may dial them."""
    try:
        found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return []
    addresses, of_family = [], Counter[int]()
    for family, address in dict.fromkeys((family, str(peer[0])) for family, *_, peer in found):
        of_family[family] += 1
        if of_family[family] <= MOST_ADDRESSES // 2:
            addresses.append(address)
    return addresses
