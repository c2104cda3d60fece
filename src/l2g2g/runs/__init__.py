"""Runs: a graph and a config become an embedding or its scores, on every storage and number of ranks."""
