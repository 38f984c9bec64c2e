"""Which addresses are public, by IANA's special-purpose registries, in every notation that embeds such an address."""

import pytest

from webhooks.addresses import is_public

# The first and last addresses of each block.
_NOT_PUBLIC = """
0.0.0.0 0.255.255.255 10.0.0.0 10.255.255.255 100.64.0.0 100.100.100.200 100.127.255.255 127.0.0.1 127.255.255.255
169.254.0.0 169.254.169.254 169.254.255.255 172.16.0.0 172.31.255.255 192.0.0.0 192.0.0.8 192.0.0.9 192.0.0.10
192.0.0.170 192.0.0.171 192.0.0.192 192.0.0.255 192.0.2.0 192.0.2.255 192.88.99.0 192.88.99.255 192.168.0.0
192.168.255.255 198.18.0.0 198.19.255.255 198.51.100.0 198.51.100.255 203.0.113.0 203.0.113.255 224.0.0.0 224.0.0.1
239.255.255.255 240.0.0.0 255.255.255.254 255.255.255.255 168.63.129.16
:: ::1 ::2 ::7f00:1 ::8.8.8.8 ::ffff:0:0 ::ffff:127.0.0.1 ::ffff:8.8.8.8 ::ffff:0:8.8.8.8 ::ffff:0:7f00:1
64:ff9b::7f00:1 64:ff9b::8.8.8.8 64:ff9b:1::1 64:ff9b:1:ffff:ffff:ffff:ffff:ffff 100:: 100::ffff 100:0:0:1::1
2001::1 2001::7f00:1 2001:1::1 2001:1::2 2001:2::1 2001:3::1 2001:4:112::1 2001:10::1 2001:20::1 2001:30::1
2001:1ff:ffff:ffff:ffff:ffff:ffff:ffff 2001:db8::1 2001:db8:ffff:ffff:ffff:ffff:ffff:ffff 2002:7f00:1::1
2002:808:808::1 2002:a9fe:a9fe:: 3fff::1 3fff:fff:ffff:ffff:ffff:ffff:ffff:ffff 4000::1 5f00::1 8000::1 fc00::1
fd00:ec2::254 fdff::1 fe80::1 febf::1 fec0::1 feff::1 ff00::1 ff02::1 ff0e::1
ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff
"""
_PUBLIC = """
1.0.0.0 1.1.1.1 8.8.8.8 9.255.255.255 11.0.0.0 100.63.255.255 100.128.0.0 126.255.255.255 128.0.0.0 169.253.255.255
169.255.0.0 172.15.255.255 172.32.0.0 191.255.255.255 192.0.1.0 192.0.3.0 192.88.98.255 192.88.100.0 192.167.255.255
192.169.0.0 198.17.255.255 198.20.0.0 198.51.99.255 198.51.101.0 203.0.112.255 203.0.114.0 223.255.255.255
2000::1 2001:200::1 2001:4860:4860::8888 2001:db7:ffff::1 2001:db9::1 2003::1 2606:4700:4700::1111 2a00:1450::1
3ffe:ffff::1 3fff:1000::1
"""
NO_ADDRESS = ["", "localhost", "127.1", "2130706433", "0x7f.0.0.1", "0177.0.0.1", "010.8.8.8", "8.8.8.8 ", "8.8.8.8:80",
              "[::1]", "fe80::1%eth0", "2606:4700:4700::1111%eth0", "١.١.١.١", "1.1.1.1\x00"]  # fmt: skip


@pytest.mark.parametrize("address", _NOT_PUBLIC.split())
def test_special_purposes_are_not_public(address):
    assert not is_public(address)


@pytest.mark.parametrize("address", _PUBLIC.split())
def test_their_neighbours_are(address):
    assert is_public(address)


@pytest.mark.parametrize("text", NO_ADDRESS)
def test_what_no_socket_would_say_is_not_public(text):
    assert not is_public(text)
