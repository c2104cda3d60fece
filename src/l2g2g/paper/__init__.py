"""Reproduction of the paper: studies of many runs, resumable, with tables, figures and a table of claims."""
