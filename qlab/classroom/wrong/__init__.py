"""Ways that look right and are not, so that lessons and the explorer can show each one failing."""
