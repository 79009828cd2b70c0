/* SPDX-License-Identifier: MIT
 *
 * pyfind_types - does the layout say what the process's own types say? A type object tells its
 * objects' size, and where the attributes lie that C code keeps (tp_members).
 */
#include "python/pyfind_types.h"

#include <errno.h>

#include "base/base.h"
#include "python/pytype.h"

enum {
	TYPE_MEMBERS = 232, /* from ob_type on: tp_members, in 2.7 to 3.15 the same */
	MEMBER_BYTES = 40, /* struct PyMemberDef { name, type, offset, flags, doc } */
	MEMBER_OFFSET = 16,
	MEMBERS_MAX = 40,
	NAME_BYTES = 16, /* of a member; compared are names shorter than this */
	AT_ONCE = 5,
};

struct expected {
	const char *member;
	pyoff at;
};

static int read_type(struct rmem *m, const struct pylayout *l, raddr object, raddr *ret)
{
	return rmem_read_u64(m, object + pyoff_get(l->object.type), ret);
}

static int check_member(const char *name, uint64_t offset, const struct expected *e, size_t n,
			struct err *err)
{
	for (size_t i = 0; i < n; i++)
		if (!strcmp(name, e[i].member) && pyoff_has(e[i].at) &&
		    offset != pyoff_get(e[i].at))
			return err_set(err, -EBADMSG, "it has %s at %llu, not at %u", name,
				       (unsigned long long)offset, pyoff_get(e[i].at));
	return 0;
}

/* The list of members as far as it can be read: how many. */
static size_t read_members(struct rmem *m, raddr at, unsigned char *list, raddr name[])
{
	size_t n = MEMBERS_MAX;

	while (n && rmem_read(m, at, list, n * MEMBER_BYTES) < 0)
		n /= 2;
	for (size_t i = 0; i < n; i++) {
		name[i] = load_u64(list + i * MEMBER_BYTES);
		if (!name[i])
			return i;
	}
	return n;
}

/* A member that the type does not list proves nothing. */
static int check_members(struct rmem *m, const struct pylayout *l, raddr type,
			 const struct expected *e, size_t n, struct err *err)
{
	unsigned char list[MEMBERS_MAX * MEMBER_BYTES];
	char text[MEMBERS_MAX][NAME_BYTES + 1] = { 0 };
	struct rmem_vec v[MEMBERS_MAX];
	raddr at, name[MEMBERS_MAX];
	size_t found = 0;
	int r = 0;

	if (rmem_read_u64(m, type + pyoff_get(l->object.type) + TYPE_MEMBERS, &at) == 0 && at)
		found = read_members(m, at, list, name);
	for (size_t i = 0; i < found; i++)
		v[i] = (struct rmem_vec){ name[i], text[i], NAME_BYTES };
	found = rmem_readv(m, v, found);
	for (size_t i = 0; r == 0 && i < found; i++)
		r = check_member(text[i], load_u64(list + i * MEMBER_BYTES + MEMBER_OFFSET), e,
				 n, err);
	return r;
}

/* Of a type called @what; a class of the program's may have any size. */
static int check_basicsize(struct rmem *m, const struct pylayout *l, raddr type,
			   const char *what, uint64_t size, struct err *err)
{
	uint64_t told;

	if (!pytype_is_called(m, l, type, what) ||
	    rmem_read_u64(m, type + pylayout_head(l) + PYTYPE_BASICSIZE, &told) < 0)
		return 0;
	if (told != size)
		return err_set(err, -EBADMSG, "it has %s objects of %llu bytes, not %llu",
			       what, (unsigned long long)told, (unsigned long long)size);
	return 0;
}

/* The pointers at @at, which come together. False: not all can be read. */
static bool follow(struct rmem *m, const raddr *at, size_t n, raddr *ret)
{
	struct rmem_vec v[AT_ONCE];

	for (size_t i = 0; i < n; i++)
		v[i] = (struct rmem_vec){ at[i], &ret[i], sizeof(ret[i]) };
	return rmem_readv(m, v, n) == n;
}

/* What is looked at below comes in three calls, where @m keeps pages: @code's type and texts,
 * what these point to, and where that leads. What can't be read here is asked for alone later.
 */
static void fetch(struct rmem *m, const struct pylayout *l, raddr code)
{
	const size_t type = pyoff_get(l->object.type), name = pyoff_get(l->object.type_name);
	const raddr first[] = { code + type, code + pyoff_get(l->code.filename),
				code + pyoff_get(l->code.linetable) };
	raddr own[3], next[5], last[5];

	if (!follow(m, first, 3, own) ||
	    !follow(m,
		    (raddr[]){ own[0] + type, own[0] + type + TYPE_MEMBERS, own[0] + name,
			       own[1] + type, own[2] + type },
		    5, next) ||
	    !follow(m,
		    (raddr[]){ next[0] + type + TYPE_MEMBERS, next[3] + name, next[4] + name,
			       next[1], next[2] },
		    5, last))
		return;
	follow(m, last, 3, own);
}

static int check_type_of_types(struct rmem *m, const struct pylayout *l, raddr type,
			       struct err *err)
{
	const struct expected e[] = {
		{ "__basicsize__", l->object.type_size },
		{ "__flags__", l->object.type_flags },
		{ "__dictoffset__", l->object.type_dict },
	};

	return check_members(m, l, type, e, ARRAY_SIZE(e), err);
}

/* Those of names and tables. */
static int check_texts(struct rmem *m, const struct pylayout *l, raddr code, struct err *err)
{
	raddr str, bytes, type;
	uint64_t size;
	const struct rmem_vec v[] = {
		{ code + pyoff_get(l->code.filename), &str, 8 },
		{ code + pyoff_get(l->code.linetable), &bytes, 8 },
	};
	int r = 0;

	if (rmem_readv(m, v, ARRAY_SIZE(v)) != ARRAY_SIZE(v))
		return err_set(err, -EBADMSG, "a code object cannot be read");
	if (rmem_read_u64(m, bytes + pyoff_get(l->bytes.size), &size) < 0 || size > INT32_MAX)
		return err_set(err, -EBADMSG, "a line table has no size");
	if (pyoff_has(l->str.state) && read_type(m, l, str, &type) == 0)
		r = check_basicsize(m, l, type, "str", l->str.compact_data + 8, err);
	if (r == 0 && read_type(m, l, bytes, &type) == 0)
		r = check_basicsize(m, l, type, pyoff_has(l->str.state) ? "bytes" : "str",
				    pyoff_get(l->bytes.data) + 1, err);
	return r;
}

int pyfind_types(struct rmem *m, const struct pylayout *l, raddr code, raddr frame,
		 struct err *err)
{
	const struct expected in_code[] = {
		{ "co_filename", l->code.filename },
		{ "co_name", l->lasti_unit ? l->code.qualname : l->code.name },
		{ "co_qualname", l->code.qualname },
		{ l->linetable == PY_LOCATIONS_311 || l->linetable == PY_LINETABLE_310 ?
			  "co_linetable" :
			  "co_lnotab",
		  l->code.linetable },
		{ "co_firstlineno", l->code.firstlineno },
		{ "co_flags", l->code.flags },
		{ "co_stacksize", l->code.stacksize },
		{ "co_code", l->code.instructions },
	};
	const struct expected in_frame[] = {
		{ "f_back", l->frame.previous },
		{ "f_code", l->frame.code },
		{ "f_lasti", l->frame.instr },
	};
	raddr type, meta;
	int r = 0;

	fetch(m, l, code);
	if (read_type(m, l, code, &type) < 0 || read_type(m, l, type, &meta) < 0)
		return err_set(err, -EBADMSG, "the type of a code object cannot be read");
	r = check_members(m, l, type, in_code, ARRAY_SIZE(in_code), err);
	if (r == 0)
		r = check_basicsize(m, l, type, "code", l->code.size, err);
	if (r == 0)
		r = check_type_of_types(m, l, meta, err);
	if (r == 0)
		r = check_texts(m, l, code, err);
	/* Up to 3.10 a frame is an object, too. */
	if (r == 0 && l->lasti_unit && read_type(m, l, frame, &type) == 0)
		r = check_members(m, l, type, in_frame, ARRAY_SIZE(in_frame), err);
	return r;
}
