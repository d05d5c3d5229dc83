/*
 * Notes of the open transaction: each changed row with its key, its image and the items of its footprint, in the format of
 * the notes that PL/pgSQL triggers write into consort.notes. They stay in memory until consort.native_notes() answers them:
 *
 *   [shape, change of the number of rows, key, image, items written, items shared]
 *
 * A rolled back subtransaction takes its notes with it. A transaction whose notes were not read does not commit.
 */
#include "consort.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/namespace.h"
#include "catalog/pg_authid.h"
#include "catalog/pg_collation.h"
#include "catalog/pg_type.h"
#include "commands/trigger.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/guc.h"
#include "utils/json.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/typcache.h"

/* Notes of one transaction take at most so many bytes: every node gets a write set in one message. */
#define NOTES_LIMIT_BYTES (256 * 1024 * 1024)
/* Memory that an idle session keeps. */
#define KEPT_BYTES (256 * 1024)

typedef struct Note
{
	int			level;			/* nesting level of the subtransaction that wrote it */
	int			start;			/* where its text begins */
} Note;

/* Notes up to some number are in the table, too. */
typedef struct Spill
{
	int			level;			/* nesting level of the subtransaction that has written them there */
	int			upto;
} Spill;

/*
 * Invariants: levels of notes and of spills never fall from one to the next; texts are in the order of notes.
 */
typedef struct TransactionNotes
{
	StringInfoData texts;		/* each note, followed by a comma */
	int			used;			/* bytes of whole notes: an error may leave a part of another one behind them */
	int			count;
	int			capacity;
	Note	   *notes;
	int			n_spills;
	int			spill_capacity;
	Spill	   *spills;
	bool		is_read;		/* the notes were answered: nothing more may change */
	bool		is_certifying;	/* constraints are checked before the notes are answered */
	bool		uses_tables;	/* something was written to consort.notes, effects or permits */
} TransactionNotes;

static TransactionNotes open_transaction;
static MemoryContext notes_context = NULL;
static MemoryContext row_context = NULL;

/* A row: its columns' values. */
typedef struct Row
{
	Datum	   *values;
	bool	   *nulls;
} Row;

/* Items of one note, as JSON without brackets. */
typedef struct Items
{
	StringInfoData written;
	StringInfoData shared;
} Items;

PG_FUNCTION_INFO_V1(consort_note_row);
PG_FUNCTION_INFO_V1(consort_note_table_use);
PG_FUNCTION_INFO_V1(consort_notes);
PG_FUNCTION_INFO_V1(consort_spill);
PG_FUNCTION_INFO_V1(consort_commit_at);

/* ---------------------------------------------------------------------------------------------------- life of notes */

static void
prepare_memory(void)
{
	MemoryContext before;

	if (open_transaction.notes != NULL)
		return;
	if (notes_context == NULL)
	{
		notes_context = AllocSetContextCreate(TopMemoryContext, "consort notes", ALLOCSET_DEFAULT_SIZES);
		row_context = AllocSetContextCreate(TopMemoryContext, "consort row", ALLOCSET_DEFAULT_SIZES);
	}
	before = MemoryContextSwitchTo(notes_context);
	initStringInfo(&open_transaction.texts);
	open_transaction.capacity = 64;
	open_transaction.notes = palloc(sizeof(Note) * open_transaction.capacity);
	open_transaction.spill_capacity = 4;
	open_transaction.spills = palloc(sizeof(Spill) * open_transaction.spill_capacity);
	MemoryContextSwitchTo(before);
}

/* Begins a note: its text follows. */
static StringInfo
begin_note(void)
{
	TransactionNotes *open = &open_transaction;

	if (open->texts.len > NOTES_LIMIT_BYTES)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("the transaction changes more than %d MB", NOTES_LIMIT_BYTES / (1024 * 1024)),
				 errhint("Change the rows in several transactions.")));
	if (open->count == open->capacity)
	{
		open->notes = repalloc_huge(open->notes, sizeof(Note) * open->capacity * 2);
		open->capacity *= 2;
	}
	open->texts.len = open->used;
	open->notes[open->count].level = GetCurrentTransactionNestLevel();
	open->notes[open->count].start = open->texts.len;
	return &open->texts;
}

/* Number of notes that are in the table already. */
static int
spilled(void)
{
	TransactionNotes *open = &open_transaction;

	return open->n_spills == 0 ? 0 : open->spills[open->n_spills - 1].upto;
}

/* The transaction is over. */
static void
forget_transaction(void)
{
	TransactionNotes *open = &open_transaction;

	open->count = open->used = 0;
	open->n_spills = 0;
	open->is_read = open->is_certifying = open->uses_tables = false;
	if (open->notes == NULL)
		return;
	if (open->texts.maxlen + open->capacity * sizeof(Note) > KEPT_BYTES)
	{
		MemoryContextReset(notes_context);
		memset(open, 0, sizeof(*open));
	}
	else
		resetStringInfo(&open->texts);
	MemoryContextReset(row_context);
}

static void pg_attribute_noreturn()
refuse_uncertified(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("the transaction changes rows and was not certified"),
			 errhint("Commit through Consort, and outside of procedures and DO blocks.")));
}

static void
at_transaction_event(XactEvent event, void *arg)
{
	switch (event)
	{
		case XACT_EVENT_PRE_COMMIT:
		case XACT_EVENT_PRE_PREPARE:
			if (open_transaction.count > 0 && !open_transaction.is_read)
				refuse_uncertified();
			break;
		case XACT_EVENT_COMMIT:
		case XACT_EVENT_ABORT:
		case XACT_EVENT_PREPARE:
			forget_transaction();
			break;
		default:
			break;
	}
}

/* Notes of a subtransaction become its parent's, or go with it. Only the last ones can be its own. */
static void
at_subtransaction_event(SubXactEvent event, SubTransactionId id, SubTransactionId parent, void *arg)
{
	TransactionNotes *open = &open_transaction;
	int			level = GetCurrentTransactionNestLevel();

	if (event == SUBXACT_EVENT_ABORT_SUB)
	{
		while (open->count > 0 && open->notes[open->count - 1].level >= level)
		{
			open->count--;
			open->used = open->notes[open->count].start;
		}
		while (open->n_spills > 0 && open->spills[open->n_spills - 1].level >= level)
			open->n_spills--;
	}
	else if (event == SUBXACT_EVENT_COMMIT_SUB)
	{
		for (int i = open->count - 1; i >= 0 && open->notes[i].level >= level; i--)
			open->notes[i].level = level - 1;
		for (int i = open->n_spills - 1; i >= 0 && open->spills[i].level >= level; i--)
			open->spills[i].level = level - 1;
	}
}

void
register_row_notes(void)
{
	RegisterXactCallback(at_transaction_event, NULL);
	RegisterSubXactCallback(at_subtransaction_event, NULL);
}

/* ---------------------------------------------------------------------------------------------------- texts of a row */

static void
append_integer(StringInfo out, int64 value)
{
	char		digits[MAXINT8LEN + 1];
	int			length = pg_lltoa(value, digits);

	appendBinaryStringInfo(out, digits, length);
}

/* A JSON array of the texts of columns. */
static void
append_texts(StringInfo out, TablePlan *plan, const int *columns, int count, const Row *row)
{
	appendStringInfoChar(out, '[');
	for (int i = 0; i < count; i++)
	{
		int			column = columns[i];

		if (i > 0)
			appendStringInfoChar(out, ',');
		if (row->nulls[column])
			appendStringInfoString(out, "null");
		else
			escape_json(out, text_of(plan, column, row->values[column]));
	}
	appendStringInfoChar(out, ']');
}

/* Whether two rows differ in the texts of a column. */
static bool
column_differs(TablePlan *plan, TupleDesc columns, int column, const Row *old_row, const Row *new_row)
{
	Form_pg_attribute attribute = TupleDescAttr(columns, column);

	if (old_row->nulls[column] || new_row->nulls[column])
		return old_row->nulls[column] != new_row->nulls[column];
	if (datum_image_eq(old_row->values[column], new_row->values[column], attribute->attbyval, attribute->attlen))
		return false;
	return strcmp(text_of(plan, column, old_row->values[column]), text_of(plan, column, new_row->values[column])) != 0;
}

/*
 * Settings under which every node writes texts. Answers the level to return to, 0 if all are so already. The client's own
 * settings return at the end of the row, also after an error.
 */
static int
begin_settings(void)
{
	static const char *const wanted[][2] = {
		{"datestyle", "ISO, MDY"},
		{"intervalstyle", "postgres"},
		{"extra_float_digits", "1"},
		{"bytea_output", "hex"},
		{"lc_monetary", "C"},
		{"timezone", "UTC"},
		{"search_path", "pg_catalog, pg_temp"},
	};
	int			level = 0;

	for (int i = 0; i < lengthof(wanted); i++)
	{
		const char *now = GetConfigOption(wanted[i][0], false, false);

		if (now != NULL && strcmp(now, wanted[i][1]) == 0)
			continue;
		if (level == 0)
			level = NewGUCNestLevel();
		(void) set_config_option(wanted[i][0], wanted[i][1], PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE, true, 0, false);
	}
	return level;
}

/* ------------------------------------------------------------------------------------------------------------ items */

static uint64
hash_text(const char *text, int64 seed)
{
	Datum		value = PointerGetDatum(cstring_to_text(text));

	return DatumGetUInt64(DirectFunctionCall2Coll(hashtextextended, DEFAULT_COLLATION_OID, value, Int64GetDatum(seed)));
}

static uint64
hash_part(TablePlan *plan, KeyPart *part, const Row *row, int64 seed)
{
	bool		is_null = row->nulls[part->column];
	Datum		value = row->values[part->column];

	switch (part->source)
	{
		case HASH_CONSTANT:
			return DatumGetUInt64(DirectFunctionCall2(hashcharextended, CharGetDatum(1), Int64GetDatum(seed)));
		case HASH_OUTPUT:
			return hash_text(is_null ? "" : text_of(plan, part->column, value), seed);
		default:
			break;
	}
	if (is_null)
		return 0;
	if (part->source == HASH_TEXT)
		return hash_text(text_of(plan, part->column, value), seed);
	if (part->is_cast)
		value = FunctionCall1(&part->cast, value);
	return DatumGetUInt64(FunctionCall2Coll(part->hash, part->collation, value, Int64GetDatum(seed)));
}

/* The number that hash_record_extended(ROW(...), seed) gives. */
static int64
hash_parts(TablePlan *plan, ItemPlan *item, const Row *row)
{
	uint64		result = 0;

	for (int i = 0; i < item->n_parts; i++)
		result = (result << 5) - result + hash_part(plan, &item->parts[i], row, item->seed);
	return (int64) result;
}

static void
append_item(StringInfo items, int64 item)
{
	if (items->len > 0)
		appendStringInfoChar(items, ',');
	append_integer(items, item);
}

static bool
has_null(const ItemPlan *item, const Row *row)
{
	for (int i = 0; i < item->n_parts; i++)
		if (row->nulls[item->parts[i].column])
			return true;
	return false;
}

/* Whether old and new row differ in the item's columns; without both they do. */
static bool
item_differs(TablePlan *plan, TupleDesc columns, const ItemPlan *item, const Row *old_row, const Row *new_row)
{
	if (old_row == NULL || new_row == NULL)
		return true;
	for (int i = 0; i < item->n_parts; i++)
		if (column_differs(plan, columns, item->parts[i].column, old_row, new_row))
			return true;
	return false;
}

/* The items of one key or constraint; old_row is NULL for INSERT, new_row for DELETE. */
static void
note_item(TablePlan *plan, TupleDesc columns, ItemPlan *item, const Row *old_row, const Row *new_row, Items *items)
{
	const Row  *both[] = {old_row, new_row};

	switch (item->kind)
	{
		case ITEM_UNIQUE:
		case ITEM_UNIQUE_NULLS:
			if (!item_differs(plan, columns, item, old_row, new_row))
				return;
			/* FALLTHROUGH */
		case ITEM_ROW:
			for (int i = 0; i < lengthof(both); i++)
				if (both[i] != NULL && (item->kind != ITEM_UNIQUE || !has_null(item, both[i])))
					append_item(&items->written, hash_parts(plan, item, both[i]));
			return;
		case ITEM_PARENT:
		case ITEM_PARENT_TABLE:
			if (new_row == NULL || has_null(item, new_row) || !item_differs(plan, columns, item, old_row, new_row))
				return;
			append_item(&items->shared, item->kind == ITEM_PARENT ? hash_parts(plan, item, new_row) : item->seed);
			return;
		case ITEM_EXCLUSION:
			if (new_row != NULL)
				append_item(&items->written, item->seed);
			return;
		case ITEM_TABLE:
			if (old_row != NULL)
				append_item(&items->written, item->seed);
			return;
		case ITEM_ANY:
			append_item(&items->written, item->seed);
			return;
	}
}

/* ------------------------------------------------------------------------------------------------------ row trigger */

/* Appends one note. Rows without an image, and items that another note of the row has, are NULL. */
static void
append_note(TablePlan *plan, int delta, const char *key, const Row *image, const Items *items)
{
	StringInfo	out = begin_note();

	appendStringInfoChar(out, '[');
	append_integer(out, plan->shape);
	appendStringInfoString(out, delta > 0 ? ",1," : delta < 0 ? ",-1," : ",0,");
	appendStringInfoString(out, key);
	appendStringInfoChar(out, ',');
	if (image != NULL && plan->has_image)
		append_texts(out, plan, plan->image, plan->n_image, image);
	else
		appendStringInfoString(out, "null");
	if (items == NULL)
		appendStringInfoString(out, ",null,null],");
	else
	{
		appendStringInfoString(out, ",[");
		appendBinaryStringInfo(out, items->written.data, items->written.len);
		appendStringInfoString(out, "],[");
		appendBinaryStringInfo(out, items->shared.data, items->shared.len);
		appendStringInfoString(out, "]],");
	}
	open_transaction.used = out->len;
	open_transaction.count++;
}

static char *
key_text(TablePlan *plan, const Row *row)
{
	StringInfoData text;

	initStringInfo(&text);
	append_texts(&text, plan, plan->key, plan->n_key, row);
	return text.data;
}

static void
note_change(TablePlan *plan, TupleDesc columns, const Row *old_row, const Row *new_row)
{
	char	   *old_key = old_row ? key_text(plan, old_row) : NULL;
	char	   *new_key = new_row ? key_text(plan, new_row) : NULL;
	Items		items;

	initStringInfo(&items.written);
	initStringInfo(&items.shared);
	for (int i = 0; i < plan->n_items; i++)
		note_item(plan, columns, &plan->items[i], old_row, new_row, &items);
	if (old_row == NULL)
		append_note(plan, 1, new_key, new_row, &items);
	else if (new_row == NULL)
		append_note(plan, -1, old_key, NULL, &items);
	else if (plan->has_image && strcmp(old_key, new_key) == 0)
		append_note(plan, 0, new_key, new_row, &items);
	else
	{
		append_note(plan, -1, old_key, NULL, &items);
		append_note(plan, 1, new_key, new_row, NULL);
	}
}

static Row *
deformed(HeapTuple tuple, TupleDesc columns)
{
	Row		   *row = palloc(sizeof(Row));

	row->values = palloc(sizeof(Datum) * Max(columns->natts, 1));
	row->nulls = palloc(sizeof(bool) * Max(columns->natts, 1));
	heap_deform_tuple(tuple, columns, row->values, row->nulls);
	return row;
}

/*
 * Row trigger after INSERT, UPDATE and DELETE. Its argument is the plan of the table.
 */
Datum
consort_note_row(PG_FUNCTION_ARGS)
{
	TriggerData *trigger = (TriggerData *) fcinfo->context;
	MemoryContext before;
	TupleDesc	columns;
	TablePlan  *plan;
	Row		   *row,
			   *new_row = NULL;
	int			settings = 0;

	if (!CALLED_AS_TRIGGER(fcinfo) || !TRIGGER_FIRED_AFTER(trigger->tg_event) ||
		!TRIGGER_FIRED_FOR_ROW(trigger->tg_event) || trigger->tg_trigger->tgnargs != 1)
		elog(ERROR, "consort_note_row is a trigger after each row, with one argument");
	if (open_transaction.is_read)
		refuse_uncertified();
	prepare_memory();
	MemoryContextReset(row_context);
	before = MemoryContextSwitchTo(row_context);
	plan = plan_of(trigger->tg_relation, trigger->tg_trigger->tgargs[0]);
	columns = RelationGetDescr(trigger->tg_relation);
	if (plan->needs_settings)
		settings = begin_settings();
	row = deformed(trigger->tg_trigtuple, columns);
	if (TRIGGER_FIRED_BY_UPDATE(trigger->tg_event))
		new_row = deformed(trigger->tg_newtuple, columns);
	if (TRIGGER_FIRED_BY_INSERT(trigger->tg_event))
		note_change(plan, columns, NULL, row);
	else
		note_change(plan, columns, row, new_row);
	if (settings != 0)
		AtEOXact_GUC(true, settings);
	MemoryContextSwitchTo(before);
	return PointerGetDatum(NULL);
}

/* Lets constraints of consort.notes and consort.effects pass, or not. */
static void
pass_constraints(bool passes)
{
	(void) set_config_option("session_preload_libraries", passes ? "consort certifies" : "", PGC_SUSET, PGC_S_SESSION,
							 GUC_ACTION_LOCAL, true, 0, false);
}

/*
 * Statement trigger after INSERT into consort.notes, effects and permits: the answer has to look there. What constraints
 * write while they are checked for the answer is certified.
 */
Datum
consort_note_table_use(PG_FUNCTION_ARGS)
{
	if (!CALLED_AS_TRIGGER(fcinfo))
		elog(ERROR, "consort_note_table_use is a trigger");
	open_transaction.uses_tables = true;
	if (open_transaction.is_certifying)
		pass_constraints(true);
	return PointerGetDatum(NULL);
}

/* -------------------------------------------------------------------------------------------------- Consort's calls */

/* Refuses callers that do not know the secret of the process that commits at this node now. */
void
check_secret(text *said)
{
	Oid			schema = get_namespace_oid("consort", false);
	Oid			table = get_relname_relid("secret", schema);
	Relation	relation;
	SysScanDesc scan;
	HeapTuple	tuple;
	bool		is_known = false;

	if (!OidIsValid(table))
		elog(ERROR, "the table consort.secret is missing");
	relation = table_open(table, AccessShareLock);
	scan = systable_beginscan(relation, InvalidOid, false, NULL, 0, NULL);
	while (!is_known && HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		bool		is_null;
		Datum		value = heap_getattr(tuple, 1, RelationGetDescr(relation), &is_null);

		is_known = !is_null && DatumGetBool(DirectFunctionCall2Coll(texteq, C_COLLATION_OID, value, PointerGetDatum(said)));
	}
	systable_endscan(scan);
	table_close(relation, AccessShareLock);
	if (!is_known)
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE), errmsg("this function is for Consort alone")));
}

int64
text_to_version(text *version)
{
	return DatumGetInt64(DirectFunctionCall1(int8in, CStringGetDatum(text_to_cstring(version))));
}

/* Rights and settings of a client, to return to. */
typedef struct Client
{
	Oid			user;
	int			security;
	int			settings;
} Client;

/* Begins statements of Consort's own: with the rights of a superuser, and names that no client can redirect. */
static Client
begin_statements(void)
{
	Client		client;

	GetUserIdAndSecContext(&client.user, &client.security);
	SetUserIdAndSecContext(BOOTSTRAP_SUPERUSERID, client.security | SECURITY_LOCAL_USERID_CHANGE);
	client.settings = NewGUCNestLevel();
	(void) set_config_option("search_path", "pg_catalog, pg_temp", PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE, true, 0,
							 false);
	if (SPI_connect() != SPI_OK_CONNECT)
		elog(ERROR, "SPI_connect failed");
	return client;
}

static void
end_statements(Client client)
{
	SPI_finish();
	AtEOXact_GUC(true, client.settings);
	SetUserIdAndSecContext(client.user, client.security);
}

/* Runs a statement whose plan is kept. */
static void
run_kept(SPIPlanPtr *kept, const char *statement, int count, Oid *types, Datum *values, int expected)
{
	if (*kept == NULL)
	{
		SPIPlanPtr	plan = SPI_prepare(statement, count, types);

		if (plan == NULL || SPI_keepplan(plan) != 0)
			elog(ERROR, "cannot prepare: %s", statement);
		*kept = plan;
	}
	if (SPI_execute_plan(*kept, values, NULL, false, 0) != expected)
		elog(ERROR, "cannot execute: %s", statement);
}

/* Notes in the table as JSON without brackets; empty if the notes are not all of the write set. NULL if there are none. */
static char *
notes_of_tables(void)
{
	static SPIPlanPtr kept = NULL;
	MemoryContext caller = CurrentMemoryContext;
	Client		client = begin_statements();
	char	   *found;

	run_kept(&kept,
			 "SELECT CASE WHEN EXISTS (SELECT FROM consort.effects WHERE xact = x) OR EXISTS (SELECT FROM consort.permits WHERE xact = x) THEN '' "
			 "ELSE (SELECT string_agg(json_build_array(shape, delta, key, image, writes, shares)::text, ',') FROM consort.notes WHERE xact = x) END "
			 "FROM pg_current_xact_id_if_assigned() AS x", 0, NULL, NULL, SPI_OK_SELECT);
	found = SPI_getvalue(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1);
	if (found != NULL)
		found = MemoryContextStrdup(caller, found);
	end_statements(client);
	return found;
}

/*
 * consort.native_notes(secret): checks deferred constraints, and answers the notes of the transaction; NULL if there are
 * none, no JSON if they are not all of its write set. It runs with the rights of its caller, as the constraints do.
 */
Datum
consort_notes(PG_FUNCTION_ARGS)
{
	TransactionNotes *open = &open_transaction;
	ConstraintsSetStmt *all = makeNode(ConstraintsSetStmt);
	StringInfoData answer;
	char	   *others = NULL;

	check_secret(PG_GETARG_TEXT_PP(0));
	open->is_certifying = true;
	if (open->uses_tables)
		pass_constraints(true);
	AfterTriggerSetState(all);
	open->is_certifying = false;
	open->is_read = true;
	if (open->uses_tables)
	{
		/* What the COMMIT itself still writes is not certified. */
		pass_constraints(false);
		others = notes_of_tables();
		if (others != NULL && *others == '\0')
			PG_RETURN_TEXT_P(cstring_to_text(""));
	}
	if (open->count == 0 && others == NULL)
		PG_RETURN_NULL();
	initStringInfo(&answer);
	appendStringInfoChar(&answer, '[');
	if (open->count > 0)
		appendBinaryStringInfo(&answer, open->texts.data, open->used);
	if (others != NULL)
		appendStringInfoString(&answer, others);
	else
		answer.len--;			/* the comma after the last note */
	appendStringInfoChar(&answer, ']');
	PG_RETURN_TEXT_P(cstring_to_text_with_len(answer.data, answer.len));
}

/*
 * consort.native_spill(): copies the notes into consort.notes, where consort.gather() reads them. They stay in memory until
 * the copy is sure to stay: a savepoint may take it back.
 */
Datum
consort_spill(PG_FUNCTION_ARGS)
{
	static SPIPlanPtr kept = NULL;
	TransactionNotes *open = &open_transaction;
	StringInfoData texts;
	Oid			types[] = {TEXTOID};
	Datum		values[1];
	Client		client;
	int			first = spilled();

	if (open->count == first)
		PG_RETURN_VOID();
	if (open->n_spills == open->spill_capacity)
	{
		open->spills = repalloc(open->spills, sizeof(Spill) * open->spill_capacity * 2);
		open->spill_capacity *= 2;
	}
	initStringInfo(&texts);
	appendStringInfoChar(&texts, '[');
	appendBinaryStringInfo(&texts, open->texts.data + open->notes[first].start,
						   open->used - open->notes[first].start - 1);
	appendStringInfoChar(&texts, ']');
	values[0] = PointerGetDatum(cstring_to_text_with_len(texts.data, texts.len));
	client = begin_statements();
	run_kept(&kept,
			 "INSERT INTO consort.notes (xact, rel, delta, key, writes, shares, shape, image) "
			 "SELECT pg_current_xact_id(), s.rel, (n->>1)::int, ARRAY(SELECT json_array_elements_text(n->2)), "
			 "CASE WHEN json_typeof(n->4) = 'array' THEN ARRAY(SELECT json_array_elements_text(n->4)::bigint) END, "
			 "CASE WHEN json_typeof(n->5) = 'array' THEN ARRAY(SELECT json_array_elements_text(n->5)::bigint) END, s.shape, "
			 "CASE WHEN json_typeof(n->3) = 'array' THEN ARRAY(SELECT json_array_elements_text(n->3)) END "
			 "FROM json_array_elements($1::json) n JOIN consort.shapes s ON s.shape = (n->>0)::bigint",
			 1, types, values, SPI_OK_INSERT);
	if (SPI_processed != open->count - first)
		elog(ERROR, "the shape of a note is unknown");
	end_statements(client);
	open->spills[open->n_spills].level = GetCurrentTransactionNestLevel();
	open->spills[open->n_spills].upto = open->count;
	open->n_spills++;
	PG_RETURN_VOID();
}

/* consort.native_commit_at(secret, version): the transaction shows this version when it commits, which follows. */
Datum
consort_commit_at(PG_FUNCTION_ARGS)
{
	static SPIPlanPtr insert = NULL;
	static SPIPlanPtr delete = NULL;
	Oid			types[] = {INT8OID};
	Datum		values[1];
	Client		client;
	int64		version;

	check_secret(PG_GETARG_TEXT_PP(0));
	version = text_to_version(PG_GETARG_TEXT_PP(1));
	values[0] = Int64GetDatum(version);
	client = begin_statements();
	if (open_transaction.uses_tables)
		run_kept(&delete, "DELETE FROM consort.notes WHERE xact = pg_current_xact_id_if_assigned()", 0, NULL, NULL,
				 SPI_OK_DELETE);
	run_kept(&insert, "INSERT INTO consort.version VALUES ($1)", 1, types, values, SPI_OK_INSERT);
	end_statements(client);
	PG_RETURN_VOID();
}
