"""Room 1: graphs, in and out: files and objects become a checked Graph."""
