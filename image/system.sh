#!/bin/sh
# For the Dockerfile, in the plain base image: removes what installs, unpacks and converts, which no role needs.
set -eu
python=$(python -c 'import sysconfig; print(sysconfig.get_path("stdlib"))')
python -m compileall -q -x 'lib2to3|site-packages|dist-packages|test|idlelib' "$python" || :
for packages in "$python/site-packages" "${python%/*}/dist-packages" /usr/lib/python3/dist-packages; do
    for name in pip setuptools pkg_resources wheel _distutils_hack; do rm -rf "$packages/$name" "$packages/$name"-*; done
done
rm -rf "$python/ensurepip" "$python/lib2to3" "$python/idlelib" "$python/pydoc_data" "$python/turtledemo" \
    /usr/share/python-wheels /usr/local/bin/pip* /usr/bin/pip* \
    /usr/share/doc /usr/share/info /usr/share/man /usr/share/locale /usr/share/perl* /usr/share/bash-completion \
    /usr/bin/perl* /usr/lib/*/perl-base /usr/lib/*/gconv /usr/lib/apt /usr/bin/apt* /usr/lib/*/libapt-*.so* \
    /var/lib/apt /var/cache/apt /var/cache/debconf /var/log/*
