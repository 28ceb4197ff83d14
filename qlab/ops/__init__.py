"""Running qlab: the command line, the check of this machine, the lab server."""
