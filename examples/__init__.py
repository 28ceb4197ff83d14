"""Small services built on qlab, to be read and run."""
