// lib/pq in ordinary use: every answer is printed, and must be what one plain server says. The address is the argument.
package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/lib/pq"
)

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func say(what string, answer ...any) { fmt.Printf("%s: %v\n", what, answer) }

func refused(what string, err error) {
	var said *pq.Error
	if errors.As(err, &said) {
		say(what, string(said.Code), said.Message, said.Constraint, said.Position)
	} else {
		say(what, "NOT REFUSED", err)
	}
}

type asked interface {
	QueryRowContext(context.Context, string, ...any) *sql.Row
}

func one[T any](from asked, text string, values ...any) T {
	var answer T
	must(from.QueryRowContext(context.Background(), text, values...).Scan(&answer))
	return answer
}

func main() {
	// Each query prepares first; with binary_parameters it is one round trip with the unnamed statement.
	for _, options := range []string{"", "&binary_parameters=yes"} {
		say("options", options)
		db, err := sql.Open("postgres", os.Args[1]+"?sslmode=disable"+options)
		must(err)
		db.SetMaxIdleConns(8)
		ordinary(db)
		bulk(db)
		others(db, os.Args[1]+"?sslmode=disable"+options)
		busy(db)
		must(db.Close())
	}
}

func ordinary(db *sql.DB) {
	_, err := db.Exec("DROP TABLE IF EXISTS drv_pq; CREATE TABLE drv_pq (id int PRIMARY KEY, v text, n int DEFAULT 0)")
	must(err)
	_, err = db.Exec("INSERT INTO drv_pq SELECT i, 'v' || i FROM generate_series(1, 100) i")
	must(err)
	var numeric, json string
	var seen time.Time
	var ints []sql.NullInt64
	var texts []string
	var bytes []byte
	must(db.QueryRow("SELECT $1::numeric, $2::timestamptz, $3::jsonb, $4::int[], $5::text[], $6::bytea", "12345678901234567890.0123456789",
		time.Date(2024, 2, 29, 12, 34, 56, 789012000, time.UTC), `{"a": [1, null]}`, "{1,NULL,3}", pq.Array([]string{"a,b", `c"d`, "NULL"}),
		[]byte{0, 1, 255, 92}).Scan(&numeric, &seen, &json, pq.Array(&ints), pq.Array(&texts), &bytes))
	say("types", numeric, seen.UTC(), json, ints, texts, bytes)

	write, err := db.Prepare("UPDATE drv_pq SET n = $1 WHERE id = $2")
	must(err)
	read, err := db.Prepare("SELECT n FROM drv_pq WHERE id = $1")
	must(err)
	behind := 0
	for i := range 150 {
		_, err = write.Exec(i, 7)
		must(err)
		var n int
		must(read.QueryRow(7).Scan(&n))
		if n != i || one[int](db, "SELECT n FROM drv_pq WHERE id = $1", 7) != i || one[int](db, "SELECT n FROM drv_pq WHERE id = 7") != i {
			behind++
		}
	}
	say("reads that missed a write", behind)
	_, err = db.Exec("INSERT INTO drv_pq VALUES ($1)", 7)
	refused("duplicate key", err)
	_, err = db.Query("SELECT * FROM drv_nothing")
	refused("no such table", err)

	tx, err := db.BeginTx(context.Background(), &sql.TxOptions{Isolation: sql.LevelRepeatableRead})
	must(err)
	_, err = tx.Exec("UPDATE drv_pq SET v = 'own' WHERE id = 1")
	must(err)
	_, err = tx.Exec("SAVEPOINT s")
	must(err)
	_, err = tx.Exec("SELECT 1 / $1::int", 0)
	refused("division by zero in a block", err)
	_, err = tx.Exec("SELECT 1")
	refused("the block has failed", err)
	_, err = tx.Exec("ROLLBACK TO s")
	must(err)
	say("own write", one[string](tx, "SELECT v FROM drv_pq WHERE id = $1", 1), one[string](tx, "SHOW transaction_isolation"))
	say("not yet elsewhere", one[string](db, "SELECT v FROM drv_pq WHERE id = $1", 1))
	must(tx.Commit())
	say("elsewhere", one[string](db, "SELECT v FROM drv_pq WHERE id = $1", 1))
}

func bulk(db *sql.DB) {
	for _, last := range []int{2000, 7} {
		tx, err := db.Begin()
		must(err)
		copied, err := tx.Prepare(pq.CopyIn("drv_pq", "id", "v"))
		must(err)
		for i := range 1000 {
			_, err = copied.Exec(1000+i, "copied")
			must(err)
		}
		_, err = copied.Exec(last, "copied")
		must(err)
		if _, err = copied.Exec(); err != nil {
			refused("copy with a duplicate key", err)
			must(tx.Rollback())
			continue
		}
		must(copied.Close())
		must(tx.Commit())
	}
	say("copied", one[int](db, "SELECT count(*) FROM drv_pq WHERE id >= 1000"))
}

func others(db *sql.DB, address string) {
	short, stop := context.WithTimeout(context.Background(), 300*time.Millisecond)
	_, err := db.ExecContext(short, "SELECT pg_sleep(30)")
	stop()
	refused("cancelled", err)
	say("behind the cancel", one[int](db, "SELECT 1"))
	listener := pq.NewListener(address, time.Second, time.Second, nil)
	must(listener.Listen("drv"))
	_, err = db.Exec("SELECT pg_notify('drv', $1)", "hello")
	must(err)
	select {
	case heard := <-listener.Notify:
		say("notified", heard.Channel, heard.Extra)
	case <-time.After(10 * time.Second):
		say("notified", "NOTHING")
	}
	must(listener.Close())
}

// Eight at a time: transfers between rows.
func busy(db *sql.DB) {
	var workers sync.WaitGroup
	for worker := range 8 {
		workers.Add(1)
		go func() {
			defer workers.Done()
			for range 20 {
				tx, err := db.Begin()
				must(err)
				for id, by := range map[int]int{50 + worker: 1, 60 + worker: -1} {
					_, err = tx.Exec("UPDATE drv_pq SET n = n + $2 WHERE id = $1", id, by)
					must(err)
				}
				must(tx.Commit())
				if sum := one[int](db, "SELECT sum(n) FROM drv_pq WHERE id BETWEEN 50 AND 69"); sum != 0 {
					say("sum", sum)
				}
			}
		}()
	}
	workers.Wait()
	say("transferred", one[string](db, "SELECT array_agg(n ORDER BY id) FROM drv_pq WHERE id BETWEEN 50 AND 69"))
}
