/*
 * The order of commits of a database: a transaction waits for its turn before it commits, commits in memory, and passes the
 * turn on when it is visible. Its session flushes after that (Elnikety, Dropsho and Pedone, "Tashkent", section 7: the
 * engine keeps the order that COMMIT n names).
 *
 *   PRE_COMMIT      wait until `next` is the transaction's version
 *   COMMIT          it is visible: `next` moves on, and the session that waits for it is woken
 *   flush           after the locks: commits of several sessions share it
 *
 * The gate of a database is closed after each start of the server. Consort opens it with the version that the database
 * shows. It never moves by itself: a transaction that fails in its turn leaves it, and another one brings its version.
 */
#include "consort.h"

#include "access/xact.h"
#include "access/xlog.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/lwlock.h"
#include "storage/proc.h"
#include "storage/shmem.h"
#include "storage/spin.h"
#include "utils/timestamp.h"

/* Databases with a gate. */
#define GATES 64
/* A transaction waits so long: less than Consort waits for the answer to its COMMIT. */
#define TURN_LIMIT_MS 4000

/*
 * One database. Invariant: `next` never falls in a life of the server.
 */
typedef struct Gate
{
	Oid			database;		/* InvalidOid: not used */
	int64		next;			/* the version that may commit */
} Gate;

/* A session that waits for its turn. */
typedef struct Waiter
{
	Oid			database;		/* InvalidOid: it does not */
	int64		version;
	Latch	   *latch;
} Waiter;

typedef struct CommitOrder
{
	slock_t		lock;
	int			n_waiters;
	Gate		gates[GATES];
	Waiter		waiters[FLEXIBLE_ARRAY_MEMBER];
} CommitOrder;

static CommitOrder *order = NULL;

/* The turn of the open transaction. */
typedef struct Turn
{
	int64		first;			/* 0: the transaction has no place in the order */
	int64		last;
	bool		is_taken;
	int			waiter;			/* place among the waiters, or -1 */
	int			synchronous_commit;
} Turn;

static Turn turn = {0, 0, false, -1, 0};
static bool leaves_at_exit = false;

static shmem_startup_hook_type earlier_startup = NULL;
static shmem_request_hook_type earlier_request = NULL;

PG_FUNCTION_INFO_V1(consort_has_order);
PG_FUNCTION_INFO_V1(consort_open_gate);
PG_FUNCTION_INFO_V1(consort_take_turn);
PG_FUNCTION_INFO_V1(consort_next_version);
PG_FUNCTION_INFO_V1(consort_flush);

/* ---------------------------------------------------------------------------------------------------- shared memory */

static Size
order_size(void)
{
	return add_size(offsetof(CommitOrder, waiters), mul_size(sizeof(Waiter), MaxBackends));
}

static void
request_memory(void)
{
	if (earlier_request)
		earlier_request();
	RequestAddinShmemSpace(order_size());
}

static void
create_memory(void)
{
	bool		is_found;

	if (earlier_startup)
		earlier_startup();
	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	order = ShmemInitStruct("consort commit order", order_size(), &is_found);
	if (!is_found)
	{
		memset(order, 0, order_size());
		SpinLockInit(&order->lock);
		order->n_waiters = MaxBackends;
	}
	LWLockRelease(AddinShmemInitLock);
}

static CommitOrder *
needed_order(void)
{
	if (order == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("the order of commits needs the library \"consort\" at the start of the server"),
				 errhint("Add consort to shared_preload_libraries, and restart the server.")));
	return order;
}

/* The gate of this database; NULL if it has none. The lock is held. */
static Gate *
gate_of(Oid database)
{
	for (int i = 0; i < GATES; i++)
		if (order->gates[i].database == database)
			return &order->gates[i];
	return NULL;
}

/* Wakes the session that waits for the version whose turn it is. The lock is held; the latch is to be set after it. */
static Latch *
waiter_of(const Gate *gate)
{
	for (int i = 0; i < order->n_waiters; i++)
	{
		Waiter	   *waiter = &order->waiters[i];

		if (waiter->database == gate->database && waiter->version == gate->next)
			return waiter->latch;
	}
	return NULL;
}

/* Moves the gate of this database on, never back. A gate that is not open is opened if `opens`. */
static void
move_gate(int64 next, bool opens)
{
	Gate	   *gate;
	Latch	   *latch = NULL;

	SpinLockAcquire(&order->lock);
	gate = gate_of(MyDatabaseId);
	if (gate == NULL && opens)
	{
		gate = gate_of(InvalidOid);
		if (gate != NULL)
		{
			gate->database = MyDatabaseId;
			gate->next = 0;
		}
	}
	if (gate != NULL && gate->next < next)
	{
		gate->next = next;
		latch = waiter_of(gate);
	}
	SpinLockRelease(&order->lock);
	if (latch != NULL)
		SetLatch(latch);
	if (gate == NULL && opens)
		ereport(ERROR,
				(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
				 errmsg("more than %d databases have an order of commits", GATES)));
}

/* ------------------------------------------------------------------------------------------------------------- turns */

static void
leave_waiters(void)
{
	if (turn.waiter < 0)
		return;
	SpinLockAcquire(&order->lock);
	order->waiters[turn.waiter].database = InvalidOid;
	SpinLockRelease(&order->lock);
	turn.waiter = -1;
}

static void
leave_at_exit(int code, Datum argument)
{
	leave_waiters();
}

/* What the gate says to a version. */
typedef enum Admission
{
	ADMITTED,
	EARLY,						/* its turn comes */
	CLOSED,						/* no session has opened the gate */
	PASSED						/* the version has been committed */
} Admission;

/* Asks the gate, and becomes a waiter if the turn is to come. */
static Admission
admission(int64 version)
{
	Gate	   *gate;
	Admission	answer;

	SpinLockAcquire(&order->lock);
	gate = gate_of(MyDatabaseId);
	if (gate == NULL || gate->next == 0)
		answer = CLOSED;
	else if (gate->next == version)
		answer = ADMITTED;
	else if (gate->next > version)
		answer = PASSED;
	else
		answer = EARLY;
	if (answer == EARLY)
		for (int i = 0; turn.waiter < 0 && i < order->n_waiters; i++)
			if (order->waiters[i].database == InvalidOid)
			{
				order->waiters[i].database = MyDatabaseId;
				order->waiters[i].version = version;
				order->waiters[i].latch = MyLatch;
				turn.waiter = i;
			}
	SpinLockRelease(&order->lock);
	return answer;
}

static void pg_attribute_noreturn()
refuse_turn(Admission answer, int64 version)
{
	const char *why = answer == CLOSED ? "the order of commits is closed"
		: answer == PASSED ? "the version was committed before"
		: "the versions before it were not committed in time";

	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("cannot commit version " INT64_FORMAT ": %s", version, why)));
}

/* Waits for the turn of the transaction. Cancellations and terminations end the wait. */
static void
wait_for_turn(void)
{
	TimestampTz since = GetCurrentTimestamp();
	Admission	answer;

	while ((answer = admission(turn.first)) == EARLY)
	{
		long		left = TURN_LIMIT_MS - TimestampDifferenceMilliseconds(since, GetCurrentTimestamp());

		if (left <= 0)
			break;
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, left, PG_WAIT_EXTENSION);
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
	}
	leave_waiters();
	if (answer != ADMITTED)
		refuse_turn(answer, turn.first);
	turn.is_taken = true;
	turn.synchronous_commit = synchronous_commit;
	synchronous_commit = SYNCHRONOUS_COMMIT_OFF;
}

static void
end_turn(bool is_committed)
{
	if (turn.is_taken)
	{
		synchronous_commit = turn.synchronous_commit;
		if (is_committed)
			move_gate(turn.last + 1, false);
	}
	if (turn.first != 0)
		leave_waiters();
	turn.first = turn.last = 0;
	turn.is_taken = false;
}

static void
at_transaction_event(XactEvent event, void *arg)
{
	switch (event)
	{
		case XACT_EVENT_PRE_COMMIT:
			if (turn.first != 0)
				wait_for_turn();
			break;
		case XACT_EVENT_PRE_PREPARE:
			if (turn.first != 0)
				ereport(ERROR,
						(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
						 errmsg("a transaction with a version cannot be prepared")));
			break;
		case XACT_EVENT_COMMIT:
			end_turn(true);
			break;
		case XACT_EVENT_ABORT:
			end_turn(false);
			break;
		default:
			break;
	}
}

void
register_commit_order(void)
{
	RegisterXactCallback(at_transaction_event, NULL);
	if (!process_shared_preload_libraries_in_progress)
		return;
	earlier_request = shmem_request_hook;
	shmem_request_hook = request_memory;
	earlier_startup = shmem_startup_hook;
	shmem_startup_hook = create_memory;
}

/* -------------------------------------------------------------------------------------------------- Consort's calls */

/* consort.native_has_order(): whether the server can keep an order. */
Datum
consort_has_order(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(order != NULL);
}

/* consort.native_open_gate(version): the database shows this version, the next one may commit. */
Datum
consort_open_gate(PG_FUNCTION_ARGS)
{
	needed_order();
	move_gate(PG_GETARG_INT64(0) + 1, true);
	PG_RETURN_VOID();
}

/* consort.native_next_version(): the version that may commit; NULL if the gate is closed. */
Datum
consort_next_version(PG_FUNCTION_ARGS)
{
	Gate	   *gate;
	int64		next = 0;

	needed_order();
	SpinLockAcquire(&order->lock);
	gate = gate_of(MyDatabaseId);
	if (gate != NULL)
		next = gate->next;
	SpinLockRelease(&order->lock);
	if (next == 0)
		PG_RETURN_NULL();
	PG_RETURN_INT64(next);
}

/* consort.native_take_turn(secret, first, last): the transaction, which shows these versions, commits in its turn. */
Datum
consort_take_turn(PG_FUNCTION_ARGS)
{
	int64		first = text_to_version(PG_GETARG_TEXT_PP(1));
	int64		last = text_to_version(PG_GETARG_TEXT_PP(2));

	check_secret(PG_GETARG_TEXT_PP(0));
	needed_order();
	if (first <= 0 || last < first)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("no versions: " INT64_FORMAT " to " INT64_FORMAT, first, last)));
	if (!leaves_at_exit)
	{
		before_shmem_exit(leave_at_exit, 0);
		leaves_at_exit = true;
	}
	turn.first = first;
	turn.last = last;
	PG_RETURN_VOID();
}

/* consort.native_flush(): brings the session's last commit to the disk, with those of other sessions. */
Datum
consort_flush(PG_FUNCTION_ARGS)
{
	if (!XLogRecPtrIsInvalid(XactLastCommitEnd))
		XLogFlush(XactLastCommitEnd);
	PG_RETURN_VOID();
}
