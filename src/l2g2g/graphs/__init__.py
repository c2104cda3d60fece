"""Graphs: readers and writers, stores, data sets and splits."""
