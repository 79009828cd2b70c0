/* SPDX-License-Identifier: MIT
 *
 * tape - everything that came in from outside, kept to be played again.
 *
 * A tape is golden fixture, fuzz seed, bug report and benchmark input. It holds the bytes of
 * the perf rings as each reader took them, what each reader asked the system for and was
 * told, the remote reads with the failed ones, and what was judged. The file is one zstd
 * stream:
 *
 *   magic "PYSTAPE2", then chunks: u32 type, u32 n, n bytes, padded to 8.
 *
 * A chunk is a row of fields: u16 tag, u16 0, u32 n, n bytes, padded to 8 but for the last. A
 * number is 8 bytes; the bytes of a perf record are as the kernel wrote them, which is the
 * kernel's ABI. All is little-endian. No struct of ours lies on a tape: an unknown chunk or
 * field is skipped, a missing field has its default, so old tapes play in new versions and
 * new ones in old. Numbers of types and tags are never used again.
 *
 * A tape may be cut anywhere: what is whole plays.
 */
#ifndef TAPE_H
#define TAPE_H

#include <stdbool.h>
#include <stdio.h>

#include "base/base.h"
#include "base/err.h"
#include "sample/sample.h"

#define TAPE_MAGIC "PYSTAPE2"
enum { TAPE_WINDOW_LOG = 24 }; /* memory that a hostile stream may ask for */

/* What a chunk says. "At @TIME" orders the chunks of all CPUs. */
enum tape_type {
	TAPE_EVENT = 16, /* event @INDEX of the session */
	TAPE_SETTINGS,	 /* of the recording, the same for all readers */
	TAPE_SLOT,	 /* a CPU that is watched and its ring */
	TAPE_RING,	 /* what the ring of @SLOT holds from @POS on */
	TAPE_DRAIN,	 /* at @TIME the reader of @SLOT takes its ring up to @HEAD */
	TAPE_LOOK,	 /* the reader looked through other rings too, up to @HEADS */
	TAPE_ANSWER,	 /* it was told @VALUE about @KEY by @WHAT (enum tap_answer) */
	TAPE_READ,	 /* it read @N bytes at @AT of @PID: @BYTES, or error @CODE */
	TAPE_TARGET,	 /* what is known of process @PID from @TIME on */
	TAPE_EVENT_ID,	 /* records with @KEY are of event @INDEX */
	TAPE_SIDE,	 /* a record of our own making about what was before */
	TAPE_JUDGED,	 /* the reader of @SLOT queued a sample; ends its story */
	TAPE_WALK_READ, /* of a tape of the walk alone: the walk reads */
	TAPE_WALK,	/* of a tape of the walk alone: the walk ends */
	/* What outputs got, with its names; replay passes over these. Numbers go up by one. */
	TAPE_TEXT,     /* text @INDEX is @BYTES */
	TAPE_FUNC,     /* Python function @INDEX: texts @FUNC_NAME and @FUNC_FILE, and lines */
	TAPE_STACK,    /* stack @INDEX is @BYTES, four u32 a frame: enum frame_kind, number of
			* a function or text (UINT32_MAX: none), line, and a text: the mapped
			* file that native code is of (UINT32_MAX: not known) */
	TAPE_HAPPENED, /* at @TIME @WHAT (enum side_kind) befell @TID of @PID */
	TAPE_SAMPLE,   /* at @TIME, of stack @STACK_INDEX; or @BYTES are its stack */
	/* What only a perf.data needs. */
	TAPE_TOLD,	/* behind all events: session.told; @N: session.shown */
	TAPE_ADDRESSES, /* @BYTES, u64 each: of the next sample's kernel and native frames */
	TAPE_ROUND,	/* all that was given up to here is complete */
};

enum tape_tag {
	TAPE_SLOT_INDEX = 1,
	TAPE_TIME,
	TAPE_PID,
	TAPE_TID,
	TAPE_POS,
	TAPE_HEAD,
	TAPE_HEADS, /* u64 for each slot */
	TAPE_WHAT,  /* enum tap_look, enum tap_answer */
	TAPE_KEY,
	TAPE_VALUE,
	TAPE_AT,
	TAPE_N,
	TAPE_CODE, /* -errno, as a positive number */
	TAPE_BYTES,
	TAPE_INDEX,
	TAPE_NAME,
	TAPE_ATTR, /* struct perf_event_attr, as long as it was */
	TAPE_HOW,  /* bits: enum tape_how */
	TAPE_LEADER,
	TAPE_CAPTURE,
	TAPE_ARCH,
	TAPE_FLAGS, /* enum session_flags */
	TAPE_SET,   /* bits: enum tape_settings */
	TAPE_SAMPLE_TYPE,
	TAPE_STACK_BYTES,
	TAPE_MAX_FRAMES,
	TAPE_CHILD,
	TAPE_TIDS, /* u32 each */
	TAPE_CAP_SLOTS,
	TAPE_CPU,
	TAPE_WATCHED,
	TAPE_WOKE,
	TAPE_START,
	TAPE_END,
	TAPE_OVER,
	TAPE_BLIND,
	TAPE_DRAINING, /* bits: enum tape_draining */
	TAPE_PROGRAM,
	TAPE_STATE, /* a name */
	TAPE_BEGUN,
	TAPE_NONE,
	TAPE_IS, /* bits: enum tape_target_bits */
	TAPE_FORKER,
	TAPE_VERSION, /* PY_VERSION_HEX */
	TAPE_RUNTIME,
	TAPE_CODE_VERSIONS,
	TAPE_ROOT,
	TAPE_LAYOUT,	 /* text: lines of name=offset */
	TAPE_INNER_TIDS, /* (older versions) u32 pairs: outer, inner */
	TAPE_CODE_AT,
	TAPE_CODE_NUMBER,
	TAPE_FILE_MAJ,
	TAPE_FILE_MIN,
	TAPE_FILE_INO,
	TAPE_FILE_PGOFF,
	TAPE_FILE_AT,
	TAPE_BUILD_ID,
	TAPE_BUILD_ID_AT,
	TAPE_PROV, /* a name, enum provenance's */
	TAPE_EVENT_INDEX,
	TAPE_REGS, /* u64 each */
	TAPE_LOOKED,
	TAPE_NAMED, /* not 0: samples of this event are also there as TAPE_SAMPLE */
	TAPE_FUNC_NAME,
	TAPE_FUNC_FILE,
	TAPE_LINE_FIRST, /* co_firstlineno */
	TAPE_LINE_MIN,
	TAPE_LINE_MAX,
	TAPE_PERIOD,
	TAPE_STACK_INDEX,
	TAPE_PPID,
	TAPE_PTID,
	TAPE_UNTIL,
	TAPE_EPOCH, /* session.epoch_ns */
	TAPE_IP,    /* of a sample without frames, as TAPE_MISC */
	TAPE_MISC,
	TAPE_ADDR,
	TAPE_PROT,
	TAPE_MAP_FLAGS,
	TAPE_FILE_GENERATION,
	TAPE_FILE_ID, /* side.u.mmap.file_id; TAPE_BUILD_ID is the kernel's word */
	TAPE_TAGS /* the last one + 1 */
};

enum tape_how {
	TAPE_LED = 1,
	TAPE_HOW_READ = 2,
	TAPE_PROBE = 4,
	TAPE_JUMPS = 8,
	TAPE_ON_CPUS = 16
};
enum tape_settings {
	TAPE_WITNESS = 1,
	TAPE_COUNTER = 2,
	TAPE_NATIVE = 4,
	TAPE_FOLLOW = 8,
	TAPE_TELL_THREADS = 16,
	TAPE_SPLIT = 32,
	TAPE_OURS = 64,
	TAPE_TABLE = 128,
	TAPE_EARLY = 256,
	TAPE_SWITCHES_HIDDEN = 512,
};
enum tape_draining { TAPE_SHED = 1, TAPE_LAST = 2, TAPE_UNFIT = 4, TAPE_CROWDED = 8 };
enum tape_target_bits {
	TAPE_GONE = 1,
	TAPE_UNBORN = 2,
	TAPE_PLAIN = 4,
	TAPE_NOPYTHON = 8,
	TAPE_INNER = 16,
	TAPE_NO_JIT = 32,
};
enum tape_name_bits { TAPE_NAME_EXEC = 1, TAPE_NAME_THREAD = 2 };
enum tape_map_bits { TAPE_MAP_KERNEL = 1, TAPE_MAP_ANNOUNCED = 2 };
extern const char *const tape_provenances[PROV_N];

/* ---- Writing ---- */

/* The fields of a chunk, as they are written. What has no room is left out, and @full says
 * so. */
struct tape_head {
	_Alignas(8) unsigned char bytes[4096];
	size_t n;
	bool full;
};
void tape_put(struct tape_head *h, enum tape_tag tag, uint64_t value);
void tape_put_bytes(struct tape_head *h, enum tape_tag tag, const void *at, size_t n);
/* The last field, whose @n bytes follow the head as the chunk's body. */
void tape_put_body(struct tape_head *h, enum tape_tag tag, size_t n);
struct bytes tape_head_bytes(const struct tape_head *h);

struct tape_writer;
/* @out is borrowed and must outlive the writer. NULL with a sentence in @err. */
struct tape_writer *tape_writer_create(FILE *out, struct err *err);
int tape_write(struct tape_writer *w, enum tape_type type, struct bytes head,
	       struct bytes body);	       /* 0 or -errno */
int tape_writer_flush(struct tape_writer *w);  /* what a killed recording keeps; 0 or -errno */
int tape_writer_finish(struct tape_writer *w); /* flush the stream; 0 or -errno */
void tape_writer_destroy(struct tape_writer *w);

/* ---- Reading ---- */

/* A field of @chunk: its first one with @tag. False and no bytes: there is none. */
bool tape_field(struct bytes chunk, enum tape_tag tag, struct bytes *ret);
uint64_t tape_get(struct bytes chunk, enum tape_tag tag, uint64_t missing);
/* A text without its end; @ret is always terminated, cut where it has no room. */
void tape_get_text(struct bytes chunk, enum tape_tag tag, char *ret, size_t size);

#endif
