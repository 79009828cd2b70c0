"""Emulated machines, made of Debian packages only and kept in the build folder.

A guest of another architecture has a root of its own, which also is what we build against; one of this architecture has
the root of this machine and only another kernel. Both roots are read-only and shared by 9p, as is the folder of the
repository, which is seen in the guest under its own path and can be written. With icount QEMU counts one instruction as
a fixed time: a recording is then as good as the same each time, however busy this machine is.
"""
import glob
import os
import re
import shlex
import shutil
import subprocess
from typing import NamedTuple

import harness

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
HOST_PACKAGES = {"mmdebstrap": "mmdebstrap", "cpio": "cpio", "depmod": "kmod", "xz": "xz-utils"}
KERNEL_PACKAGES = ["busybox-static"]
ROOT_PACKAGES = ["base-files", "bash", "dash", "coreutils", "grep", "util-linux", "mount", "procps", "python3", "linux-perf",
                 "libc6-dev", "python3-dev", "libelf-dev", "libdw-dev", "libzstd-dev", "zlib1g-dev", "liblzma-dev",
                 "libseccomp-dev", "libiberty-dev", "libcmocka-dev", "gcc", "meson", "pkgconf", "strace", "xz-utils"]
# Mirrors have them at different times for different architectures.
NO_UPDATES = 'sed -i "/^deb [^ ]* [a-z]*-/d" "$1/etc/apt/sources.list"'
MODULES = ["virtio_pci", "9pnet_virtio", "9p"]
SHARE = "-o trans=virtio,version=9p2000.L,msize=262144"
INITRD = """#!/bin/busybox sh
b=/bin/busybox
$b mount -t proc proc /proc
while read module; do $b insmod /modules/$module; done < /modules/order
repo=$($b tr ' ' '\\n' < /proc/cmdline | $b sed -n s/^repo=//p)
guest=$($b tr ' ' '\\n' < /proc/cmdline | $b sed -n s/^guest=//p)
$b mount -t 9p %(share)s,cache=loose,ro root /new
$b mount -t proc proc /new/proc
$b mount -t sysfs sys /new/sys
$b mount -t devtmpfs dev /new/dev
$b mkdir -p /new/dev/shm /new/dev/pts
$b mount -t devpts pts /new/dev/pts
$b mount -t tracefs tracing /new/sys/kernel/tracing
for folder in dev/shm tmp run; do $b mount -t tmpfs tmp /new/$folder; done
$b mkdir -p "/new$repo"
$b mount -t 9p %(share)s,cache=mmap repo "/new$repo" || echo "guest: no repository"
$b ip link set lo up
$b stty -F /new/dev/console -opost
$b umount /proc
exec $b switch_root /new /bin/sh "$guest/init"
""" % {"share": SHARE}
BEGIN = "guest: begin"  # before it firmware speaks
INIT = """export PATH=%(path)s HOME=/root LANG=C.UTF-8 TERM=dumb
cd "%(repo)s"
echo %(begin)s
setsid sh "%(guest)s/command" < /dev/null
echo $? > "%(guest)s/status"
sync
echo o > /proc/sysrq-trigger
while :; do :; done
"""
# The interval timer of a PC counts on by itself, so each of its periods ends the turn of a CPU that emulates.
PIT_HZ = 1193182
TURNS = """port() { printf "\\\\$(printf %%o $2)" | dd of=/dev/port bs=1 seek=$(($1)) conv=notrunc status=none; }
port 0x43 0x34; port 0x40 %d; port 0x40 %d
"""


class Missing(Exception):
    """The guest can't be had; the text says why."""


class Machine(NamedTuple):
    """What differs between guests. triplet: the compiler's; one without has the root of this machine."""
    name: str
    arch: str
    suite: str
    kernel: str
    package: str
    qemu: list
    cpu: str
    console: str
    triplet: str = ""

    def packages(self):
        return KERNEL_PACKAGES + [self.kernel] + (ROOT_PACKAGES if self.triplet else [])


ARM64 = Machine("arm64", "arm64", "trixie", "linux-image-arm64", "qemu-system-arm",
                ["qemu-system-aarch64", "-M", "virt,gic-version=3"], "cortex-a72", "ttyAMA0", "aarch64-linux-gnu")
RISCV64 = Machine("riscv64", "riscv64", "trixie", "linux-image-riscv64", "qemu-system-misc",
                  ["qemu-system-riscv64", "-M", "virt"], "rv64,sscofpmf=true", "ttyS0", "riscv64-linux-gnu")
OLDER = [Machine("linux-" + version, "amd64", suite, "linux-image-amd64", "qemu-system-x86",
                 ["qemu-system-x86_64", "-M", "q35"], "max,la57=off", "ttyS0")
         for version, suite in (("5.10", "bullseye"), ("6.1", "bookworm"), ("6.12", "trixie"))]


class Guest:
    """Files of a guest: kernel, initrd, root (also what we build against)."""

    def __init__(self, machine):
        self.machine = machine
        self.folder = os.path.join(ROOT, "build", "envs", machine.name)
        self.root = self.path("root")

    def path(self, name):
        return os.path.join(self.folder, name)

    def make(self):
        """Once for these packages; raises Missing."""
        self.install()
        packages = ",".join(self.machine.packages())
        if self.made_of() == packages:
            return
        if os.geteuid() != 0:
            raise Missing("unpacking a root file system needs root")
        shutil.rmtree(self.folder, ignore_errors=True)
        os.makedirs(self.folder)
        self.unpack(packages)
        self.make_initrd()
        self.clean()
        with open(self.path("complete"), "w") as out:
            out.write(packages)

    def made_of(self):
        try:
            with open(self.path("complete")) as file:
                return file.read()
        except FileNotFoundError:
            return None

    def install(self):
        """The programs of this machine that it takes."""
        wanted = dict(HOST_PACKAGES, **{self.machine.qemu[0]: self.machine.package})
        if self.machine.triplet:
            wanted[self.machine.triplet + "-gcc"] = "gcc-" + self.machine.triplet
        packages = [package for program, package in wanted.items() if not shutil.which(program)]
        harness.install(packages)
        missing = [package for program, package in wanted.items() if not shutil.which(program)]
        if missing:
            raise Missing("not installed: " + " ".join(missing))

    def unpack(self, packages):
        run("mmdebstrap", "--quiet", "--arch=" + self.machine.arch, "--variant=extract", "--include=" + packages,
            "--aptopt=APT::Install-Recommends \"false\"", "--dpkgopt=path-exclude=/usr/share/doc/*",
            "--setup-hook=" + NO_UPDATES, self.machine.suite, self.root)
        for name in ("bin", "lib"):
            if not os.path.lexists(os.path.join(self.root, name)):
                os.symlink("usr/" + name, os.path.join(self.root, name))

    def make_initrd(self):
        """The kernel, and what it needs to come to its root."""
        release, = os.listdir(self.root + "/lib/modules")
        kernel, = glob.glob(self.root + "/boot/vmlinu[xz]-*")
        shutil.copy(kernel, self.path("vmlinuz"))
        run("depmod", "-b", self.root, release)
        tree = self.path("initrd")
        for name in ("bin", "dev", "proc", "new", "modules"):
            os.makedirs(os.path.join(tree, name))
        shutil.copy(self.root + "/bin/busybox", tree + "/bin/busybox")
        with open(tree + "/modules/order", "w") as order:
            for path in self.modules(release):
                name = os.path.basename(path).removesuffix(".xz")
                with open(os.path.join(tree, "modules", name), "wb") as out:
                    subprocess.run(["xz", "-dc", path] if path.endswith(".xz") else ["cat", path], stdout=out, check=True)
                order.write(name + "\n")
        with open(tree + "/init", "w") as out:
            out.write(INITRD)
        os.chmod(tree + "/init", 0o755)
        with open(self.path("initrd.gz"), "wb") as out:
            subprocess.run("find . | cpio -o -H newc --quiet | gzip -1", shell=True, cwd=tree, stdout=out, check=True)
        shutil.rmtree(tree)

    def modules(self, release):
        """Paths, each behind those it needs."""
        paths = []
        for name in MODULES:
            shown = run("modprobe", "-d", self.root, "-S", release, "--show-depends", name)
            for line in shown.splitlines():
                word, _, path = line.strip().partition(" ")
                if word == "insmod" and path not in paths:
                    paths.append(path)
        return paths

    def clean(self):
        """What the guest's root still lacks, and without what nobody needs."""
        if not self.machine.triplet:
            shutil.rmtree(self.root)
            return
        for name in ("boot", "var/cache/apt", "var/lib/apt/lists", "usr/lib/modules", "usr/share/locale", "usr/share/man"):
            shutil.rmtree(os.path.join(self.root, name), ignore_errors=True)
        for name in ("proc", "sys", "dev", "tmp", "run", "root"):
            os.makedirs(os.path.join(self.root, name), exist_ok=True)
        for name, text in (("passwd", "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534::/:/bin/false\n"),
                           ("group", "root:x:0:\nnogroup:x:65534:\n")):
            with open(os.path.join(self.root, "etc", name), "w") as out:
                out.write(text)
        for name, program in (("cc", "gcc"), ("awk", "mawk")):  # as the packages' scripts would
            os.symlink(program, os.path.join(self.root, "usr/bin", name))

    def run(self, script, line, shift=3, cpu=None, cpus=1, turn_us=None, limit=1500):
        """Boots, runs a shell script in the repository as root and calls line() with each line that it prints. Its
        status, None if it never ended. shift: an instruction takes 2**shift virtual nanoseconds; None: as long as it
        does, which is faster and uses several CPUs. turn_us: of a PC, no CPU executes longer while others wait; else it
        may be as long as no timer of any is due, which is milliseconds."""
        status = self.path("status")
        if os.path.exists(status):
            os.unlink(status)
        path = "/usr/local/bin:/usr/bin:/usr/sbin:/bin:/sbin" if self.machine.triplet else os.environ["PATH"]
        init = INIT % {"path": shlex.quote(path), "repo": ROOT, "guest": self.folder, "begin": BEGIN}
        if turn_us:
            script = TURNS % divmod(round(turn_us * PIT_HZ / 1e6), 256)[::-1] + script
        for name, text in ("command", script), ("init", init):
            with open(self.path(name), "w") as out:
                out.write(text)
        if self.machine.triplet:
            os.makedirs(self.root + ROOT, exist_ok=True)
        machine = subprocess.Popen(self.command(shift, cpu or self.machine.cpu, cpus, turn_us, limit), stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE)
        begun = False
        try:
            for text in machine.stdout:
                text = text.decode(errors="replace").replace("\r", "")
                if begun and not re.match(r"\[ *[\d.]+\] (sysrq: Power Off|reboot: Power down)", text):
                    line(text)
                begun |= text == BEGIN + "\n"
        finally:
            machine.kill()
            machine.wait()
        if not os.path.exists(status):
            return None
        with open(status) as file:
            return int(file.read())

    def command(self, shift, cpu, cpus, turn_us, limit):
        root = self.root if self.machine.triplet else "/"
        pit = ["-machine", "hpet=off"] if turn_us else []  # the other timer takes its place
        time = ["-icount", "shift=%d,sleep=on" % shift] if shift is not None else []
        return [
            "timeout", "-k", "5", str(limit), *self.machine.qemu, *pit, "-accel", "tcg", *time, "-cpu", cpu, "-smp", str(cpus),
            "-m", "3072", "-nodefaults",
            "-display", "none", "-no-reboot", "-serial", "stdio",
            "-kernel", self.path("vmlinuz"), "-initrd", self.path("initrd.gz"),
            "-append", "console=%s quiet loglevel=1 panic=-1 mitigations=off nokaslr repo=%s guest=%s"
            % (self.machine.console, ROOT, self.folder),
            "-virtfs", "local,path=%s,mount_tag=root,security_model=none,multidevs=remap,readonly=on" % root,
            "-virtfs", "local,path=%s,mount_tag=repo,security_model=none,multidevs=remap" % ROOT]


def run(*command):
    """Its output; raises Missing."""
    made = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if made.returncode != 0:
        raise Missing("%s failed: %s" % (command[0], " ".join(made.stderr.split())[-300:]))
    return made.stdout
