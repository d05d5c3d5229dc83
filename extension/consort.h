/*
 * Parts of the extension: plans of tables (plan.c), notes of the open transaction (row_notes.c), and the order of commits
 * (commit_order.c).
 */
#ifndef CONSORT_H
#define CONSORT_H

#include "postgres.h"

#include "fmgr.h"
#include "lib/stringinfo.h"
#include "utils/rel.h"

/* Source of the value that a part of a key is hashed by. */
typedef enum HashSource
{
	HASH_VALUE = 'v',			/* the value, by the hash function of its type */
	HASH_TEXT = 't',			/* its cast to text */
	HASH_OUTPUT = 'c',			/* the text of its output function; empty for NULL */
	HASH_CONSTANT = 'k'			/* true: all values count as one */
} HashSource;

/* One column of a key. */
typedef struct KeyPart
{
	int			column;			/* index of the column, from 0 */
	HashSource	source;
	Oid			collation;
	FmgrInfo   *hash;			/* hash function with a seed; NULL unless HASH_VALUE */
	bool		is_cast;		/* a function converts the value to the parent's type first */
	FmgrInfo	cast;
} KeyPart;

/* Kinds of items that a row may touch. */
typedef enum ItemKind
{
	ITEM_ROW = 'R',				/* the row itself: old and new */
	ITEM_UNIQUE = 'U',			/* value of a unique key; NULLs are distinct */
	ITEM_UNIQUE_NULLS = 'D',	/* value of a unique key; NULLs are equal */
	ITEM_PARENT = 'P',			/* shared: the parent key of a foreign key */
	ITEM_PARENT_TABLE = 'Q',	/* shared: all of the parent table */
	ITEM_EXCLUSION = 'X',		/* one item for all new and changed rows */
	ITEM_ANY = 'B',				/* one item for all rows */
	ITEM_TABLE = 'N'			/* nothing tells rows apart: one item for changed and deleted rows */
} ItemKind;

typedef struct ItemPlan
{
	ItemKind	kind;
	int64		seed;			/* seed of the hash, or the item */
	int			n_parts;
	KeyPart    *parts;
} ItemPlan;

/* Conversion of a column's value to text. */
typedef struct TextConversion
{
	bool		is_cast;		/* a function to text; else the output function */
	FmgrInfo	function;
} TextConversion;

/* What the row trigger of one table does, as consort.native_plan() has written it. */
typedef struct TablePlan
{
	Oid			relation;		/* key of the hash table of plans */
	char	   *source;			/* text of the plan */
	MemoryContext context;
	int64		shape;
	bool		needs_settings; /* texts of its columns depend on settings */
	bool		has_image;		/* false where nothing tells rows apart */
	int			n_columns;		/* columns of the relation, dropped ones too */
	TextConversion *conversions;	/* one for each column */
	int			n_image;
	int		   *image;			/* columns that other nodes get */
	int			n_key;
	int		   *key;			/* columns by which a row is found; all where nothing tells rows apart */
	int			n_items;
	ItemPlan   *items;
} TablePlan;

/* plan.c */
extern TablePlan *plan_of(Relation relation, const char *source);
extern char *text_of(TablePlan *plan, int column, Datum value);

/* row_notes.c */
extern void register_row_notes(void);
extern void check_secret(text *said);
extern int64 text_to_version(text *version);

/* commit_order.c */
extern void register_commit_order(void);

#endif
