"""Reports: pages, maps, tables and figures of runs."""
