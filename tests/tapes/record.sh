#!/usr/bin/env bash
# Record a tape from target.py: record.sh PYSAMPLED REPLAY NAME PYTHON [ARG...]
# writes NAME.tape and NAME.expect beside this script. The target is compiled under its bare
# name, so that the tape holds no path of the machine.
set -eu
pysampled=$(realpath "$1") replay=$(realpath "$2") name=$3
shift 3
cd "$(dirname "$0")"
exec 3< <(exec "$@" -c "exec(compile(open('target.py').read(), 'target.py', 'exec'))")
target=$!
trap 'kill "$target"' EXIT
read -r -u 3 _
"$pysampled" -q -p "$target" --no-native --no-kernel -F 99 -d 3 -o "$name.tape"
"$replay" "$name.tape" > "$name.expect"
wc -l "$name.expect"
