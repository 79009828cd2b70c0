/* SPDX-License-Identifier: MIT
 *
 * file_helper - has the files of targets read in processes without rights.
 *
 * One begins before the filter (harden.h), waits for the first question, is then our program
 * once more, gives up its rights and starts those that read: each is given open files, one
 * after the other, and gives back tables in memory (module_wire.h). One that hangs is left
 * behind with what it was at, one that dies is replaced, and so is the one that starts them.
 * Which ones read is nobody's business but ours: any thread, and several at a time.
 */
#ifndef FILE_HELPER_H
#define FILE_HELPER_H

#include <stdbool.h>

#include "base/err.h"
#include "elf/codemap.h"
#include "elf/debugfile.h"
#include "elf/elflayout.h"
#include "elf/elfprobe.h"
#include "elf/elfpython.h"
#include "elf/module.h"

struct file_helper;
struct pool;
struct stats;

/* Before harden_process(), which forbids it. One reference. NULL: it can't be had,
 * with a sentence. */
struct file_helper *file_helper_start(struct err *err);
/* It sleeps until the first question, or until one is sure to come. */
void file_helper_wake(struct file_helper *h);
bool file_helper_sleeps(struct file_helper *h);
struct file_helper *file_helper_ref(struct file_helper *h); /* returns @h */
void file_helper_unref(struct file_helper *h);

/* As file_helper_unref(), by who started it: no more questions are taken, what waits for an
 * answer gets none, and the processes end. NULL does nothing. */
void file_helper_end(struct file_helper *h);

/* CPU time that its processes have used, in ns: family_cpu_ns(). 0 of NULL. */
uint64_t file_helper_cpu_ns(const struct file_helper *h);

/* Who opens files for it (opener.h). NULL of NULL. */
struct pool *file_helper_openers(struct file_helper *h);

/* module_read() of @fd elsewhere, which may be O_PATH; debug files are found by @from. Waits
 * for the answer, for ever where the file is on a dead mount. 0; -ENOEXEC, -EIO, -EFBIG: of the
 * file; -EAGAIN: memory, processes or descriptors had run out, maybe for a part of it only;
 * -EPROTO: who read it ended, or answered what can't be. @ret is empty then. */
int file_helper_read(struct file_helper *h, struct module *ret, int fd,
		     const struct debugfile_origin *from, bool rows);

/* codemap_read() of @fd elsewhere, as file_helper_read(): 0, -EAGAIN or -EPROTO; -ESTALE: not
 * codemap_same(). @m may have got rows anyway; @place is as it was then. */
int file_helper_code(struct file_helper *h, struct codemap *m, int fd, enum codemap_kind what,
		     struct codemap_place *place);

/* elfpython_read() of @fd elsewhere, as file_helper_read(); -ETIMEDOUT: not in @ms. */
int file_helper_python(struct file_helper *h, struct elfpython *ret, int fd, int ms);

/* elflayout_read() of @fd elsewhere, as file_helper_read(); -ENOENT: there is no debug info;
 * -EAGAIN, and the file is named as slow: as many of pool_user's are being read, or hang. */
int file_helper_layout(struct file_helper *h, struct elflayout *ret, int fd,
		       const struct elflayout_want *want, const struct debugfile_origin *from);

/* elfprobe_find() in @fd elsewhere, as file_helper_read(). */
int file_helper_probe(struct file_helper *h, struct elfprobe *ret, int fd,
		      const struct elfprobe_want *want);

/* The build-id in the file, up to ELFIMAGE_MAX_ID bytes, as file_helper_read(); how many, 0:
 * none; -ETIMEDOUT: not in @ms. */
int file_helper_id(struct file_helper *h, unsigned char ret[ELFIMAGE_MAX_ID], int fd, int ms);

/* Up to @n bytes of @fd at @at, read elsewhere, as file_helper_read(); how many. */
ssize_t file_helper_bytes(struct file_helper *h, int fd, uint64_t at, void *buf, size_t n);

/* For a name that a person waits for. */
enum { FILE_HELPER_NAME_MS = 1000 };

/* demangle() of @name elsewhere (@h NULL: here), for it may take for ever: how many bytes @buf
 * got, a NUL behind; 0: it means nothing more; -ETIMEDOUT: not in @ms; else as
 * file_helper_read(). @cap: SYMNAMES_MAX at least. */
ssize_t file_helper_demangle(struct file_helper *h, const char *name, char *buf, size_t cap,
			     int ms);

/* Bad ends are counted in @stats until file_helper_end(). */
void file_helper_count(struct file_helper *h, struct stats *stats);

/* Who read the file at @path ended, maybe by what is in it, for the @times-th time: it is
 * counted. True: too often; it is given up, which is told to one who asks. */
bool file_helper_bad_end(struct file_helper *h, const char *path, unsigned times);

/* The path of the file that was given up last. False: none since this was asked last. */
bool file_helper_given_up(struct file_helper *h, char path[PATH_MAX]);

/* The file at @path does not answer: that is told as well. @h may be NULL. */
void file_helper_slow(struct file_helper *h, const char *path);
bool file_helper_was_slow(struct file_helper *h, char path[PATH_MAX]);

/* The main() of the process that serves, which a program that asks must run for argv[1]
 * FILE_HELPER_COMMAND. */
#define FILE_HELPER_COMMAND "--internal-files"
int file_serve_main(void);

/* --- What they tell each other --- */

struct file_question {
	enum {
		FILE_READ,
		FILE_OPENED,
		FILE_CODE,
		FILE_PYTHON,
		FILE_ID,
		FILE_PROBE,
		FILE_LAYOUT,
		FILE_BYTES,
		FILE_NAME /* the file is a symbol's */
	} kind;
	unsigned rows;		/* FILE_READ, with the file: unwind rows are wanted */
	unsigned set;		/* FILE_OPENED: bit N: there is one at place N. With these */
	enum codemap_kind what; /* FILE_CODE, with the file: and where to go on */
	struct codemap_place place;
	struct elfprobe_want probe; /* FILE_PROBE, with the file */
	struct elflayout_want layout; /* FILE_LAYOUT, with the file */
	uint64_t at, n;		    /* FILE_BYTES, with the file */
};

struct file_answer {
	enum { FILE_DONE, FILE_WANTS } kind;
	int result; /* FILE_DONE: 0, and the tables; or -errno; of FILE_BYTES and _NAME how many */
	unsigned last;		    /* who answers takes no further question */
	struct debugfile_want want; /* FILE_WANTS: a debug file */
	union {
		struct codemap_place place; /* FILE_DONE, of FILE_CODE */
		struct elfpython python;    /* FILE_DONE, of FILE_PYTHON */
		struct elfprobe probe;	    /* FILE_DONE, of FILE_PROBE */
		struct elflayout layout;    /* FILE_DONE, of FILE_LAYOUT */
		struct {
			uint32_t n;
			unsigned char at[ELFIMAGE_MAX_ID];
		} id; /* FILE_DONE, of FILE_ID */
	};
};

#endif
