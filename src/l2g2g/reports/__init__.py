"""Room 7: reports: tables and figures."""
