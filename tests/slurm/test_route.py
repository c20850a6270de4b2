"""This host's own addresses and interfaces, as the kernel tells them."""

import socket

import pytest

from harness.errors import Refused
from harness.slurm import route


def test_the_way_to_this_host_is_loopback() -> None:
    assert route.towards("127.0.0.1") == "127.0.0.1"
    assert route.interface("127.0.0.1") == "lo"
    assert route.address_of("lo") == "127.0.0.1"


def test_any_loopback_address_is_lo() -> None:
    assert route.interface("127.0.1.1") == "lo"


def test_every_interface_with_an_address_is_found_by_it() -> None:
    for _, name in socket.if_nameindex():
        try:
            address = route.address_of(name)
        except Refused:
            continue
        assert route.interface(address) == name


def test_what_is_not_there_is_refused() -> None:
    with pytest.raises(Refused, match="no-such.example.invalid: no IPv4 way there"):
        route.towards("no-such.example.invalid")
    with pytest.raises(Refused, match="192.0.2.1: no interface"):
        route.interface("192.0.2.1")
    with pytest.raises(Refused, match="interface nope: has no IPv4 address"):
        route.address_of("nope")


def test_a_free_port_can_be_listened_on() -> None:
    port = route.free_port("127.0.0.1")
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", port))
