"""Reproduce: experiments of many cells, resumable, with their tables, figures and conclusions. Part of the rim."""
