"""The writer: when it saves, what it costs, how it ends a training that is interrupted."""

import os
import signal
import threading
import time
from types import SimpleNamespace

import pytest
import torch

from l2g2g.errors import InputError, Interrupted, ResourceError
from l2g2g.training.checkpoint import CheckpointStore
from l2g2g.training.checkpoint_writer import CheckpointWriter


class Counter:
    """A state that only counts."""

    def __init__(self):
        self.epoch = 0

    def capture(self):
        return {"epoch": torch.tensor(self.epoch)}, {"epoch": self.epoch}

    def restore(self, tensors, values):
        self.epoch = values["epoch"]


@pytest.fixture
def store(tmp_path):
    return CheckpointStore(tmp_path / "checkpoints")


def run(writer, epochs, on_epoch=lambda epoch: None):
    state = Counter()
    with writer.watch():
        writer.restore(state)
        while state.epoch < epochs:
            state.epoch += 1
            on_epoch(state.epoch)
            writer.after_epoch(state)
        writer.finish(state)
    return state


def test_every_epoch_where_that_is_asked_for(store):
    writer = CheckpointWriter(store, {}, interval=0)
    run(writer, 5)
    assert writer.num_saves == 5
    assert store.load().epoch == 5


def test_by_time_otherwise_the_first_epoch_and_the_last_in_any_case(store):
    writer = CheckpointWriter(store, {}, interval=3600)
    run(writer, 1000, lambda epoch: time.sleep(0.05) if epoch == 2 else None)
    assert writer.num_saves == 2
    assert [path.name for path in store.paths()] == ["epoch-00001000", "epoch-00000001"]


def test_saves_that_cost_much_come_seldom(store, monkeypatch):
    save = store.save

    def slow(checkpoint):
        end = time.thread_time() + 0.02
        while time.thread_time() < end:
            pass
        save(checkpoint)

    monkeypatch.setattr(store, "save", slow)
    writer = CheckpointWriter(store, {}, interval=0.01)
    run(writer, 30, lambda _: time.sleep(0.01))
    assert writer.num_saves == 2  # the first and the last: a hundred times 20 ms were not over
    assert 0.04 <= writer.seconds < 1


def test_training_does_not_wait_for_the_disk(store, monkeypatch):
    release = threading.Event()
    save = store.save
    monkeypatch.setattr(store, "save", lambda checkpoint: (release.wait(10), save(checkpoint)))
    writer = CheckpointWriter(store, {}, interval=1e-9)
    run(writer, 50, lambda epoch: release.set() if epoch == 50 else None)
    assert writer.num_saves == 2


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_saves_first_and_the_old_handlers_come_back(store, number, code):
    before = signal.getsignal(number)
    writer = CheckpointWriter(store, {}, interval=3600)
    with pytest.raises(Interrupted, match="after epoch 7; --resume") as stop:
        run(writer, 100, lambda epoch: os.kill(os.getpid(), number) if epoch == 7 else None)
    assert stop.value.exit_code == code
    assert store.load().epoch == 7
    assert signal.getsignal(number) is before


def test_a_second_signal_does_not_wait(store):
    def twice(epoch):
        if epoch == 7:
            os.kill(os.getpid(), signal.SIGINT)
            os.kill(os.getpid(), signal.SIGINT)
            pytest.fail("still here")

    with pytest.raises(Interrupted, match="before the epoch ended"):
        run(CheckpointWriter(store, {}, interval=3600), 100, twice)
    assert store.load().epoch == 1


def test_a_signal_during_the_last_save_is_not_lost(store, monkeypatch):
    save = store.save
    monkeypatch.setattr(store, "save", lambda checkpoint: (os.kill(os.getpid(), signal.SIGTERM), save(checkpoint)))
    writer = CheckpointWriter(store, {}, interval=3600)
    writer._due = float("inf")
    with pytest.raises(Interrupted, match="after training"):
        run(writer, 3)
    assert store.load().epoch == 3


@pytest.mark.parametrize("interval", [0, 0.001])
def test_a_save_that_fails_ends_the_training(store, monkeypatch, interval):
    def fail(_):
        raise ResourceError("no space")

    monkeypatch.setattr(store, "save", fail)
    with pytest.raises(ResourceError, match="no space"):
        run(CheckpointWriter(store, {}, interval=interval), 100, lambda _: time.sleep(0.001))


def test_resuming_goes_on_where_it_stopped_and_what_is_there_is_not_written_again(store):
    run(CheckpointWriter(store, {}, interval=0), 4)
    writer = CheckpointWriter(store, {}, store.load(), interval=0)
    assert run(writer, 4).epoch == 4
    assert writer.num_saves == 0
    writer = CheckpointWriter(store, {}, store.load(), interval=0)
    run(writer, 6)
    assert writer.num_saves == 2


def test_a_checkpoint_that_does_not_fit_is_refused(store):
    writer = CheckpointWriter(store, {}, SimpleNamespace(epoch=3, tensors={}, values={}))
    with pytest.raises(InputError, match="does not fit this training"):
        run(writer, 4)


def test_a_patient_writer_saves_nothing_of_a_short_training(store):
    writer = CheckpointWriter(store, {}, interval=60, patient=True)
    run(writer, 4)
    assert (writer.num_saves, store.paths()) == (0, [])
    run(CheckpointWriter(store, {}, interval=0.01, patient=True), 20, lambda _: time.sleep(0.005))
    assert store.load().epoch == 20


def test_outside_the_main_thread_signals_are_left_alone(store):
    before = signal.getsignal(signal.SIGTERM)
    thread = threading.Thread(target=run, args=(CheckpointWriter(store, {}, interval=0), 3))
    thread.start()
    thread.join()
    assert store.load().epoch == 3
    assert signal.getsignal(signal.SIGTERM) is before
