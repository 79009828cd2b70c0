/* SPDX-License-Identifier: MIT
 *
 * outfile - opens the file that an output goes to, whoever else can write in the folders on
 * its way.
 *
 * A shared folder is one that others than we and root can write, like /tmp. There, a link that
 * others made is not followed, and what stands in the way is replaced only if it is a regular
 * file of ours. A link in the file's own place is followed nowhere, and a FIFO or a device is
 * opened nowhere, but by a path that begins with /dev/, in folders that nobody shares.
 */
#ifndef OUTPUT_OUTFILE_H
#define OUTPUT_OUTFILE_H

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

#include "base/err.h"

/* The folder of @path, opened with O_PATH, and in *@name (part of @path) the file's name
 * there; or -errno with a sentence. */
int outfile_folder(const char *path, const char **name, struct err *err);

/* Nothing stands in the way of outfile_open() of @path with the same, as far as that can be told
 * without writing: 0, or -errno with a sentence. */
int outfile_may_open(const char *path, bool keep_old, const char *beside, struct err *err);

/* Open the file @name in @folder, empty, for reading too where that is possible; a regular
 * file is created with @mode less the umask. With @keep_old, what is not empty there becomes
 * NAME.old. @beside: ".FOLDER/FILE" of the file that goes with it, in the folder NAME.FOLDER,
 * which becomes NAME.old.FOLDER; or NULL.
 * Where it can't be kept so, it stays as it is, and nothing is opened.
 * @path is for sentences. A descriptor, or -errno with a sentence. */
int outfile_open(int folder, const char *name, const char *path, mode_t mode, bool keep_old,
		 const char *beside, struct err *err);

/* What became of the name @name in @folder: 0, it is of the file that @fd has open; -ENOENT, of
 * none; -EEXIST, of another one. */
int outfile_named(int folder, const char *name, int fd);

/* Has the file that @fd has open become NAME.old in @folder, as outfile_open() makes it? */
bool outfile_is_old(int folder, const char *name, int fd);

/* Unlink what outfile_fresh() made for @name in @folder in processes that are no more: they
 * were killed. */
void outfile_clean(int folder, const char *name);

/* A new file in @folder, whose name is made of @name and put into @ret. A descriptor, or
 * -errno.
 */
int outfile_fresh(int folder, const char *name, mode_t mode, char ret[NAME_MAX + 1]);

/* The folder of @beside, as above: made for us alone where there is none. A descriptor
 * (O_PATH) of a folder of ours, or -errno. */
int outfile_beside(int folder, const char *name, const char *beside);

#endif
