/* SPDX-License-Identifier: MIT
 *
 * walk - plays tapes that hold the reads of walks and nothing else.
 */
#ifndef WALK_H
#define WALK_H

#include "whole.h"

struct walk_player;

/* @quiet: stacks are counted only. */
struct walk_player *walk_player_create(bool quiet);
void walk_player_destroy(struct walk_player *p);

/* How many stacks came out, of all tapes so far. What is left of the play before makes the
 * next one only wilder. */
size_t walk_play(struct walk_player *p, const struct tape *t);

/* A sum of all of them, and of what was read for them, of a player that is quiet. */
uint64_t walk_sum(const struct walk_player *p);

/* The same in steps: after walk_begin() what is whole of @t from @pos on; @pos is then where
 * it goes on. Calls with ever longer prefixes of one tape play each of them. */
void walk_begin(struct walk_player *p);
void walk_go_on(struct walk_player *p, const struct tape *t, size_t *pos);
void walk_print(struct walk_player *p);

#endif
