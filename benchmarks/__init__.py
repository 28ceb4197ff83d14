"""qlab beside its peers: `python -m benchmarks`, one server, interleaved rounds. See --help."""
