/*
 * Plans of tables: which columns, keys and constraints the row trigger has to note. The text of a plan is the argument of
 * the trigger, and is parsed once by each session.
 *
 *   S12             shape
 *   G               texts of columns depend on settings
 *   A1p23,2o1184    conversion of each column to text, by cast or by output function, and its type
 *   I1,2            columns of the image
 *   K1              columns of the key
 *   R<seed>:1v,3t   an item: its kind, its seed, and the columns with the source of each hash; 1v20 is a cast to type 20
 */
#include "consort.h"

#include "catalog/pg_type.h"
#include "parser/parse_coerce.h"
#include "utils/builtins.h"
#include "utils/hsearch.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/typcache.h"

static HTAB *plans = NULL;

static void pg_attribute_noreturn()
unreadable(const char *source)
{
	elog(ERROR, "plan of a table cannot be read: %s", source);
}

/* Reads a number, and moves on behind it. */
static int64
number(const char **at, const char *source)
{
	char	   *end;
	int64		value;

	errno = 0;
	value = strtoi64(*at, &end, 10);
	if (end == *at || errno != 0)
		unreadable(source);
	*at = end;
	return value;
}

/* Reads a column's number, and answers its index. */
static int
column_of(const char **at, TablePlan *plan)
{
	int64		column = number(at, plan->source);

	if (column < 1 || column > plan->n_columns)
		unreadable(plan->source);
	return (int) column - 1;
}

static void
convert_by(TextConversion *conversion, Oid type, bool casts)
{
	Oid			function = InvalidOid;
	bool		is_varlena;

	conversion->is_cast = casts &&
		find_coercion_pathway(TEXTOID, type, COERCION_EXPLICIT, &function) == COERCION_PATH_FUNC;
	if (!conversion->is_cast)
		getTypeOutputInfo(type, &function, &is_varlena);
	fmgr_info_cxt(function, &conversion->function, CurrentMemoryContext);
}

static void
read_conversions(const char *at, TablePlan *plan, TupleDesc columns)
{
	while (*at)
	{
		int			column = column_of(&at, plan);
		Form_pg_attribute attribute = TupleDescAttr(columns, column);

		bool		casts = *at == 'p';

		if (!casts && *at != 'o')
			unreadable(plan->source);
		at++;
		if (number(&at, plan->source) != attribute->atttypid || attribute->attisdropped)
			unreadable(plan->source);
		convert_by(&plan->conversions[column], attribute->atttypid, casts);
		if (*at == ',')
			at++;
	}
}

static int *
read_columns(const char *at, TablePlan *plan, int *count)
{
	int		   *columns = palloc(sizeof(int) * Max(plan->n_columns, 1));

	*count = 0;
	while (*at)
	{
		if (*count >= plan->n_columns)
			unreadable(plan->source);
		columns[(*count)++] = column_of(&at, plan);
		if (*at == ',')
			at++;
	}
	return columns;
}

static void
cast_to(KeyPart *part, Oid from, Oid to, const char *source)
{
	Oid			function = InvalidOid;

	switch (find_coercion_pathway(to, from, COERCION_EXPLICIT, &function))
	{
		case COERCION_PATH_RELABELTYPE:
			break;
		case COERCION_PATH_FUNC:
			part->is_cast = true;
			fmgr_info_cxt(function, &part->cast, CurrentMemoryContext);
			break;
		default:
			unreadable(source);
	}
}

static const char *
read_part(const char *at, KeyPart *part, TablePlan *plan, TupleDesc columns)
{
	Form_pg_attribute attribute;
	Oid			type;

	memset(part, 0, sizeof(KeyPart));
	part->column = column_of(&at, plan);
	attribute = TupleDescAttr(columns, part->column);
	type = attribute->atttypid;
	part->source = *at++;
	part->collation = attribute->attcollation;
	if (*at >= '0' && *at <= '9')
	{
		Oid			parent = (Oid) number(&at, plan->source);

		cast_to(part, type, parent, plan->source);
		type = parent;
	}
	switch (part->source)
	{
		case HASH_VALUE:
			part->hash = &lookup_type_cache(type, TYPECACHE_HASH_EXTENDED_PROC_FINFO)->hash_extended_proc_finfo;
			if (!OidIsValid(part->hash->fn_oid))
				elog(ERROR, "type %u has no hash function with a seed", type);
			break;
		case HASH_TEXT:
		case HASH_OUTPUT:
		case HASH_CONSTANT:
			break;
		default:
			unreadable(plan->source);
	}
	return *at == ',' ? at + 1 : at;
}

static void
read_item(const char *at, ItemPlan *item, TablePlan *plan, TupleDesc columns)
{
	const char *part;
	int			most = 1;

	item->kind = *at++;
	item->seed = number(&at, plan->source);
	item->n_parts = 0;
	for (part = at; *part; part++)
		most += *part == ',';
	item->parts = palloc(sizeof(KeyPart) * most);
	if (*at == ':')
		at++;
	while (*at)
		at = read_part(at, &item->parts[item->n_parts++], plan, columns);
}

static void
read_word(char *word, TablePlan *plan, TupleDesc columns)
{
	const char *at = word + 1;

	switch (*word)
	{
		case 'S':
			plan->shape = number(&at, plan->source);
			break;
		case 'G':
			plan->needs_settings = true;
			break;
		case 'A':
			read_conversions(at, plan, columns);
			break;
		case 'I':
			plan->has_image = true;
			plan->image = read_columns(at, plan, &plan->n_image);
			break;
		case 'K':
			plan->key = read_columns(at, plan, &plan->n_key);
			break;
		case ITEM_ROW:
		case ITEM_UNIQUE:
		case ITEM_UNIQUE_NULLS:
		case ITEM_PARENT:
		case ITEM_PARENT_TABLE:
		case ITEM_EXCLUSION:
		case ITEM_ANY:
		case ITEM_TABLE:
			read_item(word, &plan->items[plan->n_items++], plan, columns);
			break;
		default:
			unreadable(plan->source);
	}
}

/* Fills a plan from its text, in the plan's own memory. */
static void
read_plan(TablePlan *plan, Relation relation, const char *source)
{
	MemoryContext before = MemoryContextSwitchTo(plan->context);
	TupleDesc	columns = RelationGetDescr(relation);
	char	   *words,
			   *rest;
	int			n_words = 1;

	plan->source = pstrdup(source);
	plan->n_columns = columns->natts;
	plan->conversions = palloc0(sizeof(TextConversion) * Max(columns->natts, 1));
	for (const char *at = source; *at; at++)
		n_words += *at == ' ';
	plan->items = palloc0(sizeof(ItemPlan) * n_words);
	words = pstrdup(source);
	for (char *word = strtok_r(words, " ", &rest); word; word = strtok_r(NULL, " ", &rest))
		read_word(word, plan, columns);
	MemoryContextSwitchTo(before);
}

/*
 * The plan of a relation. A text that has changed is parsed again: it names types and the shape, so that no other change
 * of the table matters.
 */
TablePlan *
plan_of(Relation relation, const char *source)
{
	Oid			key = RelationGetRelid(relation);
	TablePlan  *plan;
	TablePlan	fresh = {0};
	bool		is_known;

	if (plans == NULL)
	{
		HASHCTL		control = {0};

		control.keysize = sizeof(Oid);
		control.entrysize = sizeof(TablePlan);
		control.hcxt = TopMemoryContext;
		plans = hash_create("consort plans", 64, &control, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	}
	plan = hash_search(plans, &key, HASH_FIND, NULL);
	if (plan != NULL && strcmp(plan->source, source) == 0)
		return plan;
	fresh.relation = key;
	fresh.context = AllocSetContextCreate(CurrentMemoryContext, "consort plan", ALLOCSET_SMALL_SIZES);
	read_plan(&fresh, relation, source);
	plan = hash_search(plans, &key, HASH_ENTER, &is_known);
	if (is_known)
		MemoryContextDelete(plan->context);
	*plan = fresh;
	MemoryContextSetParent(plan->context, TopMemoryContext);
	return plan;
}

/* A value that is not NULL as text. */
char *
text_of(TablePlan *plan, int column, Datum value)
{
	TextConversion *conversion = &plan->conversions[column];

	if (conversion->is_cast)
		return TextDatumGetCString(FunctionCall1(&conversion->function, value));
	return OutputFunctionCall(&conversion->function, value);
}
