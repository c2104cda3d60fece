"""Processes of their own for tests, without the seconds in which each one would import torch again."""

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path


class Process:
    """A running program, with the part of the interface of `subprocess.Popen` that tests use."""

    def __init__(self, server, pid, streams):
        self._server, self.pid, (self.stdout, self.stderr) = server, pid, streams
        self._outputs = None

    @property
    def returncode(self):
        return self._server.exit_codes.get(self.pid)

    def poll(self):
        self._server.read_messages()
        return self.returncode

    def wait(self, timeout=240):
        end = time.monotonic() + timeout
        while self.poll() is None:
            left = end - time.monotonic()
            if left <= 0:
                raise subprocess.TimeoutExpired(f"process {self.pid}", timeout)
            self._server.read_messages(left)
        return self.returncode

    def communicate(self, timeout=240):
        """Wait for the end. Return what was written to both streams."""
        self.wait(timeout)
        if self._outputs is None:
            self._outputs = self.stdout.read(), self.stderr.read()
            self.stdout.close()
            self.stderr.close()
        return self._outputs

    def send_signal(self, number):
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self):
        self.send_signal(signal.SIGKILL)


class ForkServer:
    """Starts programs as forks of one process, which has imported the package."""

    def __init__(self):
        self._connection, other = socket.socketpair()
        self.exit_codes, self._unread = {}, b""
        with other:
            self._process = subprocess.Popen(
                [sys.executable, str(Path(__file__).with_name("fork_server.py")), str(other.fileno())],
                pass_fds=[other.fileno()],
            )

    def start(self, *arguments, **environment):
        """Start a program: `-m` and a module, or the path of a script, then its arguments."""
        written, read = zip(*(_open_stream() for _ in range(2)), strict=True)
        request = {"arguments": [str(each) for each in arguments], "folder": os.getcwd()}
        request["environment"] = {**os.environ, **environment}
        socket.send_fds(self._connection, [json.dumps(request).encode() + b"\n"], [each.fileno() for each in written])
        for each in written:
            each.close()
        self._last_pid = None
        while self._last_pid is None:
            self.read_messages(60)
        return Process(self, self._last_pid, read)

    def start_ranks(self, num_ranks, *arguments):
        """Start one process for each rank, with the environment and the store that torchrun gives them."""
        from torch.distributed import TCPStore

        self._store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
        job = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(self._store.port), "WORLD_SIZE": str(num_ranks)}
        job |= {"LOCAL_WORLD_SIZE": str(num_ranks), "TORCHELASTIC_USE_AGENT_STORE": "True"}
        job |= {"TORCHELASTIC_RESTART_COUNT": "0"}
        return [self.start(*arguments, **job, RANK=str(rank), LOCAL_RANK=str(rank)) for rank in range(num_ranks)]

    def run_ranks(self, num_ranks, *arguments, timeout=240):
        """Run a job of ranks. Return the standard output of all ranks; fail if a rank fails."""
        ranks, end = self.start_ranks(num_ranks, *arguments), time.monotonic() + timeout
        while any(rank.poll() is None for rank in ranks):
            failed = any(rank.returncode for rank in ranks)
            if failed or time.monotonic() > end:
                time.sleep(1 if failed else 0)  # the others may have something to say
                for rank in ranks:
                    rank.kill()
                    rank.wait()
            self.read_messages(1)
        outputs, errors = zip(*(rank.communicate() for rank in ranks), strict=True)
        assert [rank.returncode for rank in ranks] == [0] * num_ranks, "".join(errors)
        return "".join(outputs)

    def read_messages(self, timeout=0):
        """Read what the server tells of its children; wait for its first message at most `timeout` seconds."""
        self._connection.settimeout(timeout)
        try:
            data = self._connection.recv(1 << 16)
        except (BlockingIOError, TimeoutError):
            return
        assert data, "the server of processes has ended"
        *lines, self._unread = (self._unread + data).split(b"\n")
        for line in lines:
            pid, exit_code = json.loads(line)
            if exit_code is None:
                self._last_pid = pid
            else:
                self.exit_codes[pid] = exit_code

    def close(self):
        self._connection.close()
        self._process.wait(timeout=30)


def _open_stream():
    """A file without a name, opened to write and to read."""
    descriptor, path = tempfile.mkstemp()
    reader = open(path)  # noqa: SIM115
    os.unlink(path)
    return os.fdopen(descriptor, "wb"), reader
