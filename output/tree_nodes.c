/* SPDX-License-Identifier: MIT
 *
 * tree_nodes - open addressing; what a slot's key is stands in the node.
 */
#include "tree_nodes.h"

#include <errno.h>
#include <stdlib.h>

#include "base/hash.h"

int tree_nodes_begin(struct tree_nodes *t)
{
	const struct tree_node root = { 0, 0 };

	buf_put(&t->all, &root, sizeof(root));
	return t->all.oom ? -ENOMEM : 0;
}

void tree_nodes_complete(struct tree_nodes *t)
{
	free(t->slot);
	t->slot = NULL;
	t->n_slots = 0;
}

void tree_nodes_deinit(struct tree_nodes *t)
{
	tree_nodes_complete(t);
	buf_deinit(&t->all);
}

size_t tree_nodes_bytes(const struct tree_nodes *t)
{
	return t->all.cap + t->n_slots * sizeof(*t->slot);
}

/* The slot where the search for @node begins. */
static uint32_t first_slot(const struct tree_nodes *t, const struct tree_node *node)
{
	return (uint32_t)hash_u64((uint64_t)node->parent << 32 | node->frame) & (t->n_slots - 1);
}

/* The slot of @want, or the free one where it would stand. */
static uint32_t *find(const struct tree_nodes *t, const struct tree_node *want)
{
	uint32_t i = first_slot(t, want);

	for (; t->slot[i]; i = (i + 1) & (t->n_slots - 1)) {
		const struct tree_node *n = tree_nodes_at(t, t->slot[i]);

		if (n->parent == want->parent && n->frame == want->frame)
			break;
	}
	return &t->slot[i];
}

/* The old slots are not needed for it: both together would be the most memory of all. Nodes differ,
 * so none is compared: each would be a miss of the cache. */
static int grow(struct tree_nodes *t)
{
	uint32_t n_slots = MAX(64u, 2 * t->n_slots);

	free(t->slot);
	t->slot = calloc(n_slots, sizeof(*t->slot));
	t->n_slots = t->slot ? n_slots : 0;
	for (uint32_t i = 1; t->slot && i < tree_nodes_n(t); i++) {
		uint32_t at = first_slot(t, tree_nodes_at(t, i));

		while (t->slot[at])
			at = (at + 1) & (n_slots - 1);
		t->slot[at] = i;
	}
	return t->slot ? 0 : -ENOMEM;
}

uint32_t tree_nodes_child(struct tree_nodes *t, uint32_t parent, uint32_t frame)
{
	const struct tree_node want = { parent, frame };
	uint32_t n = (uint32_t)tree_nodes_n(t), *slot;

	if (2 * n >= t->n_slots && grow(t))
		return IDMAP_NONE;
	slot = find(t, &want);
	if (*slot)
		return *slot;
	buf_put(&t->all, &want, sizeof(want));
	return t->all.oom ? (uint32_t)IDMAP_NONE : (*slot = n);
}
