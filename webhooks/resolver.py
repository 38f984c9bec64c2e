"""What the machine's resolver says of a name."""

import re
import socket

KEPT = 60.0  # seconds that an answer is valid
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*", re.IGNORECASE)  # as the last part of an IPv4 address


def absolute(name: str) -> str:
    """Return `name` with a final dot, so that it is looked up in the public DNS only.

    Without the dot the resolver would also try it inside our own domains, and its answer would tell a merchant which
    machines and services we have. A name that ends in a number is an address in some spelling and is left as it is."""
    bare = name.removesuffix(".")
    return name if _NUMBER.fullmatch(bare.rpartition(".")[2]) else f"{bare}."


def addresses_of(name: str) -> list[str]:
    """Return the addresses that the machine's resolver finds, however long it takes; none if it finds none."""
    try:
        found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return []
    return list(dict.fromkeys(str(peer[0]) for *_, peer in found))
