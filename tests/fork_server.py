"""Forks programs of Python from a process that has imported what they need: python fork_server.py DESCRIPTOR.

A request on the socket is a line of JSON with two descriptors for the streams; a line [pid, null] answers it.
A line [pid, exit code] follows when the program has ended.
"""

import gc
import json
import os
import runpy
import select
import signal
import socket
import sys

import pyarrow.parquet  # noqa: F401
import scipy.sparse.csgraph  # noqa: F401
import torch.distributed.rendezvous  # noqa: F401

import l2g2g.cli
import l2g2g.paper.commands
import l2g2g.runs.embed
import l2g2g.runs.evaluate  # noqa: F401


def send(connection, *values):
    connection.sendall(json.dumps(values).encode() + b"\n")


def serve(connection, ended):
    """Answer requests until the other side is gone. Return the request of a new process in that process."""
    while True:
        ready, _, _ = select.select([connection, ended], [], [])
        if ended in ready:
            os.read(ended, 4096)
            while True:
                try:
                    pid, status = os.waitpid(-1, os.WNOHANG)
                except ChildProcessError:
                    break
                if pid == 0:
                    break
                send(connection, pid, os.waitstatus_to_exitcode(status))
        if connection in ready:
            data, streams, _, _ = socket.recv_fds(connection, 1 << 20, 2)
            if not data:
                os._exit(0)
            while not data.endswith(b"\n"):
                data += connection.recv(1 << 20)
            pid = os.fork()
            if pid == 0:
                return json.loads(data), streams
            for stream in streams:
                os.close(stream)
            send(connection, pid, None)


def main():
    connection = socket.socket(fileno=int(sys.argv[1]))
    ended, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    gc.freeze()
    request, streams = serve(connection, ended)
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for number, stream in enumerate(streams, 1):
        os.dup2(stream, number)
        os.close(stream)
    connection.close()
    os.close(ended)
    os.close(wake)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.argv = request["arguments"]
    if sys.argv[0] == "-m":
        del sys.argv[0]
        sys.path[0] = request["folder"]
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
    else:
        sys.path[0] = os.path.dirname(sys.argv[0])
        runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    main()
