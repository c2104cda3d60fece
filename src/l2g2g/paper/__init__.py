"""Reproduction of the paper: resumable studies of many runs, with tables, figures and verdicts on its claims."""
