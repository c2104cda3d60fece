"""Fuzzing: hostile files for every reader, thousands a minute.

    python tests/fuzz/run.py --inputs 20000 --seed 0

Input number i of a reader is a function of (seed, reader, i), so that a finding can be looked at again:
`--only READER --first I --inputs 1 --show`. A child process reads them one after another, with little address space and
a limit of time for each. Allowed are what was read, sound, and an error of l2g2g in one line. Anything else is a
finding: another exception, a warning, more memory than the budget, a hang, a death, a file outside the folder. Exit
code 1 where there are findings.
"""

import argparse
import ctypes
import dataclasses
import importlib
import json
import os
import resource
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
import zlib
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

for _name in ("OMP_NUM_THREADS", "ARROW_NUM_THREADS"):
    os.environ[_name] = "1"
sys.path.insert(0, str(Path(__file__).parent))

SECONDS = 10.0  # for one input
UNPACKED = 100_000_000  # bytes that a file may unpack to
BUDGET = 300_000_000  # bytes of memory beyond the idle process
ADDRESSES = 2_000_000_000  # address space beyond the idle process
SET_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG of prctl


@dataclass
class Tally:
    """What came of the inputs of one reader."""

    reader: str
    inputs: int = 0
    read: int = 0
    refused: Counter = field(default_factory=Counter)
    slowest: float = 0.0
    findings: list = field(default_factory=list)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--inputs", type=int, default=20_000, help="over all readers")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="number of the first input of every reader")
    parser.add_argument("--only", help="one reader, by a part of its name")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--show", action="store_true", help="print every outcome and the traceback of findings")
    parser.add_argument("--commands", type=int, default=0, help="afterwards, as many files through the command line")
    parser.add_argument("--list", action="store_true", help="names of the readers")
    options = parser.parse_args()
    root = Path(tempfile.mkdtemp(prefix="l2g2g-fuzz-"))
    here = os.getcwd()
    try:
        os.chdir(root)
        return fuzz(options, root)
    finally:
        os.chdir(here)
        shutil.rmtree(root, ignore_errors=True)


def fuzz(options, root):
    import readers

    targets = readers.targets()
    found = [target for target in targets if options.only is None or options.only in target.name]
    if options.list:
        print("\n".join(target.name for target in found))
        return 0
    tallies = fuzz_readers(found, targets, options, root) if options.inputs else []
    if options.commands:
        tallies.append(run_commands(found, options, root))
    if options.json:
        print(json.dumps([{**vars(tally), "refused": dict(tally.refused)} for tally in tallies]))
    else:
        print_table(tallies)
    return 1 if any(tally.findings for tally in tallies) else 0


def fuzz_readers(found, targets, options, root):
    """found: the readers to try; targets: all of them, whose files are spliced into each other."""
    import mutations
    import readers

    for name in (
        "paper.report",
        "alignment.parties",
        "graphs.read",
        "runs.run_directory",
        "graphs.store_writer",
        "graphs.duckdb_store",
    ):
        importlib.import_module(f"l2g2g.{name}")  # once for all children
    if any(target.bombs for target in found):
        mutations.use_bombs(readers.apart(mutations.make_bombs))
    for target in targets:
        target.seeds = target.seeds if isinstance(target.seeds, list) else readers.apart(target.seeds)
    readers.apart(lambda: [readers.read_seeds(target) for target in found])
    contents = [content for target in targets for files in target.seeds for content in files.values()]
    others = [content for content in contents if len(content) < 100_000]
    whole = sum(target.share for target in found)
    tallies = []
    for target in found:
        count = max(1, round(options.inputs * target.share / whole))
        started = time.monotonic()
        tally = run_target(target, count, options, others, root)
        tallies.append(tally)
        seconds = time.monotonic() - started
        say(f"{target.name}: {tally.inputs:,} inputs in {seconds:.1f} s, {len(tally.findings)} findings")
        for finding in tally.findings:
            say(f"  {finding}")
    return tallies


def run_commands(targets, options, root):
    """Some of the same files through the real command line: its exit code, one line on stderr, nothing left behind."""
    import numpy as np
    import readers

    targets = [dataclasses.replace(target, bombs={}) for target in targets if target.command]
    others = [content for target in targets for content in target.seeds[0].values()]
    tally = Tally("command line")
    for number in range(options.commands):
        target = targets[number % len(targets)]
        generator = np.random.default_rng([options.seed, zlib.crc32(target.name.encode()), number])
        files, how = readers.mutate(target, generator, others)
        shutil.rmtree(root / "box", ignore_errors=True)
        (root / "box" / "out").mkdir(parents=True)
        readers.write_files(root / "box" / "in", files)
        before = listing(root)
        started = time.perf_counter()
        command = [sys.executable, "-m", "l2g2g", *target.command(root / "box" / "in", root / "box" / "out")]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
        lines = done.stderr.splitlines()
        trouble = None
        if done.returncode not in (0, 2, 3, 4):
            trouble = f"exit code {done.returncode}"
        elif done.returncode and (len(lines) != 1 or not lines[0].startswith("l2g2g: ") or done.stdout):
            trouble = "not one line on stderr"
        elif done.returncode and listing(root) != before:
            trouble = f"left {sorted(listing(root) ^ before)}"
        seconds = time.perf_counter() - started
        what = "finding" if trouble else "refused" if done.returncode else "read"
        text = f"{target.name}: {trouble}: {done.stderr[-300:]!r}"
        outcome = {"number": number, "how": how, "what": what, "seconds": seconds, "text": text}
        note(tally, {**outcome, "code": done.returncode}, options.show)
    say(f"command line: {tally.inputs:,} files, {len(tally.findings)} findings")
    for finding in tally.findings:
        say(f"  {finding}")
    return tally


def say(text):
    print(text, file=sys.stderr, flush=True)


def print_table(tallies):
    print(f"{'reader':24} {'inputs':>7} {'read':>7} {'exit 2':>7} {'exit 3':>7} {'exit 4':>7} {'slowest':>8} findings")
    total = Tally("all")
    for tally in tallies:
        total.inputs, total.read = total.inputs + tally.inputs, total.read + tally.read
        total.refused += tally.refused
        total.slowest = max(total.slowest, tally.slowest)
        total.findings += tally.findings
    for tally in [*tallies, total]:
        codes = [tally.refused[str(code)] for code in (2, 3, 4)]
        print(
            f"{tally.reader:24} {tally.inputs:7,} {tally.read:7,} {codes[0]:7,} {codes[1]:7,} {codes[2]:7,} "
            f"{tally.slowest:6.2f} s {len(tally.findings)}"
        )


def run_target(target, count, options, others, root):
    """Child after child, each until it has done all, hangs, dies or has found something that spoils it."""
    tally, number, last = Tally(target.name), options.first, options.first + count
    while number < last:
        reading, writing = os.pipe()
        parent = os.getpid()
        child = os.fork()
        if child == 0:
            os.close(reading)
            code = 1
            try:
                end_with(parent)
                work(target, number, last, options, others, root, writing)
                code = 0
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(code)
        os.close(writing)
        number = watch(child, reading, number, last, tally, options.show)
    return tally


def end_with(parent):
    """In the child: be killed by the system when the parent ends, however that happens."""
    ctypes.CDLL(None).prctl(SET_DEATH_SIGNAL, signal.SIGKILL)
    if os.getppid() != parent:  # it ended before the call
        os._exit(1)


def watch(child, reading, number, last, tally, show):
    """Take outcomes from a child until it ends; returns the number of the next input."""
    buffer, deadline, done = b"", time.monotonic() + SECONDS + 60, number
    while True:
        ready, _, _ = select.select([reading], [], [], max(0.0, deadline - time.monotonic()))
        block = os.read(reading, 1 << 16) if ready else b""
        if not block:
            break
        buffer += block
        *lines, buffer = buffer.split(b"\n")
        for line in lines:
            outcome = json.loads(line)
            if "begun" in outcome:
                deadline = time.monotonic() + SECONDS
                continue
            deadline = time.monotonic() + 60  # to make the next one
            note(tally, outcome, show)
            done += 1
    os.close(reading)
    if not ready:
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    if done < last and (not ready or status != 0):
        what = f"no answer within {SECONDS:.0f} s" if not ready else f"the process died (status {status})"
        tally.inputs += 1
        tally.findings.append(f"{tally.reader} input {done}: {what}")
        done += 1
    return done


def note(tally, outcome, show):
    tally.inputs += 1
    tally.slowest = max(tally.slowest, outcome["seconds"])
    if show:
        say(json.dumps(outcome))
    if outcome["what"] == "read":
        tally.read += 1
    elif outcome["what"] == "refused":
        tally.refused[str(outcome["code"])] += 1
    else:
        tally.findings.append(f"{tally.reader} input {outcome['number']} ({outcome['how']}): {outcome['text']}")


def work(target, number, last, options, others, root, pipe):
    """In the child: make, write and read inputs. Ends early after a finding that spoils the measurement of memory."""
    import numpy as np
    import readers

    from l2g2g.graphs import archives

    archives._free_memory = lambda: UNPACKED
    place = root / "box"
    salt = zlib.crc32(target.name.encode())
    os.environ["L2G2G_CANARY"] = str(root / "canary")
    for current in range(number, last):
        resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        generator = np.random.default_rng([options.seed, salt, current])
        files, how = readers.mutate(target, generator, others)
        shutil.rmtree(place, ignore_errors=True)
        readers.write_files(place / "in", files)
        before = listing(root)
        size = memory("VmSize") + ADDRESSES
        resource.setrlimit(resource.RLIMIT_AS, (size, resource.RLIM_INFINITY))
        reset_peak()
        start = memory("VmRSS")
        send(pipe, {"begun": current})
        started = time.perf_counter()
        outcome = attempt(target, place / "in", options.show)
        outcome |= {"number": current, "how": how, "seconds": time.perf_counter() - started}
        grown = memory("VmHWM") - start
        strangers = sorted(listing(root) ^ before)
        if outcome["what"] != "finding" and grown > BUDGET:
            outcome |= {"what": "finding", "text": f"took {grown / 1e6:.0f} MB ({outcome})"}
        if strangers:
            outcome |= {"what": "finding", "text": f"left {strangers} ({outcome})"}
        send(pipe, outcome)
        for name in strangers:
            path = root / name
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
        if strangers or grown > BUDGET:  # begin with a fresh process; what is left to do is done by another
            return


def attempt(target, folder, show):
    from l2g2g.alignment.procrustes import AlignmentWarning
    from l2g2g.errors import L2G2GError
    from l2g2g.training.checkpoint import CheckpointWarning

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.simplefilter("ignore", CheckpointWarning)
            warnings.simplefilter("ignore", AlignmentWarning)
            warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta state")
            target.read(folder)
        return {"what": "read"}
    except L2G2GError as error:
        text = str(error)
        if not text.isprintable() or len(text) > 4000 or not text:
            return {"what": "finding", "text": f"message is not one printable line: {text[:300]!r}"}
        return {"what": "refused", "code": error.exit_code, "text": text}
    except Exception as error:
        if show:
            traceback.print_exc()
        frames = traceback.extract_tb(error.__traceback__)
        ours = [frame for frame in frames if "l2g2g" in frame.filename] or frames
        place = f"{Path(ours[-1].filename).name}:{ours[-1].lineno}"
        return {"what": "finding", "text": f"{type(error).__name__} at {place}: {str(error)[:200]!r}"}


def send(pipe, outcome):
    os.write(pipe, json.dumps(outcome).encode() + b"\n")


def memory(name):
    """Bytes by the system's own count."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name + ":"):
            return int(line.split()[1]) * 1024
    return 0


def reset_peak():
    Path("/proc/self/clear_refs").write_text("5")


def listing(root):
    """Everything outside the folder of the inputs."""
    return {str(path.relative_to(root)) for path in root.rglob("*") if "in" not in path.relative_to(root).parts[:2]}


if __name__ == "__main__":
    sys.exit(main())
