/*
 * Entry of the extension's library.
 */
#include "consort.h"

PG_MODULE_MAGIC;

void		_PG_init(void);

void
_PG_init(void)
{
	/* The last one that is registered is called first: notes are checked before a turn is waited for. */
	register_commit_order();
	register_row_notes();
}
