"""Network: the interface through which a rank reaches the others, found from the routing table of the system."""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import MutableMapping

_GET_ADDRESS = 0x8915  # SIOCGIFADDR of Linux


def choose_interface(environment: MutableMapping[str, str] | None = None) -> None:
    """Name it in GLOO_SOCKET_IFNAME, unless the user did.

    Gloo would take the address of the host's name otherwise, which on many hosts is the loopback one or none.
    """
    environment = os.environ if environment is None else environment
    if environment.get("GLOO_SOCKET_IFNAME"):
        return
    own = own_address(environment["MASTER_ADDR"], int(environment["MASTER_PORT"]))
    name = None if own is None else interface_of(own)
    if name is not None:
        environment["GLOO_SOCKET_IFNAME"] = name


def own_address(host: str, port: int) -> str | None:
    """The IPv4 address from which this machine talks to a host; nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((host, port))
        except OSError:
            return None
        return str(probe.getsockname()[0])


def interface_of(address: str) -> str | None:
    """The name of the interface that has an IPv4 address; None where the system does not say."""
    try:
        import fcntl

        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
            for _, name in socket.if_nameindex():
                try:
                    answer = fcntl.ioctl(asked.fileno(), _GET_ADDRESS, struct.pack("256s", name[:15].encode()))
                except OSError:  # it has no address
                    continue
                if socket.inet_ntoa(answer[20:24]) == address:
                    return name
    except (ImportError, OSError):
        return None
    return None
