// pgx 5 in ordinary use: what an application does, with the answer it must get. The address is the argument.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func expect(what string, holds bool) {
	if !holds {
		panic(what)
	}
}

func main() {
	ctx := context.Background()
	// How pgx runs a query by default, and every other way that it has.
	for _, mode := range []pgx.QueryExecMode{
		pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec,
		pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol,
	} {
		config, err := pgxpool.ParseConfig(os.Args[1])
		must(err)
		config.ConnConfig.DefaultQueryExecMode = mode
		pool, err := pgxpool.NewWithConfig(ctx, config)
		must(err)
		ordinary(ctx, pool)
		pool.Close()
	}
	fmt.Println("pgx 5: all as expected")
}

func ordinary(ctx context.Context, pool *pgxpool.Pool) {
	_, err := pool.Exec(ctx, "DROP TABLE IF EXISTS drv_go")
	must(err)
	_, err = pool.Exec(ctx, "CREATE TABLE drv_go (id int PRIMARY KEY, v text)")
	must(err)
	copied, err := pool.CopyFrom(ctx, pgx.Identifier{"drv_go"}, []string{"id", "v"},
		pgx.CopyFromSlice(500, func(i int) ([]any, error) { return []any{i, fmt.Sprint("v", i)}, nil }))
	must(err)
	expect("500 rows are copied", copied == 500)

	// What one connection of the pool wrote, another reads at once.
	for i := range 200 {
		_, err = pool.Exec(ctx, "UPDATE drv_go SET v = $1 WHERE id = $2", fmt.Sprint(i), 7)
		must(err)
		var v string
		must(pool.QueryRow(ctx, "SELECT v FROM drv_go WHERE id = $1", 7).Scan(&v))
		expect("the own write is read", v == fmt.Sprint(i))
	}

	// A commit token, from one connection to another.
	var token string
	must(pool.QueryRow(ctx, "SHOW consort.last_commit").Scan(&token))
	must(pool.AcquireFunc(ctx, func(other *pgxpool.Conn) error {
		_, err := other.Exec(ctx, "SET consort.not_before = '"+token+"'")
		must(err)
		var kept string
		must(other.QueryRow(ctx, "SHOW consort.not_before").Scan(&kept))
		expect("the token is kept", kept == token)
		_, err = other.Exec(ctx, "RESET consort.not_before")
		return err
	}))

	// A batch is one pipeline.
	batch := &pgx.Batch{}
	for i := range 50 {
		batch.Queue("SELECT id FROM drv_go WHERE id = $1", i)
	}
	results := pool.SendBatch(ctx, batch)
	for i := range 50 {
		var id int
		must(results.QueryRow().Scan(&id))
		expect("a batch answers in its order", id == i)
	}
	must(results.Close())

	// A transaction with a savepoint, and an error with its state.
	must(pgx.BeginFunc(ctx, pool, func(outer pgx.Tx) error {
		err := pgx.BeginFunc(ctx, outer, func(inner pgx.Tx) error {
			_, err := inner.Exec(ctx, "INSERT INTO drv_go VALUES (7, 'again')")
			return err
		})
		var refused *pgconn.PgError
		expect("a duplicate key is refused", errors.As(err, &refused) && refused.Code == "23505")
		_, err = outer.Exec(ctx, "DELETE FROM drv_go WHERE id = 499")
		return err
	}))
	var count int
	must(pool.QueryRow(ctx, "SELECT count(*) FROM drv_go").Scan(&count))
	expect("one row was deleted", count == 499)

	// A context that ends cancels the statement; LISTEN hears.
	short, stop := context.WithTimeout(ctx, 300*time.Millisecond)
	_, err = pool.Exec(short, "SELECT pg_sleep(30)")
	stop()
	expect("a statement ends with its context", err != nil)
	listener, err := pool.Acquire(ctx)
	must(err)
	_, err = listener.Exec(ctx, "LISTEN drv")
	must(err)
	_, err = pool.Exec(ctx, "NOTIFY drv, 'hello'")
	must(err)
	within, stop := context.WithTimeout(ctx, 10*time.Second)
	heard, err := listener.Conn().WaitForNotification(within)
	stop()
	must(err)
	expect("it is heard", heard.Payload == "hello")
	listener.Release()
}
