import socket

from l2g2g.parallel.network import choose_interface, interface_of, own_address


def test_the_way_to_this_machine_is_the_loopback_interface():
    assert own_address("127.0.0.1", 29500) == "127.0.0.1"
    name = interface_of("127.0.0.1")
    assert name in [name for _, name in socket.if_nameindex()]
    environment = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"}
    choose_interface(environment)
    assert environment["GLOO_SOCKET_IFNAME"] == name


def test_what_the_user_says_stays():
    environment = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500", "GLOO_SOCKET_IFNAME": "ib0"}
    choose_interface(environment)
    assert environment["GLOO_SOCKET_IFNAME"] == "ib0"


def test_nothing_is_said_where_nothing_is_known():
    assert interface_of("192.0.2.77") is None  # an address that nobody has
    assert own_address("no such host.invalid", 1) is None
    environment = {"MASTER_ADDR": "no such host.invalid", "MASTER_PORT": "1"}
    choose_interface(environment)
    assert "GLOO_SOCKET_IFNAME" not in environment
