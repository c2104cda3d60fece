"""The harness runs in a process of its own: it forks, and limits its memory."""

collect_ignore = ["run.py", "readers.py", "mutations.py"]
