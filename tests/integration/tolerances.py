"""What tests forgive, and why. Nothing here forgives a wrong stack or harm: of these there is none.

A share is of all samples of a recording, unless it says of which.
"""

# ---- how many are exact at least: harness.enough, since others on the machine may keep the readers from running ----------

EXACT = 0.99  # a reader was late: the host took its CPU, or its CPU's interrupts were off
EXACT_BESIDE = 0.97  # another recording, or a CPU that comes back, adds switches at the same moment
EXACT_STOP = 0.95  # a thread that begins or ends while it is stopped is late
EXACT_SIGNALLED = 0.9  # other signals and the hold budget end stops early
EXACT_CHILDREN = 0.8  # of samples in children that live for milliseconds; also of blocking calls at 10 kHz
READER_WITHOUT_CPU = 0.8  # pysampled itself said that a reader got no CPU
EXACT_BUDGET = 0.1  # a real-time budget of next to nothing
UNSURE_BESIDE_HOSTILE = 0.01  # late or torn, beside a process whose reads hang

# ---- how many are torn: they say so, and their stacks are not believed ------------------------------------------------

TORN_AT_ENTRY = 0.0005  # a sample on the one instruction at which a frame is neither the old nor the new one
TORN_MOVING = 0.02  # programs made to be in that state, subinterpreters and finalization
TORN_AT_EXEC = 0.03  # samples inside exec(2) have no memory to be read
TORN_SERVER = 0.01  # a thread that is being handed another thread's state

# ---- native frames: how many may end early with a mark that says why; without a mark none may ---------------------------

MARKED = {
    "order": 0.001,  # a stack deeper than what is read of it while all queues are full
    "plain": 0.001, "deep": 0.001, "vdso": 0.001,  # a return address in the middle of a change of the stack pointer
    "crypto": 0.02,  # assembly of libcrypto without unwind information
    "blas": 0.005,  # OpenBLAS's assembly, where even a guess finds nothing
    "greenlets": 0.01,  # a switch of stacks is assembly without unwind information
    "maps": 0.01, "large": 0.01, "libunwind": 0.01,
    "perf": 0.0,
}
SAME_AS_PEERS = 99.9  # percent; libunwind and libdwfl guess where we stop, and the other way round
PEERS_END = 90  # percent of samples that a peer must come to an end on to be compared

# ---- where samples may lie that a test says nothing of ------------------------------------------------------------------

OUTSIDE_LEAF = 0.1  # in Python's loop that calls the function, or in the kernel above it
JUDGED = 0.3  # of the exact ones; the others lie in the interpreter's own code
NO_PYTHON = 0.05  # threads that begin or end

# ---- counts of the kernel's clocks, which a hypervisor and other processes disturb --------------------------------------

LOST = 0.01  # rings are as large as they are
COUNTED = 0.95  # of the samples that CPU time asks for: timers are late when the host takes the CPU away
BALANCE = 0.94, 1.2  # samples and told losses, of those that CPU time asks for: clocks count what a hypervisor takes, too
