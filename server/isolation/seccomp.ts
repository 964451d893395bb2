/**
 * A seccomp filter for user code, as the classic BPF program that the kernel runs before each system call
 * (linux/seccomp.h, linux/filter.h). A denied call fails with an error number and does not kill the process, because
 * libraries try some of these calls and continue without them.
 */

export type FilteredArch = 'x64' | 'arm64'

/**
 * Denied system calls and their numbers on x86-64 and arm64; null if an architecture lacks the call. The calls reach
 * other processes, change mounts, namespaces, devices or clocks, or were used by many published exploits of the kernel
 * (bpf, io_uring, userfaultfd, keyrings, perf events).
 */
export const DENIED_CALLS: Record<string, Record<FilteredArch, number | null>> = {
  ptrace: { x64: 101, arm64: 117 },
  process_vm_readv: { x64: 310, arm64: 270 },
  process_vm_writev: { x64: 311, arm64: 271 },
  process_madvise: { x64: 440, arm64: 440 },
  pidfd_getfd: { x64: 438, arm64: 438 },
  kcmp: { x64: 312, arm64: 272 },
  mount: { x64: 165, arm64: 40 },
  umount2: { x64: 166, arm64: 39 },
  pivot_root: { x64: 155, arm64: 41 },
  chroot: { x64: 161, arm64: 51 },
  open_tree: { x64: 428, arm64: 428 },
  move_mount: { x64: 429, arm64: 429 },
  fsopen: { x64: 430, arm64: 430 },
  fsconfig: { x64: 431, arm64: 431 },
  fsmount: { x64: 432, arm64: 432 },
  fspick: { x64: 433, arm64: 433 },
  mount_setattr: { x64: 442, arm64: 442 },
  unshare: { x64: 272, arm64: 97 },
  setns: { x64: 308, arm64: 268 },
  keyctl: { x64: 250, arm64: 219 },
  add_key: { x64: 248, arm64: 217 },
  request_key: { x64: 249, arm64: 218 },
  bpf: { x64: 321, arm64: 280 },
  perf_event_open: { x64: 298, arm64: 241 },
  userfaultfd: { x64: 323, arm64: 282 },
  io_uring_setup: { x64: 425, arm64: 425 },
  io_uring_enter: { x64: 426, arm64: 426 },
  io_uring_register: { x64: 427, arm64: 427 },
  kexec_load: { x64: 246, arm64: 104 },
  kexec_file_load: { x64: 320, arm64: 294 },
  init_module: { x64: 175, arm64: 105 },
  finit_module: { x64: 313, arm64: 273 },
  delete_module: { x64: 176, arm64: 106 },
  reboot: { x64: 169, arm64: 142 },
  swapon: { x64: 167, arm64: 224 },
  swapoff: { x64: 168, arm64: 225 },
  acct: { x64: 163, arm64: 89 },
  quotactl: { x64: 179, arm64: 60 },
  quotactl_fd: { x64: 443, arm64: 443 },
  settimeofday: { x64: 164, arm64: 170 },
  clock_settime: { x64: 227, arm64: 112 },
  adjtimex: { x64: 159, arm64: 171 },
  clock_adjtime: { x64: 305, arm64: 266 },
  open_by_handle_at: { x64: 304, arm64: 265 },
  fanotify_init: { x64: 300, arm64: 262 },
  syslog: { x64: 103, arm64: 116 },
  personality: { x64: 135, arm64: 92 },
  vhangup: { x64: 153, arm64: 58 },
  lookup_dcookie: { x64: 212, arm64: 18 },
  iopl: { x64: 172, arm64: null },
  ioperm: { x64: 173, arm64: null },
  modify_ldt: { x64: 154, arm64: null },
}

/** Calls that are allowed or denied by their arguments, and `clone3`, whose arguments a filter cannot read. */
export const CHECKED_CALLS = {
  clone: { x64: 56, arm64: 220 },
  clone3: { x64: 435, arm64: 435 },
  ioctl: { x64: 16, arm64: 29 },
  socket: { x64: 41, arm64: 198 },
} as const

/** Every `CLONE_NEW…` flag of `clone`: a new namespace would give its creator capabilities inside the namespace. */
const NEW_NAMESPACES = 0x7e02_0000
/** `ioctl`s that type into a terminal: TIOCSTI, TIOCLINUX. */
const TYPING_IOCTLS = [0x5412, 0x541c]
/**
 * Address families that sockets may have: AF_UNIX, AF_INET, AF_INET6, AF_NETLINK (list of interfaces). Families like
 * AF_VSOCK ignore network namespaces.
 */
const SOCKET_FAMILIES = [1, 2, 10, 16]

const EPERM = 1
const ENOSYS = 38
const EAFNOSUPPORT = 97

/** AUDIT_ARCH_… of linux/audit.h. */
const AUDIT_ARCH: Record<FilteredArch, number> = { x64: 0xc000_003e, arm64: 0xc000_00b7 }
/** Numbers from here on are the x32 calls of x86-64, which would bypass a filter of the other numbers. */
const X32_CALLS = 0x4000_0000

/** Offsets in `struct seccomp_data` on little-endian machines. */
const NR = 0
const ARCH = 4
const argument = (index: number): number => 16 + 8 * index

/** Opcodes of linux/bpf_common.h. */
const LOAD = 0x20
const IF_EQUAL = 0x15
const IF_AT_LEAST = 0x35
const IF_ANY_BIT = 0x45
const RETURN = 0x06

const RETURN_ALLOW = 0x7fff_0000
const returnError = (errno: number): number => 0x0005_0000 | errno

/** An instruction. A jump goes to `to` if its condition holds, otherwise to the next instruction. */
interface Instruction {
  label?: string
  code: number
  k: number
  to?: string
}

export function isFilteredArch(arch: string): arch is FilteredArch {
  return Object.hasOwn(AUDIT_ARCH, arch)
}

/**
 * The filter of an architecture: an array of `struct sock_filter`, as `bwrap --seccomp` reads it. Calls of other
 * architectures and clones into new namespaces are denied; `clone3` fails as if it did not exist, so that C libraries
 * fall back to `clone`. `families`: address families that sockets may have. Socket pairs are always allowed.
 */
export function seccompFilter(arch: FilteredArch, families = SOCKET_FAMILIES): Buffer {
  const denied = Object.values(DENIED_CALLS).flatMap((numbers) => numbers[arch] ?? [])
  const checks = Object.entries(CHECKED_CALLS)
  const program: Instruction[] = [
    { code: LOAD, k: ARCH },
    { code: IF_EQUAL, k: AUDIT_ARCH[arch], to: 'native' },
    { code: RETURN, k: returnError(EPERM) },
    { label: 'native', code: LOAD, k: NR },
    ...(arch === 'x64' ? [{ code: IF_AT_LEAST, k: X32_CALLS, to: 'deny' }] : []),
    ...denied.map((k) => ({ code: IF_EQUAL, k, to: 'deny' })),
    ...checks.map(([to, numbers]) => ({ code: IF_EQUAL, k: numbers[arch], to })),
    { code: RETURN, k: RETURN_ALLOW },
    { label: 'clone3', code: RETURN, k: returnError(ENOSYS) },
    { label: 'socket', code: LOAD, k: argument(0) },
    ...families.map((k) => ({ code: IF_EQUAL, k, to: 'allow' })),
    { code: RETURN, k: returnError(EAFNOSUPPORT) },
    { label: 'ioctl', code: LOAD, k: argument(1) },
    ...TYPING_IOCTLS.map((k) => ({ code: IF_EQUAL, k, to: 'deny' })),
    { code: RETURN, k: RETURN_ALLOW },
    { label: 'clone', code: LOAD, k: argument(0) },
    { code: IF_ANY_BIT, k: NEW_NAMESPACES, to: 'deny' },
    { label: 'allow', code: RETURN, k: RETURN_ALLOW },
    { label: 'deny', code: RETURN, k: returnError(EPERM) },
  ]
  return assemble(program)
}

function assemble(program: Instruction[]): Buffer {
  const bytes = Buffer.alloc(8 * program.length)
  for (const [at, { code, k, to }] of program.entries()) {
    const distance = to === undefined ? 0 : program.findIndex(({ label }) => label === to) - at - 1
    bytes.writeUInt16LE(code, 8 * at)
    // Throws for a jump backwards or beyond 255 instructions, which the kernel would refuse.
    bytes.writeUInt8(distance, 8 * at + 2)
    bytes.writeUInt32LE(k, 8 * at + 4)
  }
  return bytes
}
