"""Room 5: training: the methods and the one loop."""
