"""Room 8: reports: tables and figures."""
