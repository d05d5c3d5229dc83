/*
 * Entry of the extension's library.
 */
#include "consort.h"

PG_MODULE_MAGIC;

void		_PG_init(void);

void
_PG_init(void)
{
	register_row_notes();
	register_commit_order();
}
