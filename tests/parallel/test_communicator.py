import socket

import pytest

from l2g2g.errors import InputError
from l2g2g.parallel.communicator import (
    MessageCount,
    Place,
    _no_answer,
    choose_interface,
    interface_of,
    own_address,
)

JOB = {
    "WORLD_SIZE": "4",
    "RANK": "3",
    "LOCAL_RANK": "1",
    "LOCAL_WORLD_SIZE": "2",
    "MASTER_ADDR": "a",
    "MASTER_PORT": "1",
}


def test_a_place_in_a_job():
    assert Place.read(JOB) == Place(rank=3, size=4, local_rank=1, attempt=0)
    assert Place.read({**JOB, "TORCHELASTIC_RESTART_COUNT": "2"}).attempt == 2


@pytest.mark.parametrize("environment", [{}, {"WORLD_SIZE": "1", "RANK": "0"}, {"RANK": "5"}])
def test_one_process_is_no_job(environment):
    assert Place.read(environment) is None


@pytest.mark.parametrize("name", ["RANK", "MASTER_ADDR", "MASTER_PORT"])
def test_half_a_job_is_refused(name):
    environment = {key: value for key, value in JOB.items() if key != name}
    with pytest.raises(InputError, match=f"{name} is not set; start the ranks with torchrun"):
        Place.read(environment)
    with pytest.raises(InputError, match="torchrun"):
        Place.read({**JOB, "RANK": "first"})


def test_messages_are_counted_by_kind():
    sent = MessageCount()
    sent.add("rows", 10)
    sent.add("rows", 4)
    assert (sent.num_bytes["rows"], sent.times["rows"], sent.num_bytes["gradient"]) == (14, 2, 0)


@pytest.mark.parametrize(
    ("reason", "told"), [("Timed out waiting 3000ms", "did not answer within 3 s"), ("Connection reset", "is gone")]
)
def test_no_answer_is_one_line_with_a_remedy(reason, told):
    error = _no_answer(Place(1, 2), 3.0, RuntimeError(reason))
    assert told in str(error)
    assert "--resume" in str(error)
    assert error.exit_code == 5


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
