/* SPDX-License-Identifier: MIT
 *
 * unpack - takes the Python symbol file out of a perf.data that came from another machine, and
 * puts it where perf looks for it.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../output/buf.h"
#include "../output/buildid.h"
#include "../output/outfile.h"
#include "../output/perf_head.h"
#include "../output/pyelf.h"
#include "../output/pyelf_read.h"
#include "cmd.h"
#include "elf/elfimage.h"
#include "recording.h"

static const char help[] =
	"Usage: pysampled unpack FILE\n\n"
	"FILE is a perf.data of pysampled, from any machine. The symbol file of its Python\n"
	"functions is put into FILE.pyframes and into perf's cache (~/.debug), so that perf\n"
	"report -i FILE shows their names here.\n\n"
	"  -h, --help\n"
	"  -V, --version\n";

static const struct option options[] = {
	{ "help", no_argument, NULL, 'h' },
	{ "version", no_argument, NULL, 'V' },
	{ 0 },
};

/* The build-id of a symbol file that is whole. 0 or -errno. */
static int identify(struct bytes image, struct buildid *id)
{
	unsigned char text[ELFIMAGE_MAX_ID];
	struct pyelf_table table;
	struct elfimage elf;
	int ret = elfimage_init(&elf, -1, image);

	if (!ret)
		*id = buildid_from((struct bytes){ text, elfimage_build_id(&elf, text) });
	elfimage_deinit(&elf);
	if (ret || !id->n)
		return ret ? ret : -ENOEXEC;
	ret = pyelf_read(&table, -1, image, (struct bytes){ id->at, id->n });
	pyelf_table_deinit(&table);
	return ret;
}

/* The symbol file in the recording, malloc'ed, and its build-id. @h is to be emptied in any case.
 * An exit code, not EXIT_DONE after a sentence. */
static int take_out(const char *path, struct perf_head *h, struct bytes *image,
		    struct buildid *id)
{
	_cleanup_fclose_ FILE *in = fopen(path, "re");
	int ret;

	if (!in)
		return cmd_fail(EXIT_FAILED, "opening %s: %s", path, strerror(errno));
	ret = recording_no_folder(fileno(in), path);
	if (ret)
		return ret;
	ret = perf_head_read(h, in);
	if (!ret)
		ret = perf_head_pyelf(h, in, image);
	if (!ret)
		ret = identify(*image, id);
	if (!ret)
		return EXIT_DONE;
	if (ret == -EIO || ret == -ENOMEM)
		return cmd_fail(EXIT_FAILED, "reading %s: %s", path, strerror(-ret));
	return cmd_fail(EXIT_FAILED,
			"%s holds no whole symbol file of ours: it is no perf.data of "
			"pysampled, or its recording was killed (then FILE.pyframes beside it "
			"has the names) or went down a pipe (then ~/.debug there has them)",
			path);
}

/* Into FILE.pyframes, where nobody led us. 0 or -errno. */
static int put_beside(int folder, const char *name, struct bytes image)
{
	const struct buf b = { .at = (unsigned char *)(uintptr_t)image.at, .n = image.n };
	_cleanup_close_ int there = outfile_beside(folder, name, PYELF_BESIDE), fd = -1;
	int ret;

	if (there < 0)
		return there;
	fd = pyelf_new_file(there, PYELF_NAME);
	if (fd < 0)
		return fd;
	ret = buf_pwrite(&b, fd, 0, NULL);
	if (ret)
		unlinkat(there, PYELF_NAME, 0);
	return ret;
}

/* Into perf's cache: the file @beside is where perf looks only if it was recorded there. An exit
 * code, not EXIT_DONE after a sentence. */
static int put_in_cache(const struct perf_head *h, const char *beside, struct buildid id)
{
	char real[PATH_MAX] = "";
	int ret = realpath(beside, real) ? buildid_cache_add(real, id) : -errno;

	if (!ret || perf_head_build_id(h, real).n)
		return EXIT_DONE;
	return cmd_fail(EXIT_FAILED,
			"wrote %s, but perf looks for it in its cache only (~/.debug), where it "
			"can't be put: %s; set HOME, or PYSAMPLED_BUILDID_DIR",
			beside, strerror(-ret));
}

static int unpack(const char *path, struct perf_head *h)
{
	_cleanup_free_ char *word = NULL;
	_cleanup_close_ int folder = -1;
	char beside[PATH_MAX];
	struct bytes image = { 0 };
	struct buildid id = { 0 };
	const char *name;
	struct err err;
	int code = take_out(path, h, &image, &id), ret = 0;

	if (!code && (folder = outfile_folder(path, &name, &err)) < 0)
		code = cmd_fail(EXIT_FAILED, "%s", err.text);
	if (!code && (ret = put_beside(folder, name, image)) < 0)
		code = cmd_fail(EXIT_FAILED, "writing %s" PYELF_BESIDE ": %s", path,
				strerror(-ret));
	free((void *)(uintptr_t)image.at);
	snprintf(beside, sizeof(beside), "%s" PYELF_BESIDE, path);
	if (!code)
		code = put_in_cache(h, beside, id);
	if (code)
		return code;
	word = cmd_quoted(path);
	cmd_say("wrote %s; next: perf report -i %s", beside, word ? word : path);
	return EXIT_DONE;
}

int cmd_unpack(int argc, char **argv)
{
	const struct cmd_syntax s = { ":hV", help, options, NULL };
	struct perf_head h = { 0 };
	int code = cmd_parse(argc, argv, &s, NULL);

	if (code != CMD_GO_ON)
		return code;
	if (optind + 1 != argc)
		return cmd_fail(EXIT_USAGE, "unpack takes one FILE; see --help");
	code = recording_guard(true);
	if (code)
		return code;
	recording_begins(); /* all that it writes is new */
	code = unpack(argv[optind], &h);
	perf_head_deinit(&h);
	return code;
}
