# Sourced by tools/test and tools/demo: what Debian packages are needed, and how to get them. Of "a|b" one is enough.

BUILD_PACKAGES=(meson ninja-build gcc clang pkg-config libelf-dev libdw-dev libzstd-dev zlib1g-dev libbz2-dev
  libcmocka-dev libseccomp-dev libcap-ng-dev libiberty-dev liblzma-dev libunwind-dev)
PERF="linux-perf|linux-tools-$(uname -r)|linux-tools-generic" # Debian's name and Ubuntu's, of its kernels
TEST_PACKAGES=("$PERF" strace binutils elfutils dwz "libdebuginfod1|libdebuginfod1t64" xz-utils zsh fish python3 python3-venv
  python3-dev)

# Ubuntu's perf is a script that looks for a program of the kernel that runs: while it finds none, another kernel's package
# is not enough where apt knows this one's.
missing_packages() {
  local package enough
  for package in "$@"; do
    enough=$package
    [ "$package" != "$PERF" ] || perf version >/dev/null 2>&1 || enough=$(first_known "$package")
    # shellcheck disable=SC2086
    [[ $(dpkg-query -W -f='${Status}' ${enough//|/ } 2>/dev/null) == *"ok installed"* ]] || echo "$package"
  done
}

# first_known "a|b"...: of each the first that apt can install; where there is none the first, which apt then names.
first_known() {
  local package name
  for package in "$@"; do
    for name in ${package//|/ }; do
      [[ $(LC_ALL=C apt-cache policy "$name") == *"Candidate: "[!\(]* ]] && break
      name=${package%%|*}
    done
    echo "$name"
  done
}

# apt ARGUMENT...: waits while another program installs, as a fresh machine's own updates do.
apt() {
  local error
  for _ in {1..120}; do
    error=$(LC_ALL=C "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q "$@" 2>&1 >/dev/null) && return
    [[ $error == *"Could not get lock"* ]] || break
    sleep 5
  done
  echo "$error" >&2
  return 1
}

say_other_systems() {
  cat >&2 <<'END'
There is no apt-get here. Install these by hand, then run this again (it needs glibc, so not on Alpine):
  dnf:    meson ninja-build gcc clang pkgconf elfutils-libelf-devel elfutils-devel libzstd-devel zlib-devel
          libcmocka-devel libseccomp-devel libcap-ng-devel binutils-devel xz-devel libasan libubsan libtsan
          perf strace binutils elfutils zsh fish python3-devel python3-jinja2
  pacman: meson ninja gcc clang pkgconf libelf zstd zlib cmocka libseccomp libcap-ng xz perf strace binutils
          elfutils zsh fish python python-jinja
Set PYSAMPLED_NO_INSTALL=1 once they are there.
END
}

# Installs those of the named packages that are not there yet.
install_packages() {
  [ -n "${PYSAMPLED_NO_INSTALL:-}" ] && return 0
  if ! command -v apt-get >/dev/null; then
    say_other_systems
    return 1
  fi
  local missing as_root=()
  missing=$(missing_packages "$@")
  [ -z "$missing" ] && return 0
  [ "$(id -u)" -eq 0 ] || as_root=(sudo)
  apt update || return 1
  # shellcheck disable=SC2046,SC2086
  set -- $(first_known $missing)
  echo "installing: $*"
  apt install -y --no-install-recommends "$@"
}

# install_readers FOLDER: programs that read our files, for the suite `consumers`. One that can't be had is skipped there.
install_readers() {
  [ -n "${PYSAMPLED_NO_INSTALL:-}" ] && return
  install_packages hotspot chromium
  if command -v cargo >/dev/null; then
    cargo install --quiet --root "$1" samply inferno
  fi
  if command -v npm >/dev/null; then
    npm install --silent --no-audit --no-fund --prefix "$1" speedscope
  fi
  PATH+=:$PWD/$1/bin
  export PYSAMPLED_SPEEDSCOPE=$PWD/$1/node_modules/speedscope/dist/release
}
