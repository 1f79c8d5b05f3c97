#!/bin/sh
# Prints the newest Python of this machine that the newest Django runs on (3.12 or newer): NEWEST_PYTHON where it is
# set, else one of the PATH, else one of pyenv's. Says what to do where there is none.
works() { "$1" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 12))' 2>/dev/null; }

if [ -n "${NEWEST_PYTHON:-}" ]; then
  works "$NEWEST_PYTHON" && { echo "$NEWEST_PYTHON"; exit 0; }
  echo "NEWEST_PYTHON=$NEWEST_PYTHON is no Python 3.12 or newer that can make virtual environments." >&2
  exit 1
fi
for version in 3.14 3.13 3.12; do
  works "python$version" && { echo "python$version"; exit 0; }
  # A shim of pyenv's on the PATH fails unless its version is the chosen one: look where the versions lie.
  for python in "${PYENV_ROOT:-$HOME/.pyenv}"/versions/$version.*/bin/python$version; do
    works "$python" && { echo "$python"; exit 0; }
  done
done
echo "The newest Django needs Python 3.12 or newer, and there is none here. Name one: make test-newest NEWEST_PYTHON=…" >&2
exit 1
