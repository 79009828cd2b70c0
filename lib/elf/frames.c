/* SPDX-License-Identifier: MIT */
#include "elf/frames.h"

#include <errno.h>

enum { MAX_AUGMENTATION = 8 };

int frames_record(struct frames_record *ret, const struct frames_section *s, size_t at)
{
	struct cursor c = { .b = s->b, .at = at };
	uint64_t n, id, none;
	size_t id_at;
	bool wide;

	n = cursor_u32(&c); /* 0 at the section's end too */
	wide = n == UINT32_MAX;
	if (wide)
		n = cursor_u64(&c);
	if (n == 0)
		return -ENODATA;
	id_at = c.at;
	id = wide ? cursor_u64(&c) : cursor_u32(&c);
	none = !s->debug ? 0 : wide ? UINT64_MAX : UINT32_MAX;
	if (c.bad || n > s->b.n - id_at || n < c.at - id_at)
		return -EBADMSG;
	ret->body = c.at;
	ret->end = id_at + n;
	ret->is_cie = id == none;
	ret->cie = s->debug ? id : id_at - id; /* .eh_frame: so far back */
	return 0;
}

/* What the letters of @aug tell. False when what follows can't be understood. */
static bool cie_augmentation(struct frames_cie *ret, struct cursor *c, const char *aug)
{
	for (; *aug && !c->bad; aug++) {
		switch (*aug) {
		case 'R':
			ret->enc = cursor_u8(c);
			break;
		case 'P':
			cursor_enc(c, cursor_u8(c));
			break;
		case 'L':
			cursor_u8(c);
			break;
		case 'S':
			ret->signal = true;
			break;
		case 'B': /* aarch64: signed with the other key */
		case 'G': /* aarch64: tagged stack */
			break;
		default:
			return false;
		}
	}
	return !c->bad;
}

int frames_cie(struct frames_cie *ret, const struct frames_section *s, size_t at)
{
	struct cursor c = { .b = s->b };
	char aug[MAX_AUGMENTATION + 1] = "";
	struct frames_record rec;
	unsigned version;
	size_t i = 0;

	*ret = (struct frames_cie){ .at = at, .enc = ENC_PTR };
	if (frames_record(&rec, s, at) < 0 || !rec.is_cie)
		return -EBADMSG;
	c.b.n = rec.end;
	c.at = rec.body;
	version = cursor_u8(&c);
	while ((aug[i] = (char)cursor_u8(&c)) && i < MAX_AUGMENTATION)
		i++;
	if (aug[i] || (version != 1 && version != 3 && version != 4))
		return -EBADMSG;
	/* Addresses of 8 bytes, no segments. */
	if (version == 4 && (cursor_u8(&c) != 8 || cursor_u8(&c) != 0))
		return -EBADMSG;
	ret->code_align = cursor_uleb(&c);
	ret->data_align = cursor_sleb(&c);
	ret->ra = version == 1 ? cursor_u8(&c) : cursor_uleb(&c);
	if (aug[0] == 'z') {
		struct cursor data = { .b = cursor_window(&c, cursor_uleb(&c)) };

		ret->sized = true;
		if (!cie_augmentation(ret, &data, aug + 1))
			return -EBADMSG;
	} else if (aug[0]) {
		return -EBADMSG;
	}
	ret->ops = cursor_window(&c, rec.end - c.at);
	return c.bad ? -EBADMSG : 0;
}

uint64_t frames_address(struct cursor *c, unsigned enc, uint64_t section_at)
{
	uint64_t here = section_at + c->at;

	switch (enc & ENC_BASE) {
	case ENC_PCREL:
		return here + cursor_enc(c, enc);
	case 0:
		return cursor_enc(c, enc);
	default:
		c->bad = true;
		return 0;
	}
}

int frames_fde(struct frames_fde *ret, const struct frames_section *s,
	       const struct frames_record *rec, const struct frames_cie *cie)
{
	struct cursor c = { .b = { s->b.at, rec->end }, .at = rec->body };

	ret->lo = frames_address(&c, cie->enc, s->at);
	ret->size = cursor_enc(&c, cie->enc & 7);
	if (cie->sized)
		cursor_window(&c, cursor_uleb(&c));
	ret->ops_at = s->at + c.at;
	ret->ops = cursor_window(&c, rec->end - c.at);
	return c.bad ? -EBADMSG : 0;
}
