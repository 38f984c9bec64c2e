#!/bin/sh
# For the Dockerfile, in the application's folder: collects static files and compiles what the roles load.
#   application.sh VENV
set -eu
python manage.py collectstatic --no-input --verbosity 0
PYTHONPATH=. python image/compile.py
find staticfiles -name '*.map' -delete # only for debugging others' scripts
# Collected by now; static files are only served from there.
packages=$(python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
case "$packages" in "$1"/*) rm -r "$packages"/django/contrib/admin/static ;; esac
