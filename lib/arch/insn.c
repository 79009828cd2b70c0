/* SPDX-License-Identifier: MIT */
#include "arch/insn.h"

#include "arch/arch.h"

/* What follows each opcode: '.' nothing, m ModRM, b w d bytes of a constant (1, 2, 4), z one
 * of the operand's size but at most 4, M ModRM and b, Z ModRM and z, v the operand's size, o
 * an address, e 3 bytes, g and G: M and Z if ModRM's reg is 0 or 1, else m. '?': none. */
static const char one_byte[] = "mmmmbz??mmmmbz??mmmmbz??mmmmbz??" /* 00 */
			       "mmmmbz??mmmmbz??mmmmbz??mmmmbz??" /* 20 */
			       "????????????????................" /* 40 */
			       "???m????zZbM....bbbbbbbbbbbbbbbb" /* 60 */
			       "MZ?Mmmmmmmmmmmmm..........?....." /* 80 */
			       "oooo....bz......bbbbbbbbvvvvvvvv" /* a0 */
			       "MMw.??MZe.w..b?.mmmm??"
			       "?.mmmmmmmm"			   /* c0 */
			       "bbbbbbbbdd?b....?.??..gG......mm"; /* e0 */

/* After 0f. */
static const char two_bytes[] = "mmmm?.....?..m.M"
				"mmmmmmmmmmmmmmmm" /* 00 */
				"mmmmmmmmmmmmmmmm"
				"........????????"		   /* 20 */
				"mmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmm" /* 40 */
				"mmmmmmmmmmmmmmmm"
				"MMMMmmm.mmmmmmmm" /* 60 */
				"dddddddddddddddd"
				"mmmmmmmmmmmmmmmm" /* 80 */
				"...mMm??...mMmmm"
				"mmmmmmmmmmMmmmmm" /* a0 */
				"mmMmMMMm........"
				"mmmmmmmmmmmmmmmm"		    /* c0 */
				"mmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmm"; /* e0 */

struct insn {
	const unsigned char *p;
	size_t n, at;
	bool small;   /* 66: operands of 2 bytes */
	bool large;   /* REX.W: of 8 */
	bool address; /* 67: addresses of 4 */
};

/* The byte @ahead of here; 0 where there is none, and the length is too large then. */
static unsigned char peek(const struct insn *i, size_t ahead)
{
	return i->at + ahead < i->n ? i->p[i->at + ahead] : 0;
}

static void take_prefixes(struct insn *i)
{
	static const unsigned char legacy[] = { 0x66, 0x67, 0xf0, 0xf2, 0xf3, 0x2e,
						0x36, 0x3e, 0x26, 0x64, 0x65 };

	while (i->at < i->n && memchr(legacy, i->p[i->at], sizeof(legacy))) {
		i->small |= i->p[i->at] == 0x66;
		i->address |= i->p[i->at] == 0x67;
		i->at++;
	}
	if ((peek(i, 0) & 0xf0) == 0x40)
		i->large = i->p[i->at++] & 8;
}

static size_t modrm_size(const struct insn *i)
{
	unsigned modrm = peek(i, 0), mod = modrm >> 6, rm = modrm & 7;
	size_t n = 1 + (mod != 3 && rm == 4);

	if (mod == 0)
		n += rm == 5 || (rm == 4 && (peek(i, 1) & 7) == 5) ? 4 : 0;
	return n + (mod == 1 ? 1 : mod == 2 ? 4 : 0);
}

/* How many bytes come after the opcode, by its letter. */
static size_t operands(const struct insn *i, char letter)
{
	size_t z = i->small && !i->large ? 2 : 4;
	bool first = (peek(i, 0) >> 3 & 7) < 2;

	switch (letter) {
	case 'm':
		return modrm_size(i);
	case 'M':
		return modrm_size(i) + 1;
	case 'Z':
		return modrm_size(i) + z;
	case 'g':
		return modrm_size(i) + first;
	case 'G':
		return modrm_size(i) + (first ? z : 0);
	case 'v':
		return i->large ? 8 : z;
	case 'o':
		return i->address ? 4 : 8;
	case 'z':
		return z;
	case '.':
		return 0;
	default:
		return letter == 'b' ? 1 : letter == 'w' ? 2 : letter == 'e' ? 3 : 4;
	}
}

/* VEX (c4, c5) and EVEX (62): the prefix's bytes and the opcode's map; 0: neither. */
static size_t vex_size(const struct insn *i, unsigned *map)
{
	unsigned char first = peek(i, 0);

	*map = first == 0xc5 ? 1 :
	       first == 0xc4 ? peek(i, 1) & 31 :
	       first == 0x62 ? peek(i, 1) & 7 :
			       0;
	return first == 0xc5 ? 2 : first == 0xc4 ? 3 : first == 0x62 ? 4 : 0;
}

static char letter_of_map(unsigned map, unsigned char opcode)
{
	return map == 1				? two_bytes[opcode] :
	       map == 3				? 'M' :
	       map == 2 || map == 5 || map == 6 ? 'm' :
						  '?';
}

static char take_opcode(struct insn *i)
{
	unsigned map = 0;
	size_t vex = vex_size(i, &map);

	i->at += vex;
	if (!vex && peek(i, 0) == 0x0f) {
		i->at++;
		map = peek(i, 0) == 0x38 ? 2 : peek(i, 0) == 0x3a ? 3 : 1;
		i->at += map > 1;
	}
	i->at++;
	return map ? letter_of_map(map, i->p[MIN(i->at, i->n) - 1]) :
		     one_byte[i->p[MIN(i->at, i->n) - 1]];
}

size_t insn_x86_length(const unsigned char *p, size_t n)
{
	struct insn i = { .p = p, .n = MIN(n, (size_t)15) };
	char letter;

	if (!n)
		return 0;
	take_prefixes(&i);
	letter = take_opcode(&i);
	if (letter == '?')
		return 0;
	i.at += operands(&i, letter);
	return i.at <= i.n ? i.at : 0;
}

/* jcc, ret, call and jmp, as far as no constant tells how much ret takes off the stack. */
static bool x86_jumps(const unsigned char *p, size_t n)
{
	struct insn i = { .p = p, .n = n };
	unsigned char op, next;

	take_prefixes(&i);
	op = peek(&i, 0), next = peek(&i, 1);
	return (op & 0xf0) == 0x70 || (op == 0x0f && (next & 0xf0) == 0x80) || op == 0xc3 ||
	       op == 0xe8 || op == 0xe9 || op == 0xeb ||
	       (op == 0xff && ((next >> 3 & 7) == 2 || (next >> 3 & 7) == 4));
}

/* Arm ARM, C4.1: br, ret. */
static bool by_register(const unsigned char *p, size_t n)
{
	return n >= 4 && ((load_u32(p) & 0xfffffc1f) == 0xd61f0000 ||
			  (load_u32(p) & 0xfffffc1f) == 0xd65f0000);
}

bool insn_jumps(struct bytes code)
{
	int64_t by;

	if (arch_host == &arch_x86_64)
		return x86_jumps(code.at, code.n);
	return (arch_host->jump && arch_host->jump(code.at, code.n, &by)) ||
	       (arch_host == &arch_aarch64 && by_register(code.at, code.n));
}

/* RISC-V: what does not end in two ones is compressed. */
static size_t length(const unsigned char *p, size_t n)
{
	if (arch_host == &arch_x86_64)
		return insn_x86_length(p, n);
	return arch_host->code_align == 2 && (p[0] & 3) != 3 ? 2 : 4;
}

bool insn_begins(struct bytes code, size_t at)
{
	size_t here = 0, n = 1;

	for (; n && here < at && here < code.n; here += n)
		n = length(code.at + here, code.n - here);
	return n && here == at && at < code.n;
}
