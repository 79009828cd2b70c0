#!/usr/bin/env bash
# Record a tape: record.sh PYSAMPLED REPLAY NAME PREFIX SECONDS "PROGRAM [ARG]" [OPTION...]
# writes NAME.tape and NAME.expect beside this script, of PROGRAM (target.py, lives.py) run by
# the Python below PREFIX. As root. So that a tape holds no path of the machine, the target sees
# that Python as /opt/python and is compiled under its bare name.
set -eu
pysampled=$(realpath "$1") replay=$(realpath "$2") name=$3 prefix=$(realpath "$4") seconds=$5
read -r program args <<< "$6"
shift 6
cd "$(dirname "$0")"
exec 3< <(exec unshare -m bash -c "mount -t tmpfs none /opt && mkdir /opt/python && ./native.sh / &&
	mount --bind '$prefix' /opt/python && exec env -i LD_LIBRARY_PATH=/opt/python/lib /opt/python/bin/python3 -I -S -c \
	\"exec(compile(open('$program').read(), '$program', 'exec'))\" $args")
target=$!
trap 'kill "$target"' EXIT
read -r -u 3 _
"$pysampled" -p "$target" --no-kernel -d "$seconds" -o "$name.tape" "$@"
zstd -dqc "$name.tape" | zstd -19q -o "$name.tape.packed"
mv "$name.tape.packed" "$name.tape"
files=()
if [ -e "$name.sh" ]; then
	root=$(mktemp -d)
	trap 'kill "$target"; rm -r "$root"' EXIT
	"./$name.sh" "$root"
	files=(--files "$root")
fi
"$replay" "${files[@]}" "$name.tape" > "$name.expect"
