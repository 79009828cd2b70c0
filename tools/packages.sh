# Sourced by tools/test and tools/demo: what Debian packages are needed, and how to get them.

BUILD_PACKAGES=(meson ninja-build gcc clang pkg-config libelf-dev libdw-dev libzstd-dev zlib1g-dev libbz2-dev
  libcmocka-dev libseccomp-dev libcap-ng-dev libiberty-dev liblzma-dev libunwind-dev)
TEST_PACKAGES=(linux-perf strace binutils elfutils libdebuginfod1 xz-utils zsh fish python3 python3-venv python3-dev)

missing_packages() {
  local package
  for package in "$@"; do
    dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || echo "$package"
  done
}

say_other_systems() {
  cat >&2 <<'END'
There is no apt-get here. Install these by hand, then run this again:
  dnf:    meson ninja-build gcc clang pkgconf elfutils-libelf-devel elfutils-devel libzstd-devel zlib-devel
          libcmocka-devel libseccomp-devel libcap-ng-devel binutils-devel xz-devel perf strace binutils
          python3-devel python3-jinja2
  apk:    meson ninja gcc clang musl-dev pkgconf elfutils-dev zstd-dev zlib-dev cmocka-dev libseccomp-dev
          libcap-ng-dev binutils-dev xz-dev perf strace binutils python3-dev py3-jinja2
  pacman: meson ninja gcc clang pkgconf libelf zstd zlib cmocka libseccomp libcap-ng xz perf strace binutils
          python python-jinja
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
  echo "installing:" $missing
  "${as_root[@]}" apt-get update -q >/dev/null || return 1
  # shellcheck disable=SC2086
  DEBIAN_FRONTEND=noninteractive "${as_root[@]}" apt-get install -q -y --no-install-recommends $missing >/dev/null
}
