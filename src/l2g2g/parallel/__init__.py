"""Several processes that train one model: how they communicate, and who owns which node."""
