"""Room 2: patches: a Graph is cut into overlapping patches."""
