"""l2g2g: one vector per node for graphs of any size."""
