"""This host's way to another one: address, interface and a free port (IPv4)."""

import fcntl
import socket
import struct
from contextlib import suppress

from harness.errors import Refused

SIOCGIFADDR = 0x8915  # netdevice(7)
_DISCARD = 9  # any port: nothing is sent


def towards(peer: str) -> str:
    """The address this host has on its way to `peer`, a name or an address."""
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect((peer, _DISCARD))
            return str(probe.getsockname()[0])
    except OSError as error:
        raise Refused(f"{peer}: no IPv4 way there from {socket.gethostname()} ({error})") from error


def interface(address: str) -> str:
    """The name of the interface that has `address`."""
    for _, name in socket.if_nameindex():
        with suppress(Refused):
            if address_of(name) == address:
                return name
    if address.startswith("127."):
        return "lo"  # it has all of them, and tells one
    raise Refused(f"{address}: no interface of {socket.gethostname()} has it; give --interface")


def address_of(name: str) -> str:
    """The first IPv4 address of the interface `name`."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        request = struct.pack("256s", name.encode()[:15])
        try:
            answer = fcntl.ioctl(probe.fileno(), SIOCGIFADDR, request)
        except OSError as error:
            host = socket.gethostname()
            raise Refused(f"interface {name}: has no IPv4 address on {host}") from error
    return socket.inet_ntoa(answer[20:24])


def free_port(address: str) -> int:
    """A TCP port that nobody listens on at `address`."""
    with socket.socket() as probe:
        probe.bind((address, 0))
        return int(probe.getsockname()[1])
