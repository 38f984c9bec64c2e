"""Several hosts on one machine: network namespaces on a switch, with links that can be cut and power that can fail.

Each host has a namespace of its own and a link to each of its networks. Processes and sockets that are made `inside` a
host can only use its addresses and links.
"""

import contextlib
import ctypes
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.harness.processes import CHECKOUT

CLONE_NEWNET = 0x40000000
NETWORKS = {"lan": "10.77.0", "internet": "10.78.0"}

_libc = ctypes.CDLL(None, use_errno=True)


def _ip(*words: str) -> str:
    return subprocess.run(["ip", *words], check=True, capture_output=True, text=True).stdout


@contextlib.contextmanager
def _in_namespace(name: str) -> Iterator[None]:
    """Have sockets, threads and processes that this thread makes within the block belong to the namespace."""
    own, other = (
        os.open(path, os.O_RDONLY | os.O_CLOEXEC) for path in ("/proc/thread-self/ns/net", f"/run/netns/{name}")
    )
    try:
        _enter(other)
        try:
            yield
        finally:
            _enter(own)
    finally:
        os.close(own)
        os.close(other)


def _enter(descriptor: int) -> None:
    if _libc.setns(descriptor, CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "setns")


@dataclass
class Host:
    """One machine, as the network sees it."""

    name: str
    number: int
    networks: Sequence[str]
    namespace: str
    switch: str
    running: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def address(self, network: str = "lan") -> str:
        return f"{NETWORKS[network]}.{self.number}"

    def inside(self) -> contextlib.AbstractContextManager[None]:
        return _in_namespace(self.namespace)

    def run(self, command: Sequence[str], *, environment: Mapping[str, str], output: Path) -> None:
        """Start a process here, which writes to `output`."""
        with self.inside(), output.open("ab") as file:
            self.running.append(
                subprocess.Popen(
                    command, env=dict(environment), cwd=CHECKOUT, stdout=file, stderr=file, start_new_session=True
                )
            )

    def cut(self) -> None:
        """Cut the link to the local network, but to no other: all packets are silently lost."""
        _ip("-n", self.switch, "link", "set", f"lan-{self.number}", "down")

    def mend(self) -> None:
        _ip("-n", self.switch, "link", "set", f"lan-{self.number}", "up")

    def kill(self) -> None:
        """Send SIGKILL to all of the host's processes."""
        while pids := _ip("netns", "pids", self.namespace).split():
            for pid in map(int, pids):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            for popen in self.running:
                popen.poll()
            time.sleep(0.02)
        for popen in self.running:
            popen.wait()
        self.running.clear()


class Switch:
    """The networks, in a namespace of their own, and the `hosts` by name."""

    def __init__(self) -> None:
        self.namespace = f"cod-{os.getpid()}"
        self.hosts: dict[str, Host] = {}
        _ip("netns", "add", self.namespace)
        for network in NETWORKS:
            _ip("-n", self.namespace, "link", "add", network, "type", "bridge")
            _ip("-n", self.namespace, "link", "set", network, "up")

    def add(self, name: str, *networks: str) -> Host:
        host = Host(name, len(self.hosts) + 2, networks, f"{self.namespace}-{name}", self.namespace)
        _ip("netns", "add", host.namespace)
        self.hosts[name] = host
        _ip("-n", host.namespace, "link", "set", "lo", "up")
        for network in networks:
            port = f"{network}-{host.number}"
            _ip("-n", self.namespace, "link", "add", port, "type", "veth", "peer", network, "netns", host.namespace)
            _ip("-n", self.namespace, "link", "set", port, "master", network, "up")
            _ip("-n", host.namespace, "addr", "add", f"{host.address(network)}/24", "dev", network)
            _ip("-n", host.namespace, "link", "set", network, "up")
        return host

    def close(self) -> None:
        for host in self.hosts.values():
            host.kill()
            _ip("netns", "delete", host.namespace)
        _ip("netns", "delete", self.namespace)
