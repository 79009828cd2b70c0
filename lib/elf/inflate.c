/* SPDX-License-Identifier: MIT */
#include "elf/inflate.h"

#include <elf.h>
#include <zstd.h>

#ifndef ELFCOMPRESS_ZSTD
#define ELFCOMPRESS_ZSTD 2
#endif

#ifdef PYSAMPLED_ZLIB

#include <zlib.h>

const bool inflate_zlib_built = true;

static bool by_zlib(unsigned char *to, size_t n, struct bytes from)
{
	uLongf got = n;

	return uncompress(to, &got, from.at, from.n) == Z_OK && got == n;
}

#else

const bool inflate_zlib_built = false;

static bool by_zlib(unsigned char *to, size_t n, struct bytes from)
{
	return false;
}

#endif

struct bytes inflate_section(struct bytes section, size_t max)
{
	struct bytes from;
	unsigned char *to;
	Elf64_Chdr ch;
	bool good;

	if (section.n < sizeof(ch))
		return (struct bytes){ 0 };
	memcpy(&ch, section.at, sizeof(ch));
	from = (struct bytes){ section.at + sizeof(ch), section.n - sizeof(ch) };
	if (ch.ch_size == 0 || ch.ch_size > max)
		return (struct bytes){ 0 };
	to = malloc(ch.ch_size + 1);
	if (!to)
		return (struct bytes){ 0 };
	good = ch.ch_type == ELFCOMPRESS_ZLIB ?
		       by_zlib(to, ch.ch_size, from) :
		       ch.ch_type == ELFCOMPRESS_ZSTD &&
			       ZSTD_decompress(to, ch.ch_size, from.at, from.n) == ch.ch_size;
	if (!good) {
		free(to);
		return (struct bytes){ 0 };
	}
	to[ch.ch_size] = '\0';
	return (struct bytes){ to, ch.ch_size };
}
