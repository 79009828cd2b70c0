/* SPDX-License-Identifier: MIT
 *
 * tree_nodes - frames below one another, each once below its caller.
 *
 * A node takes 16 to 32 bytes: the table that finds it holds its number only. Resolver's thread.
 */
#ifndef OUTPUT_TREE_NODES_H
#define OUTPUT_TREE_NODES_H

#include "base/base.h"
#include "base/idmap.h"
#include "buf.h"

/* A frame below those of its ancestors. A parent's number is lower than its children's. */
struct tree_node {
	uint32_t parent; /* 0: the caller is the root, node 0, which is no frame */
	uint32_t frame;	 /* in the tree's frames */
};

struct tree_nodes {
	struct buf all;	  /* struct tree_node each */
	uint32_t *slot;	  /* numbers of nodes, by what they hold; 0 is free */
	uint32_t n_slots; /* a power of two, at least twice as many as nodes */
};

static inline size_t tree_nodes_n(const struct tree_nodes *t)
{
	return t->all.n / sizeof(struct tree_node);
}

static inline const struct tree_node *tree_nodes_at(const struct tree_nodes *t, uint32_t i)
{
	return (const struct tree_node *)(const void *)t->all.at + i;
}

/* Put the root into an empty one. 0 or -ENOMEM. */
int tree_nodes_begin(struct tree_nodes *t);
void tree_nodes_deinit(struct tree_nodes *t);

/* No child is asked for any more: free what finds them. */
void tree_nodes_complete(struct tree_nodes *t);

/* The bytes that they take. */
size_t tree_nodes_bytes(const struct tree_nodes *t);

/* The number of @frame below the node @parent, which there is; IDMAP_NONE: no memory. */
uint32_t tree_nodes_child(struct tree_nodes *t, uint32_t parent, uint32_t frame);

#endif
