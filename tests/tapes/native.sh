#!/bin/sh
# Make the files that native.tape is played with below folder ROOT, by native.sh ROOT: opt/native.so,
# whose functions have the same bytes at the same places with each compiler.
set -eu
mkdir -p "$1/opt"
exec "${CC:-cc}" -shared -nostdlib -Wl,--build-id=none,-z,separate-code,-Ttext=0x1000,--eh-frame-hdr \
	-o "$1/opt/native.so" "$(dirname "$0")/native.S"
