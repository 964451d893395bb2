"""Starts a process in new user, PID, mount, IPC and UTS namespaces, and gives up every privilege in them."""

import ctypes
import fcntl
import os
import platform
import resource
import signal
import sys

_NEW_NAMESPACES = 0x10000000 | 0x20000000 | 0x00020000 | 0x08000000 | 0x04000000
_CLONE_CHILD_CLEARTID = 0x00200000
_CLONE_CHILD_SETTID = 0x01000000
_CLONE_NUMBER = {"x86_64": 56, "aarch64": 220}[platform.machine()]

_PR_SET_PDEATHSIG = 1
_PR_SET_SECCOMP = 22
_PR_CAPBSET_DROP = 24
_PR_SET_NO_NEW_PRIVS = 38
_PR_GET_TID_ADDRESS = 40
_SECCOMP_MODE_FILTER = 2
_MS_RDONLY, _MS_NOSUID, _MS_NODEV, _MS_NOEXEC = 1, 2, 4, 8

# Like `os.fork`, PyDLL does not release the interpreter's lock during a call.
_libc = ctypes.PyDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long

# Size of /tmp and of /dev/shm, which are in memory, and number of files in each.
TMP_BYTES = 64 * 1024 * 1024
SHM_BYTES = 16 * 1024 * 1024
MAX_FILES = 4_096


def _check(result, what):
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def _tid_address():
    """Address of the C library's copy of the thread id, which changes in a new PID namespace; 0 if it is unknown."""
    address = ctypes.c_void_p()
    found = _libc.prctl(_PR_GET_TID_ADDRESS, ctypes.byref(address), 0, 0, 0) == 0
    return address.value or 0 if found else 0


def fork_into_namespaces():
    """
    Like `os.fork`, but the child is process 1 of a new PID namespace: its end ends all processes in it. One call of
    `clone` replaces an `unshare`, a fork and a process that waits.
    """
    address = _tid_address()
    flags = _NEW_NAMESPACES | signal.SIGCHLD
    if address:
        flags |= _CLONE_CHILD_SETTID | _CLONE_CHILD_CLEARTID
    # The order of the last two arguments of `clone` differs: x86-64 takes `address` before `tls`, arm64 after it.
    tail = (address, 0) if platform.machine() == "x86_64" else (0, address)
    arguments = [ctypes.c_long(one) for one in (_CLONE_NUMBER, flags, 0, 0, *tail)]
    uid, gid = os.getuid(), os.getgid()
    ctypes.pythonapi.PyOS_BeforeFork()
    pid = _libc.syscall(*arguments)
    if pid != 0:
        ctypes.pythonapi.PyOS_AfterFork_Parent()
        return _check(pid, "clone")
    ctypes.pythonapi.PyOS_AfterFork_Child()
    # Without a new session, a signal to the process group would reach processes outside the PID namespace.
    os.setsid()
    _check(_libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0), "prctl")
    for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)
    return 0


def _mount(kind, target, flags, data=None):
    result = _libc.mount(kind, target.encode(), kind, flags, data)
    _check(result, f"mount {target}")


def mount_own_folders(hidden):
    """Mounts an empty /tmp and /dev/shm, and /proc of the new PID namespace. Hides the folders in `hidden`."""
    flags = _MS_NOSUID | _MS_NODEV
    _mount(b"proc", "/proc", flags | _MS_NOEXEC)
    for folder in hidden:
        _mount(b"tmpfs", folder, flags | _MS_NOEXEC | _MS_RDONLY, b"size=4k,nr_inodes=1,mode=0")
    for folder, size in (("/tmp", TMP_BYTES), ("/dev/shm", SHM_BYTES)):
        _mount(b"tmpfs", folder, flags, f"size={size},nr_inodes={MAX_FILES},mode=1777".encode())
    os.chdir("/tmp")


class _Instructions(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_void_p)]


def give_up_privileges(seccomp_filter):
    """Drops all capabilities and loads the filter of system calls. Neither can be undone."""
    for capability in range(64):
        if _libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0) != 0:
            break
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)
    none = (ctypes.c_uint32 * 6)()
    _check(_libc.capset(header, none), "capset")
    _check(_libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "prctl")
    data = ctypes.create_string_buffer(seccomp_filter, len(seccomp_filter))
    program = _Instructions(len(seccomp_filter) // 8, ctypes.addressof(data))
    _check(_libc.prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.byref(program), 0, 0), "seccomp")


def set_limits(limits, base_bytes):
    """
    Sets the limits that the kernel enforces for each process. The process limit applies to the whole run, because the
    kernel counts processes per user namespace, and the CPU time is that of all cases together. `base_bytes`: address
    space of the interpreter itself.
    """
    cpu_s = limits["totalCpuS"]
    memory = limits["memoryBytes"] + base_bytes
    for kind, value in (
        (resource.RLIMIT_CPU, cpu_s),
        (resource.RLIMIT_AS, memory),
        (resource.RLIMIT_FSIZE, TMP_BYTES),
        (resource.RLIMIT_NOFILE, 256),
        (resource.RLIMIT_NPROC, limits["processes"]),
        (resource.RLIMIT_CORE, 0),
    ):
        hard = resource.getrlimit(kind)[1]
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(kind, (value, value))


def memory_bytes():
    """Address space and resident memory of this process, bytes."""
    with open("/proc/self/statm") as file:
        return tuple(int(pages) * resource.getpagesize() for pages in file.read().split()[:2])


def keep_descriptors(*kept):
    """Makes `kept` the descriptors 0, 1, 2 …, closes all others, and opens the standard streams on the first three."""
    # Each descriptor is first moved above all targets, so that none is overwritten before it is moved.
    moved = [fcntl.fcntl(fd, fcntl.F_DUPFD, 64) for fd in kept]
    for target, fd in enumerate(moved):
        os.dup2(fd, target)
    os.closerange(len(kept), 4_096)
    sys.stdin = sys.__stdin__ = open(0, encoding="utf-8", closefd=False)
    sys.stdout = sys.__stdout__ = open(1, "w", encoding="utf-8", closefd=False)
    sys.stderr = sys.__stderr__ = open(
        2, "w", encoding="utf-8", errors="backslashreplace", closefd=False, buffering=1
    )
