#!/bin/sh
# Find a Python that is new enough and let it make the environment (tools/setup_env.py).
# PYTHON names one: make setup PYTHON=/usr/bin/python3.12
set -u

is_new_enough() {
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1
}

if [ -n "${PYTHON:-}" ]; then
    is_new_enough "$PYTHON" && exec "$PYTHON" tools/setup_env.py --chosen
    found=$("$PYTHON" -c 'import sys; print(sys.version.split()[0])' 2>/dev/null) || found="no Python"
    echo "The course needs Python 3.11 or newer, but PYTHON=$PYTHON is $found: name another one." >&2
    exit 1
fi
for python in python3 python3.13 python3.12 python3.11 python3.14 python; do
    is_new_enough "$python" && exec "$python" tools/setup_env.py
done
found=$(python3 -c 'import sys; print(sys.version.split()[0])' 2>/dev/null) || found="not there"
echo "The course needs Python 3.11 or newer (python3 is $found): install it, or name one with make setup PYTHON=/path/to/python3.12" >&2
exit 1
